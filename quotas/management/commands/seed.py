from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

from django.core.management.base import BaseCommand
from django.db import transaction
from django.utils import timezone

from quotas.models import Revision
from quotas.policy.document import read_document
from quotas.services.api_keys import api_key_issue
from quotas.services.documents import document_apply
from quotas.services.drafts import take_turn
from quotas.services.errors import accepted
from quotas.services.overrides import override_create
from quotas.services.policies import policy_create
from quotas.services.tenants import NewTenant, tenant_suspend, tenants_create

DOCUMENT = Path(__file__).resolve().parent.parent / "seed.yaml"
TENANTS = (
    NewTenant("amber-cabs", "free", "Amber Cabs", "Europe/Lisbon"),
    NewTenant("blue-line", "free", "Blue Line"),
    NewTenant("city-wheels", "free", "City Wheels", "America/New_York"),
    NewTenant("delta-shuttle", "free", "Delta Shuttle", "Asia/Kolkata"),
    NewTenant("early-bird", "free", "Early Bird Transfers"),
    NewTenant("fleetly", "pro", "Fleetly", "Europe/Berlin"),
    NewTenant("green-go", "pro", "Green Go", "America/Sao_Paulo"),
    NewTenant("harbor-taxi", "pro", "Harbor Taxi"),
    NewTenant("inner-ring", "pro", "Inner Ring", "Asia/Tokyo"),
    NewTenant("jet-transfer", "pro", "Jet Transfer", "Australia/Sydney"),
    NewTenant("kite-mobility", "enterprise", "Kite Mobility", "Asia/Singapore"),
    NewTenant("lagoon-ferry", "enterprise", "Lagoon Ferry", "Africa/Lagos"),
)


class Said(TypedDict):
    author: str
    reason: str


class Permitted(Said):
    emergency: bool


SAID: Said = {"author": "seed", "reason": "something to start with"}
# There is nobody yet who could approve it.
PERMITTED: Permitted = {**SAID, "emergency": True}


class Command(BaseCommand):
    help = "Give an empty installation tiers, endpoints, policies and tenants to look at; otherwise do nothing."

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            take_turn()
            if Revision.objects.exists():
                self.stdout.write("there is a configuration already: nothing was seeded")
                return
            _seed()
        self.stdout.write(f"seeded {len(TENANTS)} tenants")


def _seed() -> None:
    document_apply(document=accepted(read_document(DOCUMENT.read_text(encoding="utf-8"))), **PERMITTED)
    tenants_create(tenants=TENANTS, **SAID)
    policy_create(
        name="harbor-taxi-everywhere",
        tenant="harbor-taxi",
        limits=[{"name": "burst", "algorithm": "token_bucket", "rate": 150, "per": "1s", "burst": 450}],
        **PERMITTED,
    )
    week = timezone.now() + timedelta(days=7)
    override_create(
        tenant="fleetly", multiplier=(3, 2), end=week, author="seed", reason="a festival in town", emergency=True
    )
    override_create(
        tenant="green-go",
        endpoint="drivers:locate",
        limits={"smooth": {"queue": 500}},
        end=week,
        author="seed",
        reason="their map polls in step until the next release",
        emergency=True,
    )
    tenant_suspend(name="early-bird", author="seed", reason="invoice overdue")
    for tenant in TENANTS:
        api_key_issue(tenant=tenant.name, label="seeded", **SAID)
