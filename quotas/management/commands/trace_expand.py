from __future__ import annotations

import gzip
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from headroom_edge.algorithms.base import counted
from quotas.backtest.file_problem import file_problem
from quotas.backtest.trace import TraceError
from quotas.backtest.trace_expansion import RateWindow, Thinning, expand, read_windows
from quotas.management.arrivals_file import arrivals_write
from quotas.management.progress_bar import ProgressBar


class Command(BaseCommand):
    help = (
        "Expand a trace of rates (CSV: model,client,t,rate and optionally cv,family,shape) into individual arrivals "
        "(CSV: timestamp,tenant) for backtest. Files whose name ends in .gz are gzipped."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("rates", type=Path, metavar="RATES.csv[.gz]")
        parser.add_argument("output", type=Path, metavar="OUT.csv[.gz]")
        parser.add_argument("--scale", type=float, default=1.0, help="multiply every rate by this (default: 1)")
        parser.add_argument("--most-rows", type=int, help="most rows per client; a client with more is scaled down")
        parser.add_argument("--every", type=int, default=1, help="keep every n-th window (default: all)")
        parser.add_argument("--days", type=float, help="keep only this many days (default: all)")
        parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers, to repeat a result")

    def handle(self, *args: Any, **options: Any) -> None:
        for name in ("scale", "most_rows", "every", "days"):
            if options[name] is not None and not options[name] > 0:
                raise CommandError(f"--{name.replace('_', '-')} must be above 0.", returncode=2)
        thinning = Thinning(options["scale"], options["most_rows"], options["every"], options["days"])
        windows = _windows(options["rates"])
        parts = expand(windows, thinning, options["seed"])
        starts = len({window.start_s for window in windows})
        rows = arrivals_write(options["output"], parts, starts, ProgressBar(self.stderr))
        self.stdout.write(f"{counted(rows, 'arrival')} in {options['output']}")


def _windows(path: Path) -> list[RateWindow]:
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            return read_windows(file)
    except TraceError as error:
        raise CommandError(f"{path}: {error}", returncode=2) from None
    except OSError as error:
        raise CommandError(f"{path}: {file_problem(error)}", returncode=2) from None
    except (EOFError, UnicodeDecodeError):
        raise CommandError(f"{path}: this is not complete UTF-8 text", returncode=2) from None
