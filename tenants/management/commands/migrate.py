from __future__ import annotations

from typing import Any

from django.core.management.commands.migrate import Command as Migrate
from django.db import connections, transaction

from tenants.privileges import as_owner, grant


class Command(Migrate):
    help = f"{Migrate.help} As the owner of the tables; then the application's role gets what it needs."

    def handle(self, *args: Any, **options: Any) -> None:
        alias = options["database"]
        role = connections[alias].settings_dict["USER"]
        with as_owner(alias) as connection:
            super().handle(*args, **options)
            # Asked only what would be done, it has done nothing, and there may be no table yet.
            if not (options["plan"] or options["check_unapplied"]):
                with transaction.atomic(using=alias):
                    grant(connection, role)
