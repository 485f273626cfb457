"""Finds the conditions that alerts report, in a handful of bounded queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Min

from quotas.adaptive.queries import limits_at_floor
from quotas.alerts.queries import targets_unreached
from quotas.alerts.rules import (
    ADAPTIVE_AT_FLOOR,
    DEGRADED,
    DENIED,
    DRAIN_LAG,
    EMERGENCY,
    POOL_CONTENDED,
    PUBLISH_LAG,
    QUOTAS,
    TRIAL_STOPPED,
    UNDELIVERED,
)
from quotas.alerts.settings import RuleRow
from quotas.changes.emergency import emergencies_open
from quotas.models import AuditEvent, DrainState, Outbox
from quotas.models.usage import LET_THROUGH, REFUSED, Outcome
from quotas.pools.contention import MINUTE, contended_read
from quotas.status.system import enforcement_read
from quotas.usage.queries.calendar_quotas import quotas_used

SPAN: Final = timedelta(minutes=5)
FEWEST: Final = 100  # requests; a share of fewer is not meaningful
MOST_TENANTS: Final = 20
MOST_POOLS: Final = 20
MOST_FLOORS: Final = 20
MOST_TRIALS: Final = 20
MOST_EMERGENCIES: Final = 200  # each is an alert of its own, and costs two statements
LONGEST_TEXT: Final = 300
# Denials that are intended or the caller's own mistake; no reason to alert anybody.
EXPECTED: Final = (Outcome.SUSPENDED, Outcome.UNKNOWN)

_DENIED: Final = """
    SELECT coalesce(t.name, '') AS tenant, sum(u.count) AS asked,
        sum(u.count) FILTER (WHERE u.outcome = ANY(%(refused)s)) AS refused
    FROM quotas_usage_10s AS u LEFT JOIN tenants_tenant AS t ON t.number = u.tenant_number
    WHERE u.start >= %(since)s AND u.slot >= date_bin('1 hour', %(since)s, 'epoch')
        AND u.outcome = ANY(%(counted)s) AND u.tenant_number > 0 AND t.archived_at IS NULL
    GROUP BY GROUPING SETS ((t.name), ())
    HAVING sum(u.count) >= %(fewest)s
        AND sum(u.count) FILTER (WHERE u.outcome = ANY(%(refused)s)) >= %(share)s * sum(u.count)
    ORDER BY refused DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    about: str  # empty: the platform as a whole
    value: float
    text: str


def findings(now: datetime, rules: Sequence[RuleRow]) -> list[Finding]:
    on = {row.rule.name: row for row in rules}
    return [
        *_quotas(now, on),
        *_denied(now, on),
        *_contended(now, on),
        *_at_floor(now, on),
        *_degraded(on),
        *_lags(now, on),
        *_undelivered(now, on),
        *_emergencies(on),
        *_trials_stopped(now, on),
    ]


def _quotas(now: datetime, on: Mapping[str, RuleRow]) -> Iterator[Finding]:
    """Reports each quota once, under the highest threshold it has passed."""
    steps = sorted((on[rule.name].threshold, rule.name) for rule in QUOTAS if rule.name in on)
    if not steps:
        return
    for use in quotas_used(now, steps[0][0]):
        name = [name for threshold, name in steps if use.share >= threshold][-1]
        where = "" if use.scope == "*" else f" on {use.scope}"
        # Rounded down, so that 100% is only reported when the quota is used up.
        share = f"{int(use.share * 100)}% of its quota {use.limit}{where} ({use.used:,} of {use.of:,})"
        text = f"{use.tenant} has used {share}"
        yield Finding(name, f"{use.tenant} {use.scope} {use.limit}", use.share, text)


def _denied(now: datetime, on: Mapping[str, RuleRow]) -> Iterator[Finding]:
    row = on.get(DENIED.name)
    if row is None:
        return
    refused = [letter.value for letter in REFUSED if letter not in EXPECTED]
    asked: dict[str, Any] = {
        "refused": refused,
        "counted": [*refused, *(letter.value for letter in LET_THROUGH)],
        "since": now - SPAN,
    }
    with connection.cursor() as cursor:
        cursor.execute(_DENIED, asked | {"fewest": FEWEST, "share": row.threshold, "most": MOST_TENANTS})
        found = cursor.fetchall()
    for tenant, count, denied in found:
        share = float(denied) / float(count)
        who = f"of {tenant}" if tenant else "of all tenants together"
        yield Finding(
            DENIED.name, tenant, share, f"{share:.0%} of the requests {who} are denied ({int(denied):,} in 5 min)"
        )


def _contended(now: datetime, on: Mapping[str, RuleRow]) -> Iterator[Finding]:
    row = on.get(POOL_CONTENDED.name)
    if row is None:
        return
    wanted = timedelta(seconds=row.threshold)
    for each in contended_read(now, max(wanted, MINUTE) + MINUTE)[:MOST_POOLS]:
        if each.seconds >= row.threshold:
            name = f"the pool {each.limit} of {each.policy}"
            text = f"{name} has denied requests for {each.seconds // 60} min because members wanted more than it had"
            yield Finding(POOL_CONTENDED.name, str(each), each.seconds, text)


def _at_floor(now: datetime, on: Mapping[str, RuleRow]) -> Iterator[Finding]:
    row = on.get(ADAPTIVE_AT_FLOOR.name)
    if row is None:
        return
    for each in limits_at_floor(now, timedelta(seconds=row.threshold), MOST_FLOORS):
        limit, seconds = each.limit, (now - each.since).total_seconds()
        who = f" of {limit.tenant}" if limit.tenant else ""
        floor = f"at its floor of {limit.words_of(limit.least)} for {seconds // 60:.0f} min"
        text = f"limit {limit.limit}{who} on {limit.endpoint} has been {floor}: {limit.reason}"
        about = f"{limit.policy} {limit.limit} {limit.tenant}".rstrip()
        yield Finding(ADAPTIVE_AT_FLOOR.name, about, seconds, text[:LONGEST_TEXT])


def _degraded(on: Mapping[str, RuleRow]) -> Iterator[Finding]:
    row = on.get(DEGRADED.name)
    if row is None:
        return
    enforcement = enforcement_read()
    if enforcement is None:
        yield Finding(DEGRADED.name, "", row.threshold, "Redis does not answer")
    elif (count := len(enforcement.degraded)) >= row.threshold:
        hosts = ", ".join(sorted({each.host for each in enforcement.degraded})[:5])
        who = "1 enforcer decides" if count == 1 else f"{count} enforcers decide"
        yield Finding(DEGRADED.name, "", count, f"{who} without Redis ({hosts})")


def _lags(now: datetime, on: Mapping[str, RuleRow]) -> Iterator[Finding]:
    oldest = Outbox.objects.aggregate(oldest=Min("created"))["oldest"]
    drained = DrainState.objects.values_list("drained_at", flat=True).first()
    for rule, moment, text in (
        (PUBLISH_LAG, oldest, "an edit has waited {:.0f} s for the publisher"),
        (DRAIN_LAG, drained, "the counters were last drained {:.0f} s ago"),
    ):
        seconds = (now - moment).total_seconds() if moment else 0.0
        if rule.name in on and seconds >= on[rule.name].threshold:
            yield Finding(rule.name, "", seconds, text.format(seconds))


def _emergencies(on: Mapping[str, RuleRow]) -> Iterator[Finding]:
    """The oldest first: what was told stays, so that nothing is told to be over while nobody has looked at it."""
    row = on.get(EMERGENCY.name)
    count = emergencies_open().count() if row else 0
    if row is None or count < row.threshold:
        return
    for each in emergencies_open().order_by("pk")[:MOST_EMERGENCIES]:
        text = f"{each.author} declared {each}, and nobody else has looked at it: {each.what} ({each.reason})"
        yield Finding(EMERGENCY.name, str(each), count, text[:LONGEST_TEXT])
    if (more := count - MOST_EMERGENCIES) > 0:
        text = f"{more} more emergencies have been looked at by nobody but their authors"
        yield Finding(EMERGENCY.name, "the newest", count, text)


def _trials_stopped(now: datetime, on: Mapping[str, RuleRow]) -> Iterator[Finding]:
    row = on.get(TRIAL_STOPPED.name)
    if row is None:
        return
    since = now - timedelta(seconds=row.threshold)
    for event in AuditEvent.objects.filter(kind="trial_stopped", at__gte=since).order_by("-pk")[:MOST_TRIALS]:
        text = f"the trial of change {event.detail['change']} was stopped by its own rule: {event.detail['why']}"
        age = (now - event.at).total_seconds()
        yield Finding(TRIAL_STOPPED.name, f"change {event.detail['change']}", age, text[:LONGEST_TEXT])


def _undelivered(now: datetime, on: Mapping[str, RuleRow]) -> Iterator[Finding]:
    """The failing target is told too, when it is back; the others are told now."""
    row = on.get(UNDELIVERED.name)
    for target, since in targets_unreached() if row else ():
        seconds = (now - since).total_seconds()
        if row and seconds >= row.threshold:
            text = f"alerts have not reached target {target.pk} ({target}) for {seconds:.0f} s"
            yield Finding(UNDELIVERED.name, f"target {target.pk}", seconds, text[:300])
