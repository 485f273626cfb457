"""Fills an empty installation with the demo: its changes, its past traffic, and the hand-over to live traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final

import numpy as np
from django.db.models import Max

from quotas.changes.turn import turn
from quotas.demo.backdating import as_table_owner, backdated
from quotas.demo.calendar_counters import write_counters
from quotas.demo.rate_writer import write_rates
from quotas.demo.rollup_writer import RollupWriter, cells_of
from quotas.demo.story import SPAN, story
from quotas.demo.tenants import TENANTS
from quotas.demo.traffic_history import FlowSeries, NameNumbers, record_flow, sample_denials
from quotas.demo.traffic_patterns import flows
from quotas.long_tasks import PATIENCE, task_file
from quotas.models import Endpoint, LimitName, Revision, Tally, Task
from quotas.models.jobs import Heartbeat
from quotas.models.revision import newest_revision_number
from quotas.models.usage import BEGINNING, ROLLUPS, DrainState, GapRecord, UsageStep
from quotas.observations.cells import Cells
from quotas.usage.backfill import backfill_usage
from quotas.usage.drain import connect
from quotas.usage.rollups import add_denials
from tenants.models import Tenant

SEED: Final = 1
FINEST_S: Final = 86_400  # the 10 s rollup is filled for the last day only
RECORDED: Final = SPAN + timedelta(days=1)  # from the first midnight on
LONGEST_CATCH_UP: Final = timedelta(hours=1)
Progress = Callable[[str, int, int], None]


def seed(now: datetime, progress: Progress, *, recorded_for: timedelta = RECORDED) -> bool:
    """Returns False and does nothing if there is any configuration. `recorded_for` limits the traffic only."""
    began = midnight(now) - SPAN
    with as_table_owner(), turn():
        if Revision.objects.exists() or Tenant.objects.exists():
            return False
        steps = list(story(began, now))
        for done, step in enumerate(steps, 1):
            with backdated(step.at):
                step.act()
            progress("story", done, len(steps))
        fill_usage(began, max(began, now - recorded_for), now, progress)
        _ask_for_recommendations(now)
    return True


def _ask_for_recommendations(now: datetime) -> None:
    """Queues a calibration, dated back so that the first worker starts it at once."""
    task = task_file(kind=Task.Kind.CALIBRATE, author="pipeline", asked={})
    Task.objects.filter(pk=task.pk).update(created=now - 2 * PATIENCE)


def fill_usage(began: datetime, first: datetime, now: datetime, progress: Progress) -> None:
    """Fills usage from `first` on; `began` is the start of the story."""
    end = now - (now - BEGINNING) % UsageStep.step
    span = range(int(first.timestamp()), int(end.timestamp()))
    recorder = RollupWriter({model: span.stop - FINEST_S if model is UsageStep else span.start for model in ROLLUPS})
    draw = np.random.default_rng(SEED)
    every = groupby(_recorded(began, span, draw), key=lambda series: series.tenant)
    newest = Revision.objects.latest("number").number
    for done, (_, found) in enumerate(every, 1):
        of_tenant = list(found)
        for series in of_tenant:
            recorder.add(series, span.start)
            add_denials(sample_denials(series, span.start, newest, draw), end)
        write_rates(of_tenant, span.start)
        progress("traffic", done, len(TENANTS) + 1)
    recorder.write(lambda done, total: progress("history", done, total))
    write_counters(end)
    GapRecord.objects.create(start=BEGINNING, end=first, reason="Nothing was measured before.")
    with connect() as server:
        run_id = server.info("server")["run_id"]
    DrainState.objects.create(drained_at=end, run_id=run_id)


def catch_up(began: datetime, now: datetime, draw: np.random.Generator) -> None:
    """Fills the time between the end of the history and now, on the first start only: later stops remain gaps."""
    newest = UsageStep.objects.aggregate(newest=Max("start"))["newest"]
    if _has_been_live() or newest is None or now - newest > LONGEST_CATCH_UP:
        return
    # The publisher recorded a gap, because the new Redis looked like an emptied one. Nothing was lost.
    GapRecord.objects.filter(start__gte=newest).delete()
    span = range(int((newest + UsageStep.step).timestamp()), int(now.timestamp()))
    backfill_usage(Cells.joined([cells_of(series, span.start) for series in _recorded(began, span, draw)]), now)


def _has_been_live() -> bool:
    """Whether a check on any of the demo's endpoints was ever drained."""
    return Tally.objects.filter(endpoint_number__gt=0).exists()


def _recorded(began: datetime, span: range, draw: np.random.Generator) -> Iterator[FlowSeries]:
    """All series, grouped by tenant."""
    began_s, numbers = int(began.timestamp()), current_numbers()
    for flow in flows(began_s):
        yield from record_flow(flow, numbers, began_s, span, draw)


def is_published() -> bool:
    """Whether the newest revision is enforced."""
    pulse = Heartbeat.objects.filter(name="publisher").first()
    return pulse is not None and pulse.detail.isdigit() and int(pulse.detail) >= newest_revision_number()


def current_numbers() -> NameNumbers:
    tenants = {row.name: row for row in Tenant.objects.select_related("tier")}
    endpoints = {row.name: row for row in Endpoint.objects.all()}
    return NameNumbers(
        tenants={name: row.pk for name, row in tenants.items()},
        tiers={name: row.tier.name for name, row in tenants.items()},
        endpoints={name: row.number for name, row in endpoints.items()},
        costs={name: row.default_cost for name, row in endpoints.items()},
        limits=dict(LimitName.objects.values_list("name", "number")),
    )


def midnight(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def history_begins() -> datetime | None:
    """The start of the demo's history; None: this is not a demo."""
    first = Revision.objects.filter(number=1).values_list("created", flat=True).first()
    return midnight(first + timedelta(hours=12)) if first else None
