"""Replay through four limits, and the calibration of a fleet: 1,000 tenants × 20 endpoints × 28 days.

Each in a process of its own, so that its memory is its own. Time is the processor's: both are one core's work.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from benchmarks.report import Row
from config.places import ROOT
from quotas.algorithms.units import SECOND_US
from quotas.calibration.counts import DAY_S, MINUTE_S, Counts
from quotas.calibration.demand import Demand
from quotas.calibration.estimate import Estimate, Observed, estimate
from quotas.calibration.recommend import recommend
from quotas.policy.fields import limit_parse
from quotas.policy.spec import Limit
from quotas.simulation.arrivals import Arrival
from quotas.simulation.fast import Batch, FastReplay
from quotas.simulation.replay import replay
from quotas.simulation.synthetic import SyntheticTenant, cron_burst, diurnal_weekly, growing, steady

DECISIONS = 3_000_000
REFERENCE_DECISIONS = 100_000
TENANTS = 1_000
ENDPOINTS = 20
DAYS = 28
FINE_DAYS = 2  # as long as the rollups of 10 s are kept
NOW_S = 20_000 * DAY_S

LIMITS = [
    {"name": "burst", "algorithm": "token_bucket", "rate": 100, "burst": 300},
    {"name": "key", "algorithm": "token_bucket", "rate": 20, "burst": 60, "subject": "key"},
    {"name": "minute", "algorithm": "sliding_counter", "limit": 6_000, "window": "1m"},
    {"name": "day", "algorithm": "fixed_window", "limit": 8_000_000, "window": "1d"},
]


def run() -> list[Row]:
    done = {part: _apart(part) for part in ("replay", "fleet")}
    busy = f"{done['replay']['denied']:.1%} denied"
    fleet = f"{TENANTS:,} tenants × {ENDPOINTS} endpoints × {DAYS} days"
    return [
        Row(f"replay, 4 limits, {busy}", done["replay"]["rate"], "/s", 500_000, 1_000_000, more_is_better=True),
        Row("replay, 4 limits, by the reference models", done["replay"]["reference"], "/s"),
        Row(
            f"replay, 4 limits, {done['replay']['overload']:.0%} denied",
            done["replay"]["overload_rate"],
            "/s",
            500_000,
            more_is_better=True,
        ),
        Row(f"calibration of {fleet}", done["fleet"]["seconds"], "s", 300, 120),
        Row(f"calibration of {fleet}, memory", done["fleet"]["mib"], "MiB", 1_024, 512),
    ]


def _apart(part: str) -> dict[str, float]:
    words = [sys.executable, "-m", "benchmarks.calibration", part]
    found: dict[str, float] = json.loads(subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    return found


def measure_replay() -> dict[str, float]:
    limits = [limit_parse(str(fields["name"]), {k: v for k, v in fields.items() if k != "name"}) for fields in LIMITS]
    usual, overload = _arrivals(70.0, DECISIONS), _arrivals(250.0, DECISIONS // 10)
    rate, denied = _timed(limits, usual)
    overload_rate, overload_denied = _timed(limits, overload)
    return {
        "rate": rate,
        "denied": denied,
        "reference": _timed_reference(limits, usual.cut(0, REFERENCE_DECISIONS)),
        "overload_rate": overload_rate,
        "overload": overload_denied,
    }


def _arrivals(per_second: float, count: int) -> Batch:
    """Of twenty keys, the gaps spread twice as widely as at random, and a crowd of 500 now and then."""
    draw = np.random.default_rng(1)
    gaps = draw.gamma(0.25, 4 / per_second, count)
    gaps[np.arange(count) % 100_000 < 500] = 0.0005
    times = (np.cumsum(gaps) * SECOND_US).astype(np.int64) + NOW_S * SECOND_US
    return Batch(times, draw.integers(0, 20, count), np.ones(count, np.int64))


def _timed(limits: list[Limit], batch: Batch) -> tuple[float, float]:
    engine = FastReplay(limits)
    start = time.process_time()
    denied = engine.decide(batch).denied
    return len(batch) / (time.process_time() - start), denied / len(batch)


def _timed_reference(limits: list[Limit], batch: Batch) -> float:
    rows = zip(batch.times_us.tolist(), batch.subjects.tolist(), strict=True)
    arrivals = [Arrival(t_us, str(subject)) for t_us, subject in rows]
    start = time.process_time()
    decided = sum(1 for _ in replay(limits, arrivals))
    return decided / (time.process_time() - start)


def measure_fleet() -> dict[str, float]:
    """The load is drawn beforehand and only shifted and scaled from tenant to tenant: drawing is not calibrating."""
    shapes, spent = list(_shapes()), 0.0
    for endpoint in range(ENDPOINTS):
        estimates: list[Estimate] = []
        for tenant in range(TENANTS):
            observed = _observed(shapes[(tenant + endpoint) % len(shapes)], tenant, endpoint)
            start = time.process_time()
            estimates.append(estimate(observed, NOW_S))
            spent += time.process_time() - start
        start = time.process_time()
        recommend(estimates)
        spent += time.process_time() - start
        print(f"endpoint {endpoint + 1} of {ENDPOINTS}, {spent:.0f} s", file=sys.stderr)
    return {"seconds": spent, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024}


def _shapes() -> Iterator[tuple[Counts, Counts]]:
    start_s = NOW_S - DAYS * DAY_S
    tenants: list[SyntheticTenant] = [
        steady("steady", 1.0),
        diurnal_weekly("wave", 0.05, 2.0),
        cron_burst("cron", 0.3, 200),
        growing("growth", 0.2, 1.05, start_s),
    ]
    for seed, tenant in enumerate(tenants * 4):
        draw = np.random.default_rng(seed)
        minutes = tenant.counts(start_s, NOW_S, MINUTE_S, draw)
        fine = tenant.counts(NOW_S - FINE_DAYS * DAY_S, NOW_S, 10, draw)
        yield (_counts(MINUTE_S, minutes), _counts(10, fine))


def _counts(step_s: int, found: tuple[np.ndarray, np.ndarray]) -> Counts:
    return Counts(step_s, found[0], found[1].astype(np.float64))


def _observed(shape: tuple[Counts, Counts], tenant: int, endpoint: int) -> Observed:
    factor = 1.0 + tenant % 50
    minutes, fine = (Counts(one.step_s, one.starts_s, np.roll(one.units, tenant) * factor) for one in shape)
    demand = Demand(minutes, np.zeros(len(minutes), dtype=bool))
    return Observed(f"tenant-{tenant}", f"service:e{endpoint}", demand, fine, NOW_S - DAYS * DAY_S)


if __name__ == "__main__":
    print(json.dumps(measure_replay() if sys.argv[1] == "replay" else measure_fleet()))
