"""Fills an empty installation with the demo: its changes, its past traffic, and the hand-over to live traffic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from django.db.models import Max

from quotas.changes.turn import turn
from quotas.demo.adaptive_history import write_readings
from quotas.demo.backdating import as_table_owner, backdated
from quotas.demo.calendar_counters import write_counters
from quotas.demo.history import (
    DAY,
    NOTHING_BEFORE,
    current_numbers,
    missing_days,
    record_flows,
    write_history,
    write_older_day,
)
from quotas.demo.rollup_writer import cells_of
from quotas.demo.story import SPAN, story
from quotas.demo.traffic_patterns import flows
from quotas.long_tasks import PATIENCE, task_file
from quotas.models import Revision, Tally, Task
from quotas.models.jobs import Heartbeat
from quotas.models.revision import newest_revision_number
from quotas.models.usage import BEGINNING, OLDER_FOLLOWS, GapRecord, UsageStep, floored
from quotas.models.usage_rates import FoldName, FoldState
from quotas.observations.cells import Cells
from quotas.tenant_summary import measure_tenants
from quotas.usage.backfill import backfill_usage
from quotas.usage.drain import connect
from quotas.usage.drain_state import first_state
from quotas.usage.tier_usage import measure_tier_usage
from tenants.models import Tenant

RECORDED: Final = SPAN + DAY  # from the first midnight on
LONGEST_CATCH_UP: Final = timedelta(hours=1)
Progress = Callable[[str, int, int], None]


def seed(now: datetime, progress: Progress, *, recorded_for: timedelta = RECORDED) -> bool:
    """Writes the changes, and the traffic since yesterday's midnight; `add_older_days` writes what lies before.

    Returns False and does nothing if there is any configuration. `recorded_for` limits the traffic only.
    """
    began = midnight(now) - SPAN
    with as_table_owner(), turn():
        if Revision.objects.exists() or Tenant.objects.exists():
            return False
        steps = list(story(began, now))
        for done, step in enumerate(steps, 1):
            with backdated(step.at):
                step.act()
            progress("story", done, len(steps))
        _fill_recent(began, max(began, now - recorded_for), now)
    return True


def _fill_recent(began: datetime, first: datetime, now: datetime) -> None:
    """Fills the newest days; `first`: where the history is to begin once it is whole."""
    end = floored(now, UsageStep.step)
    recent = max(first, midnight(now) - DAY)
    write_history(began, range(int(recent.timestamp()), int(end.timestamp())), int(end.timestamp()))
    # The days before are written as closed ones.
    FoldState.objects.create(name=FoldName.DAYS, until=midnight(now))
    is_whole = recent == first
    GapRecord.objects.create(start=BEGINNING, end=recent, reason=NOTHING_BEFORE if is_whole else OLDER_FOLLOWS)
    write_readings(end)
    write_counters(began, end)
    measure_tier_usage(end)
    measure_tenants(end)
    with connect() as server:
        first_state(server, end).save()
    if is_whole:
        _ask_for_recommendations(now)


def add_older_days(now: datetime, progress: Progress) -> int:
    """Writes the days that the seed has left out, newest first; returns how many. Goes on where another was stopped."""
    began = history_begins()
    if began is None:
        return 0
    days, total = 0, len(missing_days(began)) // int(DAY.total_seconds())
    while _add_older_day(began, now):
        days += 1
        progress("history", days, total)
    return days


def _add_older_day(began: datetime, now: datetime) -> bool:
    # COPY, which is fast, does not work under row-level security.
    with as_table_owner():
        if not write_older_day(began, now):
            return False
        if not missing_days(began):
            _ask_for_recommendations(now)
    return True


def _ask_for_recommendations(now: datetime) -> None:
    """Queues a calibration, dated back so that the first worker starts it at once."""
    task = task_file(kind=Task.Kind.CALIBRATE, author="pipeline", asked={})
    Task.objects.filter(pk=task.pk).update(created=now - 2 * PATIENCE)


def catch_up(began: datetime, now: datetime, draw: np.random.Generator) -> None:
    """Fills the time between the end of the history and now, on the first start only: later stops remain gaps."""
    newest = UsageStep.objects.aggregate(newest=Max("start"))["newest"]
    if _has_been_live() or newest is None or now - newest > LONGEST_CATCH_UP:
        return
    # The publisher recorded a gap, because the new Redis looked like an emptied one. Nothing was lost.
    GapRecord.objects.filter(start__gte=newest).delete()
    span = range(int((newest + UsageStep.step).timestamp()), int(now.timestamp()))
    began_s, numbers = int(began.timestamp()), current_numbers()
    asked = flows(began_s)
    found = record_flows(asked, numbers, began_s, span, [draw] * len(asked))
    backfill_usage(Cells.joined([cells_of(series, span.start) for series in found]), now)


def _has_been_live() -> bool:
    """Whether a check on any of the demo's endpoints was ever drained."""
    return Tally.objects.filter(endpoint_number__gt=0).exists()


def is_published() -> bool:
    """Whether the newest revision is enforced."""
    pulse = Heartbeat.objects.filter(name="publisher").first()
    return pulse is not None and pulse.detail.isdigit() and int(pulse.detail) >= newest_revision_number()


def midnight(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def history_begins() -> datetime | None:
    """The start of the demo's history; None: this is not a demo."""
    first = Revision.objects.filter(number=1).values_list("created", flat=True).first()
    return midnight(first + timedelta(hours=12)) if first else None
