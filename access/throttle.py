"""Headroom's own API and login, limited by Headroom: one check as the tenant `headroom` (quotas.own_limits).

Only a limit refuses here. Without that tenant, with it suspended, or before the first publish, the API is open:
whoever administers limits must not lock themselves out of the place where they are changed. A try to sign in is
counted all the same, by the process itself, wherever the store did not: no bypass, suspension or outage ends that.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from functools import cache
from typing import Final
from unicodedata import normalize

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.crypto import salted_hmac

from headroom_edge import Check, Decision
from headroom_edge.django import finished, guard, limiter, release_of, request_of
from headroom_edge.guard import PASS, RequestVerdict, refusal
from headroom_edge.headers import seconds_up
from headroom_edge.keys import OWN_TENANT
from headroom_edge.local import LocalLimiter, now_us
from headroom_edge.problems import problem_of
from quotas.own_limits import API, LOGIN, login_floor
from tenants.scope import Principal

LIMITING: Final = frozenset({"limit", "cost_too_big", "overflow", "too_late"})
PATIENCE_MS: Final = 1_000
BUDGET_MS = 200  # people and pipelines rather wait than pass uncounted
TRIES_LEFT: Final = "tries_left"  # attribute of the request, for the page that says so
_TOKENS: Final = "tokens"  # whoever tries tokens tries this account
_NAME: Final = "username"


class Floor:
    """Counts tries to sign in inside this process."""

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
def floor() -> Floor:
    return Floor()


def of_caller(request: HttpRequest, principal: Principal) -> RequestVerdict:
    who = {"key": principal.key_id} if principal.is_machine else {"user": principal.actor}
    return _judged(_check(request, API, who))


def of_bad_token(request: HttpRequest) -> RequestVerdict:
    return _counted(_check(request, LOGIN, {"user": _TOKENS}))


def of_login(request: HttpRequest) -> RequestVerdict:
    """By the name that is tried, which may be a password typed into the wrong field: nobody reads it afterwards."""
    # Normalised as the login form does it, so that no other spelling of one name is another try.
    name = normalize("NFKC", request.POST.get(_NAME, "")).strip().casefold()
    hashed = salted_hmac(__name__, name, algorithm="sha256").hexdigest()[:32]
    verdict = _counted(_check(request, LOGIN, {"user": hashed}))
    if verdict.decision is not None:
        setattr(request, TRIES_LEFT, min((row.remaining for row in verdict.decision.rows), default=None))
    return verdict


def _check(request: HttpRequest, endpoint: str, who: dict[str, str]) -> Check:
    address = guard().client_ip(request_of(request))
    return Check(OWN_TENANT, endpoint, {**who, "ip": address}, holder=secrets.token_hex(12))


def _judged(check: Check) -> RequestVerdict:
    verdict = limiter().converse(lambda core: guard().decide(core, check, PATIENCE_MS), budget_ms=BUDGET_MS)
    if verdict.problem is None or verdict.problem.extra.get("reason") in LIMITING:
        return verdict
    return PASS


def _counted(check: Check) -> RequestVerdict:
    verdict = _judged(check)
    return verdict if _is_counted(verdict.decision) else floor().judge(check)


def _is_counted(decision: Decision | None) -> bool:
    """By some limit, in the store or as the store had told this process."""
    if decision is None or decision.reason == "bypass":
        return False
    return bool(decision.rows) if decision.failure is None else bool(decision.limit)


def passed(verdict: RequestVerdict, respond: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """The answer in its turn, with the headers that say what is left."""
    if verdict.wait_s:
        time.sleep(verdict.wait_s)
    return finished(respond(), verdict, release_of(verdict), None)


def login_refused(request: HttpRequest, verdict: RequestVerdict) -> HttpResponse:
    seconds = max(1, seconds_up(verdict.decision.retry_us)) if verdict.decision else 1
    words = f"Too many tries. Wait {seconds} s, then try again."
    context = {"refusal": words, "next": request.POST.get("next", "")}
    page = render(request, "dashboards/login.html", context, status=verdict.status)
    for name in verdict.headers.keys() - {"Content-Type"}:
        page[name] = verdict.headers[name]
    return page


def forgiven(verdict: RequestVerdict) -> None:
    """A right password costs nothing, so nobody runs out of tries by working."""
    decision = verdict.decision
    if decision is not None and decision.receipt:
        limiter().refund(decision)
    elif decision is not None and decision.failure == "local":
        floor().refund(decision.check)
