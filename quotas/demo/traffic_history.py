"""The demo's past traffic, second by second, with the outcomes that would have been counted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from quotas.demo import story
from quotas.demo.enforcement import FlowLimit, FlowLoad, LimitSpan, apply_limit
from quotas.demo.partners import DISPATCH
from quotas.demo.slow_backend import ETA, LIMIT, adapted_spans
from quotas.demo.traffic_patterns import UNKNOWN, Flow
from quotas.models.usage import Outcome
from quotas.observations.arrays import Floats, Ints
from quotas.simulation.synthetic_tenants import DAY_S, MINUTE_S, Cron, SyntheticTenant
from quotas.usage.batch_format import DenialRecord

KEYS: Final = 4  # API keys in use per tenant
DAILY: Final = 25_000  # the free tier's daily quota, in cost
MOST_DENIALS: Final = 150  # of one series in a day


@dataclass(frozen=True, slots=True)
class NameNumbers:
    """The numbers that rollups store instead of names."""

    tenants: Mapping[str, int]
    tiers: Mapping[str, str]  # tenant → tier
    endpoints: Mapping[str, int]
    costs: Mapping[str, int]  # endpoint → default cost
    limits: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FlowSeries:
    """One series of a flow; `counts` has one number per second."""

    tenant: int
    endpoint: int
    outcome: str
    limit: int
    counts: Ints
    cost: int  # of one request
    rate: float = 0.0  # of the limit that denied, per second; 0: a daily quota
    reason: str = "limit"  # of a denial, as the log has it


def record_flow(
    flow: Flow, numbers: NameNumbers, began_s: int, span: range, draw: np.random.Generator
) -> Iterator[FlowSeries]:
    """The series that one flow leaves in the rollups, for the seconds of `span`."""
    tenant, endpoint = numbers.tenants.get(flow.tenant, 0), numbers.endpoints[flow.endpoint]
    cost = numbers.costs[flow.endpoint]
    counts = demand_per_second(flow, span, draw)

    def series(outcome: str, limit: str, amounts: Ints, rate: float = 0.0) -> FlowSeries:
        return FlowSeries(tenant, endpoint, outcome, numbers.limits[limit] if limit else 0, amounts, cost, rate)

    # Unknown and suspended tenants are counted without endpoint: the check refuses them before it looks at it.
    if flow.tenant == UNKNOWN:
        yield replace(series(Outcome.UNKNOWN, "", counts), endpoint=0)
        return
    if flow.tenant == "early-bird":
        turned = max(0, began_s + _seconds(story.SUSPENDED) - span.start)
        refused = np.where(np.arange(len(counts)) >= turned, counts, 0)
        yield replace(series(Outcome.SUSPENDED, "", refused), endpoint=0)
        counts = np.where(np.arange(len(counts)) < turned, counts, 0)
    allowed = counts
    for held in limits_over_time(flow, numbers.tiers[flow.tenant], began_s, span):
        asked = apply_limit(counts, span.start, held, flow.retries, draw)
        yield series(held.outcome, held.limit, asked.refused, held.spans[-1].rate)
        if held.outcome == Outcome.DENIED:
            allowed = asked.offered - asked.refused
    if flow.tenant == "night-owl-cars":
        quota = apply_daily_quota(allowed, span.start, DAILY // cost)
        yield series(Outcome.DENIED, "daily", quota.refused)
        allowed = quota.offered - quota.refused
    yield series(Outcome.ALLOWED, "", allowed)


def demand_per_second(flow: Flow, span: range, draw: np.random.Generator) -> Ints:
    """What it asks for, without retries."""
    counts = per_second(flow.demand, span, draw)
    return counts if flow.sync is None else counts + flow.sync.requests(np.arange(span.start, span.stop))


def per_second(demand: SyntheticTenant, span: range, draw: np.random.Generator) -> Ints:
    """New requests per second, with the same distribution as the live traffic."""
    minutes = range(span.start // MINUTE_S, -(-span.stop // MINUTE_S))
    middles: Floats = np.arange(minutes.start, minutes.stop, dtype=np.float64) * MINUTE_S + MINUTE_S / 2
    of_minute = draw.poisson(demand.intensity(middles) * MINUTE_S)
    seconds = np.repeat(np.arange(len(minutes)) * MINUTE_S, of_minute)
    seconds += draw.integers(0, MINUTE_S, len(seconds))
    counts: Ints = np.bincount(seconds, minlength=len(minutes) * MINUTE_S).astype(np.int64)
    begin = span.start - minutes.start * MINUTE_S
    counts = counts[begin : begin + len(span)]
    if demand.cron is not None:
        counts[_instants(demand.cron, span)] += demand.cron.size
    return counts


def _instants(cron: Cron, span: range) -> slice:
    return slice(-span.start % cron.every_s, None, cron.every_s)


def limits_over_time(flow: Flow, tier: str, began_s: int, span: range) -> Sequence[FlowLimit]:
    """The limits that may deny the flow, with their parameters over time."""
    if flow.endpoint == ETA:
        return [FlowLimit(LIMIT, adapted_spans(span))]
    at = {name: began_s + _seconds(getattr(story, name)) for name in ("BURST_CUT", "BURST_BACK", "QUOTES_RAISED")}
    if tier == "free" and flow.demand.cron is not None:
        spans = (LimitSpan(0, 5, 40), LimitSpan(at["BURST_CUT"], 5, 10), LimitSpan(at["BURST_BACK"], 5, 40))
        return [FlowLimit("burst", spans)]
    if tier == "free" and flow.endpoint == "rider:request":
        return [FlowLimit("requests-per-key", (LimitSpan(0, 1 / 60, 2),), Outcome.SHADOW_DENIES, KEYS)]
    if flow.endpoint == DISPATCH:  # in a cluster, where there is no pool
        return [FlowLimit("dispatch", (LimitSpan(0, 2, 40),))]
    if tier == "pro" and flow.endpoint == "rider:quote":
        return [FlowLimit("quotes", (LimitSpan(0, 0.4, 6), LimitSpan(at["QUOTES_RAISED"], 0.6, 10)))]
    if tier == "pro" and flow.endpoint == "driver:location":
        tried = LimitSpan(began_s + _seconds(story.IN_SHADOW), 6, 20)
        return [
            FlowLimit("smooth", (LimitSpan(0, 10, 40),)),
            FlowLimit("smooth~candidate", (tried,), Outcome.CANDIDATE_DENIES),
        ]
    return []


def apply_daily_quota(counts: Ints, first_s: int, most: int) -> FlowLoad:
    """Denies what exceeds a daily quota (UTC days)."""
    begin = first_s % DAY_S
    padded = np.concatenate((np.zeros(begin, np.int64), counts))
    days = np.pad(padded, (0, -len(padded) % DAY_S)).reshape(-1, DAY_S)
    used = np.minimum(np.cumsum(days, axis=1), most)
    let = np.diff(used, axis=1, prepend=0)
    refused: Ints = (days - let).ravel()[begin : begin + len(counts)]
    return FlowLoad(counts, refused)


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())


def sample_denials(
    series: FlowSeries, first_s: int, revisions: tuple[Sequence[int], Sequence[int]], draw: np.random.Generator
) -> Iterator[DenialRecord]:
    """A sample of the denials of a day, as the drain keeps. `revisions`: seconds from which they hold, and numbers."""
    if series.outcome != Outcome.DENIED:
        return
    places = np.flatnonzero(series.counts)
    chosen = np.sort(draw.choice(places, min(MOST_DENIALS, len(places)), replace=False))
    for place in chosen.tolist():
        at_us = (first_s + place) * SECOND_US + int(draw.integers(SECOND_US))
        held = bisect_right(revisions[0], first_s + place) - 1
        yield DenialRecord(
            tenant=series.tenant,
            endpoint=series.endpoint,
            at_us=at_us,
            limit=series.limit,
            reason=series.reason,
            cost=series.cost,
            retry_us=_retry_us(series, at_us, draw),
            revision=revisions[1][max(held, 0)],
            subject=b"",
        )


def _retry_us(series: FlowSeries, at_us: int, draw: np.random.Generator) -> int:
    """Until the day is over, or until the limit has room for one more request."""
    if not series.rate:
        return DAY_S * SECOND_US - at_us % (DAY_S * SECOND_US)
    return int(draw.integers(1, int(SECOND_US / series.rate)))
