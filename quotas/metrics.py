"""The names and descriptions of all metrics.

The publisher counts its own metrics and serves them on its own port. The others are read from Postgres and Redis when
/metrics is scraped, so that they cover all processes and every check.
"""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

PUBLISHER = CollectorRegistry()

PUBLISH_LAG_SECONDS = Histogram(
    "headroom_publish_lag_seconds",
    "Time from the commit of an edit until all shards have it",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60),
    registry=PUBLISHER,
)
PUBLISHED_REVISION = Gauge(
    "headroom_publisher_revision", "The newest revision that this publisher published to all shards", registry=PUBLISHER
)
PUBLISH_FAILURES = Counter(
    "headroom_publish_failures_total", "Failed passes of the publisher", ["cause"], registry=PUBLISHER
)
COMPILE_PROBLEMS = Gauge(
    "headroom_compile_problems",
    "Tiers, tenants and policies that do not compile, so that their last good version stays in force",
    registry=PUBLISHER,
)
BYPASS_SWITCHES = Gauge("headroom_bypass_switches", "Bypass switches that are on", registry=PUBLISHER)
SHARDS_REPAIRED = Counter(
    "headroom_shards_repaired_total", "Shards that the reconciler repaired", ["cause"], registry=PUBLISHER
)


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    name: str
    words: str
    labels: tuple[str, ...] = ()


CHECKS = MetricDefinition(
    "headroom_checks_total", "Checks, by endpoint and outcome, up to the last drain", ("endpoint", "outcome")
)
LIMIT_UTILISATION = MetricDefinition(
    "headroom_limit_utilisation_ratio",
    "The highest demand of any tenant of the tier as a share of the limit, last 24 hours; the most used limits only",
    ("tier", "endpoint", "limit", "tenant"),
)
TIER_DENIED = MetricDefinition(
    "headroom_tier_denied_ratio", "Share of the tier's requests denied, last 24 hours", ("tier",)
)
POOL_CONTENDED_SECONDS = MetricDefinition(
    "headroom_pool_contended_seconds",
    "How long a pool has denied requests because it was full or had no more to lend, at most half an hour",
    ("policy", "pool"),
)
ADAPTIVE_VALUE = MetricDefinition(
    "headroom_adaptive_ratio",
    "The live value of a limit that adapts, between its floor (0) and its ceiling (1); the lowest ones only",
    ("policy", "limit", "endpoint", "tenant"),
)
REVISION = MetricDefinition("headroom_revision", "The newest revision of the configuration")
PUBLISHED = MetricDefinition("headroom_published_revision", "The newest revision that all shards enforce")
UNPUBLISHED_SECONDS = MetricDefinition(
    "headroom_unpublished_seconds", "How long the oldest edit has waited for the publisher"
)
DRAIN_LAG_SECONDS = MetricDefinition(
    "headroom_drain_lag_seconds", "How long ago the counters were last drained from Redis"
)
FOLD_LAG_SECONDS = MetricDefinition("headroom_fold_lag_seconds", "How far a rollup is behind", ("fold",))
HEARTBEAT_AGE_SECONDS = MetricDefinition(
    "headroom_heartbeat_age_seconds", "How long ago a process last reported", ("process",)
)
ENFORCERS = MetricDefinition("headroom_enforcers", "Enforcing processes of the last 10 minutes, by state", ("state",))
CHECK_SECONDS = MetricDefinition("headroom_check_seconds", "How long Redis takes for one function call", ("quantile",))
TASKS_SET_ASIDE = MetricDefinition(
    "headroom_tasks_set_aside", "Tasks that are no longer run because they repeatedly killed their worker"
)
ALERTS_FIRING = MetricDefinition("headroom_alerts_firing", "Firing alerts", ("alert",))
ALERTS_UNSENT = MetricDefinition("headroom_alert_messages_waiting", "Alert messages that are not delivered yet")
EMERGENCIES_OPEN = MetricDefinition(
    "headroom_emergencies_open", "Emergencies that nobody but their author has looked at"
)
ALERTS_FAILING = MetricDefinition(
    "headroom_alert_messages_failing",
    "Alert messages that could not be delivered so far, or were given up in the last day",
)
STORE_NODES = MetricDefinition(
    "headroom_store_nodes", "Servers of the store; away: one that does not answer, primary or replica", ("state",)
)
STORE_CLOCK_SKEW_SECONDS = MetricDefinition(
    "headroom_store_clock_skew_seconds",
    "How far the clock of a server of the store is ahead of this machine's",
    ("node",),
)
STORE_UP = MetricDefinition("headroom_store_up", "Whether Postgres and Redis answered this scrape", ("store",))

COLLECTED_METRICS = (
    CHECKS,
    LIMIT_UTILISATION,
    TIER_DENIED,
    POOL_CONTENDED_SECONDS,
    ADAPTIVE_VALUE,
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
    ALERTS_FAILING,
    EMERGENCIES_OPEN,
    STORE_NODES,
    STORE_CLOCK_SKEW_SECONDS,
    STORE_UP,
)
