"""All alert rules: what each means, its default threshold and severity, and its runbook."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

Severity = Literal["notice", "warning", "critical"]
Unit = Literal["share", "seconds", "enforcers", "emergencies"]

NOW: Final = timedelta(0)
A_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class AlertRule:
    name: str
    words: str
    threshold: float
    unit: Unit
    severity: Severity
    hold: timedelta = A_MINUTE  # how long the condition must last before the alert is sent
    least: float = 0.0  # the threshold must be above it

    @property
    def runbook(self) -> str:
        return f"docs/runbooks/{self.name}.md"


QUOTAS: Final = (
    AlertRule("quota-80", "a tenant has used this share of a quota", 0.80, "share", "notice", NOW),
    AlertRule("quota-95", "a tenant has used this share of a quota", 0.95, "share", "warning", NOW),
    AlertRule("quota-100", "a tenant has used up a quota", 1.00, "share", "warning", NOW),
)
DENIED: Final = AlertRule(
    "denied-share", "this share of requests is denied, over five minutes", 0.25, "share", "warning"
)
DEGRADED: Final = AlertRule("degraded", "this many enforcers decide without Redis", 1, "enforcers", "critical", NOW)
PUBLISH_LAG: Final = AlertRule(
    "publish-lag", "an edit has waited this long for the publisher", 10, "seconds", "critical"
)
DRAIN_LAG: Final = AlertRule("drain-lag", "the counters were last drained this long ago", 60, "seconds", "warning")
EMERGENCY: Final = AlertRule(
    "emergency",
    "this many emergencies have been looked at by nobody but their author",
    1,
    "emergencies",
    "critical",
    NOW,
)
TRIAL_STOPPED: Final = AlertRule(
    "trial-stopped", "the rule of a trial ended it within this time", 3_600, "seconds", "warning", NOW
)
UNDELIVERED: Final = AlertRule(
    "alert-delivery", "a target of alerts has not been reached for this long", 600, "seconds", "warning", NOW
)
POOL_CONTENDED: Final = AlertRule(
    "pool-contended",
    "a pool has denied requests for this long because members wanted more than it had",
    600,
    "seconds",
    "warning",
    NOW,
)
ADAPTIVE_AT_FLOOR: Final = AlertRule(
    "adaptive-at-floor", "a limit that adapts has been at its floor for this long", 600, "seconds", "warning", NOW
)
# Evaluated by quotas.alerts.guard, in another process. The watch runs every 15 s.
WATCH_SILENT: Final = AlertRule(
    "watch-silent", "no alert has been evaluated for this long", 60, "seconds", "critical", NOW, least=30
)

RULES: Final = {
    rule.name: rule
    for rule in (
        *QUOTAS,
        DENIED,
        POOL_CONTENDED,
        ADAPTIVE_AT_FLOOR,
        DEGRADED,
        PUBLISH_LAG,
        DRAIN_LAG,
        EMERGENCY,
        TRIAL_STOPPED,
        UNDELIVERED,
        WATCH_SILENT,
    )
}
