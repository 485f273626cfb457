"""The past of the demo's pool: the model of a pool decides on the demand of all partners together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from quotas.demo.partners import OWN_SHARES, POOL, POOL_NAME, SHARE_NAME, USUAL
from quotas.demo.traffic_history import FlowSeries, NameNumbers, demand_per_second
from quotas.demo.traffic_patterns import Flow
from quotas.models.usage import Outcome
from quotas.observations.arrays import Ints
from quotas.simulation.pool_replay import BORROWED, CAUSES, OWN, MemberReplay, PoolMember, replay_pool


def record_pool(
    flows: Sequence[Flow], numbers: NameNumbers, span: range, draws: Sequence[np.random.Generator]
) -> Iterator[FlowSeries]:
    """The series that the partners leave in the rollups. `draws`: one for each flow."""
    members = [_member(flow, span, draw) for flow, draw in zip(flows, draws, strict=True)]
    for flow, member, found in zip(flows, members, replay_pool(POOL, members), strict=True):
        yield from _series(flow, numbers, found, (member.times_us // SECOND_US) - span.start, len(span))


def _member(flow: Flow, span: range, draw: np.random.Generator) -> PoolMember:
    counts = demand_per_second(flow, span, draw)
    seconds = np.repeat(np.arange(span.start, span.stop), counts)
    times = np.sort(seconds * SECOND_US + draw.integers(0, SECOND_US, len(seconds)))
    return PoolMember(flow.tenant, OWN_SHARES.get(flow.tenant, USUAL), times, np.ones(len(times), np.int64))


def _series(flow: Flow, numbers: NameNumbers, found: MemberReplay, places: Ints, length: int) -> Iterator[FlowSeries]:
    def series(outcome: str, limit: str, which: int, reason: str = "limit") -> FlowSeries:
        counts = np.bincount(places[found.outcomes == which], minlength=length).astype(np.int64)
        number = numbers.limits[limit] if limit else 0
        tenant, endpoint = numbers.tenants[flow.tenant], numbers.endpoints[flow.endpoint]
        return FlowSeries(tenant, endpoint, outcome, number, counts, numbers.costs[flow.endpoint], rate, reason)

    share = OWN_SHARES.get(flow.tenant, USUAL)
    rate = share.assured * SECOND_US / share.per_us
    yield series(Outcome.ALLOWED, "", OWN)
    yield series(Outcome.LENT, POOL_NAME, BORROWED)
    for cause, number in CAUSES.items():
        yield series(Outcome.DENIED, SHARE_NAME, number, f"limit/{cause}")
