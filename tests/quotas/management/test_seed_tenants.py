"""`manage.py seed --tenants N`: very many tenants without a past, written whole or not at all."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
import redis
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db.models import Count
from django.utils import timezone

from headroom_edge import Limiter
from quotas.changes.undo import revision_revert
from quotas.demo import many_tenants
from quotas.models import Limit, Outbox, Override, Policy, Revision
from quotas.models.revision import AuditEvent
from quotas.models.tenant_summary import TenantSearch, TenantSummary, TenantSummaryRun
from quotas.policies.explain import explain
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.tenants import tenant_move, tier_create
from tenants.models import Tenant, Tier

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 500


def seed(*options: str) -> str:
    out = StringIO()
    call_command("seed", *options, stdout=out)
    return out.getvalue()


def test_an_empty_installation_gets_the_tenants_it_was_asked_for(valkey: redis.Redis, valkey_url: str) -> None:
    """One world, looked at from all sides."""
    assert f"seeded {MANY} tenants, 5 of them with limits of their own" in seed("--tenants", str(MANY))
    every_tenant_is_there_with_what_pages_need()
    some_have_limits_of_their_own()
    every_object_is_in_a_revision_and_in_the_audit()
    it_publishes_cleanly_and_is_enforced(valkey_url)
    it_can_be_edited_and_an_edit_undone()
    a_second_run_is_refused()


def every_tenant_is_there_with_what_pages_need() -> None:
    assert Tenant.objects.count() == MANY
    assert TenantSummary.objects.count() == TenantSearch.objects.count() == MANY
    assert TenantSearch.objects.filter(text__contains="fleet 123").exists()
    assert TenantSummaryRun.objects.get().tags
    on_tiers = dict(Tier.objects.annotate(count=Count("tenants")).values_list("name", "count"))
    assert on_tiers["free"] > on_tiers["pro"] > on_tiers["enterprise"] > 0


def some_have_limits_of_their_own() -> None:
    assert Policy.objects.exclude(tenant=None).count() == 3
    assert Override.objects.count() == 2
    name = Policy.objects.exclude(tenant=None).order_by("name")[0].tenant
    burst = {each.effective.limit.name: each for each in explain(tenant=str(name), endpoint="rider:track").limits}
    assert burst["burst"].effective.source == f"tenant {name} × rider:track"


def every_object_is_in_a_revision_and_in_the_audit() -> None:
    touched = {key for revision in Revision.objects.all() for key in revision.touched}
    assert {f"tenant:{name}" for name in Tenant.objects.values_list("name", flat=True)} <= touched
    assert {f"policy:{name}" for name in Policy.objects.values_list("name", flat=True)} <= touched
    assert {f"override:{number}" for number in Override.objects.values_list("pk", flat=True)} <= touched
    assert Revision.objects.count() == Outbox.objects.filter(kind=Outbox.Kind.REVISION).count()
    recorded(Tenant.objects.get(name="tenant-0000001"), "tenant_create")
    recorded(Limit.objects.get(policy__tenant__name="tenant-0000100"), "policy_create")
    recorded(Override.objects.order_by("pk")[0], "override_create")


def recorded(row: Any, action: str) -> None:
    event = row.events.get()
    assert (event.pgh_label, event.pgh_context["action"]) == ("insert", action)


def it_publishes_cleanly_and_is_enforced(url: str) -> None:
    with store.connect(url) as client, Limiter.from_url(url, budget_ms=60_000) as limiter:
        store.prepare(client)
        publisher = Publisher(client, settings.HEADROOM_SHARDS)
        assert publisher.publish()
        assert not publisher.publish()
        decided = limiter.check(tenant="tenant-0000100", endpoint="rider:track")
        assert decided.allowed
        assert decided.reason == "ok"
    assert publisher.image.revision == Revision.objects.count()
    assert sum(len(shard.entries) - 1 for shard in publisher.image.shards) == MANY
    assert not AuditEvent.objects.filter(kind="does_not_compile").exists()
    assert not Outbox.objects.exists()


def it_can_be_edited_and_an_edit_undone() -> None:
    moved = tenant_move(name="tenant-0000001", tier="pro", author="alice", reason="they pay", force=True)
    assert moved is not None
    revision_revert(number=moved.number, author="alice", reason="they do not", force=True)
    assert Tenant.objects.get(name="tenant-0000001").tier.name == "free"


def a_second_run_is_refused() -> None:
    with pytest.raises(CommandError, match="already a configuration"):
        seed("--tenants", str(MANY))
    assert Tenant.objects.count() == MANY


def test_an_installation_in_use_is_left_alone() -> None:
    tier_create(name="ours", author="alice", reason="to begin with")
    with pytest.raises(CommandError, match="already a configuration"):
        seed("--tenants", "5")
    assert not Tenant.objects.exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--tenants", "0"), "must be from 1 to 2,000,000, not 0"),
        (("--tenants=-3",), "must be from 1 to 2,000,000, not -3"),
        (("--tenants", "2000001"), "must be from 1 to 2,000,000, not 2,000,001"),
        (("--tenants", "many"), "invalid int value: 'many'"),
        (("--tenants", "5", "--hours", "2"), "does not go with --hours"),
        (("--tenants", "5", "--older"), "not allowed with argument"),
        (("--tenants", "5", "--recent"), "not allowed with argument"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(options: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        seed(*options)
    assert not Revision.objects.exists()


def test_an_interrupted_run_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_tenants, "BATCH", 100)

    def interrupt(stage: str, done: int, total: int) -> None:
        if done == 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        many_tenants.seed_tenants(MANY, timezone.now(), interrupt)
    for model in (Tenant, Tier, Revision, Outbox, Policy, TenantSummary, TenantSearch):
        assert not model._default_manager.exists(), model
