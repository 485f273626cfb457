"""Collects the metrics of the whole installation from Postgres and Redis, in a fixed number of small queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.models import Count, Min, Q
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from quotas import metrics
from quotas.adaptive.queries import AdaptiveLimit, adaptive_limits
from quotas.changes.emergency import emergencies_open
from quotas.matrix.queries import EVERYONE, matrix_read
from quotas.metrics import MetricDefinition
from quotas.models import (
    AlertDelivery,
    AlertState,
    Delivery,
    DrainState,
    Endpoint,
    FoldState,
    Heartbeat,
    Outbox,
    Tally,
)
from quotas.models.jobs import PUBLISH_TROUBLE, PUBLISHER
from quotas.models.revision import newest_revision_number
from quotas.models.usage import Outcome
from quotas.models.usage_rates import EVERY_ENDPOINT
from quotas.pools.contention import contended_read
from quotas.publishing import store
from quotas.publishing.enforcers import enforcers_read, states_of
from quotas.publishing.nodes import STATES, StoreNode, nodes_read
from quotas.publishing.queries import call_quantiles
from quotas.usage.queries.near_limits import tier_usage_read

MOST_LIMITS: Final = 50  # series of the utilisation metric, however many limits and tenants there are
MOST_POOLS: Final = 50
MOST_ADAPTIVE: Final = 50
CONTENDED_BACK: Final = timedelta(minutes=30)
PATIENCE_MS: Final = 2_000
PATIENCE_SECONDS: Final = 1.0
FAILING_FOR: Final = timedelta(days=1)


class StatusCollector(Collector):
    """Leaves out what cannot be read and reports it in `headroom_store_up`, so that a scrape never fails."""

    def describe(self) -> Iterator[Metric]:
        """Makes no query: the registry calls it at start-up."""
        for figure in metrics.COLLECTED_METRICS:
            yield gauge(figure)

    def collect(self) -> Iterator[Metric]:
        up = gauge(metrics.STORE_UP)
        for name, read, failure in (
            ("postgres", from_postgres, DatabaseError),
            ("redis", from_redis, store.StoreError),
        ):
            found, is_up = _attempt(read, failure)
            yield from found
            up.add_metric([name], is_up)
        yield up


def _attempt(read: Callable[[], list[Metric]], failure: type[Exception]) -> tuple[list[Metric], bool]:
    try:
        return read(), True
    except failure:
        return [], False


def from_postgres() -> list[Metric]:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {PATIENCE_MS}")
            cursor.execute("SELECT now()")
            (now,) = cursor.fetchone()
        return [
            checks(),
            *utilisation(now),
            contention(now),
            adaptive(now),
            *configuration(now),
            *freshness(now),
            *trouble(now),
        ]


def checks() -> Metric:
    family = CounterMetricFamily(metrics.CHECKS.name, metrics.CHECKS.words, labels=metrics.CHECKS.labels)
    names = dict(Endpoint.objects.values_list("number", "name"))
    words = {outcome.value: outcome.name.lower() for outcome in Outcome}
    for number, letter, count in Tally.objects.values_list("endpoint_number", "outcome", "count"):
        family.add_metric([names.get(number, "unregistered"), words.get(letter, letter)], count)
    return family


def utilisation(now: datetime) -> list[Metric]:
    """The most used limits of all tiers, each with the tenant that came closest to it."""
    matrix, measured = matrix_read(now), tier_usage_read()
    tiers = {column.tier: column.number for column in matrix.columns if column.tier != EVERYONE}
    found = [
        (near.share, (cell.tier, cell.scope, one.limit.name, near.tenant))
        for line in matrix.lines
        for cell in line.cells
        if cell.tier in tiers
        for one in cell.limits
        if (near := measured.nearest(tiers[cell.tier], cell.scope, one.limit)) is not None
    ]
    nearest, denied = gauge(metrics.LIMIT_UTILISATION), gauge(metrics.TIER_DENIED)
    for share, labels in sorted(found, reverse=True)[:MOST_LIMITS]:
        nearest.add_metric(labels, share)
    for tier, number in tiers.items():
        row = measured.rows.get((number, EVERY_ENDPOINT))
        denied.add_metric([tier], row.denied / row.asked if row and row.asked else 0.0)
    return [nearest, denied]


def contention(now: datetime) -> Metric:
    family = gauge(metrics.POOL_CONTENDED_SECONDS)
    for each in contended_read(now, CONTENDED_BACK)[:MOST_POOLS]:
        family.add_metric([each.policy, each.limit], each.seconds)
    return family


def adaptive(now: datetime) -> Metric:
    """Without pinned ones, which are where somebody wants them."""
    family = gauge(metrics.ADAPTIVE_VALUE)
    found = [(_within(each), each) for each in adaptive_limits(now) if each.least < each.most and not each.is_pinned]
    for value, each in sorted(found, key=lambda pair: pair[0])[:MOST_ADAPTIVE]:
        family.add_metric([each.policy, each.limit, each.endpoint, each.tenant], value)
    return family


def _within(limit: AdaptiveLimit) -> float:
    return max(0.0, min(1.0, (limit.value - limit.least) / (limit.most - limit.least)))


def configuration(now: datetime) -> list[Metric]:
    detail = Heartbeat.objects.filter(name=PUBLISHER).values_list("detail", flat=True).first() or ""
    oldest = Outbox.objects.aggregate(oldest=Min("created"))["oldest"]
    return [
        gauge(metrics.REVISION, newest_revision_number()),
        gauge(metrics.PUBLISHED, int(detail) if detail.isdigit() else 0),
        gauge(metrics.UNPUBLISHED_SECONDS, (now - oldest).total_seconds() if oldest else 0.0),
    ]


def freshness(now: datetime) -> list[Metric]:
    drain, folds, pulses = gauge(metrics.DRAIN_LAG_SECONDS), gauge(metrics.FOLD_LAG_SECONDS), heartbeats(now)
    for drained_at in DrainState.objects.values_list("drained_at", flat=True):
        drain.add_metric([], (now - drained_at).total_seconds())
    for name, until in FoldState.objects.values_list("name", "until"):
        folds.add_metric([name], (now - until).total_seconds())
    return [drain, folds, pulses]


def heartbeats(now: datetime) -> GaugeMetricFamily:
    pulses = gauge(metrics.HEARTBEAT_AGE_SECONDS)
    for name, at in Heartbeat.objects.exclude(name=PUBLISH_TROUBLE).values_list("name", "at"):
        pulses.add_metric([name], (now - at).total_seconds())
    return pulses


def trouble(now: datetime) -> list[Metric]:
    firing = gauge(metrics.ALERTS_FIRING)
    found = AlertState.objects.filter(resolved_at=None, told_at__isnull=False).order_by()
    for name, count in found.values_list("name").annotate(count=Count("about")):
        firing.add_metric([name], count)
    set_aside = Delivery.objects.filter(is_set_aside=True).count()
    emergencies = gauge(metrics.EMERGENCIES_OPEN, emergencies_open().count())
    return [firing, *messages(now), gauge(metrics.TASKS_SET_ASIDE, set_aside), emergencies]


def messages(now: datetime) -> list[Metric]:
    # Each failure sets `due_at` anew, so that it also tells when a message was given up.
    failing = Q(problem__gt="", target__is_on=True, due_at__gte=now - FAILING_FOR)
    found = AlertDelivery.objects.filter(sent_at=None).aggregate(
        waiting=Count("pk", filter=Q(is_given_up=False)), failing=Count("pk", filter=failing)
    )
    return [gauge(metrics.ALERTS_UNSENT, found["waiting"]), gauge(metrics.ALERTS_FAILING, found["failing"])]


def from_redis() -> list[Metric]:
    with store.connect(settings.REDIS_URL, patience_seconds=PATIENCE_SECONDS) as client:
        enforcers, quantiles = enforcers_read(client), call_quantiles(client)
        nodes = nodes_read(client, settings.HEADROOM_SHARDS)
    states, seconds = gauge(metrics.ENFORCERS), gauge(metrics.CHECK_SECONDS)
    for state, count in states_of(enforcers).items():
        states.add_metric([state], count)
    for quantile, value in quantiles.items():
        seconds.add_metric([quantile], value)
    return [states, seconds, *servers(nodes)]


def servers(nodes: Sequence[StoreNode]) -> list[Metric]:
    counts, skews = gauge(metrics.STORE_NODES), gauge(metrics.STORE_CLOCK_SKEW_SECONDS)
    for state in STATES:
        counts.add_metric([state], sum(node.state == state for node in nodes))
    for node in nodes:
        if node.skew_us is not None:
            skews.add_metric([node.name], node.skew_us / store.SECOND_US)
    return [counts, skews]


def gauge(figure: MetricDefinition, value: float | None = None) -> GaugeMetricFamily:
    return GaugeMetricFamily(figure.name, figure.words, labels=figure.labels or None, value=value)
