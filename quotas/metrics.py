"""Every metric of ours, by name, once.

Counters, gauges and histograms live in the publisher, which serves them on a port of its own. Figures are read from
Postgres and Redis when /metrics is asked, so that they tell of all processes and of every check, whoever made it.
"""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

PUBLISHER = CollectorRegistry()

PUBLISH_LAG_SECONDS = Histogram(
    "headroom_publish_lag_seconds",
    "From the commit of an edit to its last shard",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60),
    registry=PUBLISHER,
)
PUBLISHED_REVISION = Gauge(
    "headroom_publisher_revision", "The newest revision that this publisher brought to all shards", registry=PUBLISHER
)
PUBLISH_FAILURES = Counter(
    "headroom_publish_failures_total", "Passes of the publisher that failed", ["cause"], registry=PUBLISHER
)
COMPILE_PROBLEMS = Gauge(
    "headroom_compile_problems",
    "Tiers, tenants and policies that do not compile and stay at their last good state",
    registry=PUBLISHER,
)
BYPASS_SWITCHES = Gauge(
    "headroom_bypass_switches", "Switches that turn limits to shadow at the moment", registry=PUBLISHER
)
SHARDS_REPAIRED = Counter(
    "headroom_shards_repaired_total", "Shards that the reconciler wrote again", ["cause"], registry=PUBLISHER
)


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    name: str
    words: str
    labels: tuple[str, ...] = ()


CHECKS = MetricDefinition(
    "headroom_checks_total", "Checks that were drained, by endpoint and outcome", ("endpoint", "outcome")
)
LIMIT_UTILISATION = MetricDefinition(
    "headroom_limit_utilisation_ratio",
    "The highest demand of any tenant of the tier against the limit, last 24 hours; only the fullest limits",
    ("tier", "endpoint", "limit", "tenant"),
)
TIER_DENIED = MetricDefinition(
    "headroom_tier_denied_ratio", "Share of the tier's requests denied, last 24 hours", ("tier",)
)
REVISION = MetricDefinition("headroom_revision", "The newest revision of the configuration")
PUBLISHED = MetricDefinition("headroom_published_revision", "The newest revision that all shards enforce")
UNPUBLISHED_SECONDS = MetricDefinition(
    "headroom_unpublished_seconds", "How long the oldest edit has waited for the publisher"
)
DRAIN_LAG_SECONDS = MetricDefinition(
    "headroom_drain_lag_seconds", "How long ago the counters were last drained from Redis"
)
FOLD_LAG_SECONDS = MetricDefinition(
    "headroom_fold_lag_seconds", "How long ago a rollup was last brought up to date", ("fold",)
)
HEARTBEAT_AGE_SECONDS = MetricDefinition(
    "headroom_heartbeat_age_seconds", "Since a process last reported", ("process",)
)
ENFORCERS = MetricDefinition("headroom_enforcers", "Processes that enforce, by whether they reach Redis", ("state",))
CHECK_SECONDS = MetricDefinition("headroom_check_seconds", "How long Redis takes for one function call", ("quantile",))
TASKS_SET_ASIDE = MetricDefinition(
    "headroom_tasks_set_aside", "Tasks that kept killing their worker and are run no more"
)
ALERTS_FIRING = MetricDefinition("headroom_alerts_firing", "Alerts that fire now", ("alert",))
ALERTS_UNSENT = MetricDefinition("headroom_alert_messages_waiting", "Messages of alerts that no target has taken yet")
STORE_UP = MetricDefinition("headroom_store_up", "Whether Postgres and Redis answered for these figures", ("store",))

COLLECTED_METRICS = (
    CHECKS,
    LIMIT_UTILISATION,
    TIER_DENIED,
    REVISION,
    PUBLISHED,
    UNPUBLISHED_SECONDS,
    DRAIN_LAG_SECONDS,
    FOLD_LAG_SECONDS,
    HEARTBEAT_AGE_SECONDS,
    ENFORCERS,
    CHECK_SECONDS,
    TASKS_SET_ASIDE,
    ALERTS_FIRING,
    ALERTS_UNSENT,
    STORE_UP,
)
