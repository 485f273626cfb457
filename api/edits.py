"""How the API carries out a change: dry run, idempotency, If-Match, and the response.

An `Edit` changes the configuration and goes through `quotas.changes.commit`. An `Action` changes something that has no
revisions: API keys, bypasses, alerts, tasks. `?dry_run=true` does either, takes it back and says what it would do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Generic, TypedDict, TypeVar

from django.db import transaction
from django.urls import reverse
from rest_framework import serializers
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from access.authentication import author_of
from api import idempotency, preconditions
from api.inputs import Fields, Flag, Query, Reasoned, query
from quotas.changes.affected import Effect
from quotas.changes.commit import Mode, Proposed, Written, commit, judge
from quotas.changes.draft import Proposal
from quotas.changes.dry_run import dry_run, tried_again
from quotas.changes.impact import Impact
from quotas.changes.turn import turn
from quotas.errors import LONGEST_REASON, Refused
from quotas.pools.promises import warnings_of

T = TypeVar("T")
Content = Mapping[str, Any]  # of a response
REVISION = "Headroom-Revision"

FORCE = "Proceed even if a limit is cut by more than 10 %."
EMERGENCY = "Proceed without approval; the audit notes it."
PROPOSE = "Only file a proposal; approve, start, promote or drop it under /v1/changes."


class Signed(TypedDict):
    author: str
    reason: str


class Permitted(Signed):
    force: bool
    emergency: bool
    propose: bool


class Guarded(Reasoned):
    """A change that may cut somebody's limits."""

    force = Flag(default=False, help_text=FORCE)
    emergency = Flag(default=False, help_text=EMERGENCY)
    propose = Flag(default=False, help_text=PROPOSE)


class ChangeQuery(Query):
    dry_run = serializers.BooleanField(
        default=False, help_text="Change nothing; return the diff and the tenants that the change would affect."
    )


class RemovalQuery(ChangeQuery):
    """A DELETE has no body, so its reason is in the query."""

    reason = serializers.CharField(max_length=LONGEST_REASON, help_text="Why; it stays in the history.")


class GuardedRemovalQuery(RemovalQuery):
    force = serializers.BooleanField(default=False, help_text=FORCE)
    emergency = serializers.BooleanField(default=False, help_text=EMERGENCY)
    propose = serializers.BooleanField(default=False, help_text=PROPOSE)


@dataclass(frozen=True, slots=True)
class Edit(Generic[T]):
    """A call of a service function that changes the configuration, and how its result is shown."""

    call: Callable[..., T]  # takes the author, the reason and, if `signed` has them, force and emergency
    signed: Signed | Permitted
    show: Callable[[T], Content]
    present: Callable[[], Content] | None = None  # the object as it is now, for If-Match; raises 404
    # For dry runs of one step of a filed change, which tell what the whole change does:
    effect: Callable[[], Effect] | None = None
    impact: Callable[[], Impact] | None = None
    more: Callable[[], Content] | None = None  # further fields of a dry run
    warns: bool = False  # a dry run tells what pools could not keep
    is_large: bool = False  # judged before it takes its turn, so that it keeps others waiting only while it writes


@dataclass(frozen=True, slots=True)
class Action(Generic[T]):
    """A call of a service function that makes no revision. Without an If-Match, few wait for a turn."""

    call: Callable[[], T]
    show: Callable[[T], Content]
    describe: Callable[[T], Effect]  # for dry runs
    present: Callable[[], Content] | None = None
    rehearse: Callable[[], T] | None = None  # instead of `call` in a dry run, where `call` would reach Redis
    # Instead of `call`, for long work: it compares If-Match by the check that it is given, once the work is done and
    # what it writes is locked. A turn would keep all writers waiting for as long as the work takes.
    call_checked: Callable[[Callable[[], None]], T] | None = None
    takes_turn: bool = False  # `call` does, so nothing may open a transaction before


def signed(request: Request, fields: Fields) -> Signed:
    """Takes the reason out of the fields."""
    return {"author": author_of(request), "reason": fields.pop("reason")}


def permitted(request: Request, fields: Fields) -> Permitted:
    """Takes what is not the service function's own out of the fields."""
    return {
        **signed(request, fields),
        "force": fields.pop("force"),
        "emergency": fields.pop("emergency"),
        "propose": fields.pop("propose"),
    }


def created(
    request: Request, change: Edit[T] | Action[T], *, where: Callable[[T], str], secrets: Collection[str] = ()
) -> Response:
    """`where`: the address of what was created. `secrets`: fields that a repetition of the request does not show."""
    is_dry = query(ChangeQuery, request)["dry_run"]
    return _once(request, change, is_dry, where, secrets)


def changed(request: Request, change: Edit[T] | Action[T], asked: Fields | None = None) -> Response:
    """`asked`: the query, if the view has read it."""
    is_dry = (query(ChangeQuery, request) if asked is None else asked)["dry_run"]
    return _once(request, change, is_dry)


def judged(request: Request, edit: Edit[Any]) -> Proposal | None:
    """What the edit would do, found out without waiting for anybody."""
    return judge(_rehearsal(request, edit), to_write=_service(edit)[1] == "write")


def kept(
    request: Request, edit: Edit[T], proposal: Proposal | None, keep: Callable[[Response], None], wait_s: float
) -> None:
    """Writes or files the edit that was judged. `keep` stores the response in the same transaction."""
    with turn(wait_s):
        keep(_edit(request, replace(edit, is_large=False), None, proposal))


def _once(
    request: Request,
    change: Edit[T] | Action[T],
    is_dry: bool,
    where: Callable[[T], str] | None = None,
    secrets: Collection[str] = (),
) -> Response:
    """Carries out a POST once per Idempotency-Key. Other methods may be repeated as they are."""
    key = idempotency.key_of(request) if request.method == "POST" else None
    if is_dry or key is None:
        return _carry_out(request, change, is_dry, where)
    proposal = None
    if isinstance(change, Edit) and change.is_large and _service(change)[1] == "write":
        found = _judged_or_kept(request, change, key)
        if isinstance(found, Response):
            return found
        proposal, change = found, replace(change, is_large=False)
    # The turn comes first: the transaction of the key would hold a connection while the change waits.
    with turn() if _takes_turn(request, change) else transaction.atomic():
        claim = idempotency.claim(request, key)
        if isinstance(claim, Response):
            return claim
        response = _carry_out(request, change, is_dry, where, proposal)
        claim.keep(response, secrets)
        return response


def _judged_or_kept(request: Request, edit: Edit[T], key: str) -> Proposal | Response | None:
    """What was done already is told, not judged again: having been done, it may now be refused."""
    if (earlier := idempotency.kept(request, key)) is not None:
        return earlier
    try:
        return judged(request, edit)
    except (Refused, APIException):
        if (meanwhile := idempotency.kept(request, key)) is not None:
            return meanwhile
        raise


def _takes_turn(request: Request, change: Edit[T] | Action[T]) -> bool:
    if isinstance(change, Edit) or change.takes_turn:
        return True
    is_compared = change.present is not None and preconditions.is_conditional(request)
    return is_compared and change.call_checked is None


def _carry_out(
    request: Request,
    change: Edit[T] | Action[T],
    is_dry: bool,
    where: Callable[[T], str] | None,
    proposal: Proposal | None = None,
) -> Response:
    if isinstance(change, Action):
        return _act(request, change, is_dry, where)
    return _dry_run(request, change) if is_dry else _edit(request, change, where, proposal)


def _edit(
    request: Request, edit: Edit[T], where: Callable[[T], str] | None, proposal: Proposal | None = None
) -> Response:
    service, mode = _service(edit)

    def run() -> Response:
        # Shown before the turn ends, so that the response has what this edit wrote.
        _check_match(request, edit.present)
        return _response(request, edit.show, service(), where)

    rehearsal = _rehearsal(request, edit) if edit.is_large else None
    outcome = commit(run, mode, rehearsal=rehearsal, judged=proposal)
    if isinstance(outcome, Proposed):
        number = outcome.change.pk if outcome.change else None
        return Response({"change": number}, status=202, headers={"Location": reverse("v1:change", args=[number])})
    if isinstance(outcome, Written):
        outcome.result.headers[REVISION] = str(outcome.revision.number)
    return outcome.result


def _rehearsal(request: Request, edit: Edit[T]) -> Callable[[], T]:
    service, _ = _service(edit)

    def rehearse() -> T:
        _check_match(request, edit.present)
        return service()

    return rehearse


def _service(edit: Edit[T], *, is_dry: bool = False) -> tuple[Callable[[], T], Mode]:
    arguments: dict[str, Any] = {**edit.signed}
    mode: Mode = "propose" if arguments.pop("propose", False) else "write"
    if is_dry and "force" in arguments:
        # A dry run tells what takes force; refusing it would hide that.
        arguments["force"] = True
    return lambda: edit.call(**arguments), mode


def _dry_run(request: Request, edit: Edit[T]) -> Response:
    service, _ = _service(edit, is_dry=True)

    def run() -> None:
        _check_match(request, edit.present)
        service()

    outcome = commit(run, "dry_run")
    more = {**({"warnings": warnings_of(outcome)} if edit.warns else {}), **(edit.more() if edit.more else {})}
    if edit.effect is None:
        return _described(outcome.effect, outcome.impact, more)
    return _described(edit.effect(), edit.impact() if edit.impact else Impact(), more)


def _act(request: Request, action: Action[T], is_dry: bool, where: Callable[[T], str] | None) -> Response:
    if is_dry:
        return _described(tried_again(partial(_foretold, request, action)), Impact())
    check = partial(_check_match, request, action.present)
    with turn() if _takes_turn(request, action) else transaction.atomic():
        check()
        result = action.call_checked(check) if action.call_checked else action.call()
        return _response(request, action.show, result, where)


def _foretold(request: Request, action: Action[T]) -> Effect:
    with dry_run():
        _check_match(request, action.present)
        return action.describe(action.rehearse() if action.rehearse else action.call())


def _check_match(request: Request, present: Callable[[], Content] | None) -> None:
    """If-Match, compared under a lock, so that nobody writes between the comparison and this change."""
    if present is None:
        preconditions.check_without_version(request)
    else:
        content = present()
        if preconditions.is_conditional(request):
            preconditions.check(request, content)


def _response(request: Request, show: Callable[[T], Content], result: T, where: Callable[[T], str] | None) -> Response:
    if request.method == "DELETE":
        return Response(status=204)
    content = show(result)
    headers = {"ETag": preconditions.etag_of(content)}
    if where is None:
        return Response(content, headers=headers)
    return Response(content, status=201, headers={**headers, "Location": where(result)})


def _described(effect: Effect, impact: Impact, more: Content | None = None) -> Response:
    return Response(
        {
            "dry_run": True,
            "changes": [asdict(change) for change in effect.changes],
            "tenants": asdict(effect.tenants),
            "impact": asdict(impact),
            "needs_force": impact.needs_force,
            **(more or {}),
        }
    )
