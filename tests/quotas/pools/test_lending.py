"""Loans are split by what each lender leaves unused."""

from __future__ import annotations

import pytest

from quotas.pools.lending import ANYBODY, Loan, MemberUse, loans


def test_a_lender_gives_what_it_leaves_unused() -> None:
    found = loans(100, [MemberUse("kite", 50, 66, 16), MemberUse("lagoon", 50, 9, 0)])
    assert found == [Loan("lagoon", "kite", 16)]


def test_a_loan_is_split_in_proportion_to_what_is_unused() -> None:
    uses = [MemberUse("kite", 40, 60, 20), MemberUse("lagoon", 30, 0, 0), MemberUse("summit", 30, 20, 0)]
    assert loans(100, uses) == [Loan("lagoon", "kite", 15), Loan("summit", "kite", 5)]


def test_what_is_guaranteed_to_nobody_is_lent_too() -> None:
    assert loans(100, [MemberUse("kite", 30, 40, 10)]) == [Loan(ANYBODY, "kite", 10)]


def test_all_loans_together_are_what_was_borrowed() -> None:
    uses = [MemberUse("a", 10, 25, 15), MemberUse("b", 20, 25, 5), MemberUse("c", 40, 10, 0), MemberUse("d", 30, 0, 0)]
    found = loans(100, uses)
    for use in uses:
        lent = sum(loan.amount for loan in found if loan.borrower == use.name)
        assert lent == pytest.approx(use.borrowed)
        assert not any(loan.lender == loan.borrower for loan in found)


def test_without_a_borrower_there_is_no_loan() -> None:
    assert loans(100, [MemberUse("kite", 30, 10, 0)]) == []
