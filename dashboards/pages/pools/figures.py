"""Pictures of a pool: the last 24 hours, the bar of shares, and the tree of members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from dashboards.svg import BOX, Tick, nice_top
from dashboards.templatetags.numbers import number
from quotas.pools.lending import ANYBODY, Loan, MemberUse, loans
from quotas.pools.members import Members, Share
from quotas.pools.queries import PoolRow
from quotas.pools.use import NOW, Amount, PoolHistory, PoolUse, ShareKey, key_of

OTHERS: Final = "Others"
MOST_PARTS: Final = 12  # of the bar
TICK_HOURS: Final = 3
PARTS: Final = {0: "at night", 6: "in the morning", 12: "in the afternoon", 18: "in the evening"}
FREE: Final = "Free part"  # the lender of what is guaranteed to nobody
MOST_LENDERS: Final = 3  # that a sentence names
NOTABLE: Final = 100  # a loan of less than this part of the pool is not worth a word


def scaled(pool: PoolRow, amount: float, seconds: float = NOW.total_seconds()) -> float:
    """Units counted in so many seconds, in the time of the pool's rate."""
    return amount * pool.seconds / seconds


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A line of the table. Rates are in the time of the pool's rate; None: not counted apart."""

    share: Share
    label: str
    index: int
    is_member: bool  # not a node between, and not below a member
    color: int  # 0: none
    assured: float
    ceiling: float | None
    used: float | None
    borrowed: float | None
    lent: float | None
    denied: int
    top: float  # of the little bar
    key: str  # of its row in the form
    is_fixed: bool  # not edited here
    proposed: float | None = None  # what is filled in instead of `assured`
    proposed_ceiling: float | None = None

    @property
    def own(self) -> float:
        return max(0.0, (self.used or 0.0) - (self.borrowed or 0.0))

    def _percent(self, value: float) -> str:
        return f"{min(100.0, 100 * value / self.top):.1f}%" if self.top else "0%"

    @property
    def own_width(self) -> str:
        return self._percent(self.own)

    @property
    def borrowed_width(self) -> str:
        return self._percent(self.borrowed or 0.0)

    @property
    def assured_at(self) -> str:
        return self._percent(self.assured)

    @property
    def ceiling_at(self) -> str:
        return self._percent(self.ceiling if self.ceiling is not None else self.top)

    @property
    def value(self) -> float:
        return self.assured if self.proposed is None else self.proposed

    @property
    def ceiling_value(self) -> float | None:
        return self.ceiling if self.proposed_ceiling is None else self.proposed_ceiling


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """Rates now, in the time of the pool's rate. None: nothing was measured."""

    used: float | None
    borrowed: float | None
    busiest: float
    denied: int
    loans: Sequence[Loan]
    rows: Sequence[TreeRow]

    def borrowers(self) -> list[tuple[str, float]]:
        """The largest first."""
        return [(row.label, row.borrowed or 0.0) for row in self._borrowing()]

    def _borrowing(self) -> list[TreeRow]:
        found = [row for row in self.rows if row.borrowed and row.is_member]
        return sorted(found, key=lambda row: -(row.borrowed or 0.0))

    def lenders_of_most(self) -> list[tuple[str, float]]:
        """Who lends to the one that borrows most, as the picture draws it; the largest loan first."""
        labels = {name_of(row.share): row.label for row in self.rows}
        most = [name_of(row.share) for row in self._borrowing()[:1]]
        return [(labels.get(loan.lender, FREE), loan.amount) for loan in self.loans if loan.borrower in most]

    @property
    def free_lent(self) -> float:
        """What is lent of the free part."""
        return sum(loan.amount for loan in self.loans if loan.lender == ANYBODY)


def pool_figures(
    pool: PoolRow, members: Members, use: PoolUse, colors: dict[ShareKey, int], proposed: dict[ShareKey, TreeProposal]
) -> PoolFigures:
    is_measured = use.measured_at is not None
    # What several subjects use together says nothing about what one of them leaves unused.
    apart = [share for share in members.shares if share.number and share.is_counted_apart]
    # What members of other pages leave unused is not known here.
    found = loans(pool.rate, [_member_use(pool, share, use) for share in apart]) if members.is_whole else []
    lent: dict[str, float] = {}
    for loan in found:
        lent[loan.lender] = lent.get(loan.lender, 0.0) + loan.amount
    top = max([pool.rate, *(float(share.ceiling(pool.algorithm) or 0) for share in members.shares)])
    rows = [
        _row(
            pool,
            share,
            index,
            share in members.shares,
            colors.get(key_of(share), 0),
            use,
            lent if members.is_whole else None,
            top,
            proposed,
        )
        for index, share in enumerate(_in_order(members))
    ]
    return PoolFigures(
        used=scaled(pool, use.now.used) if is_measured else None,
        borrowed=scaled(pool, use.now.lent) if is_measured else None,
        busiest=scaled(pool, use.busiest),
        denied=use.day.denied,
        loans=found,
        rows=rows,
    )


@dataclass(frozen=True, slots=True)
class TreeProposal:
    assured: float
    ceiling: float | None = None  # None: as it is


def _in_order(members: Members) -> Iterator[Share]:
    """Each node before what borrows from it."""
    names = {node.limit for node in members.nodes}
    for node in (*members.nodes, None):
        if node is not None:
            yield node
        under = [s for s in members.shares if (s.parent == node.limit if node else s.parent not in names)]
        for share in under:
            yield from _with_children(share)


def _with_children(share: Share) -> Iterator[Share]:
    yield share
    for child in share.children:
        yield from _with_children(child)


def row_key(pool: PoolRow, share: Share) -> str:
    """Whose share a row of the form is. What a tier gives is edited for all of its tenants."""
    tenant, scope, limit = key_of(share)
    return f"{tenant if pool.kind == 'shared' else ''}|{scope}|{limit}"


def name_of(share: Share) -> str:
    """Unique among the members of a pool."""
    return " ".join(filter(None, key_of(share)))


def _member_use(pool: PoolRow, share: Share, use: PoolUse) -> MemberUse:
    amount = use.member(share)
    used, borrowed = scaled(pool, amount.used), scaled(pool, amount.lent)
    return MemberUse(name_of(share), float(share.assured(pool.algorithm)), used, borrowed)


def _row(
    pool: PoolRow,
    share: Share,
    index: int,
    is_member: bool,
    color: int,
    use: PoolUse,
    lent: dict[str, float] | None,
    top: float,
    proposals: dict[ShareKey, TreeProposal],
) -> TreeRow:
    proposed = proposals.get(key_of(share))
    is_counted = bool(share.number) and use.measured_at is not None
    amount = use.member(share)
    ceiling = share.ceiling(pool.algorithm)
    return TreeRow(
        share,
        share.tenant if is_member and pool.kind == "shared" else share.limit,
        index,
        is_member,
        color,
        float(share.assured(pool.algorithm)),
        None if ceiling is None else float(ceiling),
        scaled(pool, amount.used) if is_counted else None,
        scaled(pool, amount.lent) if is_counted else None,
        lent.get(name_of(share), 0.0) if lent is not None and is_counted and share.is_counted_apart else None,
        use.member_day(share).denied,
        top,
        row_key(pool, share),
        bool(share.overrides) or (pool.kind == "tier" and share.is_own),
        proposed.assured if proposed else None,
        proposed.ceiling if proposed else None,
    )


@dataclass(frozen=True, slots=True)
class Band:
    """What one member used over time: `path` in a box of 1000 × 1000."""

    color: int
    is_lent: bool
    path: str


@dataclass(frozen=True, slots=True)
class ChartSeries:
    label: str
    color: int
    latest: float | None


@dataclass(frozen=True, slots=True)
class ChartRow:
    start: datetime
    values: Sequence[float | None]  # of each series
    borrowed: float | None


@dataclass(frozen=True, slots=True)
class PoolChart:
    bands: Sequence[Band]
    series: Sequence[ChartSeries]
    rows: Sequence[ChartRow]  # the newest first
    ticks: Sequence[Tick]  # of the rates
    hours: Sequence[Tick]
    line: str  # the height of the pool's rate, in percent from above
    gaps: Sequence[tuple[str, str]] = field(default=())  # x and width of what is not known
    words: str = ""  # who borrows when; empty: nobody does


def pool_chart(pool: PoolRow, history: PoolHistory) -> PoolChart | None:
    """None: nothing is known about the last 24 hours."""
    moments = history.traffic.moments
    known = [moment.is_known for moment in moments]
    if not any(known):
        return None
    parts = [(each.label, index + 1, each.points) for index, each in enumerate(history.members)]
    others = [history.others(index) for index in range(len(moments))]
    if any(each.used for each in others):
        parts.append((OTHERS, 0, others))
    seconds = [moment.seconds or 1.0 for moment in moments]
    tops = [
        scaled(pool, whole.used, s) if k else 0.0 for whole, s, k in zip(history.points, seconds, known, strict=True)
    ]
    top = nice_top(max([pool.rate, *tops]) * 1.08, 4)
    step = history.traffic.period.step.total_seconds()
    return PoolChart(
        bands=list(_bands(pool, parts, seconds, known, top)),
        series=[ChartSeries(label, color, _latest(pool, points, seconds, known)) for label, color, points in parts],
        rows=[
            ChartRow(
                moment.start,
                [scaled(pool, points[i].used, seconds[i]) if known[i] else None for _, _, points in parts],
                scaled(pool, history.points[i].lent, seconds[i]) if known[i] else None,
            )
            for i, moment in reversed(list(enumerate(moments)))
        ],
        ticks=[Tick(f"{100 * (1 - part / 4):.2f}%", number(top * part / 4)) for part in range(5)],
        hours=list(_hours([moment.start for moment in moments], step)),
        line=f"{100 * (1 - pool.rate / top):.2f}%",
        gaps=list(_unknown(known)),
        words=_borrowing_words(pool, history, known, seconds),
    )


def _borrowing_words(pool: PoolRow, history: PoolHistory, known: Sequence[bool], seconds: Sequence[float]) -> str:
    """Such as: In the morning kite borrows most; in the afternoon lagoon does."""
    found: dict[str, str] = {}  # part of the day → who
    for first, part in PARTS.items():
        hours = range(first, first + 6)
        moments = history.traffic.moments
        at = [i for i, one in enumerate(moments) if known[i] and one.start.astimezone(UTC).hour in hours]
        lent = {each.label: sum(each.points[i].lent for i in at) for each in history.members}
        who = max(lent, key=lambda label: lent[label], default="")
        if who and at and scaled(pool, lent[who], sum(seconds[i] for i in at)) >= pool.rate / NOTABLE:
            found[part] = who
    said: list[str] = []
    for who in dict.fromkeys(found.values()):
        when = " and ".join(part for part, each in found.items() if each == who)
        said.append(f"{when} {who} {'does' if said else 'borrows most'}")
    return f"{'; '.join(said).capitalize()} (UTC)." if said else ""


def _latest(pool: PoolRow, points: Sequence[Amount], seconds: Sequence[float], known: Sequence[bool]) -> float | None:
    last = max((index for index, is_known in enumerate(known) if is_known), default=None)
    return None if last is None else scaled(pool, points[last].used, seconds[last])


def _bands(
    pool: PoolRow,
    parts: Sequence[tuple[str, int, Sequence[Amount]]],
    seconds: Sequence[float],
    known: Sequence[bool],
    top: float,
) -> Iterator[Band]:
    floor = [0.0] * len(known)
    for _, color, points in parts:
        for is_lent in (False, True):
            amounts = [point.lent if is_lent else point.used - point.lent for point in points]
            ceiling = [low + scaled(pool, n, s) for low, n, s in zip(floor, amounts, seconds, strict=True)]
            if any(amounts):
                yield Band(color, is_lent, _area(floor, ceiling, known, top))
            floor = ceiling


def _area(low: Sequence[float], high: Sequence[float], known: Sequence[bool], top: float) -> str:
    """A stretch for each run of known points; every point is a step of its own width."""
    width, path, index = BOX / len(known), "", 0
    while index < len(known):
        if not known[index]:
            index += 1
            continue
        end = index
        while end < len(known) and known[end]:
            end += 1
        across = [(width * (i + side), i) for i in range(index, end) for side in (0, 1)]
        upper = "L".join(f"{x:.1f} {BOX * (1 - high[i] / top):.1f}" for x, i in across)
        lower = "L".join(f"{x:.1f} {BOX * (1 - low[i] / top):.1f}" for x, i in reversed(across))
        path += f"M{upper}L{lower}Z"
        index = end
    return path


def _unknown(known: Sequence[bool]) -> Iterator[tuple[str, str]]:
    index = 0
    while index < len(known):
        end = index
        while end < len(known) and not known[end]:
            end += 1
        if end > index:
            yield f"{100 * index / len(known):.2f}%", f"{100 * (end - index) / len(known):.2f}%"
        index = end + 1


def _hours(starts: Sequence[datetime], step: float) -> Iterator[Tick]:
    for index, start in enumerate(starts):
        at = start.astimezone(UTC)
        if at.hour % TICK_HOURS == 0 and at.minute == 0 and 2 <= index <= len(starts) - 3:
            is_minor = bool((at.hour // TICK_HOURS) % 2)
            yield Tick(f"{100 * index / len(starts):.2f}%", f"{at:%H:%M}", minor=is_minor)


def head_sentence(pool: PoolRow, members: Members, figures: PoolFigures, *, is_unowned: bool = False) -> str:
    """Who shares what, and who borrows most right now."""
    who = _who(pool, members)
    rate = f"{number(pool.rate)} {pool.unit_words}"
    text = f"{who} {rate} on {pool.place_words}."
    if is_unowned:
        return f"{text} No tenant has this pool."
    if figures.used is None:
        return f"{text} Nothing has been measured yet."
    if not figures.borrowed:
        return f"{text} Right now nobody borrows."
    borrowers = figures.borrowers()
    if not borrowers or not members.is_whole:
        return f"{text} Right now {number(figures.borrowed)} {pool.unit_words} of that are borrowed."
    name, amount = borrowers[0]
    return f"{text} Right now {name} borrows {number(amount)} {pool.unit_words}{_lender_words(figures)}."


def _lender_words(figures: PoolFigures) -> str:
    """Such as: `: 23.6 from the free part, 14 from kite and 5.40 from 2 others`."""
    lenders = [("the free part" if label == FREE else label, amount) for label, amount in figures.lenders_of_most()]
    if not lenders:
        return ""
    if len(lenders) == 1:
        return f" from {lenders[0][0]}"
    if len(lenders) > MOST_LENDERS:
        rest = lenders[MOST_LENDERS - 1 :]
        lenders[MOST_LENDERS - 1 :] = [(f"{len(rest)} others", sum(amount for _, amount in rest))]
    *first, last = (f"{number(amount)} from {label}" for label, amount in lenders)
    return f": {', '.join(first)} and {last}"


def _who(pool: PoolRow, members: Members) -> str:
    if pool.kind == "shared":
        return f"{members.count:,} tenant{'s share' if members.count != 1 else ' has a share of'}"
    if pool.kind == "tier":
        return f"Each tenant of {pool.tier} has"
    return f"The limits of {pool.tenant} share"


def busiest_colors(history: PoolHistory) -> dict[ShareKey, int]:
    return {each.key: index + 1 for index, each in enumerate(history.members)}
