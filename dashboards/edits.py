"""How a page carries out a change: rehearsed first, then done, or filed for who has to approve it.

rehearsal = rehearse(lambda: override_create(**fields, force=True))   # writes nothing; Refused comes through
outcome = carry_out(lambda: override_create(**fields))                # Refused comes through
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import transaction

from quotas.changes.draft import Waiting, take_turn
from quotas.changes.effect import Effect, effect_of
from quotas.changes.guard import Impact, revision_impact
from quotas.changes.rollout import change_file
from quotas.models import Revision
from quotas.models.revision import newest_revision_number


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a change would do."""

    effect: Effect = field(default_factory=Effect)
    impact: Impact = field(default_factory=Impact)

    @property
    def needs_force(self) -> bool:
        return self.impact.cut_count > 0

    @property
    def is_nothing(self) -> bool:
        return not self.effect.changes


@dataclass(frozen=True, slots=True)
class Outcome:
    revision: int | None = None  # None: everything was so already, or it waits
    change: int | None = None  # it waits for an approver, under this number

    @property
    def words(self) -> str:
        """For a toast: what happened, and what comes next."""
        if self.change is not None:
            return f"Filed as change {self.change}|It waits for somebody else to approve it"
        if self.revision is None:
            return "Nothing changed|Everything was so already"
        return f"Written as r{self.revision}|Enforced on the next check after it is published"


def rehearse(act: Callable[[], object]) -> Rehearsal:
    """Does it, looks, and takes it back. Call the service with force=True: a dry run tells what takes force."""
    with transaction.atomic():
        take_turn()
        newest = newest_revision_number()
        try:
            act()
            revision = Revision.objects.filter(number__gt=newest).first()
            found = Rehearsal(effect_of(revision), revision_impact(revision)) if revision else Rehearsal()
        except Waiting as waiting:
            found = Rehearsal(effect_of(waiting.proposal), waiting.proposal.impact)
        transaction.set_rollback(True)
    return found


def carry_out(act: Callable[[], object]) -> Outcome:
    try:
        with transaction.atomic():
            take_turn()
            newest = newest_revision_number()
            act()
            revision = Revision.objects.filter(number__gt=newest).first()
            return Outcome(revision.number if revision else None)
    except Waiting as waiting:
        return Outcome(change=change_file(waiting.proposal).pk)
