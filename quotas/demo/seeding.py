"""Fills an empty installation: the story, its traffic, and where the live traffic takes over."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from django.db.models import Max

from quotas.demo.copying import Recorder, kept_from
from quotas.demo.flows import flows
from quotas.demo.history import Numbers, Series, recorded
from quotas.demo.past import as_of_then, moment
from quotas.demo.story import SPAN, story
from quotas.models import Endpoint, LimitName, Revision
from quotas.models.health import Heartbeat
from quotas.models.usage import BEGINNING, DrainBatch, DrainState, GapRecord, UsageStep
from quotas.observations.cells import Cells
from quotas.services.drafts import take_turn
from quotas.usage.drain import connect
from quotas.usage.history import add_history
from tenants.models import Tenant

SEED: Final = 1
FINEST_S: Final = 86_400  # steps of 10 s are back-filled for the last day
LONGEST_CATCH_UP: Final = timedelta(hours=1)
Progress = Callable[[str, int, int], None]


def seed(now: datetime, progress: Progress, *, recorded_for: timedelta = SPAN) -> bool:
    """False, and nothing done, where there is any configuration already; `recorded_for` shortens the traffic only."""
    began = midnight(now) - SPAN
    with as_of_then():
        take_turn()
        if Revision.objects.exists() or Tenant.objects.exists():
            return False
        steps = list(story(began, now))
        for done, step in enumerate(steps, 1):
            with moment(step.at):
                step.act()
            progress("story", done, len(steps))
        fill(began, max(began, now - recorded_for), now, progress)
    return True


def fill(began: datetime, first: datetime, now: datetime, progress: Progress) -> None:
    """Usage from `first` on; `began` is when the story began."""
    end = now - (now - BEGINNING) % UsageStep.step
    span, numbers = range(int(first.timestamp()), int(end.timestamp())), numbers_now()
    recorder = Recorder(span.start, kept_from(span.stop, span.start, FINEST_S))
    began_s = int(began.timestamp())
    every = flows(began_s)
    for done, flow in enumerate(every, 1):
        draw = np.random.default_rng([SEED, done])
        for series in recorded(flow, numbers, began_s, span, draw):
            recorder.add(series)
        progress("traffic", done, len(every))
    recorder.write(lambda done, total: progress("history", done, total))
    GapRecord.objects.create(start=BEGINNING, end=first, reason="Nothing was measured before.")
    with connect() as server:
        run_id = server.info("server")["run_id"]
    DrainState.objects.create(drained_at=end, run_id=run_id)


def catch_up(began: datetime, now: datetime, draw: np.random.Generator) -> None:
    """What came between the end of the history and now, on the first start only: a stop is a gap, and stays one."""
    newest = UsageStep.objects.aggregate(newest=Max("start"))["newest"]
    if DrainBatch.objects.exists() or newest is None or now - newest > LONGEST_CATCH_UP:
        return
    span, numbers = range(int((newest + UsageStep.step).timestamp()), int(now.timestamp())), numbers_now()
    every = [
        cells(series, span.start)
        for flow in flows(int(began.timestamp()))
        for series in recorded(flow, numbers, int(began.timestamp()), span, draw)
    ]
    add_history(Cells.joined(every), now)


def cells(series: Series, first_s: int) -> Cells:
    seconds = np.flatnonzero(series.counts)
    counts = series.counts[seconds]
    whose = (series.tenant, series.endpoint, ord(series.outcome), series.limit)
    tenant, endpoint, outcome, limit = (np.full(len(seconds), number) for number in whose)
    once = np.ones(len(seconds), np.int64)
    return Cells(first_s + seconds, once, tenant, endpoint, outcome, limit, counts, counts * series.cost)


def is_published() -> bool:
    """Whether the newest revision is enforced."""
    newest = Revision.objects.aggregate(newest=Max("number"))["newest"]
    pulse = Heartbeat.objects.filter(name="publisher").first()
    return pulse is not None and pulse.detail.isdigit() and int(pulse.detail) >= (newest or 0)


def numbers_now() -> Numbers:
    tenants = {row.name: row for row in Tenant.objects.select_related("tier")}
    endpoints = {row.name: row for row in Endpoint.objects.all()}
    return Numbers(
        tenants={name: row.pk for name, row in tenants.items()},
        tiers={name: row.tier.name for name, row in tenants.items()},
        endpoints={name: row.number for name, row in endpoints.items()},
        costs={name: row.default_cost for name, row in endpoints.items()},
        limits=dict(LimitName.objects.values_list("name", "number")),
    )


def midnight(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def history_begins() -> datetime | None:
    """None: this is no demo."""
    first = Revision.objects.filter(number=1).values_list("created", flat=True).first()
    return midnight(first + timedelta(hours=12)) if first else None
