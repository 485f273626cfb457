"""The API's errors as problem+json: a stable code, the invalid field, and one sentence that says what to change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from math import ceil
from typing import Any, Final

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from django.utils import timezone
from rest_framework import exceptions
from rest_framework.exceptions import APIException, ErrorDetail, ValidationError

from access.outage import busy, outage_of
from headroom_edge.errors import StoreError
from headroom_edge.problems import CONTENT_TYPE, Problem
from quotas.caller import CallerGoneError
from quotas.changes.freeze import Frozen
from quotas.changes.turn import Busy
from quotas.errors import Refused
from quotas.policies import problems as policy
from quotas.policies.problems import ended, sentence
from quotas.publishing import store
from tenants.keyring import KeyringError

# These codes mean a conflict with the current state (409), not a mistake in the request (422).
CONFLICTS: Final = frozenset({"taken", "in_use", "moved", "over", "touched_since", "nothing", "approval"})
# These mean that somebody else may do it (403).
FORBIDDEN: Final = frozenset({"forbidden", "machine"})

_SENTENCES: Final[dict[type[Exception], tuple[HTTPStatus, str, str]]] = {
    Http404: (HTTPStatus.NOT_FOUND, "not-found", "Nothing was found at this address; correct the path or the name."),
    PermissionDenied: (HTTPStatus.FORBIDDEN, "forbidden", "You may not do this; ask an owner for the role it needs."),
    RequestDataTooBig: (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", "The body is too large; send less at once."),
}
_OUTAGES: Final = (OperationalError, InterfaceError, StoreError, store.StoreError)


class PreconditionRequired(APIException):
    status_code = HTTPStatus.PRECONDITION_REQUIRED
    default_code = "precondition-required"
    default_detail = "If-Match is missing; send the ETag that you read, or * to overwrite any version."


class PreconditionFailed(APIException):
    status_code = HTTPStatus.PRECONDITION_FAILED
    default_code = "precondition-failed"
    default_detail = "It has changed since you read it; read it again, then repeat the change with the new ETag."


class Unprocessable(APIException):
    status_code = HTTPStatus.UNPROCESSABLE_ENTITY
    default_code = "unprocessable"


class TooManyTasks(APIException):
    status_code = HTTPStatus.TOO_MANY_REQUESTS
    default_code = "too-many-tasks"
    default_detail = "Your last large documents are still being worked on; wait for one to end, or cancel one."
    wait = 5  # seconds


def handler(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """REST framework's EXCEPTION_HANDLER. Returns None for a fault of the server."""
    problem = problem_of(error)
    return None if problem is None else response(problem)


def response(problem: Problem) -> HttpResponse:
    return HttpResponse(problem.body(), status=problem.status, headers={"Content-Type": CONTENT_TYPE} | problem.headers)


def problem_of(error: Exception) -> Problem | None:
    if isinstance(error, CallerGoneError):
        return Problem(HTTPStatus.REQUEST_TIMEOUT, "caller-gone", "The connection was closed before the answer.")
    if isinstance(error, Busy):
        return busy(sentence(str(error)), error.retry_s)
    if isinstance(error, Frozen):
        return frozen(error)
    if isinstance(error, Refused):
        return _refused(error.problems)
    if isinstance(error, ValidationError):
        return _several(HTTPStatus.BAD_REQUEST, list(_flat(error.detail)))
    if isinstance(error, APIException):
        return _of_framework(error)
    if isinstance(error, _OUTAGES):
        return outage_of(error)
    if isinstance(error, KeyringError):
        return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", str(error))
    known = next((kind for kind in _SENTENCES if isinstance(error, kind)), None)
    return None if known is None else Problem(*_SENTENCES[known])


def frozen(error: Frozen) -> Problem:
    freeze, now = error.freeze, timezone.now()
    problem = _refused(error.problems)
    facts = {"freeze": freeze.pk, "until": _utc(freeze.end), "reason": freeze.reason, "may_pass": error.may_pass}
    wait = {"Retry-After": str(max(1, ceil((freeze.end - now).total_seconds())))}
    return Problem(HTTPStatus.LOCKED, problem.code, problem.detail, {**facts, **problem.extra}, wait)


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _refused(problems: Sequence[policy.Problem]) -> Problem:
    codes = {problem.code for problem in problems}
    status = HTTPStatus.CONFLICT if codes & CONFLICTS else HTTPStatus.UNPROCESSABLE_ENTITY
    status = HTTPStatus.FORBIDDEN if codes & FORBIDDEN else status
    return _several(status, [_entry(p.path, p.code, p.message, p.line) for p in problems])


def _several(status: HTTPStatus, errors: list[dict[str, Any]]) -> Problem:
    """The problem's own fields describe the first error; `errors` has all of them."""
    first = errors[0]
    extra = {"field": first["field"]} if first["field"] else {}
    return Problem(status, first["code"], first["detail"], {**extra, "errors": errors})


def _entry(field: str, code: str, message: str, line: int | None = None) -> dict[str, Any]:
    place = {} if line is None else {"line": line}
    return {"field": field, "code": code.replace("_", "-"), "detail": _told(field, message), **place}


def _told(field: str, message: str) -> str:
    """Replace a leading field name by the field's full path: `limits.burst.rate must be …`."""
    name = field.rpartition(".")[2]
    rest = message.removeprefix(name)
    if not name or rest == message or rest[:1].isalnum() or rest[:1] == "_":
        return sentence(message)
    return ended(field + rest)


def _flat(detail: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """Flatten the details of a ValidationError, which are nested by field and index."""
    if isinstance(detail, ErrorDetail):
        name = path.rpartition(".")[2]
        text = str(detail)
        yield _entry(path, detail.code or "invalid", f"{name}: {text}" if name and not text.startswith(name) else text)
    elif isinstance(detail, dict):
        for name, below in detail.items():
            own = path if name == "non_field_errors" else f"{path}.{name}" if path else str(name)
            yield from _flat(below, own)
    else:
        for index, below in enumerate(detail):
            nested = isinstance(below, dict | list) and bool(below)
            yield from _flat(below, f"{path}[{index}]" if nested else path)


def _of_framework(error: APIException) -> Problem:
    given = getattr(error, "problem", None)
    headers = dict(getattr(error, "headers", {}))
    if isinstance(given, Problem):
        return Problem(given.status, given.code, given.detail, given.extra, given.headers | headers)
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if (wait := getattr(error, "wait", None)) is not None:
        headers["Retry-After"] = str(max(1, -(-wait // 1)))
    code = error.detail.code if isinstance(error.detail, ErrorDetail) else None
    if isinstance(error, exceptions.NotFound):
        return Problem(*_SENTENCES[Http404])
    return Problem(
        error.status_code, (code or error.default_code).replace("_", "-"), sentence(str(error.detail)), headers=headers
    )
