from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from quotas.backups import BackupError, backup_write


class Command(BaseCommand):
    help = "Write all of PostgreSQL to a file that `restore` reads. Keep SECRET_KEY too, in another place."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a new file")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            size = backup_write(file)
        except BackupError as error:
            raise CommandError(f"{error}.") from None
        self.stdout.write(f"{file} has {size:,} bytes. Restoring it needs the present SECRET_KEY; keep that too.")
