from __future__ import annotations

from collections.abc import Callable

import pytest

from quotas import outbox
from quotas.changes.commit import commit
from quotas.errors import Refused
from quotas.models import TenantSearch, TenantSummary
from quotas.tenants import (
    NewTenant,
    tenant_create,
    tenant_move,
    tenant_resume,
    tenant_suspend,
    tenant_update,
    tenants_create,
    tier_create,
)
from tenants.models import Tenant, Tier
from tests.quotas.world import FORCED, SAID, newest, waiting

pytestmark = pytest.mark.usefixtures("world")


def test_a_tier_is_created() -> None:
    tier_create(name="enterprise", **SAID)
    assert (newest().action, newest().touched, waiting()) == ("tier_create", ["tier:enterprise"], ["tier:enterprise"])


def test_a_tenant_is_created() -> None:
    tenant = tenant_create(name="city-cabs", tier="pro", label="City Cabs", timezone="Asia/Kolkata", **SAID)
    state = {"tier": "pro", "label": "City Cabs", "timezone": "Asia/Kolkata", "suspended": ""}
    assert newest().before == {"tenant:city-cabs": None}
    assert newest().after == {"tenant:city-cabs": state}
    assert waiting() == ["tenant:city-cabs"]
    assert tenant.number > 0


def test_many_tenants_are_one_revision() -> None:
    before = newest().number
    rows = tenants_create(tenants=[NewTenant(f"t{n}", "free") for n in range(50)], **SAID)
    assert newest().number == before + 1
    assert len({row.number for row in rows}) == 50


def test_more_names_than_the_publisher_would_read_one_by_one_are_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MOST_NAMES", 10)
    tenants_create(tenants=[NewTenant(f"t{n}", "free") for n in range(11)], **SAID)
    assert waiting() == ["everything"]


def test_numbers_are_never_reused() -> None:
    last = tenant_create(name="gone", tier="pro", **SAID).number
    for model in (TenantSummary, TenantSearch):
        model.objects.filter(tenant=last).delete()
    Tenant.objects.filter(number=last).delete()
    assert tenant_create(name="next", tier="pro", **SAID).number > last


def test_moving_changes_the_tier() -> None:
    tenant_move(name="bolt", tier="pro", **FORCED)
    assert Tenant.objects.get(name="bolt").tier.name == "pro"
    assert waiting() == ["tenant:bolt"]


def test_moving_to_where_it_is_changes_nothing() -> None:
    assert tenant_move(name="bolt", tier="free", **FORCED) is None


def test_suspending_and_resuming() -> None:
    tenant_suspend(name="acme", author="ann", reason="invoice overdue")
    assert Tenant.objects.get(name="acme").suspended_reason == "invoice overdue"
    assert tenant_suspend(name="acme", author="bob", reason="again") is None
    tenant_resume(name="acme", author="ann", reason="paid")
    assert not Tenant.objects.get(name="acme").suspended
    assert tenant_resume(name="acme", author="ann", reason="paid") is None


def test_updating_changes_only_what_is_given() -> None:
    tenant_update(name="acme", label="Acme", timezone="Europe/Berlin", **SAID)
    tenant_update(name="acme", label="Acme Inc.", **SAID)
    tenant = Tenant.objects.get(name="acme")
    assert (tenant.label, tenant.timezone) == ("Acme Inc.", "Europe/Berlin")


def test_tags_and_contacts_are_kept_in_order_and_once() -> None:
    contacts = ["b@x.test", "a@x.test", "b@x.test"]
    tenant_create(name="city", tier="pro", tags=["VIP", "eu ", "vip"], contacts=contacts, **SAID)
    row = Tenant.objects.get(name="city")
    assert (row.tags, row.contacts) == (["eu", "vip"], ["b@x.test", "a@x.test"])
    state = newest().after["tenant:city"]
    assert (state["tags"], state["contacts"]) == (["eu", "vip"], ["b@x.test", "a@x.test"])
    tenant_update(name="city", tags=[], **SAID)
    assert "tags" not in newest().after["tenant:city"]


def test_a_dry_run_of_new_tenants_writes_nothing_and_uses_up_no_number() -> None:
    first = tenant_create(name="w", tier="free", **SAID).number
    outcome = commit(lambda: tenants_create(tenants=[NewTenant("x", "free"), NewTenant("y", "pro")], **SAID), "dry_run")
    assert [one.object for one in outcome.effect.changes] == ["tenant:x", "tenant:y"]
    assert tenant_create(name="z", tier="free", **SAID).number == first + 1


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: tier_create(name="Gold", **SAID), "tier cannot be 'Gold'"),
    (lambda: tier_create(name="pro", **SAID), "tier pro already exists"),
    (lambda: tenant_create(name="Acme!", tier="pro", **SAID), "tenant cannot be 'Acme!'"),
    (lambda: tenant_create(name="acme", tier="pro", **SAID), "tenant acme already exists"),
    (lambda: tenant_create(name="later", tier="gold", **SAID), "there is no tier gold"),
    (lambda: tenant_create(name="later", tier="pro", timezone="Mars/Base", **SAID), "timezone 'Mars/Base' is unknown"),
    (lambda: tenant_create(name="later", tier="pro", label="x" * 201, **SAID), "label has 201 characters"),
    (lambda: tenant_create(name="import", tier="pro", **SAID), "import is part of an address of these pages"),
    (lambda: tenant_create(name="later", tier="pro", tags=["no tag"], **SAID), "a tag cannot be 'no tag'"),
    (lambda: tenant_create(name="later", tier="pro", tags=[f"t{n}" for n in range(21)], **SAID), "there are 21 tags"),
    (lambda: tenant_create(name="later", tier="pro", contacts=["nobody"], **SAID), "'nobody' is not a mail address"),
    (lambda: tenants_create(tenants=[NewTenant("x", "pro"), NewTenant("x", "pro")], **SAID), "tenant x already exists"),
    (lambda: tenant_move(name="nobody", tier="pro", **FORCED), "there is no tenant nobody"),
    (lambda: tenant_move(name="acme", tier="gold", **FORCED), "there is no tier gold"),
    (lambda: tenant_suspend(name="acme", author="ann", reason="  "), "reason is missing"),
    (lambda: tenant_suspend(name="acme", author="", reason="why"), "author is missing"),
    (lambda: tenant_suspend(name="acme", author="ann", reason="x" * 501), "reason has 501 characters"),
]


@pytest.mark.parametrize(("attempt", "sentence"), REFUSALS)
def test_a_refusal_says_why_and_leaves_nothing_behind(attempt: Callable[[], object], sentence: str) -> None:
    before = newest().number, Tenant.objects.count(), Tier.objects.count()
    with pytest.raises(Refused) as refused:
        attempt()
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert before == (newest().number, Tenant.objects.count(), Tier.objects.count())
