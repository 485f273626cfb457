"""Generates a trace of tenants that are active for a few minutes a day, to see how limits fit where little is known.

Every tenant has its own usual rate, length and number of sessions, and its sessions vary around them. A quarter of the
tenants run a job at the same time every day; the others come at any time, and not on every day. All numbers are drawn
from one seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from quotas.backtest.trace_expansion import WindowArrivals
from quotas.calibration.counts import DAY_S, MINUTE_S
from quotas.observations.arrays import Floats

JOBS = 0.25  # of the tenants
USUAL_RATE, RATE_SPREAD = 0.6, 0.9  # requests a second in a session: median over tenants, and standard deviation of ln
USUAL_MINUTES, MINUTES_SPREAD = 2.5, 0.5
SESSIONS = (0.5, 3.0)  # a day
SESSION_SPREAD = 0.45  # standard deviation of ln, of a session's rate around its tenant's
JOB_SPREAD = 0.1  # of a job's size
GAP_SHAPES = (0.3, 1.5)  # of the gamma distribution of the gaps; 1 is Poisson, below it requests come in clusters


@dataclass(frozen=True, slots=True)
class SparseTenants:
    tenants: int = 300
    days: int = 14
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Habit:
    rate: float  # requests a second in a session
    minutes: float  # of a session
    sessions: float  # a day
    shape: float  # of the gaps
    job_s: float | None  # the second of the day of its job; None: it comes at any time


def sparse_days(wanted: SparseTenants) -> Iterator[WindowArrivals]:
    """The arrivals of each day, in order of time."""
    draw = np.random.default_rng(wanted.seed)
    habits = {f"sparse-{number:04}": _habit(draw) for number in range(wanted.tenants)}
    for day in range(wanted.days):
        found = {name: _day(habit, day * DAY_S, draw) for name, habit in habits.items()}
        times = np.concatenate(list(found.values()))
        tenants = [name for name, some in found.items() for _ in range(len(some))]
        order = np.argsort(times, kind="stable")
        yield WindowArrivals(times[order], [tenants[place] for place in order.tolist()])


def _habit(draw: np.random.Generator) -> _Habit:
    return _Habit(
        rate=USUAL_RATE * float(np.exp(RATE_SPREAD * draw.standard_normal())),
        minutes=USUAL_MINUTES * float(np.exp(MINUTES_SPREAD * draw.standard_normal())),
        sessions=float(draw.uniform(*SESSIONS)),
        shape=float(draw.uniform(*GAP_SHAPES)),
        job_s=float(draw.uniform(0, DAY_S - 3_600)) if draw.random() < JOBS else None,
    )


def _day(habit: _Habit, start_s: float, draw: np.random.Generator) -> Floats:
    if habit.job_s is not None:
        return start_s + habit.job_s + _session(habit, JOB_SPREAD, draw)
    sessions = [
        start_s + draw.uniform(0, DAY_S - 3_600) + _session(habit, SESSION_SPREAD, draw)
        for _ in range(int(draw.poisson(habit.sessions)))
    ]
    return np.concatenate(sessions) if sessions else np.empty(0)


def _session(habit: _Habit, spread: float, draw: np.random.Generator) -> Floats:
    """Seconds from its start."""
    rate = habit.rate * float(np.exp(spread * draw.standard_normal()))
    span_s = min(3_600.0, MINUTE_S * habit.minutes * float(np.exp(spread * draw.standard_normal())))
    gaps = draw.gamma(habit.shape, 1 / (habit.shape * rate), max(1, int(draw.poisson(rate * span_s))))
    times: Floats = np.cumsum(gaps)
    return times[times < DAY_S / 24]
