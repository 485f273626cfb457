"""Who lends to whom. Pure.

A pool lends what its members leave unused, not the share of a certain one. A loan is therefore split among the lenders
in proportion to what each leaves unused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ANYBODY = ""  # the lender of what is guaranteed to nobody


@dataclass(frozen=True, slots=True)
class MemberUse:
    """Rates in one unit of time."""

    name: str
    assured: float
    used: float  # with what it borrows
    borrowed: float

    @property
    def unused(self) -> float:
        """Of its guaranteed share."""
        return max(0.0, self.assured - (self.used - self.borrowed))


@dataclass(frozen=True, slots=True)
class Loan:
    lender: str  # or ANYBODY
    borrower: str
    amount: float


def loans(rate: float, members: Sequence[MemberUse]) -> list[Loan]:
    """`rate`: of the pool. The largest loan first."""
    spare = {member.name: member.unused for member in members if member.unused > 0}
    unpromised = rate - sum(member.assured for member in members)
    if unpromised > 0:
        spare[ANYBODY] = unpromised
    found = [
        Loan(lender, borrower.name, borrower.borrowed * part / of)
        for borrower in members
        if borrower.borrowed > 0
        for of in [sum(part for lender, part in spare.items() if lender != borrower.name)]
        for lender, part in spare.items()
        if lender != borrower.name and of > 0
    ]
    return sorted(found, key=lambda loan: (-loan.amount, loan.lender, loan.borrower))
