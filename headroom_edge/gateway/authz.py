"""`/v1/authz`, which a proxy asks about each request: nginx, Traefik, Caddy, and Envoy's ext_authz."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import parse_qs

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
USUAL_QUERIES: Final = {b"": NGINX, **{b"proxy=%s" % proxy.encode(): proxy for proxy in ORIGINAL}}
STATUS: Final = "X-Headroom-Status"
PROBLEM: Final = "X-Headroom-Problem"


class AuthzResponse(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes = b""


def original(asked: Request, query: bytes, reading: PathReading = USUAL) -> Request | Problem:
    """The request that the proxy asks about, of the same client."""
    proxy = proxy_of(query)
    if proxy == ENVOY:
        return _asked_by_envoy(asked, query, reading)
    if proxy not in ORIGINAL:
        return bad_request("unknown-proxy", f"proxy must be one of {', '.join((*ORIGINAL, ENVOY))}.", "proxy")
    method_field, path_field = ORIGINAL[proxy]
    method, path = asked.header(method_field), asked.header(path_field)
    if not method or not path:
        wanted = f"{method_field} and {path_field}"
        detail = f"{wanted} is missing; configure the proxy to send it (docs/{proxy}.md)."
        return bad_request("original-request-missing", detail, wanted)
    return Request(method, target_path(path, reading), asked.peer, asked.header, raw=asked.raw)


def _asked_by_envoy(asked: Request, query: bytes, reading: PathReading) -> Request | Problem:
    path = query.partition(ENVOY_PATH)[2]
    if not path:
        detail = "path is missing; set path_prefix to /v1/authz?proxy=envoy&path= (docs/envoy.md)."
        return bad_request("original-request-missing", detail, "path")
    return Request(asked.method, target_path(path.decode("latin-1"), reading), asked.peer, asked.header, raw=asked.raw)


def proxy_of(query: bytes) -> str:
    """The first, because a client's own query may follow."""
    usual = USUAL_QUERIES.get(query)
    if usual is not None:
        return usual
    return parse_qs(query.decode("latin-1")).get("proxy", [NGINX])[0]


def response_of(query: bytes, verdict: RequestVerdict) -> AuthzResponse:
    problem = verdict.problem
    if problem is None:
        return AuthzResponse(HTTPStatus.OK, verdict.headers | _who(verdict))
    if proxy_of(query) != NGINX:
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
    if not key or not key.isalnum():
        return {"X-Headroom-Tenant": check.tenant}
    return {"X-Headroom-Tenant": check.tenant, "X-Headroom-Key": key}
