"""One way to carry out a change, and how it ends: written, proposed or unchanged.

    outcome = commit(lambda: limit_set(policy="pro-all", limit=limit, author=author, reason=reason))
    match outcome:
        case Written(revision=revision): ...
        case Proposed(change=change): ...
        case Unchanged(): ...

A refusal is no outcome: it is raised as `Refused`, and nothing is left behind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Final, Generic, Literal, TypeVar

from django.db import transaction

from quotas.changes.affected import Effect, effect_of
from quotas.changes.draft import Attempt, EditEndedError, Proposal, attempting, heeds_freezes
from quotas.changes.dry_run import dry_run, tried_again
from quotas.changes.impact import Impact
from quotas.changes.turn import turn
from quotas.models import Change, Revision
from tenants.history import acting
from tenants.identity import Actor, actor_of

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Mode = Literal["write", "dry_run", "propose", "ask"]
LARGE_EDIT: Final = 50  # objects; an edit of more is judged before it takes its turn


@dataclass(frozen=True)
class Written(Generic[T_co]):
    """The revision is in the database, and the publisher is awake."""

    result: T_co  # of the edit
    revision: Revision
    proposal: Proposal

    @cached_property
    def effect(self) -> Effect:
        return effect_of(self.proposal, is_written=True)

    @property
    def impact(self) -> Impact:
        return self.proposal.impact


@dataclass(frozen=True)
class Proposed:
    """Nothing is written. The change is filed to be approved, started, promoted or dropped; a dry run files none."""

    proposal: Proposal
    change: Change | None  # None: a dry run

    @cached_property
    def effect(self) -> Effect:
        return effect_of(self.proposal, is_written=False)

    @property
    def impact(self) -> Impact:
        return self.proposal.impact


@dataclass(frozen=True)
class Unchanged(Generic[T_co]):
    """The configuration is as the edit wants it already; there is no revision."""

    result: T_co  # of the edit

    @property
    def effect(self) -> Effect:
        return Effect()

    @property
    def impact(self) -> Impact:
        return Impact()


Outcome = Written[T] | Proposed | Unchanged[T]


def commit(
    edit: Callable[[], T],
    mode: Mode = "write",
    *,
    rehearsal: Callable[[], object] | None = None,
    judged: Proposal | None = None,
) -> Outcome[T]:
    """Runs `edit`, which calls service functions, in one transaction, when it is its turn.

    `write`: an edit that has to wait for an approver is rolled back and filed. `propose`: every edit is. `dry_run`: the
    edit is rolled back, and the outcome says what it would do; call the service with force=True, or cuts are refused.
    `ask`: a dry run of what nobody is about to write, so it may touch a policy that another change is trying out.
    These wait for nobody and keep nobody waiting; they may run `edit` again if somebody writes meanwhile.
    The edit ends at the first draft that is not written: nothing after it runs.

    `rehearsal`: the same edit, to be judged by a dry run first. A large edit then holds the turn only while it writes,
    unless somebody else has written meanwhile. `judged`: what `judge` found, for who holds the turn already.
    """
    if mode == "propose" and judged is not None:
        return Proposed(judged, file_change(judged))
    if mode != "write":
        return tried_again(partial(_rehearsed, edit, mode))
    found = judge(rehearsal, to_write=True) if rehearsal else judged
    attempt = Attempt(may_write=True, heeds_freezes=True, rehearsed=found)
    try:
        with turn(), attempting(attempt):
            result = edit()
            if attempt.was_refused:
                _check_kept(attempt)
    except EditEndedError as ended:
        # The transaction is rolled back by now, so that what is filed is all that stays.
        return Proposed(ended.proposal, file_change(ended.proposal))
    if attempt.proposal is None or attempt.revision is None:
        return Unchanged(result)
    return Written(result, attempt.revision, attempt.proposal)


def _rehearsed(edit: Callable[[], T], mode: Mode, *, to_write: bool = False) -> Outcome[T]:
    attempt = Attempt(may_write=False, heeds_freezes=to_write, is_filed=mode == "propose", heeds_trials=mode != "ask")
    try:
        with dry_run(), attempting(attempt):
            return Unchanged(edit())
    except EditEndedError as ended:
        return Proposed(ended.proposal, file_change(ended.proposal) if mode == "propose" else None)


def judge(rehearsal: Callable[[], object], *, to_write: bool = False) -> Proposal | None:
    """What an edit would do, found out by a dry run. None: nothing.

    `to_write`: it is written next, so a freeze refuses it already now.
    """
    outcome = tried_again(partial(_rehearsed, rehearsal, "dry_run", to_write=to_write and heeds_freezes()))
    return outcome.proposal if isinstance(outcome, Proposed) else None


def _check_kept(attempt: Attempt) -> None:
    """A refusal that the edit caught has rolled back what was written in the same block: never call that written."""
    revision = attempt.revision
    is_lost = transaction.get_rollback()
    if is_lost or (revision is not None and not Revision.objects.filter(pk=revision.pk).exists()):
        raise RuntimeError("an edit went on after a refusal; open transaction.atomic() around what may be refused")


def file_change(proposal: Proposal, author: Actor | None = None) -> Change:
    """`author`: who wants it, if they are not the one who files it."""
    with acting(author=proposal.author, action="change_file"), transaction.atomic():
        return Change.objects.create(
            action=proposal.action,
            author=proposal.author,
            author_identity=(author or actor_of(proposal.author)).identity,
            reason=proposal.reason,
            carry=proposal.carry,
            touched=list(proposal.touched),
            before=proposal.before,
            after=proposal.after,
            impact=asdict(proposal.impact),
            force=proposal.force,
        )
