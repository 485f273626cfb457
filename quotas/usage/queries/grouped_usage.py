"""Usage over any span, in steps or as a whole, grouped by tenant, tier, endpoint, outcome or limit.

Each part of the span is read from the coarsest rollup that fits: whole days from days, the remaining hours from hours,
the rest from minutes. The work therefore grows with the number of groups and hardly with the length of the span.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, get_args

from django.conf import settings
from django.db import connection
from psycopg.sql import SQL, Composable, Identifier
from psycopg.sql import Literal as Quoted

from quotas.models import Endpoint, LimitName
from quotas.models.usage import (
    BEGINNING,
    LET_THROUGH,
    REFUSED,
    FineRollup,
    GapRecord,
    Outcome,
    Rollup,
    UsageDay,
    UsageHour,
    UsageMinute,
    UsageStep,
    floored,
    slot_of,
)
from quotas.models.usage_totals import WHOLE
from quotas.usage.queries.coverage import Coverage, coverage_read, drained_at, rollup_until, shards_of
from tenants.models import Tenant, Tier

Grouping = Literal["tenant", "tier", "endpoint", "outcome", "limit"]
GROUPINGS: Final[tuple[Grouping, ...]] = get_args(Grouping)
MOST_ROWS: Final = 10_000
# Coarsest first; each step divides the one before it.
_LEVELS: Final[tuple[type[Rollup], ...]] = (UsageDay, UsageHour, UsageMinute, UsageStep)
# The shortest span for which a rollup may be the coarsest.
_WORTH: Final = {UsageDay: timedelta(days=2), UsageHour: timedelta(hours=2), UsageMinute: timedelta(minutes=10)}
OUTCOMES: Final = {outcome.name.lower(): outcome.value for outcome in Outcome}
_LETTERS: Final = {letter: name for name, letter in OUTCOMES.items()}


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """An empty collection of names means all; `step` None means one row for the whole span."""

    begin: datetime
    end: datetime
    step: timedelta | None = None
    group: tuple[Grouping, ...] = ()
    tenants: Collection[str] = ()
    tiers: Collection[str] = ()
    endpoints: Collection[str] = ()
    limits: Collection[str] = ()
    outcomes: Collection[str] = ()
    most: int = 1_000


@dataclass(frozen=True, slots=True)
class UsageRow:
    start: datetime | None  # None: the whole span
    group: Mapping[str, str]  # grouping → name; an empty name is unknown or deleted
    allowed: int
    denied: int
    allowed_cost: int
    denied_cost: int
    count: int  # includes what is counted beside requests: decisions that shadow limits and candidates would make


@dataclass(frozen=True, slots=True)
class UsageResult:
    begin: datetime  # widened to whole steps of the finest rollup used
    end: datetime
    step: timedelta | None
    rows: Sequence[UsageRow]  # by time, then the largest first
    is_whole: bool  # False: there are more rows than requested
    measured: Coverage
    rollups: Sequence[str] = field(default=())

    @property
    def gaps(self) -> Sequence[GapRecord]:
        return self.measured.gaps


@dataclass(frozen=True, slots=True)
class _Part:
    rollup: type[Rollup]
    begin: datetime
    end: datetime


def usage_query(query: UsageQuery, now: datetime) -> UsageResult:
    finest = _finest(query, now)
    begin, end = _widened(query, finest)
    parts = list(_parts(begin, end, _levels(query, finest)))
    shards = shards_of(query.tenants) if query.tenants else None
    drained = drained_at()
    until = min((rollup_until(rollup, drained) for rollup in {part.rollup for part in parts}), default=BEGINNING)
    # Their shards may wait for a primary, while those of others are drained.
    if shards and drained and (own := drained_at(shards)) and own < drained:
        until = min(until, own)
    found: dict[tuple[Any, ...], list[int]] = {}
    for part in parts:
        for *key, let, refused, let_cost, refused_cost, count in _select(query, part):
            sums = found.setdefault(tuple(key), [0] * 5)
            for place, value in enumerate((let, refused, let_cost, refused_cost, count)):
                sums[place] += int(value or 0)
    rows = _named(query, found)
    names = tuple(dict.fromkeys(part.rollup._meta.db_table for part in parts))
    measured = coverage_read(begin, end, until, shards)
    # A rollup has no rows before its retention begins; that time is unknown, not zero.
    kept = [(part, _kept_since(part.rollup, now)) for part in parts]
    measured = replace(measured, since=max([measured.since, *(min(k, p.end) for p, k in kept if p.begin < k)]))
    return UsageResult(begin, end, query.step, rows[: query.most], len(rows) <= query.most, measured, names)


def _finest(query: UsageQuery, now: datetime) -> type[Rollup]:
    """The finest rollup that the query needs."""
    if query.step is not None:
        return next(level for level in _LEVELS if not query.step % level.step)
    span = query.end - query.begin
    coarsest = next((level for level in _LEVELS if span >= _WORTH.get(level, timedelta(0))), UsageStep)
    # The ends of the span come from the next finer rollup, if that is kept so far back.
    below = _LEVELS[min(_LEVELS.index(coarsest) + 1, len(_LEVELS) - 1)]
    return below if query.begin >= _kept_since(below, now) else coarsest


def _kept_since(rollup: type[Rollup], now: datetime) -> datetime:
    return now - timedelta(days=settings.HEADROOM_KEEP_DAYS[rollup.keep])


def _levels(query: UsageQuery, finest: type[Rollup]) -> list[type[Rollup]]:
    if query.step is not None:
        return [finest]
    return list(_LEVELS[: _LEVELS.index(finest) + 1])


def _widened(query: UsageQuery, finest: type[Rollup]) -> tuple[datetime, datetime]:
    step = query.step or finest.step
    return floored(query.begin, step), query.end + (BEGINNING - query.end) % step


def _parts(begin: datetime, end: datetime, levels: Sequence[type[Rollup]]) -> Iterator[_Part]:
    """Cuts the span into parts, each read from the coarsest rollup whose steps it consists of."""
    if begin >= end:
        return
    rollup, *finer = levels
    first = begin + (BEGINNING - begin) % rollup.step
    last = floored(end, rollup.step)
    if first >= last or not finer:
        if finer:
            yield from _parts(begin, end, finer)
        else:
            yield _Part(rollup, begin, end)
        return
    yield from _parts(begin, first, finer)
    yield _Part(rollup, first, last)
    yield from _parts(last, end, finer)


_COLUMNS: Final[Mapping[str, Composable]] = {
    "tenant": SQL("u.tenant_number"),
    "tier": SQL("t.tier_id"),
    "endpoint": SQL("u.endpoint_number"),
    "outcome": SQL("u.outcome"),
    "limit": SQL("u.limit_number"),
}
_SELECT: Final = SQL("""
    SELECT {keys},
           sum(count) FILTER (WHERE outcome = ANY (%(let)s)), sum(count) FILTER (WHERE outcome = ANY (%(refused)s)),
           sum(cost) FILTER (WHERE outcome = ANY (%(let)s)), sum(cost) FILTER (WHERE outcome = ANY (%(refused)s)),
           sum(count)
    FROM {table} AS u {join} WHERE {conditions} GROUP BY {places}
""")
_JOIN: Final = SQL("JOIN tenants_tenant AS t ON t.number = u.tenant_number")


def _select(query: UsageQuery, part: _Part) -> list[tuple[Any, ...]]:
    keys = [_time(query.step), *(_COLUMNS[name] for name in query.group)]
    needs_tier = "tier" in query.group or bool(query.tiers)
    values: dict[str, Any] = {"let": list(LET_THROUGH), "refused": list(REFUSED)}
    statement = _SELECT.format(
        keys=SQL(", ").join(keys),
        places=SQL(", ").join(Quoted(place) for place in range(1, len(keys) + 1)),
        table=Identifier(_table(query, part.rollup)._meta.db_table),
        join=_JOIN if needs_tier else SQL(""),
        conditions=SQL(" AND ").join(_conditions(query, part, values)),
    )
    with connection.cursor() as cursor:
        # As text: pghistory inspects every statement of a request and expects a string.
        cursor.execute(statement.as_string(None), values)
        found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def _table(query: UsageQuery, rollup: type[Rollup]) -> type[Rollup]:
    """The rollup over all endpoints, if the query does not ask for endpoints."""
    return rollup if "endpoint" in query.group or query.endpoints else WHOLE.get(rollup, rollup)


def _time(step: timedelta | None) -> Composable:
    """Always a GROUP BY key: without one, SQL returns a row of nulls for an empty span."""
    if step is None:
        return SQL("NULL::timestamptz")
    return SQL("date_bin(make_interval(secs => {}), u.start, 'epoch')").format(Quoted(step.total_seconds()))


def _conditions(query: UsageQuery, part: _Part, values: dict[str, Any]) -> Iterator[Composable]:
    values |= {"begin": part.begin, "end": part.end}
    yield SQL("u.start >= %(begin)s AND u.start < %(end)s")
    if issubclass(part.rollup, FineRollup):
        values["slot"] = slot_of(part.begin)
        yield SQL("u.slot >= %(slot)s AND u.slot < %(end)s")
    chosen = {
        "tenant": _numbers(Tenant, query.tenants),
        "tier": _numbers(Tier, query.tiers),
        "endpoint": _numbers(Endpoint, query.endpoints),
        "limit": _numbers(LimitName, query.limits),
        "outcome": [OUTCOMES[name] for name in query.outcomes] or None,
    }
    for name, numbers in chosen.items():
        if numbers is not None:
            values[name] = numbers
            yield SQL("{} = ANY (%({})s)").format(_COLUMNS[name], SQL(name))


def _numbers(model: Any, names: Collection[str]) -> list[int] | None:
    return list(model.objects.filter(name__in=names).values_list("pk", flat=True)) if names else None


def _named(query: UsageQuery, found: Mapping[tuple[Any, ...], Sequence[int]]) -> list[UsageRow]:
    models: dict[str, Any] = {"tenant": Tenant, "tier": Tier, "endpoint": Endpoint, "limit": LimitName}
    names: dict[str, Mapping[Any, str]] = {"outcome": _LETTERS}
    for place, name in enumerate(query.group, 1):
        if name != "outcome":
            rows = models[name].objects.filter(pk__in={key[place] for key in found})
            names[name] = dict(rows.values_list("pk", "name"))
    ordered = sorted(found.items(), key=lambda item: (item[0][0] or BEGINNING, -item[1][-1], item[0][1:]))
    return [
        UsageRow(
            key[0], {name: names[name].get(value, "") for name, value in zip(query.group, key[1:], strict=True)}, *sums
        )
        for key, sums in ordered
    ]
