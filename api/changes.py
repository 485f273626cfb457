"""How the API carries out a change: one transaction, the precondition, the service function; or all of it undone.

`?dry_run=true` does everything and takes it back, so what it says is what would happen: rows, the outbox and the
wake-up of the publisher belong to the transaction, and nothing else is done before it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypedDict, TypeVar

from django.db import transaction
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from access.authentication import author_of
from api import idempotency, preconditions
from api.inputs import Fields, Flag, Query, Reasoned, query
from quotas.changes.draft import LONGEST_REASON, Proposal, Waiting, take_turn
from quotas.changes.effect import Effect, effect_of
from quotas.changes.guard import Impact, revision_impact
from quotas.changes.rollout import change_file
from quotas.models import Revision
from quotas.models.revision import newest_revision_number

T = TypeVar("T")
Shown = Mapping[str, Any]
REVISION = "Headroom-Revision"


FORCE = "Also if somebody loses more than a tenth of a limit."
EMERGENCY = "Wait for no approver; the audit notes it."
PROPOSE = "Only file it, to be approved, staged, promoted or dropped under /v1/changes."


class Said(TypedDict):
    author: str
    reason: str


class Permitted(Said):
    force: bool
    emergency: bool
    propose: bool


class Guarded(Reasoned):
    """A change that may take something from somebody."""

    force = Flag(default=False, help_text=FORCE)
    emergency = Flag(default=False, help_text=EMERGENCY)
    propose = Flag(default=False, help_text=PROPOSE)


class ChangeQuery(Query):
    dry_run = serializers.BooleanField(
        default=False, help_text="Change nothing; answer with the diff and the tenants that the change would touch."
    )


class RemovalQuery(ChangeQuery):
    """A DELETE has no body to say it in."""

    reason = serializers.CharField(max_length=LONGEST_REASON, help_text="Why; it stands in the history for good.")


class GuardedRemovalQuery(RemovalQuery):
    force = serializers.BooleanField(default=False, help_text=FORCE)
    emergency = serializers.BooleanField(default=False, help_text=EMERGENCY)
    propose = serializers.BooleanField(default=False, help_text=PROPOSE)


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One call of a service function, and how its result is shown."""

    act: Callable[[], T]
    show: Callable[[T], Shown]
    present: Callable[[], Shown] | None = None  # the thing as it is now, for If-Match
    has_revision: bool = True  # what has none waits for no lock
    # For dry runs, where the revision does not say it all:
    describe: Callable[[T], Effect] | None = None
    judge: Callable[[], Impact] | None = None  # whom it hurts in the end
    rehearse: Callable[[], T] | None = None  # instead of `act`, where that would reach Redis


def said(request: Request, fields: Fields) -> Said:
    """Who and why; takes the reason out of the fields."""
    return {"author": author_of(request), "reason": fields.pop("reason")}


def permitted(request: Request, fields: Fields) -> Permitted:
    """Who, why, and what for the guard; takes them out of the fields."""
    is_dry = (fields if "dry_run" in fields else query(ChangeQuery, request))["dry_run"]
    return {
        **said(request, fields),
        # A dry run tells what takes force; refusing it would hide that.
        "force": fields.pop("force") or is_dry,
        "emergency": fields.pop("emergency"),
        "propose": fields.pop("propose"),
    }


def created(
    request: Request, change: Change[T], *, where: Callable[[T], str] | None = None, secrets: Collection[str] = ()
) -> Response:
    is_dry = query(ChangeQuery, request)["dry_run"]
    key = idempotency.key_of(request)
    return _settled(request, None if is_dry else key, lambda: _carry_out(request, change, is_dry, where), secrets)


def changed(request: Request, change: Change[T], asked: Fields | None = None) -> Response:
    """`asked`: the query, if the view has read it."""
    is_dry = (query(ChangeQuery, request) if asked is None else asked)["dry_run"]
    return _settled(request, None, lambda: _carry_out(request, change, is_dry))


def _settled(
    request: Request, key: str | None, attempt: Callable[[], Response], secrets: Collection[str] = ()
) -> Response:
    """What has to wait, or was only proposed, is filed once nothing of the attempt is left."""
    try:
        return _once(request, key, attempt, secrets)
    except Waiting as waiting:
        proposal = waiting.proposal
    return _once(request, key, lambda: _filed(proposal), secrets)


def _once(request: Request, key: str | None, attempt: Callable[[], Response], secrets: Collection[str]) -> Response:
    with transaction.atomic():
        claim = idempotency.claim(request, key) if key else None
        if isinstance(claim, Response):
            return claim
        answer = attempt()
        if claim:
            claim.keep(answer, secrets)
        return answer


def _filed(proposal: Proposal) -> Response:
    row = change_file(proposal)
    return Response({"change": row.pk}, status=202, headers={"Location": reverse("v1:change", args=[row.pk])})


def _carry_out(request: Request, change: Change[T], is_dry: bool, where: Callable[[T], str] | None = None) -> Response:
    before = _prepare(request, change)
    if is_dry:
        return _rehearsed(change, before)
    result = change.act()
    revision = _revision_since(before)
    headers = {REVISION: str(revision.number)} if revision else {}
    if request.method == "DELETE":
        return Response(status=204, headers=headers)
    shown = change.show(result)
    headers["ETag"] = preconditions.etag_of(shown)
    if where is None:
        return Response(shown, headers=headers)
    return Response(shown, status=201, headers={**headers, "Location": where(result)})


def _prepare(request: Request, change: Change[Any]) -> int | None:
    """The newest revision, once it is our turn; None for what has no revisions and waits for no lock."""
    is_conditional = change.present is not None and preconditions.is_conditional(request)
    if change.has_revision or is_conditional:
        take_turn()
    if change.present is not None:
        present = change.present()  # 404 if it is not there
        if is_conditional:
            preconditions.check(request, present)
    if not change.has_revision:
        return None
    return newest_revision_number()


def _rehearsed(change: Change[T], before: int | None) -> Response:
    """Does it, looks, and takes it back."""
    effect, impact = Effect(), change.judge() if change.judge else Impact()
    try:
        result = change.rehearse() if change.rehearse else change.act()
        if change.describe is not None:
            effect = change.describe(result)
        elif revision := _revision_since(before):
            effect, impact = effect_of(revision), revision_impact(revision)
    except Waiting as waiting:
        effect, impact = effect_of(waiting.proposal), waiting.proposal.impact
    transaction.set_rollback(True)
    return Response(
        {
            "dry_run": True,
            "changes": [asdict(one) for one in effect.changes],
            "tenants": asdict(effect.tenants),
            "impact": asdict(impact),
            "needs_force": bool(impact.cut_count),
        }
    )


def _revision_since(number: int | None) -> Revision | None:
    return None if number is None else Revision.objects.filter(number__gt=number).first()
