"""Individual denials, newest first, each explained in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Model, QuerySet, Sum

from headroom_edge.algorithms.base import SECOND_US, per_text
from headroom_edge.algorithms.sharing import Borrowing
from quotas.models import Endpoint, LimitName
from quotas.models.usage import Denial, Outcome
from quotas.models.usage_totals import EVERYONE, TotalHour
from quotas.pools.queries import pools_above
from quotas.usage.queries.limit_changes import LimitPlace, change_at, limit_changes_read, limits_at
from tenants.models import Tenant

NEVER = -1
NONE = "-"  # a filter's word for requests without a registered endpoint, or without a limit
# Filters search only this many denials: looking for a rare endpoint must not read a week of them.
MOST_SEARCHED = 20_000

TURNED_AWAY = (Outcome.SUSPENDED, Outcome.UNKNOWN)
REASONS = {
    "limit": "limit used up",
    "cost_too_big": "cost above the limit's capacity",
    "suspended": "tenant suspended",
    "overflow": "too many new subjects in an hour",
    "unknown_tenant": "unknown tenant",
    "without_redis": "refused without Redis",
}
# Of denials by a limit that borrows. A reason in the log is `limit/pool`.
CAUSES = {"pool": "the pool was full", "share": "above its fair share", "ceiling": "above its ceiling"}


@dataclass(frozen=True, slots=True)
class DenialFilter:
    """An empty field matches everything; an endpoint or limit of NONE matches requests that have none."""

    tenant: str = ""
    endpoint: str = ""
    limit: str = ""
    reason: str = ""
    cause: str = ""  # one of CAUSES
    tier: str = ""  # of the tenant now
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class DeniedShare:
    """What a limit that borrows had when it denied."""

    pool: str  # empty: not known
    assured: str  # `40/s`; empty: nothing is guaranteed
    ceiling: str


@dataclass(frozen=True, slots=True)
class ExplainedDenial:
    at: datetime
    tenant: str  # empty: unknown or deleted
    endpoint: str  # empty: not registered
    limit: str  # empty: no limit denied it
    reason: str
    cost: int
    retry_us: int
    revision: int
    subject: str  # the start of its keyed hash; empty: the tenant as a whole
    place: LimitPlace
    cause: str = ""  # one of CAUSES, if a limit that borrows denied it
    share: DeniedShare | None = None  # None: it has changed since, or is not known

    @property
    def words(self) -> str:
        """One sentence: why it was denied, and what would help."""
        if self.cause in CAUSES:
            return f"{cause_words(self.limit, self.cause, self.share)} (cost {self.cost:,}); {self._again}."
        if self.reason == "limit":
            return f"The limit {self.limit} was used up (cost {self.cost:,}); {self._again}."
        if self.reason == "cost_too_big":
            return f"Its cost of {self.cost:,} is more than {self.limit} ever allows at once: make the request smaller."
        if self.reason == "suspended":
            return "The tenant is suspended: every request is denied until it is resumed."
        if self.reason == "overflow":
            return (
                f"The tenant had too many new subjects in an hour; they share one {self.limit}, "
                f"which was used up; {self._again}."
            )
        if self.reason == "unknown_tenant":
            return "No tenant has the name that the caller sent: register the tenant or correct the caller."
        return f"Refused for the reason {self.reason}."

    @property
    def _again(self) -> str:
        return "waiting does not help" if self.retry_us == NEVER else f"retry after {wait_words(self.retry_us)}"


def cause_words(limit: str, cause: str, share: DeniedShare | None, *, whose: str = "the", is_now: bool = False) -> str:
    """Why a limit that borrows denied, without a full stop: `The pool org was full and the share of 40/s was used`."""
    was, had = ("is", "has") if is_now else ("was", "had")
    if cause == "ceiling":
        reached = f" of {share.ceiling}" if share and share.ceiling else ""
        return f"The ceiling{reached} of the limit {limit} {was} reached"
    pool = f"The pool {share.pool}" if share and share.pool else f"The pool of the limit {limit}"
    full = (
        f"{pool} {was} full" if cause == "pool" else f"{pool} {had} no more to lend to {limit}, in fairness to others,"
    )
    if share and not share.assured:
        return f"{full.rstrip(',')}, and nothing is guaranteed to {limit}"
    size = f" of {share.assured}" if share else ""
    return f"{full} and {whose} guaranteed share{size} {was} used"


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """Requests refused before any limit was checked. They are counted, but not stored one by one."""

    suspended: int
    unknown: int


@dataclass(frozen=True, slots=True)
class DenialPage:
    denials: Sequence[ExplainedDenial]
    is_whole: bool  # False: there are older ones
    is_searched: bool  # only the newest MOST_SEARCHED were searched


def denials_read(wanted: DenialFilter, *, before: datetime | None = None, most: int = 50) -> DenialPage:
    """A page never ends within a microsecond, because the next page starts before the last one's time."""
    rows, is_searched = _found(wanted)
    if before is not None:
        rows = rows.filter(at__lt=before)
    found = list(rows[: most + 1])
    if len(found) <= most:
        return DenialPage(denials_explained(found), True, is_searched)
    last = found[most - 1].at
    if found[most].at < last:
        return DenialPage(denials_explained(found[:most]), False, is_searched)
    whole = list(rows.filter(at__gte=last))
    return DenialPage(denials_explained(whole), not rows.filter(at__lt=last).exists(), is_searched)


def denials_count(wanted: DenialFilter, *, after: datetime, most: int = 100) -> int:
    """Denials after a time, counted up to `most`."""
    rows, _ = _found(wanted)
    return rows.filter(at__gt=after)[:most].count()


def turned_away_read(now: datetime) -> TurnedAway:
    """Counts of the last day."""
    since = now - timedelta(days=1)
    rows = TotalHour.objects.filter(start__gt=since, tenant_number=EVERYONE, outcome__in=TURNED_AWAY).order_by()
    counts = dict(rows.values_list("outcome").annotate(Sum("count")))
    return TurnedAway(*(int(counts.get(outcome, 0)) for outcome in TURNED_AWAY))


def denials_explained(rows: Sequence[Denial]) -> list[ExplainedDenial]:
    tenants = Tenant.objects.in_bulk({row.tenant_number for row in rows})
    endpoints = Endpoint.objects.in_bulk({row.endpoint_number for row in rows})
    limits = LimitName.objects.in_bulk({row.limit_number for row in rows})
    shares = _shares(rows)
    return [
        ExplainedDenial(
            at=row.at,
            tenant=_name(tenants, row.tenant_number),
            endpoint=_name(endpoints, row.endpoint_number),
            limit=_name(limits, row.limit_number),
            reason=row.reason.partition("/")[0],
            cost=row.cost,
            retry_us=row.retry_us,
            revision=row.revision,
            subject=bytes(row.subject)[:4].hex(),
            place=_place(row),
            cause=row.reason.partition("/")[2],
            share=shares.get(row.pk),
        )
        for row in rows
    ]


def _place(row: Denial) -> LimitPlace:
    return LimitPlace(row.tenant_number, row.endpoint_number, row.limit_number)


def _shares(rows: Sequence[Denial]) -> dict[Any, DeniedShare]:
    """By denial, where the share is still as it was."""
    borrowed = [row for row in rows if "/" in row.reason]
    limits = limits_at({_place(row) for row in borrowed}) if borrowed else {}
    pools = pools_above() if limits else {}
    found: dict[Any, DeniedShare] = {}
    for row in borrowed:
        limit = limits.get(_place(row))
        if limit and limit["algorithm"] == Borrowing.name and limit["changed_revision_id"] <= row.revision:
            pool = next(iter(pools[row.limit_number])) if len(pools.get(row.limit_number, ())) == 1 else ""
            found[row.pk] = share_of(Borrowing.parse(dict(limit["parameters"])), pool)
    return found


def share_of(algorithm: Borrowing, pool: str) -> DeniedShare:
    per = per_text(algorithm.per_us)
    return DeniedShare(
        pool,
        f"{algorithm.assured:,}/{per}" if algorithm.assured else "",
        f"{algorithm.ceiling:,}/{per}" if algorithm.ceiling else "",
    )


def limits_set_by(rows: Sequence[ExplainedDenial]) -> list[int | None]:
    """For each denial, the revision that had set its limit; None: it is not known, or no limit denied it."""
    changes = limit_changes_read({row.place for row in rows})
    found = (change_at(changes.get(row.place, ()), row.at) for row in rows)
    return [change.revision if change else None for change in found]


def wait_words(us: int) -> str:
    """A wait in words: 40 ms, 1.5 s, 20 min, 14 d."""
    for length_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if us >= 2 * length_s * SECOND_US:
            return f"{us / SECOND_US / length_s:,.0f} {unit}"
    return f"{us / 1_000:,.0f} ms" if us < SECOND_US else f"{us / SECOND_US:,.1f} s"


def _found(wanted: DenialFilter) -> tuple[QuerySet[Denial], bool]:
    newest = Denial.objects.order_by("-at")
    if wanted.since:
        newest = newest.filter(at__gte=wanted.since)
    if wanted.until:
        newest = newest.filter(at__lt=wanted.until)
    if wanted.tenant:
        newest = newest.filter(tenant_number__in=numbers_of(Tenant, wanted.tenant))
    narrow = _narrow(wanted)
    if not narrow:
        return newest, False
    bounds = list(newest.values_list("at", flat=True)[MOST_SEARCHED - 1 : MOST_SEARCHED])
    if bounds:
        newest = newest.filter(at__gte=bounds[0])
    return newest.filter(**narrow), bool(bounds)


def _narrow(wanted: DenialFilter) -> dict[str, Any]:
    narrow: dict[str, Any] = {}
    if wanted.tier:
        narrow["tenant_number__in"] = Tenant.objects.filter(tier__name=wanted.tier).values("number")
    if wanted.endpoint:
        narrow["endpoint_number__in"] = numbers_of(Endpoint, wanted.endpoint)
    if wanted.limit:
        narrow["limit_number__in"] = numbers_of(LimitName, wanted.limit)
    if wanted.reason or wanted.cause:
        narrow["reason__in"] = list(_stored_reasons(wanted))
    return narrow


def _stored_reasons(wanted: DenialFilter) -> Iterator[str]:
    for reason in [wanted.reason] if wanted.reason else REASONS:
        if not wanted.cause:
            yield reason
        yield from (f"{reason}/{cause}" for cause in ([wanted.cause] if wanted.cause else CAUSES))


def numbers_of(model: type[Model], name: str) -> list[int]:
    """Of the one called so; empty if there is none."""
    if not name:
        return []
    return [0] if name == NONE else list(model._default_manager.filter(name=name).values_list("number", flat=True))


def _name(rows: Mapping[int, Any], number: int) -> str:
    row = rows.get(number)
    return "" if row is None else str(row.name)
