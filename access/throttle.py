"""Headroom limits its own API, pages and login, by one check as the tenant `headroom` (quotas.own_limits).

Only a limit refuses a request here. The API and the pages stay open if that tenant is missing or suspended, or before
the first publish: administrators must not lock themselves out of the place where limits are changed. Login attempts are
always counted: if the store did not count one (bypass, suspension, outage), this process does.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from functools import cache
from typing import Any, Final
from unicodedata import normalize

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.crypto import salted_hmac

from access.request_ids import wants_page
from headroom_edge import Check, Decision
from headroom_edge.core import Conversation, Core
from headroom_edge.django import finished, guard, limiter, refused, release_of, request_of
from headroom_edge.headers import seconds_up
from headroom_edge.keys import OWN_TENANT
from headroom_edge.local import LocalLimiter, now_us
from headroom_edge.problems import problem_of
from headroom_edge.request_guard import PASS, RequestVerdict, refusal
from quotas.own_limits import API, LOGIN, ORG, PAGES, PORTAL, login_floor
from tenants.scope import Principal

LIMITING: Final = frozenset({"limit", "cost_too_big", "overflow", "too_late"})
PATIENCE_MS: Final = 1_000
BUDGET_MS = 200  # longer than a service's default: here, waiting is better than an uncounted request
TRIES_LEFT: Final = "tries_left"  # attribute of the request, shown on the login page
_TOKENS: Final = "tokens"  # all attempts with bad tokens count as attempts on this account
_NAME: Final = "username"


class LoginFloor:
    """Counts login attempts inside this process, for when the store does not."""

    def __init__(self, clock_us: Callable[[], int] = now_us) -> None:
        self._limiter = LocalLimiter(clock_us)
        self._plan = login_floor()

    def judge(self, check: Check) -> RequestVerdict:
        decision = self._limiter.decide(self._plan, check).decision(check, revision=0)
        headers = decision.headers(guard().rules.profile)
        if decision.allowed:
            return RequestVerdict(None, decision, headers)
        return refusal(problem_of(decision), decision, headers)

    def refund(self, check: Check) -> None:
        self._limiter.refund(self._plan, check)


@cache
def floor() -> LoginFloor:
    return LoginFloor()


def of_caller(request: HttpRequest, principal: Principal) -> RequestVerdict:
    return _judged(_check(request, API, _who(principal)), key_id=principal.key_id)


def of_page(request: HttpRequest, principal: Principal) -> RequestVerdict:
    who = _who(principal)
    if principal.tenant is None:
        return _judged(_check(request, PAGES, who))
    return _judged(_check(request, PORTAL, who | {ORG: principal.tenant.name}))


def _who(principal: Principal) -> dict[str, str]:
    return {"key": principal.counted_as or principal.key_id} if principal.is_machine else {"user": principal.actor}


def of_bad_token(request: HttpRequest) -> RequestVerdict:
    return _counted(_check(request, LOGIN, {"user": _TOKENS}))


def of_login(request: HttpRequest) -> RequestVerdict:
    """Count a login attempt by user name. The name is hashed, because it may be a password in the wrong field."""
    # Normalised as by the login form, so that another spelling of a name is not another subject.
    name = normalize("NFKC", request.POST.get(_NAME, "")).strip().casefold()
    hashed = salted_hmac(__name__, name, algorithm="sha256").hexdigest()[:32]
    verdict = _counted(_check(request, LOGIN, {"user": hashed}))
    if verdict.decision is not None:
        setattr(request, TRIES_LEFT, min((row.remaining for row in verdict.decision.rows), default=None))
    return verdict


def _check(request: HttpRequest, endpoint: str, who: dict[str, str]) -> Check:
    address = guard().client_ip(request_of(request))
    return Check(OWN_TENANT, endpoint, {**who, "ip": address}, holder=secrets.token_hex(12))


def _judged(check: Check, key_id: str = "") -> RequestVerdict:
    """`key_id`: the key or token that was used, if any."""

    def decide(core: Core) -> Conversation[RequestVerdict]:
        if key_id:
            core.chores.key_uses.add(key_id)
        return guard().decide(core, check, PATIENCE_MS)

    verdict = limiter().converse(decide, budget_ms=BUDGET_MS)
    if verdict.problem is None or verdict.problem.extra.get("reason") in LIMITING:
        return verdict
    return PASS


def _counted(check: Check) -> RequestVerdict:
    verdict = _judged(check)
    return verdict if _is_counted(verdict.decision) else floor().judge(check)


def _is_counted(decision: Decision | None) -> bool:
    """Whether some limit counted the attempt, in the store or by this process's copy of the plan."""
    if decision is None or decision.reason == "bypass":
        return False
    return bool(decision.rows) if decision.failure is None else bool(decision.limit)


def passed(verdict: RequestVerdict, respond: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """Respond after the limit's delay, if any, and add the rate limit headers."""
    if verdict.wait_s:
        time.sleep(verdict.wait_s)
    return finished(respond(), verdict, release_of(verdict), None)


def login_refused(request: HttpRequest, verdict: RequestVerdict) -> HttpResponse:
    sentence = f"Too many attempts. Wait {_seconds(verdict)} s, then try again."
    context = {"refusal": sentence, "next": request.POST.get("next", "")}
    return _page(request, "dashboards/login.html", context, verdict)


def page_refused(request: HttpRequest, verdict: RequestVerdict) -> HttpResponse:
    if not wants_page(request):
        return refused(verdict)
    return _page(request, "dashboards/too_many.html", {"seconds": _seconds(verdict)}, verdict)


def _seconds(verdict: RequestVerdict) -> int:
    return max(1, seconds_up(verdict.decision.retry_us)) if verdict.decision else 1


def _page(request: HttpRequest, template: str, context: dict[str, Any], verdict: RequestVerdict) -> HttpResponse:
    page = render(request, template, context, status=verdict.status)
    for name in verdict.headers.keys() - {"Content-Type"}:
        page[name] = verdict.headers[name]
    return page


def forgiven(verdict: RequestVerdict) -> None:
    """Refund a successful login, so that only failed attempts use up the limit."""
    decision = verdict.decision
    if decision is not None and decision.receipt:
        limiter().refund(decision)
    elif decision is not None and decision.failure == "local":
        floor().refund(decision.check)
