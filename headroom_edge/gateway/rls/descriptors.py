"""From Envoy's descriptors to checks. No I/O.

`tenant` or `api_key` says who pays; `endpoint`, or `method` and `path`, what is called; `remote_address` is the
dimension `ip`, `priority` how important the request is, and every other entry is a dimension by its own name.

What Envoy's configuration gets wrong is a FaultError. A value that a client may have sent is never one, because Envoy
can be told to let requests through on a fault: the request is refused instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headroom_edge.check import COST_MAX, ENDPOINT_CHARACTERS, NOBODY, TENANT, Check
from headroom_edge.core import Conversation, Core
from headroom_edge.directory import EVERY_TENANT, Credential
from headroom_edge.gateway.rls.answers import FaultError, Status, invalid
from headroom_edge.gateway.rls.messages_pb2 import RateLimitDescriptor, RateLimitRequest
from headroom_edge.keys import OWN_TENANT
from headroom_edge.plan.paths import LONGEST_PATH, target_path
from headroom_edge.plan.priority import PRIORITIES
from headroom_edge.problems import Problem, bad_request, forbidden, too_long, unauthorised
from headroom_edge.request_guard import (
    DIMENSION_CHARACTERS,
    SCOPE,
    Caller,
    Guard,
    bearer_text,
    own_tenant,
    scope_missing,
)

DESCRIPTORS_AT_MOST: Final = 100
_CALLED: Final = ("endpoint", "method", "path")
LONGEST_KEY: Final = 200  # characters of an API key, with `Bearer` before it


class BadValueError(Exception):
    def __init__(self, key: str, detail: str) -> None:
        super().__init__(detail)
        self.key = key


@dataclass(frozen=True, slots=True)
class Question:
    check: Check
    is_peek: bool  # decide, but charge nothing


def questions_of(
    core: Core, guard: Guard, request: RateLimitRequest, caller: Credential | None
) -> Conversation[list[Question | Problem]]:
    """One for each descriptor. `caller` is who asks, if that has to be known: a tenant's key asks for it alone."""
    descriptors = request.descriptors
    if not 0 < len(descriptors) <= DESCRIPTORS_AT_MOST:
        raise invalid(f"The request has {len(descriptors)} descriptors; send 1 to {DESCRIPTORS_AT_MOST}.")
    questions: list[Question | Problem] = []
    for number, descriptor in enumerate(descriptors):
        try:
            question = yield from _question(core, guard, descriptor, request.hits_addend)
        except BadValueError as error:
            question = bad_request("invalid-field", str(error), error.key)
        except ValueError as error:
            raise invalid(f"descriptors[{number}]: {error}") from None
        if isinstance(question, Question):
            _refuse_foreign(caller, question.check.tenant)
        questions.append(question)
    return questions


def _refuse_foreign(caller: Credential | None, tenant: str) -> None:
    if caller is not None and caller.tenant not in (EVERY_TENANT, tenant):
        detail = f"This token belongs to tenant {caller.tenant}; send descriptors of that tenant, or another token."
        raise FaultError(Status.PERMISSION_DENIED, detail)


def _question(
    core: Core, guard: Guard, descriptor: RateLimitDescriptor, hits_addend: int
) -> Conversation[Question | Problem]:
    entries = _entries(descriptor)
    # Most descriptors name both, and need no look-up.
    called = [entries.pop(name, None) for name in _CALLED]
    endpoint = called[0] or (yield from _endpoint_at(core, guard, *called[1:], is_empty="" in called))
    if len(endpoint) > ENDPOINT_CHARACTERS:
        raise BadValueError("endpoint", f"endpoint is over {ENDPOINT_CHARACTERS} characters; shorten it.")
    tenant, key = entries.pop("tenant", ""), entries.pop("api_key", "")
    payer = (yield from _owner(core, guard, key, tenant)) if key else _named(guard, tenant)
    if isinstance(payer, Problem):
        return payer
    cost = _cost(descriptor, hits_addend)
    priority = _priority(entries.pop("priority", ""))
    subject: dict[str, str | None] = {**entries, **payer.subject}
    for dimension, value in entries.items():
        if len(value) > DIMENSION_CHARACTERS:
            raise BadValueError(dimension, f"{dimension} is over {DIMENSION_CHARACTERS:,} characters; shorten it.")
    return Question(Check(payer.tenant, endpoint, subject, cost or None, "", priority), is_peek=cost == 0)


def _entries(descriptor: RateLimitDescriptor) -> dict[str, str]:
    entries: dict[str, str] = {}
    for entry in descriptor.entries:
        key = "ip" if entry.key == "remote_address" else entry.key
        if key in entries:
            raise ValueError(f"the entry {key!r:.80} is there twice; send each once.")
        try:
            entries[key] = entry.value.decode()
        except UnicodeDecodeError:
            raise BadValueError(key, f"{key} is not valid UTF-8; send valid text.") from None
    return entries


def _cost(descriptor: RateLimitDescriptor, hits_addend: int) -> int | None:
    """None: the endpoint's own. 0: charge nothing, which only a descriptor can say: the request's 0 means unset."""
    cost = descriptor.hits_addend.value if descriptor.HasField("hits_addend") else hits_addend or None
    if cost is not None and cost > COST_MAX:
        raise BadValueError("hits_addend", f"The cost is {cost}; send at most {COST_MAX:,}.")
    return cost


def _priority(value: str) -> str:
    """Empty: as configured."""
    if value and value not in PRIORITIES:
        raise BadValueError("priority", f"priority must be one of {', '.join(PRIORITIES)}; send one of them.")
    return value


def _endpoint_at(
    core: Core, guard: Guard, method: str | None, target: str | None, *, is_empty: bool
) -> Conversation[str]:
    if not method or not target:
        if is_empty:  # the entry is there, so its value may be a client's
            raise BadValueError("endpoint", "endpoint, or method and path, must not be empty; send a value.")
        raise ValueError("the entry endpoint is missing; send it, or method and path.")
    path = target_path(target, guard.rules.reading)
    if len(path) > LONGEST_PATH:
        raise BadValueError("path", too_long().detail)
    return (yield from guard.endpoint_at(core, method, path))


def _named(guard: Guard, tenant: str) -> Caller | Problem:
    if not tenant:
        return Caller(guard.rules.anonymous or NOBODY)
    if tenant == OWN_TENANT:
        return own_tenant()
    # The name may be what a client sent, and an invalid one is no reason to let it through.
    return Caller(tenant if TENANT.fullmatch(tenant) else NOBODY)


def _owner(core: Core, guard: Guard, key: str, tenant: str) -> Conversation[Caller | Problem]:
    text = (bearer_text(key) or key.strip()) if len(key) <= LONGEST_KEY else ""
    directory = guard.directory
    owner = directory.fresh(text) or (yield from directory.credential(core, text))
    if owner is None:
        return unauthorised("The API key is unknown, expired or revoked; send a valid one.")
    if SCOPE not in owner.scopes:
        return scope_missing()
    paying = owner.tenant or tenant
    if paying == OWN_TENANT:
        return own_tenant()
    if not TENANT.fullmatch(paying):
        return forbidden("tenant-missing", "This token belongs to no tenant; send a tenant's API key.")
    core.chores.key_uses.add(owner.key_id)
    return Caller(paying, {"key": owner.counted_as})
