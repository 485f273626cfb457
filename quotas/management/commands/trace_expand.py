from __future__ import annotations

import gzip
import os
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from django.core.management.base import BaseCommand, CommandError

from headroom_edge.algorithms.base import counted
from quotas.backtest.trace import TraceError
from quotas.backtest.trace_expansion import RateWindow, Thinning, expand, read_windows
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
        rows = self._write(options["output"], windows, thinning, options["seed"])
        self.stdout.write(f"{counted(rows, 'arrival')} in {options['output']}")

    def _write(self, path: Path, windows: list[RateWindow], thinning: Thinning, seed: int) -> int:
        rows, bar = 0, ProgressBar(self.stderr)
        starts = len({window.start_s for window in windows})
        try:
            with _whole(path) as file:
                file.write("timestamp,tenant\n")
                for number, part in enumerate(expand(windows, thinning, seed), 1):
                    pairs = zip(part.times_s.tolist(), part.tenants, strict=True)
                    file.write("".join(f"{second:.6f},{tenant}\n" for second, tenant in pairs))
                    rows += len(part.tenants)
                    bar.show("expanding", number, starts)
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}", returncode=2) from None
        finally:
            bar.end()
        return rows


@contextmanager
def _whole(path: Path) -> Iterator[IO[str]]:
    """Writes to a temporary name, so that the file appears complete or not at all."""
    part = path.with_name(f"{path.name}.part")
    try:
        with gzip.open(part, "wt", 5) if path.suffix == ".gz" else part.open("w") as file:
            yield file
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _windows(path: Path) -> list[RateWindow]:
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            return read_windows(file)
    except TraceError as error:
        raise CommandError(f"{path}: {error}", returncode=2) from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", returncode=2) from None
    except (EOFError, UnicodeDecodeError):
        raise CommandError(f"{path}: this is not complete UTF-8 text", returncode=2) from None
