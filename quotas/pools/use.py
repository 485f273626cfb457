"""How much of a pool is used, by whom, and how much of that is borrowed: now and over 24 hours, from the rollups.

The counts know tenants and endpoints. A borrowed request is counted with the limit that lent it, a denied one with the
limit that it was denied by. Members that differ by another dimension (teams of one tenant) are counted together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from quotas.models import Endpoint, LimitName
from quotas.models.usage import BEGINNING, Denial, Outcome, Rollup, UsageMinute, UsageStep, floored
from quotas.models.usage_totals import EVERYONE
from quotas.policies.spec import EVERYWHERE
from quotas.pools.members import Members, Share, every_share
from quotas.pools.queries import PoolRow
from quotas.usage.queries.coverage import drained_and_folded
from quotas.usage.queries.denial_log import CAUSES
from quotas.usage.queries.periods import Period, hours_to, period_read
from quotas.usage.queries.traffic import Traffic, binned, rollup_rows, traffic_read

NOW: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)
MOST_DRAWN: Final = 6  # members with a colour of their own
NOBODY: Final = 0  # the number of no tenant
MOST_DENIALS: Final = 1_000  # of the log, read for their causes

ShareKey = tuple[str, str, str]  # tenant, scope, limit


@dataclass(frozen=True, slots=True)
class Amount:
    used: int = 0  # requests or units let through
    lent: int = 0  # of them, borrowed
    denied: int = 0  # requests

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.used + other.used, self.lent + other.lent, self.denied + other.denied)


NOTHING: Final = Amount()


@dataclass(frozen=True, slots=True)
class DrawnMember:
    """A member in the chart, with its amounts at each point."""

    key: ShareKey
    label: str
    points: Sequence[Amount]


@dataclass(frozen=True, slots=True)
class PoolHistory:
    traffic: Traffic  # which points are known, and the gaps
    points: Sequence[Amount]  # of everybody
    members: Sequence[DrawnMember]

    def others(self, index: int) -> Amount:
        """What no drawn member used."""
        drawn = sum((member.points[index] for member in self.members), NOTHING)
        whole = self.points[index]
        return Amount(max(0, whole.used - drawn.used), max(0, whole.lent - drawn.lent))


@dataclass(frozen=True, slots=True)
class PoolUse:
    measured_at: datetime | None  # the end of `now`; None: nothing was ever measured
    now: Amount  # within NOW
    day: Amount  # in the hour at that time and the 23 before
    busiest: int  # units in the busiest minute of that time
    by_member: Mapping[ShareKey, Amount] = field(default_factory=dict)  # within NOW
    by_member_day: Mapping[ShareKey, Amount] = field(default_factory=dict)

    def member(self, share: Share) -> Amount:
        return self.by_member.get(key_of(share), NOTHING)

    def member_day(self, share: Share) -> Amount:
        return self.by_member_day.get(key_of(share), NOTHING)


def key_of(share: Share) -> ShareKey:
    return share.tenant, share.scope, share.limit


@dataclass(frozen=True)
class _Counted:
    """What counts on a pool, by number."""

    pool: PoolRow
    members: Members
    owners: list[int]  # whose rows make up the whole
    lenders: list[int]
    limits: list[int]  # that a denial may name
    endpoints: Mapping[int, str]  # those that some member has a share on; empty: a member counts all alike

    @classmethod
    def of(cls, pool: PoolRow, members: Members, tenant: int | None) -> _Counted:
        shares = [*members.nodes, *members.shares]
        names = {pool.name, *members.limits}
        numbers = dict(LimitName.objects.filter(name__in=names).values_list("name", "number"))
        lending = {pool.name, *(node.limit for node in members.nodes), *_with_children(shares)}
        scopes = {share.scope for share in every_share(members.shares)} - {EVERYWHERE, pool.scope}
        found = Endpoint.objects.filter(name__in=scopes).order_by().values_list("number", "name")
        return cls(
            pool,
            members,
            [EVERYONE] if pool.kind == "shared" else [tenant or NOBODY],
            [numbers[name] for name in sorted(lending) if name in numbers],
            sorted(numbers.values()),
            dict(found),
        )

    def rows(self, period: Period, owners: Sequence[int]) -> QuerySet[Rollup]:
        return rollup_rows(period, owners, self.pool.endpoints)

    @property
    def column(self) -> str:
        return "count" if self.pool.unit == "requests" else "cost"

    @property
    def sums(self) -> dict[str, Coalesce]:
        let = Q(outcome__in=(Outcome.ALLOWED, Outcome.LENT))
        lent = Q(outcome=Outcome.LENT, limit_number__in=self.lenders)
        denied = Q(outcome=Outcome.DENIED, limit_number__in=self.limits)
        return {
            "used": Coalesce(Sum(self.column, filter=let), 0),
            "lent": Coalesce(Sum(self.column, filter=lent), 0),
            "denied": Coalesce(Sum("count", filter=denied), 0),
        }

    def whole(self, period: Period) -> Amount:
        return _amount(self.rows(period, self.owners).aggregate(**self.sums))

    def by_member(self, period: Period) -> dict[ShareKey, Amount]:
        owners = self._member_owners()
        rows = self.rows(period, owners).values(*self._columns()).annotate(**self.sums)
        return self._shared_out({self._cell(row): _amount(row) for row in rows}) if owners != [NOBODY] else {}

    def _member_owners(self) -> list[int]:
        """Never empty, so that the number of queries does not depend on the members."""
        return sorted({share.number for share in self.members.shares}) or [NOBODY]

    def _columns(self) -> list[str]:
        return ["tenant_number", "endpoint_number"] if self.endpoints else ["tenant_number"]

    def _cell(self, row: Mapping[str, Any]) -> tuple[int, str]:
        return row["tenant_number"], self.endpoints.get(row.get("endpoint_number", 0), "")

    def _shared_out(self, cells: Mapping[tuple[int, str], Amount]) -> dict[ShareKey, Amount]:
        """To every share the cells that lie in its scope. A cell that several rows made comes summed up."""
        found: dict[ShareKey, Amount] = {}
        for share in every_share(self.members.shares):
            mine = [cell for cell in cells if cell[0] == share.number and self._is_in(share, cell[1])]
            found[key_of(share)] = sum((cells[cell] for cell in mine), NOTHING)
        return found

    def _is_in(self, share: Share, endpoint: str) -> bool:
        if share.scope in (self.pool.scope, endpoint) and share.scope != EVERYWHERE:
            return True
        if share.scope != EVERYWHERE:
            return False
        alike = ((other.tenant, other.limit, other.scope) for other in every_share(self.members.shares))
        return (share.tenant, share.limit, endpoint) not in set(alike)

    def history(self, period: Period, drawn: Sequence[Share]) -> tuple[list[Amount], list[DrawnMember]]:
        whole = {row["bin"]: _amount(row) for row in self._binned(period, self.owners, [])}
        owners = sorted({share.number for share in drawn}) or [NOBODY]
        cells: dict[datetime, dict[tuple[int, str], Amount]] = {start: {} for start in period.starts}
        for row in self._binned(period, owners, self._columns()):
            point = cells.setdefault(row["bin"], {})
            point[self._cell(row)] = point.get(self._cell(row), NOTHING) + _amount(row)
        by_share = [self._shared_out(cells[start]) for start in period.starts]
        members = [
            DrawnMember(key_of(share), self._label(share), [point.get(key_of(share), NOTHING) for point in by_share])
            for share in drawn
        ]
        return [whole.get(start, NOTHING) for start in period.starts], members

    def _label(self, share: Share) -> str:
        return share.tenant if self.pool.kind == "shared" else share.limit

    def _binned(self, period: Period, owners: Sequence[int], columns: Sequence[str]) -> QuerySet[Any, Any]:
        bins: QuerySet[Any, Any] = binned(self.rows(period, owners), period).values("bin", *columns)
        summed: QuerySet[Any, Any] = bins.annotate(**self.sums)
        return summed


def _amount(row: Mapping[str, Any]) -> Amount:
    return Amount(int(row["used"]), int(row["lent"]), int(row["denied"]))


def _with_children(shares: Iterable[Share]) -> set[str]:
    return {share.limit for share in every_share(shares) if share.children}


def use_read(pool: PoolRow, members: Members, *, tenant: int | None = None) -> PoolUse:
    """`tenant`: whose pool it is, if it is not shared; None: no tenant has it, so nothing is measured."""
    if pool.kind != "shared" and tenant is None:
        return PoolUse(None, NOTHING, NOTHING, 0)
    counted = _Counted.of(pool, members, tenant)
    _, until = drained_and_folded(UsageStep, None if tenant is None else [tenant])
    if until <= BEGINNING:
        return PoolUse(None, NOTHING, NOTHING, 0)
    end = floored(until, UsageStep.step)
    now, day = Period(end - NOW, end, NOW, UsageStep), hours_to(end)
    return PoolUse(
        end,
        counted.whole(now),
        counted.whole(day),
        _busiest(counted, end),
        counted.by_member(now),
        counted.by_member(day),
    )


def _busiest(counted: _Counted, end: datetime) -> int:
    last = floored(end, UsageMinute.step)
    period = Period(last - DAY, last, UsageMinute.step, UsageMinute)
    rows = counted.rows(period, counted.owners).values("start").annotate(used=counted.sums["used"])
    return max((int(row["used"]) for row in rows), default=0)


def history_read(
    pool: PoolRow, members: Members, use: PoolUse, now: datetime, *, tenant: int | None = None
) -> PoolHistory:
    """The last 24 hours. Drawn are the members that used most, in the order of the list."""
    counted = _Counted.of(pool, members, tenant)
    period = period_read("24h", "", "", now)
    traffic = traffic_read(period, owners=counted.owners, endpoints=pool.endpoints)
    busiest = sorted(members.shares, key=lambda share: -use.member_day(share).used)[:MOST_DRAWN]
    drawn = [share for share in members.shares if share in busiest]
    points, parts = counted.history(period, drawn)
    return PoolHistory(traffic, points, parts)


@dataclass(frozen=True, slots=True)
class Causes:
    """Why the newest denials of the log were denied."""

    read: int
    counts: Mapping[str, int]  # of CAUSES

    @property
    def worst(self) -> str:
        return max(self.counts, key=lambda cause: self.counts[cause]) if self.counts else ""


def causes_read(pool: PoolRow, members: Members, now: datetime, *, tenant: int | None = None) -> Causes:
    """Of the members of this page, in the last 24 hours."""
    owners = [tenant] if tenant is not None else sorted({share.number for share in members.shares})
    names = LimitName.objects.filter(name__in={pool.name, *members.limits}).values("number")
    rows = Denial.objects.filter(tenant_number__in=owners, at__gte=now - DAY, at__lte=now, limit_number__in=names)
    if pool.endpoints:
        rows = rows.filter(endpoint_number__in=pool.endpoints)
    reasons = list(rows.order_by("-at").values_list("reason", flat=True)[:MOST_DENIALS])
    counts = {cause: reasons.count(f"limit/{cause}") for cause in CAUSES}
    return Causes(len(reasons), {cause: count for cause, count in counts.items() if count})


def uses_now(pools: Sequence[PoolRow]) -> dict[tuple[str, str], Amount]:
    """What pools that are shared or of one tenant use within NOW, by policy and name; in as many queries as for one."""
    _, until = drained_and_folded(UsageStep)
    if until <= BEGINNING:
        return {}
    end = floored(until, UsageStep.step)
    period = Period(end - NOW, end, NOW, UsageStep)
    found = dict.fromkeys(((pool.policy, pool.name) for pool in pools if pool.kind != "tier"), NOTHING)
    for kind, owners in (("shared", [EVERYONE]), ("tenant", _owners(pools))):
        rows = rollup_rows(period, owners).values("tenant_number", "endpoint_number", "outcome", "limit_number")
        sums = list(rows.annotate(counts=Sum("count"), costs=Sum("cost")))
        for pool in pools:
            if pool.kind == kind:
                mine = (_one(pool, row) for row in sums if _is_of(pool, row))
                found[pool.policy, pool.name] = sum(mine, NOTHING)
    return found


def _owners(pools: Sequence[PoolRow]) -> list[int]:
    return sorted({pool.row.policy.tenant.number for pool in pools if pool.row.policy.tenant}) or [0]


def _is_of(pool: PoolRow, row: Mapping[str, Any]) -> bool:
    owner = pool.row.policy.tenant.number if pool.row.policy.tenant else EVERYONE
    return row["tenant_number"] == owner and (not pool.endpoints or row["endpoint_number"] in pool.endpoints)


def _one(pool: PoolRow, row: Mapping[str, Any]) -> Amount:
    amount = row["counts"] if pool.unit == "requests" else row["costs"]
    if row["outcome"] == Outcome.LENT:
        return Amount(amount, amount if row["limit_number"] == pool.number else 0)
    return Amount(amount) if row["outcome"] == Outcome.ALLOWED else NOTHING
