from __future__ import annotations

from typing import Any

from django.core.management.commands.migrate import Command as Migrate
from django.db import connections, transaction

from tenants.privileges import as_owner, grant


class Command(Migrate):
    help = f"{Migrate.help} Runs as the owner of the tables, then grants the application's role its privileges."

    def handle(self, *args: Any, **options: Any) -> None:
        alias = options["database"]
        role = connections[alias].settings_dict["USER"]
        with as_owner(alias) as connection:
            super().handle(*args, **options)
            # These options change nothing, and the tables may not exist yet.
            if not (options["plan"] or options["check_unapplied"]):
                with transaction.atomic(using=alias):
                    grant(connection, role)
