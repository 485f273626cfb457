"""What holds for every operation, told once: at the head of the OpenAPI document and of the page made of it."""

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
        "Who may ask",
        "Machines send `Authorization: Bearer hr_…`: a token with a role (viewer, operator, approver, owner, or "
        "tenant) and scopes (`read`, `write`, `approve`, `check`, `metrics`), or a tenant's API key, which sees "
        "that tenant alone. People who are signed in use their session. A new token or key works, and a revoked one "
        "stops, within a second.",
        'TOKEN=$(.venv/bin/python manage.py token create "my first" --role operator --scope read --scope write)\n'
        'curl -s "$BASE/v1/tenants?limit=2" -H "Authorization: Bearer $TOKEN"',
    ),
    Section(
        "Errors",
        "`application/problem+json` (RFC 9457). `code` is stable and meant for programs, `detail` is one sentence "
        "that says what to change, `field` and `errors` say where. 400 cannot be read, 422 can be read but not "
        "accepted, 409 does not fit what is there now.",
        '{"type": "about:blank", "title": "Unprocessable Entity", "status": 422, "code": "unknown", "field": "tier",\n'
        ' "detail": "tier: there is no tier gold; create it, or correct the name."}',
    ),
    Section(
        "Rehearse",
        "`?dry_run=true` on any change does all of it and takes it back: the answer has the diff, the tenants it "
        "touches, whom it takes more than a tenth from, and whether it needs `force`. Every change says why in "
        "`reason`.",
        'curl -s -X POST "$BASE/v1/tenants/blue-line/move?dry_run=true" -H "Authorization: Bearer $TOKEN" \\\n'
        '     -H "Content-Type: application/json" -d \'{"tier": "pro", "reason": "they bought it"}\'',
    ),
    Section(
        "Two at once",
        "What is read carries an `ETag`. Send it as `If-Match` with a change: 412 says that somebody was faster. "
        "Where it is required and missing, the answer is 428; `If-Match: *` means whatever is there.",
        'curl -s -X PATCH "$BASE/v1/endpoints/rider:quote" -H "Authorization: Bearer $TOKEN" -H "If-Match: *" \\\n'
        '     -H "Content-Type: application/json" -d \'{"default_cost": 1, "reason": "as it was"}\'',
    ),
    Section(
        "Once only",
        "Creates take an `Idempotency-Key` of up to 255 printable characters. The same key with the same request "
        "within 24 hours gives the same answer and creates nothing; with another request it is refused with 422.",
        'curl -s -X POST "$BASE/v1/tiers" -H "Authorization: Bearer $TOKEN" -H "Idempotency-Key: tier-trial-1" \\\n'
        '     -H "Content-Type: application/json" -d \'{"name": "trial", "reason": "a first look"}\'',
    ),
    Section(
        "Pages",
        "Lists answer `{items, next}`. `limit` is 1 to 200 (50 unless said), `next` is the `cursor` of the next "
        "page, null on the last. A page costs the same at the end of 100,000 rows as at the beginning.",
    ),
    Section(
        "Times and amounts",
        "Times are ISO 8601 with a zone, `2030-01-31T18:00:00Z`; answers are in UTC. Durations are text with a "
        "unit: `10s`, `15m`, `2h`, `7d`. Rates are a whole `rate` per `per`. What ends in `_ms` is milliseconds.",
    ),
    Section(
        "Its own limits",
        "This API is limited by Headroom itself: answers carry `RateLimit` and `RateLimit-Policy`, a 429 "
        "`Retry-After`.",
    ),
    Section(
        "Enforcing",
        "`/v1/check`, `/v1/release` and `/v1/authz` decide about requests. They need Redis alone, run beside this "
        "API or by themselves (`python -m headroom_edge.gateway`), and take tokens and keys with the scope `check`.",
        "KEY=$(.venv/bin/python manage.py api_key create blue-line)\n"
        'curl -s "$BASE/v1/check" -H "Authorization: Bearer $KEY" -d \'{"endpoint": "rider:track"}\'',
    ),
)


def markdown(summary: str) -> str:
    return "\n\n".join((summary, *(_markdown(section) for section in SECTIONS)))


def _markdown(section: Section) -> str:
    example = f"\n\n```\n{section.example}\n```" if section.example else ""
    return f"## {section.title}\n\n{section.text}{example}"
