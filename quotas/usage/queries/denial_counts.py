"""How many denials a filter of the decision log means, from the same counts that the shares on the pages come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Sum

from quotas.models import Endpoint, LimitName
from quotas.models.usage import REFUSED, Denial, Outcome
from quotas.models.usage_totals import EVERYONE, tier_total_number
from quotas.usage.queries.denial_log import DenialFilter, numbers_of
from quotas.usage.queries.periods import LONGEST, Period, rows_between
from quotas.usage.queries.traffic import rollup_rows
from tenants.models import Tenant, Tier

OUTCOMES: Final[Mapping[str, Outcome]] = {
    "limit": Outcome.DENIED,
    "cost_too_big": Outcome.TOO_BIG,
    "suspended": Outcome.SUSPENDED,
    "overflow": Outcome.OVERFLOW,
    "unknown_tenant": Outcome.UNKNOWN,
    "without_redis": Outcome.DEGRADED_CLOSED,
}
# Redis keeps single denials only where a limit was checked.
LISTED: Final = frozenset({Outcome.DENIED, Outcome.TOO_BIG, Outcome.OVERFLOW})


@dataclass(frozen=True, slots=True)
class DenialCount:
    denied: int
    unlisted: int  # of them, refused before or without a check of limits: never in the log
    kept_since: datetime | None  # the log no longer holds earlier ones of this time; None: it holds all of it

    @property
    def is_listed(self) -> bool:
        return self.unlisted < self.denied


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Empty: all."""

    owners: list[int]  # tenants, or as the totals number everyone and the tiers
    endpoints: list[int]
    limits: list[int]


def denials_counted(wanted: DenialFilter, now: datetime) -> DenialCount | None:
    """None: the filter names no time, or something that is not counted, such as a cause."""
    end = min(wanted.until or now, now)
    if wanted.cause or wanted.since is None or not now - LONGEST <= wanted.since < end:
        return None
    numbers = _numbers(wanted)
    counts = _by_outcome(wanted.reason, rows_between(wanted.since, end, now), numbers) if numbers else {}
    first = now - timedelta(days=settings.HEADROOM_KEEP_DAYS[Denial.keep])
    return DenialCount(
        denied=sum(counts.values()),
        unlisted=sum(count for outcome, count in counts.items() if outcome not in LISTED),
        kept_since=first if wanted.since < first else None,
    )


def _by_outcome(reason: str, period: Period, numbers: _Numbers) -> dict[str, int]:
    outcomes = [OUTCOMES[reason]] if reason else REFUSED
    rows = rollup_rows(period, numbers.owners, numbers.endpoints).filter(outcome__in=outcomes)
    rows = rows.filter(limit_number__in=numbers.limits) if numbers.limits else rows
    return {outcome: int(count) for outcome, count in rows.values_list("outcome").annotate(Sum("count"))}


def _numbers(wanted: DenialFilter) -> _Numbers | None:
    """None: something that is asked for does not exist."""
    endpoints, limits = numbers_of(Endpoint, wanted.endpoint), numbers_of(LimitName, wanted.limit)
    owners = _owners(wanted)
    if not owners or (wanted.endpoint and not endpoints) or (wanted.limit and not limits):
        return None
    return _Numbers(owners, endpoints, limits)


def _owners(wanted: DenialFilter) -> list[int]:
    if wanted.tenant:
        of_tier = {"tier__name": wanted.tier} if wanted.tier else {}
        return list(Tenant.objects.filter(name=wanted.tenant, **of_tier).values_list("number", flat=True))
    if wanted.tier:
        return [tier_total_number(number) for number in numbers_of(Tier, wanted.tier)]
    return [EVERYONE]
