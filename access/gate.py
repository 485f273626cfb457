"""The middleware in front of every route: authenticates, authorises (access.roles), throttles, isolates the tenant."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, cast

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core.handlers.asgi import ASGIRequest
from django.db import InterfaceError, OperationalError, transaction
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.urls import Resolver404, resolve, reverse

from access import roles, throttle
from access.authentication import BadToken, authenticate, principal_set
from access.outage import BUSY, outage_of
from access.page_queue import OF_TENANT, TELL
from access.request_ids import is_api, request_id_of, wants_page
from headroom_edge.django import refused as over_limit
from headroom_edge.problems import CONTENT_TYPE, Problem, forbidden, unauthorised
from headroom_edge.request_guard import RequestVerdict
from quotas.caller import CallerGoneError
from tenants.history import acting
from tenants.identity import acting_as
from tenants.isolation import astream, narrowed, stream
from tenants.keyring import KeyringError
from tenants.models import Role, Tenant
from tenants.scope import Principal, member_names

logger = logging.getLogger(__name__)

MOST_NAMED: Final = 3


class Gate:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        try:
            view_name = resolve(request.path_info).view_name
        except Resolver404:
            return self.get_response(request)
        rules = roles.rules_of(view_name)
        rule = roles.rule_of(rules or {}, request.method or "")
        if rule is not None and rule.is_open:
            is_try = view_name == settings.LOGIN_URL and request.method == "POST"
            return self._login(request) if is_try else self.get_response(request)
        if rules and rule is None and any(other.is_open for other in rules.values()):
            return refused(_not_allowed(rules))
        return self._guarded(request, rules, rule)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Of a page; the API has its own (api.errors)."""
        if isinstance(exception, CallerGoneError):
            return HttpResponse(status=HTTPStatus.REQUEST_TIMEOUT)
        if isinstance(exception, KeyringError):
            return _without_keys(exception)
        if is_api(request) or not isinstance(exception, OperationalError | InterfaceError):
            return None
        logger.warning("The database did not answer: %s", exception)
        return _without_database(request, exception)

    def _login(self, request: HttpRequest) -> HttpResponseBase:
        verdict = throttle.of_login(request)
        if verdict.problem is not None:
            return throttle.login_refused(request, verdict)
        response = throttle.passed(verdict, lambda: self.get_response(request))
        if response.status_code == HTTPStatus.FOUND:
            throttle.forgiven(verdict)
        return response

    def _guarded(
        self, request: HttpRequest, rules: roles.RouteRules | None, rule: roles.RoleRule | None
    ) -> HttpResponseBase:
        try:
            principal = authenticate(request)
        except BadToken:
            return _limited(
                throttle.of_bad_token(request),
                lambda: refused(unauthorised("The token is unknown, expired or revoked; send a valid one.")),
            )
        except (OperationalError, InterfaceError) as error:
            logger.warning("No request can be authenticated: %s", error)
            return _without_database(request, error)
        except KeyringError as error:
            return _without_keys(error)
        if principal is None:
            return _without_login(request)
        _tell_queue(request, principal)
        response = self._throttled(request, principal, lambda: self._admitted(request, principal, rules, rule))
        # Whatever needs a login stays in no cache.
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _throttled(
        self, request: HttpRequest, principal: Principal, respond: Callable[[], HttpResponseBase]
    ) -> HttpResponseBase:
        if is_api(request):
            return _limited(throttle.of_caller(request, principal), respond)
        verdict = throttle.of_page(request, principal)
        return throttle.passed(verdict, respond) if verdict.problem is None else throttle.page_refused(request, verdict)

    def _admitted(
        self, request: HttpRequest, principal: Principal, rules: roles.RouteRules | None, rule: roles.RoleRule | None
    ) -> HttpResponseBase:
        problem = _objection(principal, rules, rule)
        if problem is not None and _is_start(request) and (home := _home_of(principal)):
            return redirect(home)
        if problem is not None:
            return _refused_to(request, problem, _help_of(request, principal, rule))
        principal_set(request, principal)
        with acting_as(principal), acting(actor=principal.actor, request=request_id_of(request)):
            return self._within(request, principal.tenant)

    def _within(self, request: HttpRequest, tenant: Tenant | None) -> HttpResponseBase:
        if tenant is None:
            return self.get_response(request)
        with narrowed(tenant.number):
            response = self.get_response(request)
            # Django turns an exception into a response, so without this the transaction would commit.
            if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                transaction.set_rollback(True)
        return _narrowed_body(response, tenant.number)


def _tell_queue(request: HttpRequest, principal: Principal) -> None:
    """Tell the queue in front who this is. A tenant's users and keys share their turns."""
    if isinstance(request, ASGIRequest):
        tenant = principal.tenant
        scope = cast("dict[str, Any]", request.scope)
        if TELL in scope:
            scope[TELL](f"{OF_TENANT}{tenant.name}" if tenant else f"actor {principal.actor}")


def _limited(verdict: RequestVerdict, respond: Callable[[], HttpResponseBase]) -> HttpResponseBase:
    return over_limit(verdict) if verdict.problem is not None else throttle.passed(verdict, respond)


def _narrowed_body(response: HttpResponseBase, number: int) -> HttpResponseBase:
    if isinstance(response, StreamingHttpResponse):
        content: Any = response.streaming_content
        response.streaming_content = astream(number, content) if response.is_async else stream(number, content)
    return response


def _objection(principal: Principal, rules: roles.RouteRules | None, rule: roles.RoleRule | None) -> Problem | None:
    if rules is None:
        return forbidden("forbidden", "This route is not open to any role: it is missing in access/roles.py.")
    if rule is None:
        return _not_allowed(rules)
    if principal.role not in rule.roles:
        needed = ", ".join(sorted(rule.roles))
        return forbidden("forbidden", f"The role {principal.role} may not do this; required: {needed}.")
    if rule.scope not in principal.scopes:
        return forbidden("scope-missing", f"The token lacks the scope {rule.scope}; use one that has it.")
    return None


def _not_allowed(rules: roles.RouteRules) -> Problem:
    allowed = ", ".join(sorted(rules)) or "none"
    detail = f"This route does not allow the method; allowed: {allowed}."
    return Problem(HTTPStatus.METHOD_NOT_ALLOWED, "method-not-allowed", detail, headers={"Allow": ", ".join(rules)})


def _without_login(request: HttpRequest) -> HttpResponse:
    if is_api(request) and not _is_page(request):
        return refused(unauthorised("You are not signed in; send Authorization: Bearer hr_…, or sign in."))
    if request.user.is_authenticated:
        return _refused_to(request, forbidden("no-role", "This account has no role; ask an owner to assign one."))
    if request.headers.get("HX-Request") == "true":  # part of a page, whose form the login page would replace
        return refused(unauthorised("Your session has ended. Copy what you typed, then reload the page to sign in."))
    return redirect_to_login(request.get_full_path(), resolve_url(settings.LOGIN_URL))


def _is_page(request: HttpRequest) -> bool:
    """The API's documentation is opened by people in a browser, so they get the login page instead of a 401."""
    return request.path == reverse("v1:docs") and wants_page(request)


def _is_start(request: HttpRequest) -> bool:
    """A tenant's people type the bare address too; they have the portal there."""
    return request.path == reverse("dashboards:overview") and request.method in ("GET", "HEAD")


def _refused_to(request: HttpRequest, problem: Problem, helped: Mapping[str, Any] | None = None) -> HttpResponse:
    """A page for a browser; a problem for programs and parts of pages. `helped`: who may, and where to go instead."""
    if is_api(request) or not wants_page(request):
        return refused(problem)
    page = render(request, "dashboards/forbidden.html", {"problem": problem, **(helped or {})}, status=problem.status)
    for name, value in {**problem.headers, "Cache-Control": "no-store"}.items():
        page.headers[name] = value
    return page


def _help_of(request: HttpRequest, principal: Principal, rule: roles.RoleRule | None) -> dict[str, Any]:
    """For the page of a refusal. Names of members are for the platform's own people."""
    if not wants_page(request):
        return {}
    is_role = rule is not None and principal.role not in rule.roles
    asks = is_role and principal.tenant is None
    return {
        "home": _home_of(principal),
        "role": principal.role if is_role else "",
        "may": roles.words_of(rule.roles) if rule and is_role else "",
        "owners": member_names(Role.OWNER, MOST_NAMED) if asks else (),
    }


def _home_of(principal: Principal) -> str:
    """Tenants have no overview. A token may lack the scope to read, and then it has neither."""
    places = ("dashboards:overview", "dashboards:portal")
    return next((reverse(place) for place in places if roles.may(principal, place, "GET")), "")


def _without_database(request: HttpRequest, error: Exception) -> HttpResponse:
    problem = outage_of(error)
    if is_api(request):
        return refused(problem)
    context = {"busy": problem.detail if problem.code == BUSY else ""}
    page = render(request, "dashboards/unavailable.html", context, status=problem.status)
    page.headers["Retry-After"] = problem.headers["Retry-After"]
    return page


def _without_keys(error: KeyringError) -> HttpResponse:
    logger.warning("The stored keys cannot be opened: %s", error)
    return refused(Problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", str(error)))


def refused(problem: Problem) -> HttpResponse:
    headers = {**problem.headers, "Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
    return HttpResponse(problem.body(), status=problem.status, headers=headers)
