"""What every adapter does with a request. No I/O, no framework.

request → caller (by API key, or by a header that a trusted proxy set) → endpoint → one check → let through or refuse.
Conversations, as in `headroom_edge.core`: `Limiter.converse` and `AsyncLimiter.converse` run them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from headroom_edge import Check, Decision, Profile
from headroom_edge.check import TENANT
from headroom_edge.core import Conversation, Core
from headroom_edge.directory import EVERY_TENANT, Credential, Directory
from headroom_edge.errors import StoreError
from headroom_edge.keys import OWN_TENANT
from headroom_edge.plan.paths import LONGEST_PATH, USUAL, EndpointFinder, PathReading, is_below
from headroom_edge.plan.priority import priority_of
from headroom_edge.plan.routes import Route
from headroom_edge.problems import (
    CONTENT_TYPE,
    Problem,
    forbidden,
    late,
    problem_of,
    too_long,
    unauthorised,
    unavailable,
)
from headroom_edge.proxies import TrustedProxies

SCOPE: Final = "check"  # required of a credential; the other scopes are for the REST API
UNREGISTERED: Final = "-"  # no endpoint has this name, so only the limits on `*` apply
BEARER: Final = "bearer "
KEY_PREFIX: Final = "hr_"
DIMENSION_CHARACTERS: Final = 1_024
HOLDER_BITS: Final = 96


# Names of requests, not secrets: the system's random numbers would cost every request 3 µs. A forked child has its own.
_holders: Final = random.Random()  # noqa: S311
os.register_at_fork(after_in_child=_holders.seed)


# Treat as immutable. It is not frozen because that would add 2 µs to every request.
@dataclass(slots=True)
class Request:
    """A request, independent of the framework."""

    method: str
    path: str  # without the query
    peer: str  # address of the connected peer; empty over a Unix socket
    header: Callable[[str], str]  # by lower case name; repeated fields joined by commas; empty if absent
    reading: PathReading | None = None  # None: the rules' reading
    raw: Any = None  # the framework's request


# Treat as immutable, as Request.
@dataclass(slots=True)
class Caller:
    """The tenant that a request is counted for, and the known dimensions of its sender."""

    tenant: str
    subject: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuardRules:
    """How requests are judged. A header with a tenant, a subject or a priority counts only from a trusted proxy."""

    trusted_proxies: TrustedProxies = field(default_factory=TrustedProxies)
    forwarded_header: str = "x-forwarded-for"
    identify: Callable[[Any], Caller | None] | None = None  # gets the framework's request; None: by the API key
    tenant: str = ""  # the tenant of all requests
    tenant_header: str = ""
    subject_headers: Mapping[str, str] = field(default_factory=dict)  # dimension → header
    anonymous: str = ""  # the tenant of requests without a key; empty: they are refused
    endpoint: Callable[[Any], str | None] | None = None  # None: by method and path
    priority: Callable[[Any], str | None] | None = None  # how important a request is, which can only lower it
    priority_header: str = ""  # the same, from a header
    exempt: tuple[str, ...] = ()  # path prefixes that are never limited, such as /healthz
    limits_url: str = ""  # a page with the tenant's limits, sent with a 429; {tenant} is replaced by its name
    profile: Profile = field(default_factory=Profile)
    max_wait_ms: int = 1_000  # a request that would be delayed longer is refused
    deadline_header: str = ""  # the header with the number of milliseconds that the caller waits
    reading: PathReading = USUAL  # how paths reported by a proxy or by a caller of the gateway are read


@dataclass(slots=True)
class RequestVerdict:
    problem: Problem | None = None  # None: let the request through
    decision: Decision | None = None  # None: no check was made
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0  # delay the request by this time

    @property
    def holds(self) -> bool:
        """Whether a concurrency slot must be released at the end."""
        return self.problem is None and self.decision is not None and bool(self.decision.holder)

    @property
    def status(self) -> int:
        return 200 if self.problem is None else int(self.problem.status)

    @property
    def body(self) -> bytes:
        return b"" if self.problem is None else self.problem.body()


PASS: Final = RequestVerdict()


class Guard:
    def __init__(self, rules: GuardRules | None = None) -> None:
        self.rules = rules or GuardRules()
        self.directory = Directory()
        self._routes: tuple[Route, ...] = ()
        self._finder = EndpointFinder(())

    def warm(self, core: Core) -> Conversation[bool]:
        """Connect, load the library, and read the published keys and routes. Call it before the first request."""
        is_ready = yield from core.ready()
        with suppress(StoreError):
            yield from self.directory.refresh(core)
        return is_ready

    def judge(self, core: Core, request: Request) -> Conversation[RequestVerdict]:
        asked = self.question(core, request)
        if asked is None:
            asked = yield from self._looked_up(core, request)
        if isinstance(asked, RequestVerdict):
            return asked
        return (yield from self.decide(core, asked, self.patience_ms(request)))

    def decide(self, core: Core, check: Check, patience_ms: int) -> Conversation[RequestVerdict]:
        decision = yield from core.check(check, True)
        return self.verdict(decision, patience_ms) or (yield from self.too_late(core, decision))

    def question(self, core: Core, request: Request) -> Check | RequestVerdict | None:
        """What to ask the store about the request. None: something must be looked up first."""
        rules = self.rules
        if rules.exempt and is_below(request.path, rules.exempt):
            return PASS
        if len(request.path) > LONGEST_PATH:
            return refusal(too_long())
        if rules.identify is not None or rules.endpoint is not None or self.directory.is_stale:
            return None
        text = key_text(request.header)
        credential = self.directory.fresh(text) if text else None
        if text and credential is None:
            return None
        endpoint = self._find(request.method, request.path, request.reading)
        caller = _not_ours(self._caller_by(core, request, credential))
        return _check_of(caller, endpoint, self.priority(request))

    def _looked_up(self, core: Core, request: Request) -> Conversation[Check | RequestVerdict]:
        try:
            caller = yield from self.caller(core, request)
            endpoint = yield from self.endpoint(core, request)
        except StoreError:
            return without_store(core)
        return _check_of(caller, endpoint, self.priority(request))

    def verdict(self, decision: Decision, patience_ms: int) -> RequestVerdict | None:
        """None: the caller does not wait that long for its turn."""
        rules = self.rules
        headers = decision.headers(rules.profile)
        if not decision.allowed:
            return refusal(problem_of(decision, rules.limits_url), decision, headers)
        if decision.wait_ms > patience_ms:
            return None
        return RequestVerdict(None, decision, headers, decision.wait_us / 1_000_000)

    def too_late(self, core: Core, decision: Decision) -> Conversation[RequestVerdict]:
        """Refuse an admitted request, and give back what it was charged."""
        yield from core.release(decision)
        yield from core.refund(decision)
        return refusal(late(decision, self.rules.limits_url), decision, decision.headers(self.rules.profile))

    def caller(self, core: Core, request: Request) -> Conversation[Caller | Problem]:
        return _not_ours((yield from self._caller(core, request)))

    def _caller(self, core: Core, request: Request) -> Conversation[Caller | Problem]:
        rules = self.rules
        if rules.identify is not None:
            known = rules.identify(request.raw)
            if known is not None:
                return Caller(known.tenant, self._subject(request, dict(known.subject)))
        text = key_text(request.header)
        if not text or isinstance(self._named(request), Problem):
            return self._caller_by(core, request, None)
        credential = self.directory.fresh(text) or (yield from self.directory.credential(core, text))
        if credential is None:
            return unauthorised("The API key is unknown, expired or revoked; send a valid one.")
        return self._caller_by(core, request, credential)

    def _caller_by(self, core: Core, request: Request, credential: Credential | None) -> Caller | Problem:
        """The caller by the key; None: the request has none."""
        named = self._named(request)
        if isinstance(named, Problem):
            return named
        if credential is None:
            tenant = named or self.rules.anonymous
            if not tenant:
                return unauthorised("The API key is missing; send it as Authorization: Bearer hr_… or as X-API-Key.")
            return Caller(tenant, self._subject(request, {}))
        if SCOPE not in credential.scopes:
            return scope_missing()
        tenant = credential.tenant or named
        if tenant == EVERY_TENANT:
            return forbidden("tenant-missing", "This token belongs to no tenant; send a tenant's API key.")
        core.chores.key_uses.add(credential.key_id)
        return Caller(tenant, self._subject(request, {"key": credential.counted_as}))

    def _named(self, request: Request) -> str | Problem:
        """The tenant that the rules or a trusted proxy name; empty if they name none."""
        rules = self.rules
        if rules.tenant or not rules.tenant_header:
            tenant = rules.tenant
        else:
            tenant = self._believed(request, rules.tenant_header)
        if tenant and not TENANT.fullmatch(tenant):
            detail = f"{rules.tenant_header} is not the name of a tenant; make the proxy send a valid name."
            return forbidden("unknown-tenant", detail)
        return tenant

    def endpoint(self, core: Core, request: Request) -> Conversation[str]:
        named = self.rules.endpoint(request.raw) if self.rules.endpoint is not None else None
        if named is not None:
            return named
        return (yield from self.endpoint_at(core, request.method, request.path, request.reading))

    def endpoint_at(self, core: Core, method: str, path: str, reading: PathReading | None = None) -> Conversation[str]:
        yield from self.directory.refresh(core)
        return self._find(method, path, reading)

    def _find(self, method: str, path: str, reading: PathReading | None) -> str:
        if self.directory.routes is not self._routes:
            self._finder, self._routes = EndpointFinder(self.directory.routes), self.directory.routes
        return self._finder.find(method, path, reading or self.rules.reading) or UNREGISTERED

    def priority(self, request: Request) -> str:
        """Empty: as configured. A header with another word counts for nothing."""
        rules = self.rules
        if rules.priority is not None:
            return rules.priority(request.raw) or ""
        if not rules.priority_header:
            return ""
        return priority_of(self._believed(request, rules.priority_header).strip().lower()) or ""

    def client_ip(self, request: Request) -> str | None:
        return self.rules.trusted_proxies.client(request.peer, request.header(self.rules.forwarded_header))

    def _subject(self, request: Request, known: dict[str, str | None]) -> dict[str, str | None]:
        known.setdefault("ip", self.client_ip(request))
        for dimension, header in self.rules.subject_headers.items():
            value = self._believed(request, header)
            if value:
                known.setdefault(dimension, value[:DIMENSION_CHARACTERS])
        return known

    def _believed(self, request: Request, header: str) -> str:
        return request.header(header) if self.rules.trusted_proxies.trusts(request.peer) else ""

    def patience_ms(self, request: Request) -> int:
        header = self.rules.deadline_header
        text = request.header(header).strip() if header else ""
        if text.isascii() and text.isdigit():
            return min(int(text[:9]), self.rules.max_wait_ms)
        return self.rules.max_wait_ms


def _not_ours(caller: Caller | Problem) -> Caller | Problem:
    return own_tenant() if isinstance(caller, Caller) and caller.tenant == OWN_TENANT else caller


def _check_of(caller: Caller | Problem, endpoint: str, priority: str) -> Check | RequestVerdict:
    if isinstance(caller, Problem):
        return refusal(caller)
    holder = f"{_holders.getrandbits(HOLDER_BITS):x}"
    return Check(caller.tenant, endpoint, caller.subject, None, holder, priority)


def refusal(
    problem: Problem, decision: Decision | None = None, headers: Mapping[str, str] | None = None
) -> RequestVerdict:
    fields = {**(headers or {}), **problem.headers, "Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
    return RequestVerdict(problem, decision, fields)


def scope_missing() -> Problem:
    return forbidden("scope-missing", f"The token lacks the scope {SCOPE}; use one that has it.")


def own_tenant() -> Problem:
    # A caller who used up this tenant's limits would lock everybody out of the API that changes limits.
    return forbidden("own-tenant", f"{OWN_TENANT} is this installation's own tenant; use another tenant.")


def without_store(core: Core) -> RequestVerdict:
    """The caller is unknown, so no plan's failure mode applies: the limiter's default decides."""
    if core.failures.default == "closed":
        return refusal(unavailable(), headers={"Headroom-Degraded": "closed"})
    return RequestVerdict(headers={"Headroom-Degraded": "open"})


def bearer_text(authorization: str) -> str:
    """The token in an Authorization field, without the white space around it; empty if it has none."""
    return authorization[len(BEARER) :].strip() if authorization[: len(BEARER)].lower() == BEARER else ""


def key_text(header: Callable[[str], str]) -> str:
    """The API key as sent. A key without Headroom's prefix belongs to the application and is ignored."""
    text = bearer_text(header("authorization"))
    if text.startswith(KEY_PREFIX):
        return text
    text = header("x-api-key").strip()
    return text if text.startswith(KEY_PREFIX) else ""
