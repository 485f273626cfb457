"""Writes the demo's past usage, a day at a time.

The days that pages show first are written by the seed, the older ones later, newest first, while somebody already looks
at the pages. How far they are is the end of the gap before all measurements. It moves in the same transaction as the
rows of a day, so a process that is killed leaves no half day, and the next one goes on where it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from quotas.demo.latency import write_latency
from quotas.demo.partner_history import record_pool
from quotas.demo.partners import DISPATCH, can_share
from quotas.demo.rate_writer import write_rates
from quotas.demo.rollup_writer import RollupWriter
from quotas.demo.traffic_history import FlowSeries, NameNumbers, record_flow, sample_denials
from quotas.demo.traffic_patterns import Flow, flows
from quotas.models import Endpoint, LimitName, Revision
from quotas.models.usage import BEGINNING, OLDER_FOLLOWS, ROLLUPS, GapRecord, UsageStep
from quotas.simulation.synthetic_tenants import DAY_S
from quotas.usage.rollups import add_denials
from tenants.models import Tenant

SEED: Final = 1
FINEST_S: Final = DAY_S  # the 10 s rollup is filled for the last day only
NOTHING_BEFORE: Final = "Nothing was measured before."
DAY: Final = timedelta(days=1)


def write_history(began: datetime, span: range, end_s: int) -> None:
    """Writes the seconds of `span`. `began`: start of the story; `end_s`: end of the history, now that it is seeded."""
    began_s, numbers = int(began.timestamp()), current_numbers()
    oldest_s = {model: end_s - FINEST_S if model is UsageStep else span.start for model in ROLLUPS}
    recorder, revisions = RollupWriter(oldest_s), _revisions()
    for day in days_of(span):
        found = list(recorded(began_s, day, numbers))
        for series in _merged(found):
            recorder.add(series, day.start)
        write_rates(found, day, is_closed=day.stop % DAY_S == 0)
        write_latency(found, day)
        denials = (
            one for series in found for one in sample_denials(series, day.start, revisions, day_draw(began_s, day))
        )
        add_denials(denials, BEGINNING + timedelta(seconds=end_s))
    recorder.write()


def _merged(found: Sequence[FlowSeries]) -> Collection[FlowSeries]:
    """Rollups do not tell the reasons of denials apart, so series that differ only in them are one."""
    merged: dict[tuple[int, int, str, int], FlowSeries] = {}
    for series in found:
        key = (series.tenant, series.endpoint, series.outcome, series.limit)
        held = merged.get(key)
        merged[key] = replace(held, counts=held.counts + series.counts) if held else series
    return merged.values()


def days_of(span: range) -> Iterator[range]:
    """The parts of a span that lie in one day (UTC)."""
    begin = span.start
    while begin < span.stop:
        end = min(span.stop, begin - begin % DAY_S + DAY_S)
        yield range(begin, end)
        begin = end


def recorded(
    began_s: int, day: range, numbers: NameNumbers, only: Collection[str] | None = None
) -> Iterator[FlowSeries]:
    """The series of a day, by tenant: the same ones whenever it is called. `only`: of these tenants; default: all."""
    asked = flows(began_s)
    draws = [day_draw(began_s, day, place) for place in range(len(asked))]
    yield from record_flows(asked, numbers, began_s, day, draws, only)


def record_flows(
    asked: Sequence[Flow],
    numbers: NameNumbers,
    began_s: int,
    span: range,
    draws: Sequence[np.random.Generator],
    only: Collection[str] | None = None,
) -> Iterator[FlowSeries]:
    """Partners together, because what one may borrow depends on the others; every other flow by itself."""
    drawn = list(zip(asked, draws, strict=True))
    is_shared = can_share()
    pooled = [(flow, draw) for flow, draw in drawn if is_shared and flow.endpoint == DISPATCH]
    for flow, draw in drawn:
        if (only is None or flow.tenant in only) and not (is_shared and flow.endpoint == DISPATCH):
            yield from record_flow(flow, numbers, began_s, span, draw)
    wanted = None if only is None else {numbers.tenants[name] for name in only if name in numbers.tenants}
    for series in record_pool([flow for flow, _ in pooled], numbers, span, [draw for _, draw in pooled]):
        if wanted is None or series.tenant in wanted:
            yield series


def day_draw(began_s: int, day: range, *place: int) -> np.random.Generator:
    return np.random.default_rng([SEED, (day.start - began_s) // DAY_S, *place])


def _revisions() -> tuple[list[int], list[int]]:
    """The seconds at which revisions came into force, and their numbers."""
    rows = Revision.objects.order_by("number").values_list("created", "number")
    return [int(created.timestamp()) for created, _ in rows], [number for _, number in rows]


def missing_days(began: datetime) -> range:
    """The seconds that are still to be written."""
    gap = GapRecord.objects.filter(start=BEGINNING, reason=OLDER_FOLLOWS).first()
    began_s = int(began.timestamp())
    return range(began_s, int(gap.end.timestamp()) if gap else began_s)


def write_older_day(began: datetime, now: datetime) -> bool:
    """Writes the newest day that is missing, within the caller's transaction. False: none is."""
    # Whoever else writes days waits here.
    gap = GapRecord.objects.select_for_update().filter(start=BEGINNING, reason=OLDER_FOLLOWS).first()
    if gap is None:
        return False
    first = max(began, gap.end - DAY)
    write_history(began, range(int(first.timestamp()), int(gap.end.timestamp())), int(now.timestamp()))
    gap.end = first
    if first == began:
        gap.reason = NOTHING_BEFORE
    gap.save()
    return True


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
