from __future__ import annotations

import gc
import getpass
import json
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from headroom_edge.admin.errors import AdminError
from headroom_edge.admin.policy import read_text, with_options
from headroom_edge.algorithms.base import counted
from quotas.changes.commit import Proposed, Written, commit, judge
from quotas.errors import Refused
from quotas.long_tasks import Progress
from quotas.management.progress_bar import ProgressBar
from quotas.policies import schema
from quotas.policies.apply import document_apply, document_check, document_export, document_plan
from quotas.policies.document import Document, read_document
from quotas.policies.problems import Problem


class Command(BaseCommand):
    help = "Policy as code: export the live configuration, validate a document, show what it would change, apply it."
    requires_system_checks = ()  # they would load all routes, which is slow

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("export", help="print the live configuration as a document")
        actions.add_parser("schema", help="print the JSON Schema of documents")
        validate = actions.add_parser("validate", help="list everything that is wrong with the document")
        plan = actions.add_parser("plan", help="show what applying the document would change")
        apply = actions.add_parser("apply", help="apply the document as one revision")
        for action in (validate, plan, apply):
            action.add_argument("file", type=Path, help="- for standard input")
        plan.add_argument("--check", action="store_true", help="fail if anything would change")
        apply.add_argument("--reason", required=True)
        apply.add_argument(
            "--force", action="store_true", help="apply it even if it cuts a tenant's limit by more than 10 %%"
        )
        apply.add_argument("--emergency", action="store_true", help="skip the approval; recorded in the audit log")
        for action in (plan, apply):
            action.add_argument("--author", default=getpass.getuser())

    def handle(self, *args: Any, **options: Any) -> None:
        # A large document makes many objects; this keeps the garbage collector from scanning the loaded code as well.
        gc.freeze()
        try:
            getattr(self, f"_{options['action']}")(options)
        except Refused as error:
            raise CommandError(with_options(str(error))) from None

    def _export(self, options: dict[str, Any]) -> None:
        self.stdout.write(document_export(), ending="")

    def _schema(self, options: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(schema.document(), indent=2, ensure_ascii=False))

    def _validate(self, options: dict[str, Any]) -> None:
        file, document = options["file"], _document(options["file"])
        try:
            document_check(document)
        except Refused as refused:
            raise CommandError(_each(file, refused.problems)) from None
        except OperationalError:
            self.stderr.write(f"{file}: the database cannot be reached, so only the document itself was checked")
        self.stdout.write(f"{file}: {counted(len(document.policies), 'policy', 'policies')}, nothing wrong")

    def _plan(self, options: dict[str, Any]) -> None:
        document = _document(options["file"])
        with self._progress(document) as show:
            show("planning", 1, 2)
            plan = document_plan(document=document, author=options["author"])
        for line in plan.lines():
            self.stdout.write(line)
        if options["check"] and plan.changes:
            raise CommandError("The live configuration differs from the document; apply it, or export anew.")

    def _apply(self, options: dict[str, Any]) -> None:
        document = _document(options["file"])
        permits = {name: options[name] for name in ("author", "reason", "force", "emergency")}
        apply = partial(document_apply, document=document, **permits)
        with self._progress(document) as show:
            show("planning", 1, 3)
            judged = judge(apply, to_write=True) if document.is_large else None
            show("writing", 2, 3)
            outcome = commit(apply, judged=judged)
        if isinstance(outcome, Proposed):
            self.stdout.write(f"filed as {outcome.change}, which waits for an approver")
        else:
            self.stdout.write(f"applied as {outcome.revision}" if isinstance(outcome, Written) else "no changes")

    @contextmanager
    def _progress(self, document: Document) -> Iterator[Progress]:
        """On standard error, for a document that takes a while."""
        bar = ProgressBar(self.stderr)
        try:
            yield bar.show if document.is_large else lambda *_: None
        finally:
            bar.end()


def _document(path: Path) -> Document:
    try:
        document = read_document(read_text(path))
    except AdminError as error:
        raise CommandError(str(error)) from None
    if isinstance(document, Document):
        return document
    raise CommandError(_each(path, document))


def _each(path: Path, problems: Iterable[Problem]) -> str:
    return "\n".join(f"{path}: {problem}" for problem in problems)
