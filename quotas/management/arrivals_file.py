"""Writes generated arrivals as a trace for backtest."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from django.core.management.base import CommandError

from quotas.backtest.trace_expansion import WindowArrivals
from quotas.management.progress_bar import ProgressBar


def arrivals_write(path: Path, parts: Iterable[WindowArrivals], count: int, bar: ProgressBar) -> int:
    """Returns how many were written; `count`: of parts."""
    rows = 0
    try:
        with _whole(path) as file:
            file.write("timestamp,tenant\n")
            for number, part in enumerate(parts, 1):
                pairs = zip(part.times_s.tolist(), part.tenants, strict=True)
                file.write("".join(f"{second:.6f},{tenant}\n" for second, tenant in pairs))
                rows += len(part.tenants)
                bar.show("writing", number, count)
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
