"""How every change of the configuration is written: in order, whole, checked, with its revision.

A service function opens a draft, says what it touches before it writes, and writes. At the end the
draft checks that the result can be enforced and what it takes from whom, and adds the revision, the
outbox row and the wake-up of the publisher to the same transaction. A refusal anywhere leaves nothing
behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from django.db import transaction
from django.utils import timezone

from headroom_edge.algorithms.base import shown
from quotas.changes.affected import Concerned, Targets
from quotas.changes.four_eyes import has_to_wait, note_emergency
from quotas.changes.guard import Impact, check_cuts, check_unnoticed, impact_of
from quotas.changes.snapshot import CHANGE, POLICY, State, States, snapshots, split_key
from quotas.errors import Refused, refuse
from quotas.locks import Lock, take_lock
from quotas.models import Change, Revision
from quotas.models.change import holding
from quotas.models.revision import newest_revision_number
from quotas.outbox import put_revision
from quotas.policies.book import Touched
from quotas.policies.compile import check_compiles
from quotas.policies.configuration_rows import to_us
from quotas.policies.enforceable import override_problem
from quotas.policies.layers import PolicyIndex
from quotas.policies.problems import Problem, is_fit
from quotas.policies.spec import CARRIES, Carry, Configuration
from tenants.history import acting


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


def check_enforceable(concerned: Concerned) -> None:
    now_us = to_us(timezone.now())
    touched = Touched(concerned.tenants, concerned.tiers, concerned.targets.is_common)
    broken = check_compiles(concerned.configuration, touched, now_us, clustered=False)
    problems = [Problem(str(owner), "compile", message) for owner, message in broken.items()]
    problems += _override_problems(concerned.configuration, now_us)
    if problems:
        raise Refused(problems)


def _override_problems(configuration: Configuration, now_us: int) -> Iterator[Problem]:
    """Of those that are not over: an edit must not leave one that changes nothing."""
    index = PolicyIndex.of_configuration(configuration)
    for override in configuration.overrides:
        if override.end_us is None or override.end_us > now_us:
            layers = index.of_tenant(configuration.tenants[override.tenant])
            problem = override_problem(layers, override, now_us)
            if problem:
                yield Problem(f"override {override.id} of tenant {override.tenant}", "override", problem)


LONGEST_REASON = 500
LONGEST_AUTHOR = 150


@dataclass(frozen=True, slots=True)
class Rules:
    is_approved: bool
    is_unnoticed: bool
    permits: Permits

    def stops(self, action: str) -> bool:
        """Whether to propose it is all that may be done."""
        emergency = self.permits.get("emergency", False)
        waits = not self.is_approved and has_to_wait(action, emergency=emergency)
        return waits or self.permits.get("propose", False)


@dataclass(slots=True)
class Draft:
    number: int  # of the revision it will be
    author: str
    reason: str
    carry: Carry  # how live state moves to the limits that this changes
    rules: Rules
    before: dict[str, State] = field(default_factory=dict)
    revision: Revision | None = None  # once it is written; None if nothing changed

    def touch(self, *keys: str) -> None:
        """Before the first write to these: remembers what they were."""
        self.before |= snapshots(key for key in keys if key not in self.before)

    def created(self, key: str) -> None:
        """Of something whose name was not known before it was written."""
        self.before[key] = None


@contextmanager
def draft(
    *,
    action: str,
    author: str,
    reason: str,
    carry: Carry = "keep",
    is_approved: bool = False,
    is_unnoticed: bool = False,
    **permits: Unpack[Permits],
) -> Iterator[Draft]:
    """`is_approved`: it need not wait for that. `is_unnoticed`: it must not change what is denied."""
    author, reason = said(author, reason)
    if carry not in CARRIES:
        raise refuse("carry", "carry", f"carry must be one of {', '.join(CARRIES)}, not {shown(carry)}")
    with acting(author=author, action=action), transaction.atomic():
        take_turn()
        opened = Draft(newest_revision_number() + 1, author, reason, carry, Rules(is_approved, is_unnoticed, permits))
        yield opened
        _write(opened, action)


def take_turn() -> None:
    """Until the end of the transaction nobody else writes, so revisions are committed in their order."""
    take_lock(Lock.REVISIONS)


def _write(opened: Draft, action: str) -> None:
    after = snapshots(opened.before)
    touched = sorted(key for key, state in opened.before.items() if after[key] != state)
    if not touched:
        return
    _check_not_held(touched)
    proposal = _proposal(opened, action, touched, after)
    if opened.rules.stops(action):
        raise Waiting(proposal)
    opened.revision = Revision.objects.create(
        number=opened.number,
        author=opened.author,
        reason=opened.reason,
        action=action,
        touched=touched,
        before=proposal.before,
        after=proposal.after,
    )
    targets = Targets.of(touched, proposal.before, proposal.after)
    put_revision(opened.revision, Touched(targets.tenants, targets.tiers, targets.is_common))
    if opened.rules.permits.get("emergency"):
        note_emergency(action=action, author=opened.author, reason=opened.reason, what=str(opened.revision))


def _check_not_held(touched: list[str]) -> None:
    """A policy that a change is being tried out on is edited by that change alone."""
    own = [split_key(key)[1] for key in touched if split_key(key)[0] == CHANGE]
    policies = [key for key in touched if split_key(key)[0] == POLICY]
    holder = Change.objects.filter(holding(), touched__overlap=policies).exclude(pk__in=own).first()
    if policies and holder is not None:
        held = ", ".join(sorted(set(policies) & set(holder.touched)))
        message = f"{holder} is being tried out on {held} ({holder.state}); promote or drop it first"
        raise refuse("policy", "in_use", message)


def _proposal(opened: Draft, action: str, touched: list[str], every: Mapping[str, State]) -> Proposal:
    """Checked: it can be enforced, and takes from nobody more than is permitted."""
    before, after = ({key: states[key] for key in touched} for states in (opened.before, every))
    concerned = Concerned.load(Targets.of(touched, before, after), before)
    check_enforceable(concerned)
    if opened.rules.is_unnoticed:
        check_unnoticed(concerned, before)
    impact = impact_of(concerned, before)
    force = opened.rules.permits.get("force", False)
    check_cuts(impact, force=force)
    return Proposal(action, opened.author, opened.reason, opened.carry, tuple(touched), before, after, force, impact)


def said(author: str, reason: str) -> tuple[str, str]:
    """Who and why, without the space around them."""
    return _text("author", author, LONGEST_AUTHOR), _text("reason", reason, LONGEST_REASON)


def _text(field: str, text: str, longest: int) -> str:
    text = text.strip()
    if not text:
        raise refuse(field, "missing", f"{field} is missing; every change says who made it and why")
    if not is_fit(text):
        raise refuse(field, "text", f"{field} has a NUL or half a character in it; leave that out")
    if len(text) > longest:
        raise refuse(field, "too_long", f"{field} has {len(text)} characters; {longest} are the most")
    return text
