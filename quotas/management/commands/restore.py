from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from quotas.backups import BackupError, backup_read, check_keys
from tenants.keyring import WrongKeyError


class Command(BaseCommand):
    help = "Restore a file that `backup` wrote into an empty database. The publisher then fills Redis by itself."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the file that `backup` wrote")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            backup_read(file)
            call_command("migrate", interactive=False, verbosity=0)
            check_keys()
        except BackupError as error:
            raise CommandError(f"{error}.") from None
        except WrongKeyError:
            # Everything is in the database by now, so a second restore would be refused.
            raise CommandError(
                f"{file} is restored, but SECRET_KEY is not the backup's; set the one of that day, then start."
            ) from None
        self.stdout.write(f"{file} is restored. Start the publisher; until it is done, checks use their failure mode.")
