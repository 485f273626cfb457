"""Replay through four limits, with few and with many denials. Times are processor time of one core."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.report import BenchmarkRow
from headroom_edge.algorithms.base import SECOND_US
from quotas.policies.limit_codec import limit_parse
from quotas.policies.spec import Limit
from quotas.simulation.arrivals_csv import Arrival
from quotas.simulation.fast_replay import ArrivalBatch, FastReplay
from quotas.simulation.replay import replay

DECISIONS = 3_000_000
REFERENCE_DECISIONS = 100_000
NOW_S = 20_000 * 86_400

LIMITS = [
    {"name": "burst", "algorithm": "token_bucket", "rate": 100, "burst": 300},
    {"name": "key", "algorithm": "token_bucket", "rate": 20, "burst": 60, "subject": "key"},
    {"name": "minute", "algorithm": "sliding_counter", "limit": 6_000, "window": "1m"},
    {"name": "day", "algorithm": "fixed_window", "limit": 8_000_000, "window": "1d"},
]


def run() -> list[BenchmarkRow]:
    limits = [limit_parse(str(fields["name"]), {k: v for k, v in fields.items() if k != "name"}) for fields in LIMITS]
    usual, overload = _arrivals(70.0, DECISIONS), _arrivals(250.0, DECISIONS // 3)
    rate, denied = _timed(limits, usual)
    overload_rate, overload_denied = _timed(limits, overload)
    reference = _timed_reference(limits, usual.cut(0, REFERENCE_DECISIONS))
    return [
        BenchmarkRow(f"replay, 4 limits, {denied:.1%} denied", round(rate), "/s", 500_000, 1_000_000, True),
        BenchmarkRow(
            f"replay, 4 limits, {overload_denied:.0%} denied", round(overload_rate), "/s", 500_000, 1_000_000, True
        ),
        BenchmarkRow("replay, 4 limits, by the reference models", round(reference), "/s"),
    ]


def _arrivals(per_second: float, count: int) -> ArrivalBatch:
    """Arrivals of 20 keys: gaps with twice the spread of random ones, and occasional bursts of 500."""
    draw = np.random.default_rng(1)
    gaps = draw.gamma(0.25, 4 / per_second, count)
    gaps[np.arange(count) % 100_000 < 500] = 0.0005
    times = (np.cumsum(gaps) * SECOND_US).astype(np.int64) + NOW_S * SECOND_US
    return ArrivalBatch(times, draw.integers(0, 20, count), np.ones(count, np.int64))


def _timed(limits: list[Limit], batch: ArrivalBatch) -> tuple[float, float]:
    engine = FastReplay(limits)
    start = time.process_time()
    denied = engine.decide(batch).denied
    return len(batch) / (time.process_time() - start), denied / len(batch)


def _timed_reference(limits: list[Limit], batch: ArrivalBatch) -> float:
    rows = zip(batch.times_us.tolist(), batch.subjects.tolist(), strict=True)
    arrivals = [Arrival(t_us, str(subject)) for t_us, subject in rows]
    start = time.process_time()
    decided = sum(1 for _ in replay(limits, arrivals))
    return decided / (time.process_time() - start)
