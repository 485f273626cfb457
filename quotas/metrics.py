"""Every metric of ours, by name, once."""

from prometheus_client import Counter, Gauge, Histogram

PUBLISH_LAG_SECONDS = Histogram(
    "headroom_publish_lag_seconds",
    "From the commit of an edit to its last shard",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60),
)
PUBLISHED_REVISION = Gauge("headroom_published_revision", "The newest revision that all shards enforce")
PUBLISH_FAILURES = Counter("headroom_publish_failures_total", "Passes of the publisher that failed", ["cause"])
COMPILE_PROBLEMS = Gauge(
    "headroom_compile_problems", "Tiers, tenants and policies that do not compile and stay at their last good state"
)
BYPASS_SWITCHES = Gauge("headroom_bypass_switches", "Switches that turn limits to shadow at the moment")
SHARDS_REPAIRED = Counter("headroom_shards_repaired_total", "Shards that the reconciler wrote again", ["cause"])
