"""The bar of shares, the tree of members, and a pool in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dashboards.templatetags.numbers import number
from quotas.pools.lending import ANYBODY, Loan, MemberUse, loans
from quotas.pools.members import Members, Share
from quotas.pools.queries import PoolRow
from quotas.pools.use import NOW, PoolUse, ShareKey, key_of

MOST_PARTS: Final = 12  # of the bar
FREE: Final = "Free part"  # the lender of what is guaranteed to nobody
MOST_LENDERS: Final = 3  # that a sentence names


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
    if pool.kind == "shared" and not members.count:
        return "All tenants share"
    if pool.kind == "shared":
        return f"{members.count:,} tenant{'s share' if members.count != 1 else ' has a share of'}"
    if pool.kind == "tier":
        return f"Each tenant of {pool.tier} has"
    return f"The limits of {pool.tenant} share"
