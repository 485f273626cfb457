from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from headroom_edge.algorithms.base import counted
from quotas.backtest.file_problem import file_problem
from quotas.errors import Refused
from quotas.management.progress_bar import ProgressBar
from quotas.simulation.report import table
from quotas.what_if import DAYS, whatif

HEAD = ("tenant", "tier", "asked", "429s now", "429s with the document")
MOST_SHOWN = 30


class Command(BaseCommand):
    help = "Replay the recorded usage of all tenants against a policy document, and show who would be affected."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE.yaml", help="a policy document; - for standard input")
        parser.add_argument("--days", type=float, default=DAYS, help=f"days of usage to replay (default: {DAYS:g})")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        bar = ProgressBar(self.stderr)
        try:
            found = whatif(_text(options["file"]), days=options["days"], progress=bar.show)
        except Refused as refused:
            raise CommandError(str(refused), returncode=2) from None
        finally:
            bar.end()
        self.stdout.write(json.dumps(found) if options["json"] else "\n".join(as_text(found)))


def as_text(found: dict[str, Any]) -> Iterator[str]:
    asked, tenants = counted(found["asked"], "request"), counted(found["tenants"], "tenant")
    yield f"{asked} of {tenants} from {found['begin']} to {found['end']}"
    yield (
        f"429s: {found['denied_before']:,} now, {found['denied_after']:,} with the document; "
        f"{counted(found['newly_hurt_count'], 'tenant')} newly denied, {found['freed_count']:,} no longer denied"
    )
    redis = found["redis"]
    yield (
        f"Redis: {redis['bytes_before']:,} → {redis['bytes_after']:,} bytes; limits per check "
        f"{redis['limits_per_check_before']:g} → {redis['limits_per_check_after']:g}"
    )
    yield from found["notes"]
    if rows := found["rows"][:MOST_SHOWN]:
        cells = [
            (row["tenant"], row["tier"], f"{row['asked']:,}", f"{row['denied_before']:,}", f"{row['denied_after']:,}")
            for row in rows
        ]
        yield from ("", *table(HEAD, cells))


def _text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
    except FileNotFoundError:
        raise CommandError(f"{path} does not exist; correct the name.", returncode=2) from None
    except OSError as error:
        raise CommandError(f"{path}: {file_problem(error)}", returncode=2) from None
    except UnicodeDecodeError:
        raise CommandError(f"{path}: this is not UTF-8 text", returncode=2) from None
