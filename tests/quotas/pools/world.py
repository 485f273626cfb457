"""A pool for everyone on payments:charge, shared by the tenants of two tiers; one of them has a share of its own."""

from __future__ import annotations

from quotas.errors import accepted
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.tenants import NewTenant, tenants_create
from tests.quotas.world import PAY, SAID

DOCUMENT = f"""
tiers: [{{name: gold}}, {{name: silver}}]
endpoints:
  - {{name: "{PAY}", method: POST, path: /v1/charges}}
  - {{name: "payments:refund", method: POST, path: /v1/refunds}}
policies:
  - name: everyone-charge
    endpoint: "{PAY}"
    limits:
      - {{name: cards, algorithm: pool, rate: 100, per: 1s, burst: 200, reserve: 100}}
  - name: gold-charge
    tier: gold
    endpoint: "{PAY}"
    limits:
      - {{name: charge, algorithm: borrowing, assured: 30, burst: 30, ceiling: 60, parent: cards}}
  - name: silver-charge
    tier: silver
    endpoint: "{PAY}"
    limits:
      - {{name: charge, algorithm: borrowing, assured: 20, burst: 20, parent: cards}}
"""
TENANTS = (("kite", "gold"), ("lagoon", "gold"), ("summit", "silver"))


def make_pool_world() -> None:
    document_apply(document=accepted(read_document(DOCUMENT)), **SAID)
    tenants_create(tenants=[NewTenant(name, tier) for name, tier in TENANTS], **SAID)


def grow(number: int) -> None:
    """More tenants of the tier gold."""
    tenants_create(tenants=[NewTenant(f"fleet-{each}", "gold") for each in range(number)], **SAID)


TEAMS = """
tiers: [{name: plain}]
policies:
  - name: plain-all
    tier: plain
    endpoint: "*"
    limits:
      - {name: org, algorithm: pool, rate: 1000, burst: 250, reserve: 200}
      - {name: team, algorithm: borrowing, assured: 200, burst: 100, ceiling: 800, parent: org, subject: team}
      - {name: key, algorithm: borrowing, assured: 20, burst: 10, ceiling: 500, parent: team, subject: team+key}
"""


def make_team_world() -> None:
    document_apply(document=accepted(read_document(TEAMS)), **SAID)
    tenants_create(tenants=[NewTenant("acme", "plain"), NewTenant("bolt", "plain")], **SAID)
