"""The gateway's operations in the OpenAPI document: the generator knows Django's routes only."""

from __future__ import annotations

from typing import Any, Final

from headroom_edge.gateway.authz import NGINX, ORIGINAL, PROBLEM, STATUS
from headroom_edge.gateway.check import CHECKS_AT_MOST
from headroom_edge.problems import CONTENT_TYPE

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_WHOLE: Final[Json] = {"type": "integer"}


def _said(schema: Json, text: str) -> Json:
    return schema | {"description": text}


_ITEM: Final[Json] = {
    "tenant": _said(_TEXT, "Who pays; a tenant's own key need not say it."),
    "api_key": _said(
        _TEXT, "Instead of `tenant`: the key that your caller sent; the subject then has its id as `key`."
    ),
    "endpoint": _said(_TEXT, "What is called, by its name."),
    "method": _said(_TEXT, "Instead of `endpoint`, with `path`: matched against the endpoints' templates."),
    "path": _said(_TEXT, "As the client sent it; at most 8,192 characters."),
    "cost": _said({"type": ["integer", "null"], "minimum": 1}, "Left out: the endpoint's own."),
    "subject": _said(
        {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        'What else is known: `{"ip": "203.0.113.9"}`.',
    ),
    "holder": _said(_TEXT, "Your name for this request where concurrency is limited; left out, one is made."),
}
_CHECKS: Final[Json] = {
    "type": "array",
    "items": {"$ref": "#/components/schemas/CheckItem"},
    "minItems": 1,
    "maxItems": CHECKS_AT_MOST,
}
_DECISION: Final[Json] = {
    "allowed": {"type": "boolean"},
    "status": _said(_WHOLE, "What to answer your caller with: 200, 401, 403, 429 or 503."),
    "reason": _said(_TEXT, "`ok`, `limit`, `cost_too_big`, `suspended`, `unknown_tenant`, `overflow`, `bypass`, …"),
    "tenant": _TEXT,
    "endpoint": _said({"type": ["string", "null"]}, "null: it is not registered, so only the limits on `*` hold."),
    "limit": _said(_TEXT, "The one that bound the decision; empty: none did."),
    "quota": _WHOLE,
    "remaining": _WHOLE,
    "reset_after_ms": _WHOLE,
    "retry_after_ms": _said({"type": ["integer", "null"]}, "null: waiting does not help."),
    "wait_ms": _said(_WHOLE, "Of an allowed request: wait so long for its turn."),
    "revision": _WHOLE,
    "holder": _said(_TEXT, "For `/v1/release`."),
    "degraded": _said({"type": ["string", "null"]}, "The failure mode that decided, when Redis could not."),
    "headers": _said({"type": "object", "additionalProperties": _TEXT}, "To pass on as they are."),
    "problem": _said({"type": "object"}, "Of a denied request: the body to answer with, as problem+json."),
}
COMPONENTS: Final[Json] = {
    "CheckItem": {"type": "object", "properties": _ITEM, "additionalProperties": False},
    "Check": {
        "type": "object",
        "properties": _ITEM | {"checks": _said(_CHECKS, "Many at once, and nothing beside it.")},
        "additionalProperties": False,
    },
    "CheckDecision": {
        "type": "object",
        "properties": _DECISION,
        "required": ["allowed", "status", "reason", "headers"],
        "additionalProperties": False,
    },
    "CheckDecisions": {
        "type": "object",
        "properties": {"decisions": {"type": "array", "items": {"$ref": "#/components/schemas/CheckDecision"}}},
        "required": ["decisions"],
        "additionalProperties": False,
    },
    "Released": {"type": "object", "properties": {"released": _WHOLE}, "required": ["released"]},
}
_REFUSALS: Final = {
    "400": "It cannot be read, or a field is wrong or missing; `field` says which, as in `checks[3].cost`.",
    "401": "No token, or one that is unknown or revoked.",
    "403": "The token lacks the scope `check`, or belongs to another tenant.",
    "405": "Only POST.",
    "413": "The body is over 1 MiB.",
    "503": "Redis is away, and the caller is not known here.",
}
_AUTHZ_REFUSALS: Final = {
    "400": "`original-request-missing`: the proxy does not send the two fields above that are its own; "
    "or `unknown-proxy`.",
    "401": "No key, or one that is unknown or revoked.",
    "403": "Suspended, unknown, or a key that may not. For nginx every refusal but 401: the true status is in "
    f"`{STATUS}`, the body to answer with in `{PROBLEM}`.",
    "414": "The path is over 8,192 characters.",
    "429": "A limit is used up; `Retry-After` says until when.",
    "503": "Redis is away, and what fails closed is closed.",
}
_ALLOWED_HEADERS: Final = {
    "X-Headroom-Tenant": "Who was let through, for the service behind.",
    "X-Headroom-Key": "The id of the key.",
    "RateLimit": "What is left of each limit.",
    "RateLimit-Policy": "The limits.",
    "Headroom-Degraded": "Decided without Redis, by this failure mode.",
}


def _problems(meanings: dict[str, str]) -> Json:
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": text, "content": content} for status, text in meanings.items()}


def _posted(name: str, text: str, answers: list[str], meaning: str, example: Json) -> Json:
    shapes: list[Json] = [{"$ref": f"#/components/schemas/{answer}"} for answer in answers]
    schema = shapes[0] if len(shapes) == 1 else {"oneOf": shapes}
    body = {"schema": {"$ref": "#/components/schemas/Check"}, "example": example}
    return {
        "operationId": f"{name}_post",
        "description": text,
        "tags": ["enforcing"],
        "security": [{"token": []}],
        "requestBody": {"required": True, "content": {"application/json": body}},
        "responses": {"200": {"description": meaning, "content": {"application/json": {"schema": schema}}}}
        | _problems(_REFUSALS),
    }


def _asked_by_proxy() -> Json:
    names = sorted({name for pair in ORIGINAL.values() for name in pair})
    fields = [_field(name) for name in names]
    proxy = {
        "name": "proxy",
        "in": "query",
        "schema": {"type": "string", "enum": list(ORIGINAL), "default": NGINX},
        "description": "Whose fields carry the original request.",
    }
    passed = {name: {"schema": _TEXT, "description": text} for name, text in _ALLOWED_HEADERS.items()}
    return {
        "operationId": "authz_get",
        "description": "What a proxy asks before it lets a request through; that request's API key comes along.",
        "tags": ["enforcing"],
        "security": [{"token": []}],
        "parameters": [proxy, *fields],
        "responses": {"200": {"description": "Let it through.", "headers": passed}} | _problems(_AUTHZ_REFUSALS),
    }


def _field(name: str) -> Json:
    proxies = " and ".join(proxy for proxy, pair in ORIGINAL.items() if name in pair)
    what, example = ("method", "GET") if name.endswith("method") else ("path and query", "/rider/v1/rides/7")
    described = f"Required with {proxies}: the {what} of the original request."
    title = "-".join(word.capitalize() for word in name.split("-"))
    shown = {"example": example} if name in ORIGINAL[NGINX] else {}
    return {"name": title, "in": "header", "schema": _TEXT, "description": described, **shown}


PATHS: Final[Json] = {
    "/v1/check": {
        "post": _posted(
            "check",
            "Decides about one request, or many, and charges what is allowed. 200 whenever there is a decision, also "
            "one that denies.",
            ["CheckDecision", "CheckDecisions"],
            "The decision, or one for each of `checks`, in their order.",
            {"tenant": "blue-line", "endpoint": "rider:track", "subject": {"ip": "203.0.113.9"}},
        )
    },
    "/v1/release": {
        "post": _posted(
            "release",
            "Gives a concurrency slot back before its hold ends: the same fields, with the `holder` of the decision.",
            ["Released"],
            "How many slots came back.",
            {"tenant": "blue-line", "endpoint": "rider:request", "holder": "7f3a"},
        )
    },
    "/v1/authz": {"get": _asked_by_proxy()},
}
