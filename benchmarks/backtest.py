"""A backtest of a trace with many pairs of tenant and endpoint and few rows of each, as a large fleet has.

The trace is generated, always the same: 20,000 tenants on 5 endpoints over 14 days, 1.4 million rows. A few pairs have
thousands of rows and most have a handful. Everything is measured, from the first row to the scores.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.report import BenchmarkRow

TENANTS = 20_000
ENDPOINTS = 5
ROWS = 1_400_000
DAYS = 14
NOW_S = 20_000 * 86_400


def run() -> list[BenchmarkRow]:
    from quotas.backtest.run import backtest

    with tempfile.TemporaryDirectory(prefix="hr-bench-") as folder:
        trace = Path(folder) / "trace.csv"
        write_trace(trace, TENANTS, ENDPOINTS, ROWS)
        before_mib, begin, clock = _peak_mib(), time.monotonic(), _processor_s()
        report = backtest(trace)
        processor, wall = _processor_s() - clock, time.monotonic() - begin
    shape = f"{report.series:,} pairs, {report.rows:,} rows"
    million = report.rows / 1_000_000
    return [
        BenchmarkRow(f"backtest of {shape}: per million rows", round(wall / million, 1), "s", 75, 60),
        BenchmarkRow("backtest, processor time of all its cores", round(processor / million, 1), "s"),
        BenchmarkRow("backtest, memory above the start", round(_peak_mib() - before_mib), "MiB", 1_024),
    ]


def write_trace(path: Path, tenants: int, endpoints: int, rows: int) -> None:
    """Every pair has at least one row; the rest goes to pair n in proportion to 1/n."""
    draw = np.random.default_rng(9)
    pairs = tenants * endpoints
    weights = 1 / np.arange(1, pairs + 1)
    extra = draw.choice(pairs, rows - pairs, p=weights / weights.sum())
    owner = draw.permutation(np.concatenate((np.arange(pairs), extra)))
    seconds = np.sort(draw.integers(0, DAYS * 86_400_000, rows)) / 1_000 + NOW_S
    subjects = draw.integers(0, 50, rows)
    with path.open("w") as file:
        file.write("timestamp,tenant,endpoint,subject\n")
        for time_s, pair, subject in zip(seconds.tolist(), owner.tolist(), subjects.tolist(), strict=True):
            file.write(f"{time_s:.3f},t{pair // endpoints},e{pair % endpoints},s{subject}\n")


def _processor_s() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
