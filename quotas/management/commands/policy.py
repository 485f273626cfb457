from __future__ import annotations

import getpass
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from quotas.policy.document import Document, read_document
from quotas.services.documents import document_apply
from quotas.services.errors import Refused


class Command(BaseCommand):
    help = "Check a policy document, or apply it as one revision."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        validate = actions.add_parser("validate", help="say everything that is wrong with the document")
        apply = actions.add_parser("apply", help="make everything in the document what it says")
        for action in (validate, apply):
            action.add_argument("file", type=Path)
        apply.add_argument("--reason", required=True)
        apply.add_argument("--author", default=getpass.getuser())

    def handle(self, *args: Any, **options: Any) -> None:
        document = _document(options["file"])
        if options["action"] == "validate":
            self.stdout.write(f"{options['file']}: {len(document.policies)} policies, nothing wrong")
            return
        try:
            revision = document_apply(document=document, author=options["author"], reason=options["reason"])
        except Refused as error:
            raise CommandError(str(error), returncode=2) from None
        self.stdout.write(f"applied as {revision}" if revision else "everything is so already")


def _document(path: Path) -> Document:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}", returncode=2) from None
    document = read_document(text)
    if isinstance(document, Document):
        return document
    raise CommandError("\n".join(f"{path}: {problem}" for problem in document), returncode=2)
