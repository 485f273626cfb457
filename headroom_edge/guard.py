"""What every adapter does with a request, and nothing of how: no input or output, no framework.

request → who calls (API key, or a header that a trusted proxy set) → which endpoint → one check → go on, or refuse.
A conversation, as in `headroom_edge.core`: `Limiter.converse` and `AsyncLimiter.converse` hold it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from headroom_edge import Check, Decision, Profile
from headroom_edge.check import TENANT
from headroom_edge.core import CHECK, Conversation, Core
from headroom_edge.directory import EVERY_TENANT, Directory
from headroom_edge.errors import StoreError
from headroom_edge.keys import OWN_TENANT
from headroom_edge.plan.paths import LONGEST_PATH, USUAL, EndpointFinder, PathReading
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

SCOPE: Final = "check"  # what a credential needs; others are for the API alone
UNREGISTERED: Final = "-"  # no endpoint has this name: only the limits on `*` hold
BEARER: Final = "bearer "
KEY_PREFIX: Final = "hr_"
DIMENSION_CHARACTERS: Final = 1_024


# Not frozen, though nobody should change one: that would cost 2 µs more, on every request.
@dataclass(slots=True)
class Request:
    """What every server can tell about a request."""

    method: str
    path: str  # without a query
    peer: str  # address of who connected; empty over a Unix socket
    header: Callable[[str], str]  # by lower case name; several lines joined by a comma; empty: not sent
    reading: PathReading | None = None  # None: as the rules say
    raw: Any = None  # the framework's own


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose account a request goes, and what is known of who sent it."""

    tenant: str
    subject: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GuardRules:
    """How requests are judged. Headers that name a tenant or a subject are believed from trusted proxies only."""

    trusted_proxies: TrustedProxies = field(default_factory=TrustedProxies)
    forwarded_header: str = "x-forwarded-for"
    identify: Callable[[Any], Caller | None] | None = None  # with the framework's request; None: go by the key
    tenant: str = ""  # all requests are this tenant's
    tenant_header: str = ""
    subject_headers: Mapping[str, str] = field(default_factory=dict)  # dimension → header
    anonymous: str = ""  # the tenant of requests without a key; empty: they are refused
    endpoint: Callable[[Any], str | None] | None = None  # None: by method and path
    exempt: tuple[str, ...] = ()  # prefixes of paths that are not judged, such as /healthz
    limits_url: str = ""  # where a tenant reads its limits; {tenant} stands for its name
    profile: Profile = field(default_factory=Profile)
    max_wait_ms: int = 1_000  # longer than this nobody waits for a turn
    deadline_header: str = ""  # in which a caller says how many milliseconds it waits
    reading: PathReading = USUAL  # of paths that a proxy or a caller of the gateway reports


@dataclass(slots=True)
class RequestVerdict:
    problem: Problem | None = None  # None: go on
    decision: Decision | None = None  # None: it was not asked for
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0  # go on after this long

    @property
    def holds(self) -> bool:
        """Whether a slot must be given back at the end."""
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
        """Ahead of the first request: a connection, the library, and what is published of keys and routes."""
        is_ready = yield from core.ready()
        with suppress(StoreError):
            yield from self.directory.refresh(core)
        return is_ready

    def judge(self, core: Core, request: Request) -> Conversation[RequestVerdict]:
        rules = self.rules
        if rules.exempt and request.path.startswith(rules.exempt):
            return PASS
        if len(request.path) > LONGEST_PATH:
            return refusal(too_long())
        try:
            caller = yield from self.caller(core, request)
            endpoint = yield from self.endpoint(core, request)
        except StoreError:
            return without_store(core)
        if isinstance(caller, Problem):
            return refusal(caller)
        check = Check(caller.tenant, endpoint, caller.subject, holder=secrets.token_hex(12))
        return (yield from self.decide(core, check, self._patience_ms(request)))

    def decide(self, core: Core, check: Check, patience_ms: int) -> Conversation[RequestVerdict]:
        rules = self.rules
        (decision,) = yield from core.decide(CHECK, [check], True)
        headers = decision.headers(rules.profile)
        if not decision.allowed:
            return refusal(problem_of(decision, rules.limits_url), decision, headers)
        if decision.wait_ms > patience_ms:
            # Nobody will come for this turn: what it was charged goes back.
            yield from core.release(decision)
            yield from core.refund(decision)
            return refusal(late(decision, rules.limits_url), decision, headers)
        return RequestVerdict(None, decision, headers, decision.wait_us / 1_000_000)

    def caller(self, core: Core, request: Request) -> Conversation[Caller | Problem]:
        found = yield from self._caller(core, request)
        return own_tenant() if isinstance(found, Caller) and found.tenant == OWN_TENANT else found

    def _caller(self, core: Core, request: Request) -> Conversation[Caller | Problem]:
        rules = self.rules
        if rules.identify is not None:
            known = rules.identify(request.raw)
            if known is not None:
                return Caller(known.tenant, self._subject(request, dict(known.subject)))
        text = key_text(request.header)
        tenant = rules.tenant or (self._believed(request, rules.tenant_header) if rules.tenant_header else "")
        if tenant and not TENANT.fullmatch(tenant):
            return forbidden("unknown-tenant", f"{rules.tenant_header} names no tenant; let the proxy send its name.")
        if not text:
            tenant = tenant or rules.anonymous
            if not tenant:
                return unauthorised("The request has no API key; send it as Authorization: Bearer hr_…, or X-API-Key.")
            return Caller(tenant, self._subject(request, {}))
        credential = self.directory.fresh(text) or (yield from self.directory.credential(core, text))
        if credential is None:
            return unauthorised("The API key is unknown or revoked; send a valid one.")
        if SCOPE not in credential.scopes:
            return scope_missing()
        tenant = credential.tenant or tenant
        if tenant == EVERY_TENANT:
            return forbidden("tenant-missing", "This token belongs to no tenant; send the API key of one.")
        return Caller(tenant, self._subject(request, {"key": credential.key_id}))

    def endpoint(self, core: Core, request: Request) -> Conversation[str]:
        named = self.rules.endpoint(request.raw) if self.rules.endpoint is not None else None
        if named is not None:
            return named
        return (yield from self.endpoint_at(core, request.method, request.path, request.reading))

    def endpoint_at(self, core: Core, method: str, path: str, reading: PathReading | None = None) -> Conversation[str]:
        yield from self.directory.refresh(core)
        if self.directory.routes is not self._routes:
            self._finder, self._routes = EndpointFinder(self.directory.routes), self.directory.routes
        return self._finder.find(method, path, reading or self.rules.reading) or UNREGISTERED

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

    def _patience_ms(self, request: Request) -> int:
        header = self.rules.deadline_header
        said = request.header(header).strip() if header else ""
        if said.isascii() and said.isdigit():
            return min(int(said[:9]), self.rules.max_wait_ms)
        return self.rules.max_wait_ms


def refusal(
    problem: Problem, decision: Decision | None = None, headers: Mapping[str, str] | None = None
) -> RequestVerdict:
    fields = {**(headers or {}), **problem.headers, "Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
    return RequestVerdict(problem, decision, fields)


def scope_missing() -> Problem:
    return forbidden("scope-missing", f"The token lacks the scope {SCOPE}; use one that has it.")


def own_tenant() -> Problem:
    """Who could use up these limits would shut everybody out of the place where limits are changed."""
    return forbidden("own-tenant", f"{OWN_TENANT} is the tenant of this installation itself; name another one.")


def without_store(core: Core) -> RequestVerdict:
    """Whose request it is cannot be told, so no plan's own failure mode applies, only what holds before the first."""
    if core.failures.default == "closed":
        return refusal(unavailable(), headers={"Headroom-Degraded": "closed"})
    return RequestVerdict(headers={"Headroom-Degraded": "open"})


def key_text(header: Callable[[str], str]) -> str:
    """The API key as it was sent. One that is not of our making is the application's own affair."""
    authorization = header("authorization")
    if authorization[: len(BEARER)].lower() == BEARER:
        text = authorization[len(BEARER) :].strip()
        if text.startswith(KEY_PREFIX):
            return text
    text = header("x-api-key").strip()
    return text if text.startswith(KEY_PREFIX) else ""
