"""A small configuration, made by the services: tiers free and pro, acme on pro, bolt on free."""

from __future__ import annotations

from typing import Any, TypedDict

from quotas.errors import accepted
from quotas.models import Limit, Outbox, Revision
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.tenants import NewTenant, tenants_create
from tenants.models import ApiKey
from tenants.secrets import KeyText
from tests.database import kept

PAY, GET = "payments:charge", "rides:get"


class Said(TypedDict):
    author: str
    reason: str


class Forced(Said):
    force: bool


SAID: Said = {"author": "ann", "reason": "because"}
# Most tests are about something else than whom a change hurts.
FORCED: Forced = {**SAID, "force": True}


def bucket(rate: int, name: str = "burst", **fields: Any) -> dict[str, Any]:
    return {"name": name, "algorithm": "token_bucket", "rate": rate, "burst": 2 * rate, **fields}


DOCUMENT = f"""
tiers: [{{name: free}}, {{name: pro}}]
endpoints:
  - {{name: "{PAY}", method: POST, path: /v1/charges, default_cost: 10}}
  - {{name: "{GET}", method: GET, path: "/v1/rides/{{id}}"}}
policies:
  - name: free-all
    tier: free
    endpoint: "*"
    limits:
      - {{name: burst, algorithm: token_bucket, rate: 10, burst: 20}}
  - name: pro-all
    tier: pro
    endpoint: "*"
    limits:
      - {{name: burst, algorithm: token_bucket, rate: 100, burst: 200}}
      - {{name: minute, algorithm: token_bucket, rate: 1000, per: 1m, burst: 2000}}
"""


@kept
def make_world() -> None:
    document_apply(document=accepted(read_document(DOCUMENT)), **SAID)
    tenants_create(tenants=[NewTenant("acme", "pro"), NewTenant("bolt", "free")], **SAID)


def newest() -> Revision:
    return Revision.objects.latest("number")


def opened_by(text: str) -> ApiKey | None:
    """The key that is stored for this text and not revoked."""
    key = KeyText.parse(text)
    row = ApiKey.objects.filter(key_id=key.key_id, revoked_at=None).first() if key else None
    return row if key and row and key.opens(row.secret_hash, row.secret_version) else None


def waiting() -> list[str]:
    """What the newest outbox row asks to recompile."""
    return Outbox.objects.latest("id").touched


def limit_of(policy: str, name: str = "burst") -> Limit:
    return Limit.objects.get(policy__name=policy, name__name=name)


def rates(past: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    """Rate, revision, carry of stored generations."""
    return [(row["parameters"]["rate"], row["revision"], row["carry"]) for row in past]
