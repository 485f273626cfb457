"""What lets a change past the checks that stop most of them, and what becomes of one that has to wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from quotas.policies.spec import Carry
from quotas.services.earlier import States
from quotas.services.guard import Impact


class Permits(TypedDict, total=False):
    force: bool  # takes more than a tenth from somebody
    emergency: bool  # waits for nobody's approval; the audit notes it
    propose: bool  # writes nothing: raises Waiting with what it would have written


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that would be written: what a revision says, and whom it hurts."""

    action: str
    author: str
    reason: str
    carry: Carry
    touched: tuple[str, ...]
    before: States
    after: States
    force: bool
    impact: Impact


class Waiting(Exception):  # noqa: N818 - it is an answer, not a fault
    """Nothing was written: the change was only proposed, or needs an approver. `change_file` keeps it."""

    def __init__(self, proposal: Proposal) -> None:
        super().__init__(f"{proposal.action} by {proposal.author} waits: it was proposed, or needs an approver")
        self.proposal = proposal
