"""`/v1/authz`, which a proxy asks about each request: nginx, Traefik, Caddy, and Envoy's ext_authz."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from headroom_edge.asgi import Scope, header_of, request_of
from headroom_edge.plan.paths import USUAL, PathReading, target_path
from headroom_edge.problems import Problem, bad_request
from headroom_edge.request_guard import Request, RequestVerdict

NGINX: Final = "nginx"
ENVOY: Final = "envoy"
# Envoy asks with the client's method, and writes the client's path behind `/v1/authz?proxy=envoy&path=` as it is.
ENVOY_PATH: Final = b"&path="
# The headers with the method and path of the original request. The proxy's configuration chooses them (?proxy=…). They
# are never guessed: the proxy also forwards the client's headers, and a client could send any of these.
ORIGINAL: Final = {
    NGINX: ("x-original-method", "x-original-uri"),
    "traefik": ("x-forwarded-method", "x-forwarded-uri"),
    "caddy": ("x-forwarded-method", "x-forwarded-uri"),
}
STATUS: Final = "X-Headroom-Status"
PROBLEM: Final = "X-Headroom-Problem"


@dataclass(frozen=True, slots=True)
class AuthzResponse:
    status: int
    headers: dict[str, str]
    body: bytes = b""


def original(scope: Scope, reading: PathReading = USUAL) -> Request | Problem:
    proxy = proxy_of(scope)
    if proxy == ENVOY:
        return _asked_by_envoy(scope, reading)
    if proxy not in ORIGINAL:
        return bad_request("unknown-proxy", f"proxy must be one of {', '.join((*ORIGINAL, ENVOY))}.", "proxy")
    method, path = (header_of(scope, name) for name in ORIGINAL[proxy])
    if not method or not path:
        wanted = " and ".join(ORIGINAL[proxy])
        detail = f"{wanted} is missing; configure the proxy to send it (docs/{proxy}.md)."
        return bad_request("original-request-missing", detail, wanted)
    return request_of(scope, target_path(path, reading), method=method)


def _asked_by_envoy(scope: Scope, reading: PathReading) -> Request | Problem:
    path: bytes = scope["query_string"].partition(ENVOY_PATH)[2]
    if not path:
        detail = "path is missing; set path_prefix to /v1/authz?proxy=envoy&path= (docs/envoy.md)."
        return bad_request("original-request-missing", detail, "path")
    return request_of(scope, target_path(path.decode("latin-1"), reading))


def proxy_of(scope: Scope) -> str:
    """The first, because a client's own query may follow."""
    query = scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1")).get("proxy", [NGINX])[0] if query else NGINX


def response_of(scope: Scope, verdict: RequestVerdict) -> AuthzResponse:
    problem = verdict.problem
    if problem is None:
        return AuthzResponse(HTTPStatus.OK, {**verdict.headers, **_who(verdict)})
    if proxy_of(scope) != NGINX:
        return AuthzResponse(problem.status, verdict.headers, verdict.body)
    # nginx accepts 2xx, 401 and 403; anything else is a fault to it. Its configuration maps these headers back.
    status = HTTPStatus.UNAUTHORIZED if problem.status == HTTPStatus.UNAUTHORIZED else HTTPStatus.FORBIDDEN
    fields = {**verdict.headers, STATUS: str(int(problem.status)), PROBLEM: verdict.body.decode()}
    return AuthzResponse(status, fields, verdict.body)


def _who(verdict: RequestVerdict) -> dict[str, str]:
    """Headers that tell the service behind the proxy who was let through."""
    if verdict.decision is None:
        return {}
    check = verdict.decision.check
    key = check.subject.get("key")
    return {"X-Headroom-Tenant": check.tenant} | ({"X-Headroom-Key": key} if key and key.isalnum() else {})
