"""The limits that adapt, as they are configured, and what Redis says of them now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any, Final

import redis
from django.conf import settings
from django.db.models import CharField, F, Func, Q, QuerySet, Value

from headroom_edge import keys
from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from quotas.models import Endpoint, Limit
from quotas.models.adaptive import CONCURRENCY, RATE
from quotas.policies.adapt import Adapt, percent_words
from quotas.policies.limit_codec import row_limit
from quotas.policies.plans import content_name, loop_of
from quotas.policies.resolve import Effective
from quotas.policies.shard_image import canonical
from quotas.publishing import store
from quotas.publishing.factors import LoopState, states_read
from tenants.models import Tenant

MOST_LIMITS: Final = 500
MOST_TENANTS: Final = 100  # whose counters are read
MOST_OF_TIER: Final = 20  # of a tier's tenants, the busiest
REASON_LENGTH: Final = 200
PINNED: Final = "pinned by hand"


@dataclass(frozen=True, slots=True)
class LiveValue:
    policy: str
    limit: str
    endpoint_number: int
    tenant_number: int  # 0: all together
    kind: str
    value: int
    least: int
    most: int
    reason: str


def adapting_rows() -> Sequence[Limit]:
    """At most MOST_LIMITS, in a fixed order."""
    adapts = Q(adapt__isnull=False) | Q(algorithm=AdaptiveConcurrency.name, subject="tenant")
    found = Limit.objects.filter(adapts).exclude(mode="off").order_by("pk")
    return list(found.select_related("policy__tier", "policy__tenant", "policy__endpoint", "name")[:MOST_LIMITS])


def live_values() -> list[LiveValue]:
    """Raises StoreError if Redis does not answer."""
    rows = adapting_rows()
    if not rows:
        return []
    with store.connect(settings.REDIS_URL) as client:
        states = states_read(client)
        rates = [_rate(row, states) for row in rows if row.adapt]
        return [*rates, *_concurrency(client, [row for row in rows if not row.adapt])]


def loop_name(row: Limit) -> str:
    """By which hr_observe knows the loop of this limit."""
    policy = row.policy
    is_global = policy.tier_id is None and policy.tenant_id is None
    effective = Effective(row_limit(row.name.name, row), policy.scope, policy.name, is_global=is_global)
    return content_name(canonical(loop_of(effective)))


def _rate(row: Limit, states: Mapping[str, LoopState]) -> LiveValue:
    adapt = Adapt.parse(row.adapt)
    state = states.get(loop_name(row)) if adapt.pin is None else None
    value = adapt.most if state is None else max(adapt.least, min(state.factor, adapt.most))
    return LiveValue(
        row.policy.name,
        row.name.name,
        row.policy.endpoint_id or 0,
        0,
        RATE,
        value,
        adapt.floor,
        adapt.ceiling,
        rate_reason(adapt, state)[:REASON_LENGTH],
    )


def rate_reason(adapt: Adapt, state: LoopState | None) -> str:
    if adapt.pin is not None:
        return PINNED
    if state is None:
        return "no answers were reported for 10 seconds, so the limit is back at its ceiling"
    seen = f"{percent_words(round(state.bad * 1_000))} of {state.answers:,.0f} answers per second were bad"
    if state.mode == "drain":
        return f"cut so that the backend can work off its queue: {seen}"
    if state.mode == "cruise":
        return f"held just below what the backend could answer, and rising slowly: {seen}"
    if state.factor < adapt.ceiling:
        return f"rising, because the backend is healthy: {seen}"
    return f"the backend is healthy: {seen}"


def _concurrency(client: redis.Redis, rows: Iterable[Limit]) -> Iterator[LiveValue]:
    asked = _asked(rows)
    calls = {
        place: (
            "FCALL_RO",
            "hr_live",
            1,
            keys.tenant_prefix(tenant.name, settings.HEADROOM_SHARDS),
            tenant.name,
            endpoint,
        )
        for place, (_, tenant, endpoint) in enumerate(asked)
    }
    replies, _ = store.ask_each(client, calls)
    for place, (row, tenant, _) in enumerate(asked):
        found = [reply for reply in replies.get(place, ()) if reply[0] == row.name.name and reply[1] == CONCURRENCY]
        yield from (_slots(row, tenant, reply) for reply in found[:1])


def _asked(rows: Iterable[Limit]) -> list[tuple[Limit, Tenant, str]]:
    """Limit, tenant and endpoint to ask hr_live for: the busiest tenant of each limit, then the next one of each.

    So no limit starves while there are at most MOST_TENANTS of them. Of more, the newest are not read.
    """
    rows = list(rows)
    endpoints = _endpoints()
    of_tiers = _busiest_of({row.policy.tier_id for row in rows if row.policy.tier_id is not None})
    anyone = list(_busiest()[:1])
    each = [
        [(row, tenant, endpoint) for tenant in _tenants(row, of_tiers, anyone)[:MOST_OF_TIER]]
        for row in rows
        if (endpoint := _endpoint(row, endpoints)) is not None
    ]
    in_turn = (one for taken in zip_longest(*each) for one in taken if one is not None)
    return list(islice(in_turn, MOST_TENANTS))


def _endpoints() -> dict[str, str]:
    """An endpoint of each service; of the empty name, any."""
    service = Func(F("name"), Value(":"), Value(1), function="split_part", output_field=CharField())
    used = Endpoint.objects.filter(retired=False).annotate(of=service)
    found = dict(used.order_by("of", "number").distinct("of").values_list("of", "name"))
    return {"": next(iter(found.values())), **found} if found else {}


def _endpoint(row: Limit, endpoints: Mapping[str, str]) -> str | None:
    """Where hr_live is asked. None: no endpoint has the limit."""
    return row.policy.endpoint.name if row.policy.endpoint else endpoints.get(row.policy.service)


def _tenants(row: Limit, of_tiers: Mapping[int, Sequence[Tenant]], anyone: Sequence[Tenant]) -> Sequence[Tenant]:
    """Whose counters a limit has. A global one is the same for all, so any tenant will do."""
    policy = row.policy
    if policy.tenant is not None:
        return [policy.tenant]
    return anyone if policy.tier_id is None else of_tiers.get(policy.tier_id, ())


def _busiest() -> QuerySet[Tenant]:
    busiest = Tenant.objects.filter(suspended=False, archived_at=None).order_by("-summary__asked", "pk")
    return busiest.annotate(asked=F("summary__asked"))


def _busiest_of(tiers: Collection[int]) -> dict[int, list[Tenant]]:
    """The busiest tenants of each tier, in one query."""
    first, *others = [_busiest().filter(tier=tier)[:MOST_OF_TIER] for tier in sorted(tiers)] or [_busiest().none()]
    found: dict[int, list[Tenant]] = defaultdict(list)
    for tenant in first.union(*others, all=True) if others else first:
        found[tenant.tier_id].append(tenant)
    for tenants in found.values():
        tenants.sort(key=lambda tenant: (-(getattr(tenant, "asked", None) or 0), tenant.pk))
    return found


def _slots(row: Limit, tenant: Tenant, reply: Sequence[Any]) -> LiveValue:
    is_global = row.policy.tier_id is None and row.policy.tenant_id is None
    _, _, value, least, most, reason, *_ = reply
    number = 0 if is_global else tenant.number
    endpoint = row.policy.endpoint_id or 0
    told = str(reason)[:REASON_LENGTH]
    return LiveValue(
        row.policy.name, row.name.name, endpoint, number, CONCURRENCY, int(value), int(least), int(most), told
    )
