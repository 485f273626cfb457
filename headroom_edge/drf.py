"""Throttle for Django REST framework: throttle_classes = [HeadroomThrottle].

It runs inside the view and can use what only the view knows: override `caller` to limit by user, and set
`headroom_endpoint` or `headroom_cost` on the view. Use the middleware instead if a denied request must cost no SQL.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

from rest_framework.exceptions import APIException
from rest_framework.request import Request as DrfRequest
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from headroom_edge import Check
from headroom_edge.core import Conversation, Core
from headroom_edge.django import TIMED, finished, guard, limiter, release_of, request_of
from headroom_edge.errors import StoreError
from headroom_edge.problems import CONTENT_TYPE, Problem
from headroom_edge.request_guard import Caller, RequestVerdict, refusal, without_store
from headroom_edge.response_timer import ResponseTimer

Finalize = Callable[..., Response]


class QuotaRefusedError(APIException):
    """The middleware's response to a refused request, as a REST framework exception."""

    def __init__(self, problem: Problem, headers: dict[str, str]) -> None:
        super().__init__(detail=problem.document(), code=problem.code)
        self.status_code = int(problem.status)
        self.problem = problem
        self.headers = headers


class HeadroomThrottle(BaseThrottle):
    def allow_request(self, request: DrfRequest, view: APIView) -> bool:
        verdict = limiter().converse(lambda core: self.judge(core, request, view))
        # Every request has its own view instance, so the patch affects this response only.
        finalize = view.finalize_response
        if verdict.problem is not None:
            view.finalize_response = _finalizer(finalize, verdict, None)  # type: ignore[method-assign]
            raise QuotaRefusedError(verdict.problem, verdict.headers)
        if verdict.wait_s:
            time.sleep(verdict.wait_s)
        timer = None if TIMED in request.META else ResponseTimer(limiter(), verdict)
        view.finalize_response = _finalizer(finalize, verdict, timer)  # type: ignore[method-assign]
        return True

    def caller(self, request: DrfRequest, view: APIView) -> Caller | None:
        """Override to identify the caller. None: by API key, as in the middleware."""
        return None

    def judge(self, core: Core, request: DrfRequest, view: APIView) -> Conversation[RequestVerdict]:
        plain = request_of(request._request)
        caller = self.caller(request, view)
        endpoint = getattr(view, "headroom_endpoint", None)
        try:
            known = caller or (yield from guard().caller(core, plain))
            endpoint = endpoint or (yield from guard().endpoint(core, plain))
        except StoreError:
            return without_store(core)
        if isinstance(known, Problem):
            return refusal(known)
        subject = {"ip": guard().client_ip(plain), **known.subject}
        cost = getattr(view, "headroom_cost", None)
        priority = getattr(view, "headroom_priority", "") or guard().priority(plain)
        check = Check(known.tenant, endpoint, subject, cost, secrets.token_hex(12), priority)
        return (yield from guard().decide(core, check, guard().rules.max_wait_ms))


def _finalizer(finalize: Finalize, verdict: RequestVerdict, timer: ResponseTimer | None) -> Finalize:
    def finalize_response(*arguments: Any, **named: Any) -> Response:
        response = finalize(*arguments, **named)
        is_json = getattr(response, "accepted_media_type", "").startswith("application/json")
        if verdict.problem is not None and is_json:
            response.content_type = CONTENT_TYPE
        finished(response, verdict, release_of(verdict), timer)
        return response

    return finalize_response
