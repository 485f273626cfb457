"""The gateway's operations in the OpenAPI document, written by hand: the generator only sees Django's routes."""

from __future__ import annotations

from typing import Any, Final

from headroom_edge.check import COST_MAX, DIMENSIONS_MAX, ENDPOINT_CHARACTERS, TENANT
from headroom_edge.gateway.authz import NGINX, ORIGINAL, PROBLEM, STATUS
from headroom_edge.gateway.check import CHECKS_AT_MOST, LONGEST_HOLDER
from headroom_edge.plan.paths import LONGEST_PATH
from headroom_edge.plan.priority import PRIORITIES
from headroom_edge.plan.subject import DIMENSION, RESERVED
from headroom_edge.problems import CONTENT_TYPE
from headroom_edge.results import RESULTS

Json = dict[str, Any]

_TEXT: Final[Json] = {"type": "string"}
_WORD: Final[Json] = {"type": "string", "minLength": 1}
_WHOLE: Final[Json] = {"type": "integer"}


def _described(schema: Json, text: str) -> Json:
    return schema | {"description": text}


_ITEM: Final[Json] = {
    "tenant": _described(
        {"type": "string", "pattern": f"^{TENANT.pattern}$"},
        "The tenant to charge. Not needed with a tenant's own key.",
    ),
    "api_key": _described(
        _TEXT, "Instead of `tenant`: the key that your caller sent. The subject then has its id as `key`."
    ),
    "endpoint": _described(
        {"type": "string", "minLength": 1, "maxLength": ENDPOINT_CHARACTERS}, "The name of the endpoint that is called."
    ),
    "method": _described(
        _WORD, "Instead of `endpoint`, together with `path`: matched against the endpoints' templates."
    ),
    "path": _described({**_WORD, "maxLength": LONGEST_PATH}, "The path as the client sent it."),
    "cost": _described(
        {"type": ["integer", "null"], "minimum": 1, "maximum": COST_MAX}, "Default: the endpoint's default cost."
    ),
    "subject": _described(
        {
            "type": "object",
            "propertyNames": {"pattern": f"^{DIMENSION.pattern}$", "not": {"enum": sorted(RESERVED)}},
            "additionalProperties": {"type": ["string", "null"]},
            "maxProperties": DIMENSIONS_MAX,
        },
        'Who sent the request, by dimension: `{"ip": "203.0.113.9"}`.',
    ),
    "holder": _described(
        {"type": "string", "maxLength": LONGEST_HOLDER},
        "Your id for this request, for concurrency limits. Default: a generated one.",
    ),
    "priority": _described(
        {"enum": ["", *PRIORITIES]},
        "Lowers the request's priority on pools. A higher one than the endpoint's is ignored.",
    ),
}
_NAMED: Final[Json] = {"anyOf": [{"required": ["endpoint"]}, {"required": ["method", "path"]}]}
_RESULT: Final[Json] = _described(
    {"enum": list(RESULTS), "default": "ignore"},
    "How the request ended: answered, refused by the service or timed out, or not to be counted.",
)
_CHECKS: Final[Json] = {
    "type": "array",
    "items": {"$ref": "#/components/schemas/CheckItem"},
    "minItems": 1,
    "maxItems": CHECKS_AT_MOST,
}
_DECISION: Final[Json] = {
    "allowed": {"type": "boolean"},
    "status": _described(_WHOLE, "The status to respond to your caller with: 200, 401, 403, 429 or 503."),
    "reason": _described(
        _TEXT, "`ok`, `limit`, `cost_too_big`, `suspended`, `unknown_tenant`, `overflow`, `bypass`, …"
    ),
    "tenant": _TEXT,
    "endpoint": _described({"type": ["string", "null"]}, "null: it is not registered, so only limits on `*` apply."),
    "limit": _described(_TEXT, "The limit that decided. Empty: no limit applies."),
    "quota": _WHOLE,
    "remaining": _WHOLE,
    "reset_after_ms": _WHOLE,
    "retry_after_ms": _described({"type": ["integer", "null"]}, "null: waiting does not help."),
    "wait_ms": _described(_WHOLE, "How long to delay an allowed request."),
    "revision": _WHOLE,
    "holder": _described(_TEXT, "Send it to `/v1/release`."),
    "degraded": _described({"type": ["string", "null"]}, "The failure mode that decided because Redis was down."),
    "headers": _described({"type": "object", "additionalProperties": _TEXT}, "Headers to send to your caller."),
    "problem": _described({"type": "object"}, "If denied: the problem+json body to send to your caller."),
}
COMPONENTS: Final[Json] = {
    "CheckItem": {"type": "object", "properties": _ITEM, "additionalProperties": False, **_NAMED},
    "Check": {
        "type": "object",
        "properties": _ITEM | {"checks": _described(_CHECKS, "Several checks. No other field may be sent with it.")},
        "additionalProperties": False,
        "oneOf": [{"required": ["checks"], "maxProperties": 1}, {**_NAMED, "not": {"required": ["checks"]}}],
    },
    "Release": {
        "type": "object",
        "properties": _ITEM
        | {"holder": {"type": "string", "minLength": 1, "maxLength": LONGEST_HOLDER}, "result": _RESULT},
        "required": ["holder"],
        "additionalProperties": False,
        **_NAMED,
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
    "400": "The body is malformed, or a field is invalid or missing; `field` has its path, such as `checks[3].cost`.",
    "401": "The token is missing, unknown, expired or revoked.",
    "403": "The token lacks the scope `check`, or belongs to another tenant.",
    "405": "Only POST is allowed.",
    "408": "The request did not arrive within 10 s.",
    "413": "The body is larger than 1 MiB.",
    "429": "Too many requests without a valid token came from this address; `Retry-After` has the time to wait.",
    "431": "There are more than 16 KiB or 100 fields before the body.",
    "503": "Redis is down, and the token is not cached; or this server is busy. `Retry-After` has the time to wait.",
}
_AUTHZ_REFUSALS: Final = {
    "400": "`original-request-missing`: the proxy does not send its two headers (see above); or `unknown-proxy`.",
    "401": "The API key is missing, unknown, expired or revoked.",
    "403": "The tenant is suspended or unknown, or the key lacks the scope. nginx gets 403 for every refusal but 401: "
    f"the real status is in `{STATUS}`, the body in `{PROBLEM}`.",
    "408": "The request did not arrive within 10 s.",
    "414": "The path is longer than 8,192 characters.",
    "429": "A limit is used up, or too many requests without a valid key came from this address; `Retry-After` has the "
    "time to wait.",
    "431": "There are more than 16 KiB or 100 fields before the body.",
    "503": "Redis is down, and the failure mode is `closed`; or this server is busy.",
}
_ALLOWED_HEADERS: Final = {
    "X-Headroom-Tenant": "The tenant, for the service behind the proxy.",
    "X-Headroom-Key": "The id of the API key.",
    "RateLimit": "What is left of each limit.",
    "RateLimit-Policy": "The limits.",
    "Headroom-Degraded": "The failure mode that decided because Redis was down.",
}


def _problems(meanings: dict[str, str]) -> Json:
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": text, "content": content} for status, text in meanings.items()}


def _posted(name: str, text: str, question: str, answers: list[str], meaning: str, example: Json) -> Json:
    shapes: list[Json] = [{"$ref": f"#/components/schemas/{answer}"} for answer in answers]
    schema = shapes[0] if len(shapes) == 1 else {"oneOf": shapes}
    body = {"schema": {"$ref": f"#/components/schemas/{question}"}, "example": example}
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
        "description": "The proxy that asks. It decides which headers describe the original request.",
    }
    passed = {name: {"schema": _TEXT, "description": text} for name, text in _ALLOWED_HEADERS.items()}
    return {
        "operationId": "authz_get",
        "description": "A proxy asks this for every request, and forwards the request's API key.",
        "tags": ["enforcing"],
        "security": [{"token": []}],
        "parameters": [proxy, *fields],
        "responses": {"200": {"description": "Allowed.", "headers": passed}} | _problems(_AUTHZ_REFUSALS),
    }


def _field(name: str) -> Json:
    proxies = " and ".join(proxy for proxy, pair in ORIGINAL.items() if name in pair)
    what, example = ("method", "GET") if name.endswith("method") else ("path and query", "/rider/v1/rides/7")
    described = f"The {what} of the original request. Required for {proxies}."
    title = "-".join(word.capitalize() for word in name.split("-"))
    shown = {"example": example} if name in ORIGINAL[NGINX] else {}
    return {"name": title, "in": "header", "schema": _TEXT, "description": described, **shown}


PATHS: Final[Json] = {
    "/v1/check": {
        "post": _posted(
            "check",
            "Decides whether one or several requests are within their limits, and charges the allowed ones. The status "
            "is 200 even if a request is denied.",
            "Check",
            ["CheckDecision", "CheckDecisions"],
            "The decision, or one per entry of `checks`, in the same order.",
            {"tenant": "blue-line", "endpoint": "rider:track", "subject": {"ip": "203.0.113.9"}},
        )
    },
    "/v1/release": {
        "post": _posted(
            "release",
            "Releases a concurrency slot before its hold ends. Send the check's fields and the decision's `holder`; "
            "for adaptive limits also how the request ended.",
            "Release",
            ["Released"],
            "The number of slots released.",
            {"tenant": "blue-line", "endpoint": "rider:request", "holder": "7f3a", "result": "ok"},
        )
    },
    "/v1/authz": {"get": _asked_by_proxy()},
}
