"""The introduction to the API, shown at the top of the OpenAPI document and of /v1/docs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    text: str
    example: str = ""


SECTIONS: Final = (
    Section(
        "Authentication",
        "Machines send `Authorization: Bearer hr_…`: a token with a role (viewer, operator, approver, owner or "
        "tenant) and scopes (`read`, `write`, `approve`, `check`, `metrics`), or a tenant's API key, which only sees "
        "that tenant. People who are signed in use their session. New tokens and keys work, and revoked ones stop "
        "working, within a second.",
        'TOKEN=$(.venv/bin/python manage.py token create "my first" --role operator --scope read --scope write)\n'
        'curl -s "$BASE/v1/tenants?limit=2" -H "Authorization: Bearer $TOKEN"',
    ),
    Section(
        "Errors",
        "Errors are `application/problem+json` (RFC 9457). `code` is stable and meant for programs, `detail` is one "
        "sentence that says what to change, `field` and `errors` name the fields. 400: the request is malformed. 422: "
        "it is well-formed but not valid. 409: it conflicts with the current state. 423: the configuration is frozen; "
        "`until` and `reason` say until when and why, `may_pass` who may change it all the same.",
        '{"type": "about:blank", "title": "Unprocessable Entity", "status": 422, "code": "unknown", "field": "tier",\n'
        ' "detail": "There is no tier gold; create it, or correct the name."}',
    ),
    Section(
        "Dry runs",
        "Add `?dry_run=true` to any change to see its effect without making it. The response has the diff, the tenants "
        "that it affects, the limits that it cuts by more than 10 %, and whether it needs `force`. Every change needs "
        "a `reason`.",
        'curl -s -X POST "$BASE/v1/tenants/blue-line/move?dry_run=true" -H "Authorization: Bearer $TOKEN" \\\n'
        '     -H "Content-Type: application/json" -d \'{"tier": "pro", "reason": "they bought it"}\'',
    ),
    Section(
        "Concurrent changes",
        "Resources have an `ETag`. Send it as `If-Match` with a change: 412 means that somebody else has changed the "
        "resource since you read it. If `If-Match` is required but missing, the response is 428. `If-Match: *` "
        "overwrites any version.",
        'curl -s -X PATCH "$BASE/v1/endpoints/rider:quote" -H "Authorization: Bearer $TOKEN" -H "If-Match: *" \\\n'
        '     -H "Content-Type: application/json" -d \'{"default_cost": 1, "reason": "back to the default"}\'',
    ),
    Section(
        "Repeated requests",
        "A POST that changes something accepts an `Idempotency-Key` of up to 255 visible ASCII characters. Repeating "
        "the request with the same key within 24 hours gives the same response and changes nothing. A different "
        "request with that key is refused with 422.",
        'curl -s -X POST "$BASE/v1/tiers" -H "Authorization: Bearer $TOKEN" -H "Idempotency-Key: tier-trial-1" \\\n'
        '     -H "Content-Type: application/json" -d \'{"name": "trial", "reason": "for evaluation"}\'',
    ),
    Section(
        "Pagination",
        "Lists return `{items, next}`. `limit` is 1 to 200 (default 50). `next` is the `cursor` of the next page, or "
        "null on the last page. The last page of 100,000 rows is as fast as the first.",
    ),
    Section(
        "Times and amounts",
        "Times are ISO 8601 with a time zone, such as `2030-01-31T18:00:00Z`; responses are in UTC. Durations are text "
        "with a unit: `10s`, `15m`, `2h`, `7d`. A rate is a whole number, `rate`, per duration, `per`. Fields that end "
        "in `_ms` are in milliseconds.",
    ),
    Section(
        "Rate limits",
        "Headroom limits this API too. Responses have `RateLimit` and `RateLimit-Policy` headers; a 429 also has "
        "`Retry-After`.",
    ),
    Section(
        "Enforcement",
        "`/v1/check`, `/v1/release` and `/v1/authz` decide about requests. They only need Redis. They run as part of "
        "this API or on their own (`python -m headroom_edge.gateway`), and accept tokens and keys with the scope "
        "`check`.",
        "KEY=$(.venv/bin/python manage.py api_key create blue-line)\n"
        'curl -s "$BASE/v1/check" -H "Authorization: Bearer $KEY" -d \'{"endpoint": "rider:track"}\'',
    ),
)


def markdown(summary: str) -> str:
    return "\n\n".join((summary, *(_markdown(section) for section in SECTIONS)))


def _markdown(section: Section) -> str:
    example = f"\n\n```\n{section.example}\n```" if section.example else ""
    return f"## {section.title}\n\n{section.text}{example}"
