from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.core.management.commands.migrate import Command as Migrate
from django.db import connections, transaction

from tenants.privileges import as_owner, grant
from tenants.schema_file import schema_load


class Command(Migrate):
    help = f"{Migrate.help} Runs as the owner of the tables, then grants the application's role its privileges."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--every-migration", action="store_true", help="run all migrations, even if the database is empty"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        alias = options["database"]
        role = connections[alias].settings_dict["USER"]
        # These options change nothing, and the tables may not exist yet.
        only_tells = options["plan"] or options["check_unapplied"]
        with as_owner(alias) as connection:
            if not (only_tells or options["app_label"] or options["every_migration"]):
                schema_load(connection)
            super().handle(*args, **options)
            if not only_tells:
                with transaction.atomic(using=alias):
                    grant(connection, role)
