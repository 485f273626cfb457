"""Headroom's own API and login, limited by Headroom: one check as the tenant `headroom` (quotas.services.own_limits).

Only a limit refuses here. Without that tenant, with it suspended, or before the first publish, everybody passes:
whoever administers limits must not lock themselves out of the place where they are changed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Final
from unicodedata import normalize

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.crypto import salted_hmac

from api.gateway.django import finished, release_of
from api.gateway.guard import PASS, Verdict
from api.gateway.process import guard, limiter, request_of
from quotas.limiter import Check
from quotas.limiter.headers import seconds_up
from quotas.services.own_limits import API, LOGIN
from tenants.access import Principal
from tenants.own import OWN_TENANT

LIMITING: Final = frozenset({"limit", "cost_too_big", "overflow", "too_late"})
PATIENCE_MS: Final = 1_000
BUDGET_MS = 200  # people and pipelines rather wait than pass uncounted
TRIES_LEFT: Final = "tries_left"  # attribute of the request, for the page that says so
_TOKENS: Final = "tokens"  # whoever tries tokens tries this account
_NAME: Final = "username"


def of_caller(request: HttpRequest, principal: Principal) -> Verdict:
    name = principal.actor.rpartition(" ")[2]
    return _judged(request, API, {"key" if principal.is_machine else "user": name})


def of_bad_token(request: HttpRequest) -> Verdict:
    return _judged(request, LOGIN, {"user": _TOKENS})


def of_login(request: HttpRequest) -> Verdict:
    """By the name that is tried, which may be a password typed into the wrong field: nobody reads it afterwards."""
    # Normalised as the login form does it, so that no other spelling of one name is another try.
    name = normalize("NFKC", request.POST.get(_NAME, "")).strip().casefold()
    verdict = _judged(request, LOGIN, {"user": salted_hmac(__name__, name, algorithm="sha256").hexdigest()[:32]})
    if verdict.decision is not None:
        setattr(request, TRIES_LEFT, min((row.remaining for row in verdict.decision.rows), default=None))
    return verdict


def _judged(request: HttpRequest, endpoint: str, who: dict[str, str]) -> Verdict:
    check = Check(
        OWN_TENANT, endpoint, {**who, "ip": guard().client_ip(request_of(request))}, holder=secrets.token_hex(12)
    )
    verdict = limiter().converse(lambda core: guard().decide(core, check, PATIENCE_MS), budget_ms=BUDGET_MS)
    if verdict.problem is None or verdict.problem.extra.get("reason") in LIMITING:
        return verdict
    return PASS


def passed(verdict: Verdict, respond: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    """The answer in its turn, with the headers that say what is left."""
    if verdict.wait_s:
        time.sleep(verdict.wait_s)
    return finished(respond(), verdict, release_of(verdict), None)


def login_refused(request: HttpRequest, verdict: Verdict) -> HttpResponse:
    seconds = max(1, seconds_up(verdict.decision.retry_us)) if verdict.decision else 1
    words = f"Too many tries. Wait {seconds} s, then try again."
    context = {"refusal": words, "next": request.POST.get("next", "")}
    page = render(request, "dashboards/login.html", context, status=verdict.status)
    for name in verdict.headers.keys() - {"Content-Type"}:
        page[name] = verdict.headers[name]
    return page


def forgiven(verdict: Verdict) -> None:
    """A right password costs nothing, so nobody runs out of tries by working."""
    if verdict.decision is not None and verdict.decision.receipt:
        limiter().refund(verdict.decision)
