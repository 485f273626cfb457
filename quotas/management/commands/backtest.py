from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from headroom_edge.algorithms.base import counted
from quotas.backtest.fitting import RECOMMENDER
from quotas.backtest.pictures import pictures
from quotas.backtest.run import BacktestOptions, BacktestReport, backtest
from quotas.backtest.scoring import RuleScore
from quotas.backtest.side_by_side import ProcessLostError
from quotas.backtest.trace import TraceError
from quotas.management.progress_bar import ProgressBar
from quotas.simulation.report import table

_SAME = ("The rules of thumb at the recommender's headroom", "All rules at the given headroom")
HEAD = ("rule", "rejected", "tenants hit", "p90 tenant", "headroom", "changes")


class Command(BaseCommand):
    help = (
        "Fit limits on the first days of a trace (CSV: timestamp,tenant[,endpoint,subject,cost], plain or gzipped), "
        "replay the rest, and compare the recommender with rules of thumb."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--trace", type=Path, required=True, metavar="FILE")
        parser.add_argument("--train-days", type=float, metavar="N", help="days to fit on (default: the first half)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--bad-rows", type=int, default=1_000, help="refuse a file with more (default: 1000)")
        parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write SVG charts to this folder")
        parser.add_argument(
            "--headroom",
            type=float,
            metavar="X",
            help="compare all rules at this headroom (default: the recommender's)",
        )
        parser.add_argument("--scratch", metavar="FOLDER", help="folder for temporary files (default: the system's)")

    def handle(self, *args: Any, **options: Any) -> None:
        days = options["train_days"]
        if days is not None and not 0 < days < 36_500:
            raise CommandError(f"--train-days must be above 0, not {days:g}.", returncode=2)
        if options["bad_rows"] < 0:
            raise CommandError("--bad-rows must not be below 0.", returncode=2)
        headroom = options["headroom"]
        if headroom is not None and not 0 < headroom < 1_000:
            raise CommandError(f"--headroom must be above 0, not {headroom:g}.", returncode=2)
        chosen = BacktestOptions(days, options["bad_rows"], scratch=options["scratch"], headroom=headroom)
        bar = ProgressBar(self.stderr)
        try:
            report = backtest(options["trace"], chosen, bar.show)
        except (TraceError, OSError) as error:
            raise CommandError(f"{options['trace']}: {error}", returncode=2) from None
        except ProcessLostError as error:
            raise CommandError(f"{error}.") from None
        finally:
            bar.end()
        for bad in report.bad:
            self.stderr.write(f"line {bad.line}: {bad.reason}")
        if report.bad_rows:
            self.stderr.write(f"{report.bad_rows:,} bad rows skipped")
        if options["pictures"] is not None:
            _draw(report, options["pictures"])
        self.stdout.write(json.dumps(as_json(report)) if options["json"] else "\n".join(as_text(report)))


def _draw(report: BacktestReport, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pictures(report).items():
            (folder / name).write_text(f"{text}\n")
    except OSError as error:
        raise CommandError(f"{folder}: {error.strerror}", returncode=2) from None


def as_json(report: BacktestReport) -> dict[str, Any]:
    found = asdict(report)
    tables = ("rules", "same_headroom", "held_out_tenants")
    return {
        **{name: value for name, value in found.items() if name not in tables},
        **{name: {rule: _rounded(one) for rule, one in found[name].items()} for name in tables},
    }


def _rounded(score: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 6) for name, value in score.items()}


def as_text(report: BacktestReport) -> Iterator[str]:
    yield (
        f"{counted(report.rows, 'arrival')} of {counted(report.tenants, 'tenant')}; "
        f"fitted on {report.train_days:.2f} days, replayed {report.test_days:.2f}"
    )
    yield from _section("Unseen time, each tenant with its own limit", report.rules)
    yield from _section(_SAME[RECOMMENDER in report.same_headroom], report.same_headroom)
    yield from _section("Unseen tenants, with their tier's limit", report.held_out_tenants)


def _section(title: str, scores: Mapping[str, RuleScore]) -> Iterator[str]:
    if scores:
        yield from ("", title, "")
        yield from table(HEAD, [(name, *_cells(one)) for name, one in scores.items()])


def _cells(one: RuleScore) -> tuple[str, ...]:
    shares = (f"{share:.3%}" for share in (one.rejected, one.tenants_hit, one.p90_tenant))
    return (*shares, f"{one.headroom:.2f}", str(one.changes))
