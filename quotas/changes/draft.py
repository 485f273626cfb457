"""How every change of the configuration is written: in order, whole, checked, with its revision.

A service function opens a draft, touches each object before it writes it, and writes. At the end the draft checks that
the result can be enforced and whom it cuts, and adds the revision, the outbox row and the wake-up of the publisher to
the same transaction. A refusal anywhere leaves nothing behind.

`quotas.changes.commit.commit` runs a service function and says how it ended: written, proposed or unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from headroom_edge.algorithms.base import shown
from headroom_edge.store.address import is_clustered
from quotas.changes.affected import Concerned, Targets
from quotas.changes.approval import has_to_wait
from quotas.changes.emergency import check_may_declare, note_skipped
from quotas.changes.freeze import NO_FREEZE, FreezePass, pass_freezes
from quotas.changes.guard import check_cuts, check_unnoticed
from quotas.changes.impact import Impact, impact_of
from quotas.changes.left_behind import check_left_behind
from quotas.changes.loops import loop_problems
from quotas.changes.snapshot import CHANGE, POLICY, Draft, State, States, split_key
from quotas.changes.turn import turn
from quotas.errors import Refused, author_and_reason, refuse
from quotas.models import Change, Revision
from quotas.models.change import holding
from quotas.models.revision import newest_revision_number
from quotas.outbox import put_revision
from quotas.policies.compile import check_compiles
from quotas.policies.configuration_index import Touched
from quotas.policies.enforceable import override_problem
from quotas.policies.layers import PolicyIndex
from quotas.policies.problems import Problem
from quotas.policies.spec import CARRIES, Carry, Configuration, Override, to_us
from tenants.history import acting


class Permits(TypedDict, total=False):
    force: bool  # accept cuts of more than a tenth
    emergency: bool  # do not wait for an approver; the audit records it, and somebody else has to look at it
    by_design: bool  # it sets up, or takes back what was approved, so it waits for nobody; the audit records it


@dataclass(frozen=True, slots=True)
class Proposal:
    """A checked change that can be written: what its revision will say, and whom it hurts."""

    action: str
    author: str
    reason: str
    carry: Carry
    touched: tuple[str, ...]
    before: States
    after: States
    force: bool
    impact: Impact
    number: int = 0  # of the revision it would have been


@dataclass(slots=True)
class Attempt:
    """One run of an edit by `commit`: what its drafts may do, and the last one that was written."""

    may_write: bool  # False: the first draft that changes something ends the edit
    heeds_freezes: bool  # it writes, or is judged in order to be written
    is_filed: bool = False  # what ends the edit becomes a change, whose new objects need numbers that stay theirs
    heeds_trials: bool = True  # False: a question, which may be asked about a policy that is on trial
    rehearsed: Proposal | None = None  # what a rehearsal of this edit found, without the lock
    proposal: Proposal | None = None
    revision: Revision | None = None
    was_refused: bool = False  # a draft was refused; if the edit goes on, something may have been rolled back


class EditEndedError(Exception):
    """Ends an edit at a draft that is not to be written, so that nothing after it runs as if it had been.

    Only `commit` may see it: it answers with an outcome.
    """

    def __init__(self, proposal: Proposal) -> None:
        super().__init__(f"{proposal.action} by {proposal.author} was not written")
        self.proposal = proposal


_attempt: ContextVar[Attempt | None] = ContextVar("attempt", default=None)


@contextmanager
def attempting(attempt: Attempt) -> Iterator[None]:
    """Drafts inside the block belong to this attempt."""
    token = _attempt.set(attempt)
    try:
        yield
    finally:
        _attempt.reset(token)


def heeds_freezes() -> bool:
    """False in a dry run and for a proposal, which change nothing."""
    attempt = _attempt.get()
    return attempt is None or attempt.heeds_freezes


@dataclass(frozen=True, slots=True)
class _Rules:
    is_approved: bool
    is_unnoticed: bool
    force: bool
    emergency: bool
    by_design: bool
    judged: Proposal | None
    is_filed: bool = False

    @property
    def waits_for_nobody(self) -> bool:
        return self.emergency or self.by_design


@contextmanager
def draft(
    *,
    action: str,
    author: str,
    reason: str,
    carry: Carry = "keep",
    is_approved: bool = False,
    is_unnoticed: bool = False,
    judged: Proposal | None = None,
    **permits: Unpack[Permits],
) -> Iterator[Draft]:
    """`is_approved`: it waits for no approval. `is_unnoticed`: it must not change any enforced decision.

    `judged`: what a dry run of the same edit found; it is taken over if the edit does just that.
    """
    author, reason = author_and_reason(author, reason)
    if carry not in CARRIES:
        raise refuse("carry", "carry", f"carry must be one of {', '.join(CARRIES)}, not {shown(carry)}")
    force, emergency = permits.get("force", False), permits.get("emergency", False)
    rules = _Rules(is_approved, is_unnoticed, force, emergency, permits.get("by_design", False), judged)
    if rules.emergency:
        check_may_declare()
    # Inside an attempt, `commit` has opened the transaction and taken the turn.
    attempt = _attempt.get()
    mine = turn() if attempt is None else transaction.atomic(savepoint=False)
    with acting(author=author, action=action), mine:
        opened = Draft(newest_revision_number() + 1, author, reason, carry)
        opened.is_rehearsal = attempt is not None and not attempt.may_write
        opened.is_dry_run = opened.is_rehearsal and not (attempt and attempt.is_filed)
        try:
            yield opened
            _close(opened, action, rules)
        except Refused:
            if attempt:
                attempt.was_refused = True
            raise


def _close(opened: Draft, action: str, rules: _Rules) -> None:
    """Checks the draft and writes it, or ends the edit; a draft that changed nothing is only left."""
    after = opened.after()
    touched = sorted(key for key, state in opened.before.items() if after[key] != state)
    if not touched:
        return
    # First, because no other answer helps while it is frozen: force would not write it either.
    passed = _passed(opened, action, rules)
    attempt = _attempt.get()
    if attempt is None or attempt.heeds_trials:
        _check_not_held(touched)
    waits = not rules.is_approved and has_to_wait(action, emergency=rules.waits_for_nobody)
    # What is only filed cuts nobody yet: its cuts are judged again, and accepted, when it is promoted.
    is_filed = attempt is not None and (attempt.is_filed or waits)
    proposal = rules.judged or (attempt.rehearsed if attempt else None)
    if proposal is None or not _is_same(proposal, opened, action, touched, after):
        proposal = _proposal(opened, action, replace(rules, is_filed=is_filed), touched, after)
    if attempt and not attempt.may_write:
        raise EditEndedError(proposal)
    if waits and attempt is None:
        message = f"{action} needs an approver; propose it as a change, or declare an emergency"
        raise refuse("change", "approval", message)
    if attempt and waits:
        raise EditEndedError(proposal)
    opened.revision = _write(opened, proposal)
    _note(opened, action, rules, passed)
    if attempt:
        attempt.proposal, attempt.revision = proposal, opened.revision


def _passed(opened: Draft, action: str, rules: _Rules) -> FreezePass:
    if not heeds_freezes():
        return NO_FREEZE
    return pass_freezes(author=opened.author, action=action, emergency=rules.emergency)


def _note(opened: Draft, action: str, rules: _Rules, passed: FreezePass) -> None:
    """Records what the edit skipped: its approval, a freeze, or nothing."""
    author, reason, what = opened.author, opened.reason, str(opened.revision)
    passed.record(action=action, author=author, reason=reason, what=what)
    if rules.waits_for_nobody:
        note_skipped(
            action=action,
            author=author,
            reason=reason,
            what=what,
            is_declared=rules.emergency,
            is_grave=passed.by_emergency,
        )


def _write(opened: Draft, proposal: Proposal) -> Revision:
    revision = Revision.objects.create(
        number=opened.number,
        author=proposal.author,
        reason=proposal.reason,
        action=proposal.action,
        touched=list(proposal.touched),
        before=proposal.before,
        after=proposal.after,
    )
    targets = Targets.of(proposal.touched, proposal.before, proposal.after)
    put_revision(revision, Touched(targets.tenants | opened.recompiled, targets.tiers, targets.is_common))
    return revision


def _check_not_held(touched: list[str]) -> None:
    """While a change is on trial on a policy, only that change may edit the policy."""
    own = [split_key(key)[1] for key in touched if split_key(key)[0] == CHANGE]
    policies = [key for key in touched if split_key(key)[0] == POLICY]
    holder = Change.objects.filter(holding(), touched__overlap=policies).exclude(pk__in=own).first()
    if policies and holder is not None:
        held = ", ".join(sorted(set(policies) & set(holder.touched)))
        message = f"{holder} is on trial on {held} ({holder.state}); promote or drop it first"
        raise refuse("policy", "in_use", message)


def _is_same(found: Proposal, opened: Draft, action: str, touched: list[str], after: Mapping[str, State]) -> bool:
    """Whether nobody has written since this was judged: large edits are judged before they hold the lock."""
    if (found.number, found.action, found.touched) != (opened.number, action, tuple(touched)):
        return False
    return all(found.before[key] == opened.before[key] and found.after[key] == after[key] for key in touched)


def _proposal(opened: Draft, action: str, rules: _Rules, touched: list[str], every: Mapping[str, State]) -> Proposal:
    """Refused if it cannot be enforced, or cuts more than is permitted."""
    before, after = ({key: states[key] for key in touched} for states in (opened.before, every))
    concerned = Concerned.load(Targets.of(touched, before, after), before, opened.foreseen)
    _check_enforceable(opened, concerned, touched)
    if rules.is_unnoticed:
        check_unnoticed(concerned, before)
    impact = impact_of(concerned, before)
    check_cuts(impact, force=rules.force or rules.is_filed)
    return Proposal(
        action,
        opened.author,
        opened.reason,
        opened.carry,
        tuple(touched),
        before,
        after,
        rules.force,
        impact,
        opened.number,
    )


def _check_enforceable(opened: Draft, concerned: Concerned, changed: list[str]) -> None:
    now_us = to_us(timezone.now())
    touched = Touched(concerned.tenants, concerned.tiers, concerned.targets.is_common)
    broken = check_compiles(concerned.configuration, touched, now_us, is_clustered(settings.REDIS_URL))
    problems = [Problem(str(owner), "compile", message) for owner, message in broken.items()]
    problems += loop_problems(concerned.configuration, changed)
    idle = list(_idle_overrides(concerned.configuration, now_us))
    check_left_behind([each for each, _ in idle], concerned.configuration.tenants, opened.former_tiers)
    problems += [Problem(f"override {each.id} of tenant {each.tenant}", "override", why) for each, why in idle]
    if problems:
        raise Refused(problems)


def _idle_overrides(configuration: Configuration, now_us: int) -> Iterator[tuple[Override, str]]:
    """An edit must not leave an active or upcoming override without effect."""
    index = PolicyIndex.of_configuration(configuration)
    for override in configuration.overrides:
        if override.end_us is None or override.end_us > now_us:
            layers = index.of_tenant(configuration.tenants[override.tenant])
            problem = override_problem(layers, override, now_us)
            if problem:
                yield override, problem
