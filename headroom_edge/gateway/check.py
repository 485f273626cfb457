"""`POST /v1/check` and `POST /v1/release`: from JSON to JSON. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from headroom_edge import Check, Decision
from headroom_edge.check import encode_release
from headroom_edge.core import CHECK, Conversation, Core
from headroom_edge.directory import EVERY_TENANT, Credential
from headroom_edge.errors import StoreError
from headroom_edge.global_limits import home_of
from headroom_edge.json_text import RepeatedKeyError, encoding_fault, half_character, refuse_repeats
from headroom_edge.keys import OWN_TENANT
from headroom_edge.plan.paths import LONGEST_PATH, target_path
from headroom_edge.problems import Problem, bad_request, forbidden, problem_of, too_large, unauthorised, unavailable
from headroom_edge.request_guard import SCOPE, Guard, own_tenant, scope_missing
from headroom_edge.results import Result

CHECKS_AT_MOST: Final = 1_000
LONGEST_HOLDER: Final = 200  # characters; the store keeps it until the slot is released
FIELDS: Final = "see docs/gateway.md for the fields"
_UNKNOWN: Final = re.compile(r"unknown field `([^`]*)`")
_AT: Final = re.compile(r" - at `(?:key in )?\$\.?([^`]*)`$")


class CheckItem(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """One check: a tenant, or an API key's owner; an endpoint, or a method and path."""

    tenant: str = ""
    api_key: str = ""
    endpoint: str = ""
    method: str = ""
    path: str = ""
    cost: int | float | None = None  # JSON has one kind of number: 5.0 is whole
    subject: dict[str, str | None] = {}
    holder: str = ""
    priority: str = ""


class CheckBody(CheckItem):
    checks: list[CheckItem] | None = None


class ReleaseBody(CheckBody):
    result: Result = "ignore"


class Answer(msgspec.Struct, gc=False):
    """The decision about one check. The order is that of the reply's fields."""

    allowed: bool
    status: int
    reason: str
    tenant: str
    # None if it is not registered. A misspelt name falls under the limits on `*`, which nobody would notice.
    endpoint: str | None
    limit: str
    quota: int
    remaining: int
    reset_after_ms: int
    retry_after_ms: int | None
    wait_ms: int
    revision: int
    holder: str
    degraded: str | None
    headers: dict[str, str]
    problem: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class RefusedCheck:
    """An entry that is denied without asking the store, because its API key is not valid."""

    problem: Problem


Question = Check | Problem | Conversation[bytes | Problem]

_decode: Final = msgspec.json.Decoder(CheckBody).decode
Body = TypeVar("Body", bound=CheckBody)
_decode_release: Final = msgspec.json.Decoder(ReleaseBody).decode
_encode: Final = msgspec.json.Encoder().encode


class CheckHandler:
    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    def check(self, core: Core, token: str, raw: bytes | None) -> Conversation[bytes | Problem]:
        return (yield from self._decided(core, self.question(core, token, raw)))

    def question(self, core: Core, token: str, raw: bytes | None) -> Question:
        """What to ask the store: a check, if the caller is known and nothing else must be looked up for it."""
        credential = self._guard.directory.fresh(token)
        if credential is None:
            return self._ask_as_stranger(core, token, raw)
        return self._question_of(core, credential, raw)

    def _question_of(self, core: Core, credential: Credential, raw: bytes | None) -> Question:
        core.chores.key_uses.add(credential.key_id)
        if SCOPE not in credential.scopes:
            return scope_missing()
        body = read(raw)
        if isinstance(body, Problem):
            return body
        if body.checks is not None:
            return self._check_many(core, credential, body.checks)
        if body.endpoint and not body.api_key:
            return self._check_of(credential, body, body.tenant or credential.tenant, body.endpoint, "")
        return self._check_found(core, credential, body)

    def _ask_as_stranger(self, core: Core, token: str, raw: bytes | None) -> Conversation[bytes | Problem]:
        try:
            credential = yield from self._credential(core, token)
        except StoreError:
            return unavailable()
        if isinstance(credential, Problem):
            return credential
        return (yield from self._decided(core, self._question_of(core, credential, raw)))

    def _decided(self, core: Core, question: Question) -> Conversation[bytes | Problem]:
        if isinstance(question, Check):
            return self.answer((yield from core.check(question, True)))
        return question if isinstance(question, Problem) else (yield from question)

    def _check_found(self, core: Core, credential: Credential, item: CheckItem) -> Conversation[bytes | Problem]:
        """One check whose tenant or endpoint must be looked up."""
        try:
            question = yield from self._question(core, credential, item, "")
        except StoreError:
            return unavailable()
        if isinstance(question, Problem):
            return question
        if isinstance(question, RefusedCheck):
            return _encode(refused(question.problem))
        return self.answer((yield from core.check(question, True)))

    def _check_many(
        self, core: Core, credential: Credential, items: Sequence[CheckItem]
    ) -> Conversation[bytes | Problem]:
        try:
            questions = yield from self._questions(core, credential, items)
        except StoreError:
            return unavailable()
        if isinstance(questions, Problem):
            return questions
        return _encode({"decisions": (yield from self._answers(core, questions))})

    def answer(self, decision: Decision) -> bytes:
        return _encode(self._answer(decision))

    def release(self, core: Core, token: str, raw: bytes | None) -> Conversation[bytes | Problem]:
        try:
            credential = yield from self._credential(core, token)
            if isinstance(credential, Problem):
                return credential
            if SCOPE not in credential.scopes:
                return scope_missing()
            body = _read(raw, _decode_release)
            if isinstance(body, Problem):
                return body
            if not body.holder or body.checks is not None:
                return bad_request("missing-field", "holder is missing; send the one from the check's reply.", "holder")
            question = yield from self._question(core, credential, body, "")
        except StoreError:
            return unavailable()
        if isinstance(question, RefusedCheck):
            return question.problem
        if isinstance(question, Problem):
            return question
        return _encode({"released": (yield from _released(core, question, body.result))})

    def objection(self, core: Core, token: str) -> Conversation[Problem | None]:
        """Why this caller is refused, whatever its body says."""
        try:
            credential = yield from self._credential(core, token)
        except StoreError:
            return unavailable()
        return credential if isinstance(credential, Problem) else None

    def _credential(self, core: Core, token: str) -> Conversation[Credential | Problem]:
        if not token:
            return unauthorised("The token is missing; send it as Authorization: Bearer hr_….")
        credential = yield from self._guard.directory.credential(core, token)
        if credential is None:
            return unauthorised("The token is unknown, expired or revoked; send a valid one.")
        return credential

    def _questions(
        self, core: Core, credential: Credential, items: Sequence[CheckItem]
    ) -> Conversation[list[Check | RefusedCheck] | Problem]:
        if not 0 < len(items) <= CHECKS_AT_MOST:
            return bad_request("invalid-field", f"checks must have 1 to {CHECKS_AT_MOST} entries.", "checks")
        questions: list[Check | RefusedCheck] = []
        for number, item in enumerate(items):
            question = yield from self._question(core, credential, item, f"checks[{number}].")
            if isinstance(question, Problem):
                return question
            questions.append(question)
        return questions

    def _question(
        self, core: Core, credential: Credential, item: CheckItem, where: str
    ) -> Conversation[Check | RefusedCheck | Problem]:
        tenant = item.tenant or credential.tenant
        if item.api_key:
            owner = yield from self._guard.directory.credential(core, item.api_key)
            if owner is None:
                return RefusedCheck(unauthorised("The API key is unknown, expired or revoked; send a valid one."))
            if SCOPE not in owner.scopes:
                return RefusedCheck(scope_missing())
            if owner.tenant == OWN_TENANT:
                return RefusedCheck(own_tenant())
            core.chores.key_uses.add(owner.key_id)
            tenant, item.subject = owner.tenant, {**item.subject, "key": owner.counted_as}
        path = target_path(item.path, self._guard.rules.reading) if item.path else ""
        if len(path) > LONGEST_PATH:
            return bad_request("invalid-field", f"path must have at most {LONGEST_PATH:,} characters.", where + "path")
        endpoint = item.endpoint
        if not endpoint and item.method and path:
            endpoint = yield from self._guard.endpoint_at(core, item.method, path)
        return self._check_of(credential, item, tenant, endpoint, where)

    def _check_of(
        self, credential: Credential, item: CheckItem, tenant: str, endpoint: str, where: str
    ) -> Check | Problem:
        if credential.tenant not in (EVERY_TENANT, tenant):
            return forbidden(
                "foreign-tenant",
                f"This key or token belongs to tenant {credential.tenant}; omit tenant, or send {credential.tenant}.",
            )
        if tenant == OWN_TENANT:
            return own_tenant()
        if len(item.holder) > LONGEST_HOLDER:
            return bad_request(
                "invalid-field", f"holder must have at most {LONGEST_HOLDER} characters.", where + "holder"
            )
        if not tenant or not endpoint:
            missing = "tenant (or api_key)" if not tenant else "endpoint (or method and path)"
            return bad_request("missing-field", f"{missing} is missing; {FIELDS}.", where + missing.partition(" ")[0])
        cost: Any = item.cost
        if type(cost) is float and cost.is_integer():
            cost = int(cost)
        try:
            return Check(tenant, endpoint, item.subject, cost, item.holder, item.priority)
        except ValueError as error:
            return bad_request("invalid-field", str(error), where + _field(str(error)))

    def _answers(
        self, core: Core, questions: Sequence[Check | RefusedCheck]
    ) -> Conversation[list[Answer | dict[str, Any]]]:
        checks = [question for question in questions if isinstance(question, Check)]
        decisions = iter((yield from core.decide(CHECK, checks, True)))
        return [
            refused(question.problem) if isinstance(question, RefusedCheck) else self._answer(next(decisions))
            for question in questions
        ]

    def _answer(self, decision: Decision) -> Answer:
        check = decision.check
        answer = Answer(
            decision.allowed,
            200,
            decision.reason,
            check.tenant,
            check.endpoint if check.endpoint in self._guard.directory.endpoints else None,
            decision.limit,
            decision.quota,
            decision.remaining,
            decision.reset_after_ms,
            decision.retry_after_ms,
            decision.wait_ms,
            decision.revision,
            decision.holder,
            decision.failure,
            decision.headers(self._guard.rules.profile),
        )
        if not decision.allowed:
            problem = problem_of(decision, self._guard.rules.limits_url)
            answer.status, answer.problem = int(problem.status), problem.document()
        return answer


def refused(problem: Problem) -> dict[str, Any]:
    return {
        "allowed": False,
        "status": int(problem.status),
        "reason": problem.code,
        "headers": problem.headers,
        "problem": problem.document(),
    }


def read(raw: bytes | None) -> CheckBody | Problem:
    return _read(raw, _decode)


def _read(raw: bytes | None, decode: Callable[[bytes], Body]) -> Body | Problem:
    if raw is None:
        return too_large()
    try:
        body = decode(raw)
        refuse_repeats(raw)  # msgspec keeps the last of two values
    except msgspec.ValidationError as error:
        sentence = _AT.sub("", str(error))
        return bad_request("invalid-field", f"{sentence}; {FIELDS}.", _field_of(str(error)))
    except RepeatedKeyError as error:
        return bad_request("invalid-field", f"{error}.", error.key)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _unreadable(raw, error)
    if body.checks is not None and body != CheckBody(checks=body.checks):
        detail = "checks cannot be combined with other fields; move them into its entries."
        return bad_request("invalid-field", detail, "checks")
    return body


def _unreadable(raw: bytes, error: Exception) -> Problem:
    if fault := encoding_fault(raw):
        return bad_request("invalid-json", fault)
    if half := half_character(raw):  # msgspec calls it malformed, but it is JSON
        field, sentence = half
        return bad_request("invalid-field", sentence, field)
    return bad_request("invalid-json", f"The body is not valid JSON: {error}.")


def _field_of(text: str) -> str:
    """The field that a message of msgspec is about."""
    at, unknown = _AT.search(text), _UNKNOWN.search(text)
    return ".".join(match[1] for match in (at, unknown) if match and match[1])


def _field(sentence: str) -> str:
    first = sentence.partition(" ")[0]
    return first if first in ("tenant", "endpoint", "cost", "priority") else "subject"


def _released(core: Core, check: Check, result: Result) -> Conversation[int]:
    """In a cluster also at the home of global limits, whichever process has taken the slot there."""
    released = 0
    for held in [check] if core.globals is None else [check, home_of(check)]:
        try:
            (reply,) = yield from core.read(encode_release(held, core.shards, check.holder, result))
        except StoreError:
            # Without its result, because a later release would tell a longer latency.
            core.chores.release_later(encode_release(held, core.shards, check.holder, "ignore"))
        else:
            released += int(reply)
    return released
