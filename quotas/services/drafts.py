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
from typing import Unpack

from django.db import connection, transaction
from django.db.models import Max

from quotas.algorithms.base import shown
from quotas.models import Outbox, Revision
from quotas.models.policy import CARRIES
from quotas.policy.spec import Carry
from quotas.services.checks import check_enforceable
from quotas.services.concerned import Concerned
from quotas.services.errors import refuse
from quotas.services.guard import check_cuts, impact_of
from quotas.services.permits import Permits, Proposal, Waiting
from quotas.services.snapshots import State, snapshots
from quotas.services.targets import Targets
from tenants.history import acting

# Any constant will do, as long as nothing else in this database takes the same advisory lock.
REVISION_LOCK = 0x4865_6164
CHANNEL = "headroom_outbox"
LONGEST_REASON = 500
LONGEST_AUTHOR = 150


@dataclass(slots=True)
class Draft:
    number: int  # of the revision it will be
    author: str
    reason: str
    carry: Carry  # how live state moves to the limits that this changes
    permits: Permits
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
    *, action: str, author: str, reason: str, carry: Carry = "keep", **permits: Unpack[Permits]
) -> Iterator[Draft]:
    author, reason = said(author, reason)
    if carry not in CARRIES:
        raise refuse("carry", "carry", f"carry must be one of {', '.join(CARRIES)}, not {shown(carry)}")
    with acting(author=author, action=action), transaction.atomic():
        take_turn()
        opened = Draft(_next_number(), author, reason, carry, permits)
        yield opened
        _write(opened, action)


def take_turn() -> None:
    """Until the end of the transaction nobody else writes, so revisions are committed in their order."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [REVISION_LOCK])


def wake_publisher() -> None:
    """On commit. Only a wake-up: the publisher finds its work in the outbox."""
    with connection.cursor() as cursor:
        cursor.execute(f"NOTIFY {CHANNEL}")


def _write(opened: Draft, action: str) -> None:
    after = snapshots(opened.before)
    touched = sorted(key for key, state in opened.before.items() if after[key] != state)
    if not touched:
        return
    proposal = _proposal(opened, action, touched, after)
    if opened.permits.get("propose"):
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
    Outbox.objects.create(kind=Outbox.Kind.REVISION, revision=opened.revision, touched=targets.texts())
    wake_publisher()


def _proposal(opened: Draft, action: str, touched: list[str], every: Mapping[str, State]) -> Proposal:
    """Checked: it can be enforced, and takes from nobody more than is permitted."""
    before, after = ({key: states[key] for key in touched} for states in (opened.before, every))
    concerned = Concerned.load(Targets.of(touched, before, after), before)
    check_enforceable(concerned)
    impact = impact_of(concerned, before)
    force = opened.permits.get("force", False)
    check_cuts(impact, force=force)
    return Proposal(action, opened.author, opened.reason, opened.carry, tuple(touched), before, after, force, impact)


def _next_number() -> int:
    newest: int | None = Revision.objects.aggregate(newest=Max("number"))["newest"]
    return (newest or 0) + 1


def said(author: str, reason: str) -> tuple[str, str]:
    """Who and why, without the space around them."""
    return _text("author", author, LONGEST_AUTHOR), _text("reason", reason, LONGEST_REASON)


def _text(field: str, text: str, longest: int) -> str:
    text = text.strip()
    if not text:
        raise refuse(field, "missing", f"{field} is missing; every change says who made it and why")
    if len(text) > longest:
        raise refuse(field, "too_long", f"{field} has {len(text)} characters; {longest} are the most")
    return text
