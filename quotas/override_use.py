"""What an override changes, and whether it is still needed: use against the limit that would hold without it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.apps import apps
from django.db.models import Count

from headroom_edge.keys import endpoint_number
from quotas.models import Endpoint, LimitName, Override
from quotas.models.calendar_counter import CalendarCounter
from quotas.overrides import ACTIVE, ENDED, override_state
from quotas.policies.allowance import parameters_of
from quotas.policies.configuration import configuration_part
from quotas.policies.layers import Layers, PolicyIndex
from quotas.policies.limit_words import limit_short
from quotas.policies.resolve import Effective, Resolved, resolve
from quotas.policies.spec import EVERYWHERE, to_us
from quotas.usage.queries.utilisation import PeakDemand, demands_of_many, use_of

DAY: Final = timedelta(days=1)
NEEDED: Final = 0.8  # of the limit underneath
OFTEN: Final = 2  # extended so many times, a third time suggests a limit of its own


@dataclass(frozen=True, slots=True)
class ChangedLimit:
    scope: str
    name: str
    before: str  # empty: there is no such limit without the override
    after: str


@dataclass(frozen=True, slots=True)
class Need:
    """The highest use of a limit in the last day, against the limit that would hold without the override."""

    share: float | None  # None: not measured
    why_not: str = ""
    is_tighter: bool = False  # it holds the tenant back; the limit underneath would let more pass

    @property
    def is_needed(self) -> bool:
        return self.share is not None and self.share >= NEEDED


@dataclass(frozen=True, slots=True)
class OverrideRow:
    override: Override
    state: str
    changes: Sequence[ChangedLimit] = ()
    need: Need | None = None  # None: it is not active
    extended: int = 0  # times
    ends_soon: bool = False

    @property
    def suggests_own_limit(self) -> bool:
        return self.extended >= OFTEN and self.state != ENDED


def with_use(rows: Sequence[Override], now: datetime) -> list[OverrideRow]:
    """In a number of queries that does not depend on the number of rows."""
    live = [row for row in rows if override_state(row, now) != ENDED]
    part = configuration_part(tenants={row.tenant.name for row in live})
    index = PolicyIndex.of_configuration(part)
    layers = {name: index.of_tenant(tenant) for name, tenant in part.tenants.items()}
    use = _Use([row.tenant_id for row in live], now)
    extended = _extended([row.pk for row in live])
    return [_row(row, layers.get(row.tenant.name), use, extended.get(row.pk, 0), now) for row in rows]


def _row(row: Override, layers: Layers | None, use: _Use, extended: int, now: datetime) -> OverrideRow:
    state = override_state(row, now)
    if state == ENDED or layers is None:
        return OverrideRow(row, state, as_written(row))
    pairs = _pairs(row, layers, now)
    return OverrideRow(
        row,
        state,
        _in_words(row, pairs),
        use.need(row.tenant_id, pairs) if state == ACTIVE else None,
        extended,
        state == ACTIVE and row.end is not None and row.end <= now + DAY,
    )


Pair = tuple[Effective | None, Effective]  # a limit without the override, and with it


def _pairs(row: Override, layers: Layers, now: datetime) -> list[Pair]:
    at_us = to_us(max(now, row.start))
    own = tuple(each for each in layers.overrides if each.id == row.pk)
    under, over = (resolve(replace(layers, overrides=overrides), at_us) for overrides in ((), own))
    changed = [each for each in (*over.everywhere, *_flat(over.own)) if row.pk in each.overrides]
    return [(_same(under, each), each) for each in changed]


def _flat(own: Mapping[str, tuple[Effective, ...]]) -> Iterable[Effective]:
    return (each for limits in own.values() for each in limits)


def _same(under: Resolved, wanted: Effective) -> Effective | None:
    return next((each for each in under.at(wanted.scope) if each.limit.name == wanted.limit.name), None)


def _in_words(row: Override, pairs: Sequence[Pair]) -> Sequence[ChangedLimit]:
    if row.multiplier_numerator or not pairs:
        return as_written(row)
    return [
        ChangedLimit(
            after.scope,
            after.limit.name,
            str(limit_short(before.limit.algorithm)) if before else "",
            str(limit_short(after.limit.algorithm)),
        )
        for before, after in pairs
    ]


def as_written(row: Override) -> Sequence[ChangedLimit]:
    if row.multiplier_numerator and row.multiplier_denominator:
        factor = f"× {row.multiplier_numerator / row.multiplier_denominator:g}"
        return [ChangedLimit(row.scope, "every limit", "× 1", factor)]
    return [ChangedLimit(row.scope, name, "", _values(fields)) for name, fields in row.limits.items()]


class _Use:
    """What these tenants asked for in the last day."""

    def __init__(self, tenants: Sequence[int], now: datetime) -> None:
        self._numbers = dict(Endpoint.objects.filter(retired=False).values_list("name", "number"))
        self._demands: Mapping[int, Mapping[int, PeakDemand]] = demands_of_many(tenants, now - DAY, now)
        self._counters = self._counters_of(tenants, now)

    def _counters_of(self, tenants: Sequence[int], now: datetime) -> Mapping[int, dict[tuple[str, str], int]]:
        limits = dict(LimitName.objects.values_list("number", "name"))
        scopes = {endpoint_number(number): name for name, number in self._numbers.items()}
        found: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
        rows = CalendarCounter.objects.filter(tenant_number__in=tenants, subject=b"", expires_at__gt=now).order_by()
        for tenant, scope, limit, used in rows.values_list("tenant_number", "scope", "limit_number", "used"):
            if limit in limits:
                found[tenant][scopes.get(scope, EVERYWHERE), limits[limit]] = used
        return found

    def need(self, tenant: int, pairs: Sequence[Pair]) -> Need:
        demands, counters = self._demands.get(tenant, {}), self._counters.get(tenant, {})
        known = [(before, after) for before, after in pairs if before is not None]
        if not known:
            return Need(None, "no limit underneath")
        uses = [use_of(before, demands, self._numbers, counters) for before, _ in known]
        is_tighter = all(_amount(after) < _amount(before) for before, after in known)
        shares = [use.share for use in uses if use.share is not None]
        return Need(max(shares), "", is_tighter) if shares else Need(None, uses[0].why_not, is_tighter)


def _amount(effective: Effective) -> float:
    return parameters_of(effective.limit.algorithm)[0].held


def _extended(numbers: Sequence[int]) -> dict[int, int]:
    """How many ends each had, less the first: the history knows all of them."""
    events: Any = apps.get_model("quotas", "OverrideEvent")
    rows = events.objects.filter(pgh_obj_id__in=numbers).order_by().values_list("pgh_obj_id")
    return {number: max(ends - 1, 0) for number, ends in rows.annotate(Count("end", distinct=True))}


def _values(fields: Mapping[str, Any]) -> str:
    """Without those that it takes away."""
    return ", ".join(f"{field} {value}" for field, value in fields.items() if value is not None)
