"""An example request for every operation, with names from the demo. A test validates each against its schema."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

Json = dict[str, Any]

_BURST: Final[Json] = {"name": "burst", "algorithm": "token_bucket", "rate": 5, "per": "1s", "burst": 20}
_DOCUMENT: Final = "tiers: [{name: trial}]"
_OPENAPI: Final = "openapi: 3.0.3\npaths: {/rider/v1/cities: {get: {operationId: cities, tags: [rider]}}}"
_REASON: Final[Json] = {"reason": "agreed with the customer"}
# By operation. Operations that are not listed take a reason only.
BODIES: Final[Mapping[str, Json]] = {
    "tier_list_post": {"name": "trial"},
    "tier_detail_patch": {"label": "Professional"},
    "tier_duplicate_post": {"name": "gold", "label": "Gold"},
    "tier_retire_post": {"to": "enterprise"},
    "tenant_list_post": {"name": "acme-rides", "tier": "free", "tags": ["pilot"], "contacts": ["api@acme.example"]},
    "tenant_detail_patch": {"label": "Acme Rides"},
    "tenant_move_post": {"tier": "pro"},
    "tenants_move_post": {"names": ["blue-line", "early-bird"], "tier": "pro"},
    "tenants_suspend_post": {"names": ["early-bird"]},
    "tenants_resume_post": {"names": ["early-bird"]},
    "tenants_tag_post": {"names": ["blue-line", "early-bird"], "add": ["pilot"]},
    "tenants_import_post": {"csv": "name,tier,label\nacme-rides,free,Acme Rides\n"},
    "tenant_reset_post": {"endpoint": "rider:quote", "limit": "quotes-per-client", "subject": {"ip": "203.0.113.9"}},
    "api_key_list_post": {"tenant": "blue-line", "label": "their app"},
    "api_key_detail_patch": {"label": "their app, version 2"},
    "api_key_rotate_post": {"overlap": "24h"},
    "endpoint_list_post": {"name": "rider:rate", "method": "POST", "path": "/rider/v1/rides/{id}/rating"},
    "endpoint_import_post": {"document": _OPENAPI},
    "endpoint_detail_patch": {"default_cost": 1},
    "pool_list_post": {"name": "partners", "endpoint": "rider:quote", "rate": 100, "burst": 200, "reserve": 100},
    "pool_detail_patch": {"rate": 120, "reserve": 150},
    "pool_members_post": {"tenant": "blue-line", "guaranteed": 20, "ceiling": 60},
    "pool_members_patch": {"shares": [{"tenant": "blue-line", "guaranteed": 30, "ceiling": 60}]},
    "policy_list_post": {"name": "trial-everywhere", "tier": "trial", "limits": [_BURST]},
    "policy_detail_put": {"limits": [_BURST]},
    "policy_limit_put": {"limit": {**_BURST, "name": "quotes"}},
    "policy_rename_post": {"to": "pro-quotes-2030"},
    "policy_limit_rename_post": {"to": "quotes-per-minute"},
    "policy_limit_pin_post": {"at": "42%"},
    "policy_limit_unpin_post": {},
    "override_list_post": {"tenant": "blue-line", "multiplier": {"numerator": 2}, "end": "2030-01-31T18:00:00Z"},
    "override_detail_patch": {"end": "2030-02-28T18:00:00Z"},
    "override_extend_post": {"by": "24h"},
    "overrides_give_post": {"tenants": ["blue-line", "metro-hop"], "multiplier": {"numerator": 2}},
    "overrides_extend_post": {"overrides": [7, 8], "by": "24h"},
    "overrides_cancel_post": {"overrides": [7, 8]},
    "change_start_post": {"mode": "shadow"},
    "change_trial_patch": {"bar_share": 0.01, "ends": "2030-01-31T18:00:00Z"},
    "chart_note_list_post": {"at": "2030-01-07T08:00:00Z", "text": "Marketing campaign starts"},
    "freeze_list_post": {"start": "2030-01-01T06:00:00Z", "end": "2030-01-02T06:00:00Z", "roles": ["owner"]},
    "token_detail_patch": {"may_approve": True},
    "explain_post": {"tenant": "blue-line", "method": "GET", "path": "/rider/v1/rides/7"},
    "bypass_list_post": {"scope": "tenant", "name": "blue-line", "duration": "30m"},
    "document_validate_post": {"document": _DOCUMENT},
    "document_plan_post": {"document": _DOCUMENT},
    "document_apply_post": {"document": _DOCUMENT},
    "alert_target_list_post": {"kind": "webhook", "address": "https://example.com/alerts"},
    "recommendation_edit_post": {"rate": 12.5, "burst": 40},
    "what_if_list_post": {"document": _DOCUMENT, "days": 7},
    "calibration_settings_patch": {"values": {"least_days": 14}},
}
SHOWN: Final = ("required", "example")  # request headers with one of these are part of the example
_WITHOUT_REASON: Final = frozenset({"explain_post", "document_validate_post", "document_plan_post"})
_NAMES: Final = {
    "tiers": "pro",
    "tenants": "blue-line",
    "endpoints": "rider:quote",
    "policies": "pro-quotes",
    "alert-rules": "denied-share",
}
_VALUES: Final = {"limit": "quotes", "key_id": "0123456789abcdef", "number": "1", "about": "tenant:blue-line"}


def body_of(operation: str) -> Json:
    return BODIES.get(operation, {}) | ({} if operation in _WITHOUT_REASON else _REASON)


def address_of(path: str) -> str:
    """The path with its parameters replaced by names from the demo."""
    address = path.replace("{name}", _NAMES.get(path.split("/")[2], "name"))
    for name, value in _VALUES.items():
        address = address.replace(f"{{{name}}}", value)
    return address


def command_of(method: str, path: str, raw: Mapping[str, Any]) -> str:
    """The example as a shell command. `$BASE` is the API's URL, `$TOKEN` the caller's token."""
    required = [parameter for parameter in raw.get("parameters", ()) if parameter.get("required")]
    asked = "&".join(f"{one['name']}={quote(_REASON['reason'])}" for one in required if one["in"] == "query")
    words = ["curl -s", *([] if method == "get" else [f"-X {method.upper()}"])]
    words += [f'"$BASE{address_of(path)}{"?" + asked if asked else ""}"', '-H "Authorization: Bearer $TOKEN"']
    headers = [one for one in raw.get("parameters", ()) if one["in"] == "header" and not one.keys().isdisjoint(SHOWN)]
    words += [f'-H "{one["name"]}: {one.get("example", "*")}"' for one in headers]
    for kind, content in raw.get("requestBody", {}).get("content", {}).items():
        words += [f'-H "Content-Type: {kind}"', f"-d {shlex.quote(json.dumps(content['example']))}"]
    return " ".join(words)
