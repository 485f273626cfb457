from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django.fixtures import Settings

from headroom_edge.keys import OWN_TENANT
from quotas.api_keys import api_key_issue
from quotas.changes.commit import commit
from quotas.changes.rollout import change_propose, change_start
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.errors import Refused
from quotas.matrix.queries import matrix_read
from quotas.models import AuditEvent, Change, Override
from quotas.overrides import override_create
from quotas.own_limits import own_limits_install
from quotas.policies.configuration import configuration_load
from quotas.policies.edit import limit_set, policy_create
from quotas.recommendations.targets import targets
from quotas.status.summary import status_summary_read
from quotas.tenants import (
    archiving_of,
    tenant_archive,
    tenant_create,
    tenant_restore,
    tenant_suspend,
    tenant_update,
)
from quotas.tokens import token_issue
from tenants.models import ApiKey, ApiToken, Tenant
from tests.quotas.world import FORCED, SAID, bucket, limit_of, newest, waiting

pytestmark = pytest.mark.usefixtures("world")


def acme() -> Tenant:
    return Tenant.objects.get(name="acme")


@pytest.fixture
def busy(world: None) -> None:
    """Acme with two keys, a token, an override that holds and one that will."""
    api_key_issue(tenant="acme", **SAID)
    api_key_issue(tenant="acme", **SAID)
    token_issue(label="theirs", role="tenant", scopes=["read"], tenant="acme", **SAID)
    override_create(tenant="acme", multiplier=(2, 1), **FORCED)
    later = timezone.now() + timedelta(days=1)
    override_create(tenant="acme", multiplier=(3, 1), start=later, end=later + timedelta(days=1), **FORCED)


@pytest.mark.usefixtures("busy")
class TestArchive:
    def test_it_says_what_stops_and_stops_it_in_one_revision(self) -> None:
        stops = archiving_of(acme())
        assert (stops.keys, stops.tokens, stops.overrides) == (2, 1, 2)
        before = newest().number
        tenant_archive(name="acme", author="ann", reason="contract ended")
        assert (newest().number, newest().action) == (before + 1, "tenant_archive")
        assert acme().archived_at is not None
        assert not ApiKey.objects.filter(revoked_at=None).exists()
        assert not ApiToken.objects.filter(revoked_at=None).exists()
        assert not Override.objects.filter(cancelled_at=None).exists()
        stops = archiving_of(acme())
        assert (stops.keys, stops.tokens, stops.overrides) == (0, 0, 0)

    def test_each_revoked_key_is_in_the_audit_with_the_reason(self) -> None:
        tenant_archive(name="acme", author="ann", reason="contract ended")
        events = AuditEvent.objects.filter(kind__in=["api_key_revoked", "api_token_revoked"])
        assert [event.detail["reason"] for event in events] == ["contract ended"] * 3

    def test_it_is_refused_like_a_suspended_one_and_not_unknown(self) -> None:
        tenant_archive(name="acme", **SAID)
        assert configuration_load().tenants["acme"].suspended
        assert "tenant:acme" in waiting()

    def test_once_is_enough(self) -> None:
        tenant_archive(name="acme", **SAID)
        assert tenant_archive(name="acme", **SAID) is None

    def test_a_dry_run_revokes_nothing(self) -> None:
        outcome = commit(lambda: tenant_archive(name="acme", **SAID), "dry_run")
        assert outcome.effect.tenants.names == ("acme",)
        assert ApiKey.objects.filter(revoked_at=None).count() == 2

    def test_its_name_stays_taken_and_it_gets_nothing_new(self) -> None:
        tenant_archive(name="acme", **SAID)
        for attempt in (
            lambda: tenant_create(name="acme", tier="pro", **SAID),
            lambda: api_key_issue(tenant="acme", **SAID),
            lambda: override_create(tenant="acme", multiplier=(2, 1), **FORCED),
            lambda: tenant_update(name="acme", label="Acme", **SAID),
        ):
            with pytest.raises(Refused):
                attempt()

    def test_it_leaves_counts_matrix_and_recommendations(self) -> None:
        policy_create(name="acme-own", tenant="acme", limits=[bucket(50)], **FORCED)
        tenant_archive(name="acme", **SAID)
        assert status_summary_read().tenants == 1
        cell = matrix_read(timezone.now()).cell("pro", "*")
        assert cell is not None
        assert cell.own == 0
        found = list(targets())
        assert "acme-own" not in {target.policy for target in found}
        assert all("acme" not in target.names.values() for target in found)


@pytest.mark.usefixtures("busy")
class TestRestore:
    def test_it_is_back_without_keys_and_overrides(self) -> None:
        tenant_archive(name="acme", **SAID)
        tenant_restore(name="acme", **SAID)
        assert (newest().action, acme().archived_at) == ("tenant_restore", None)
        assert not configuration_load().tenants["acme"].suspended
        assert not ApiKey.objects.filter(revoked_at=None).exists()
        assert not Override.objects.filter(cancelled_at=None).exists()
        api_key_issue(tenant="acme", **SAID)
        assert tenant_restore(name="acme", **SAID) is None

    def test_one_that_was_suspended_is_so_again(self) -> None:
        tenant_suspend(name="acme", author="ann", reason="invoice overdue")
        tenant_archive(name="acme", **SAID)
        tenant_restore(name="acme", **SAID)
        assert acme().suspended_reason == "invoice overdue"
        assert configuration_load().tenants["acme"].suspended


@pytest.mark.usefixtures("busy")
class TestUndo:
    def test_a_revert_brings_back_the_tenant_and_its_overrides_but_no_key(self) -> None:
        tenant_archive(name="acme", **SAID)
        revision_revert(number=newest().number, **FORCED)
        assert acme().archived_at is None
        assert Override.objects.filter(cancelled_at=None).count() == 2
        assert not ApiKey.objects.filter(revoked_at=None).exists()

    def test_a_dry_run_of_a_revert_foretells_it(self) -> None:
        tenant_archive(name="bolt", **SAID)
        number = newest().number
        outcome = commit(lambda: revision_revert(number=number, **FORCED), "dry_run")
        assert [(one.object, one.fields[0].path) for one in outcome.effect.changes] == [("tenant:bolt", "archived")]
        assert Tenant.objects.get(name="bolt").archived_at is not None

    def test_a_rollback_leaves_it_archived(self) -> None:
        then = newest().number
        tenant_archive(name="acme", **SAID)
        limit_set(policy="pro-all", limit=bucket(90), **FORCED)
        revision_rollback(number=then, **FORCED)
        assert newest().touched == ["policy:pro-all"]
        assert acme().archived_at is not None
        assert not Override.objects.filter(cancelled_at=None).exists()

    def test_a_restore_is_not_undone_but_archived_again(self) -> None:
        tenant_archive(name="acme", **SAID)
        tenant_restore(name="acme", **SAID)
        with pytest.raises(Refused, match="archive or retire them instead"):
            revision_revert(number=newest().number, **FORCED)


class TestStays:
    def test_headrooms_own_tenant(self) -> None:
        own_limits_install("ann")
        with pytest.raises(Refused, match="Headroom's own tenant"):
            tenant_archive(name=OWN_TENANT, **SAID)

    def test_the_stand_in_for_unknown_tenants(self, settings: Settings) -> None:
        settings.HEADROOM_UNKNOWN_TENANT = "bolt"
        with pytest.raises(Refused, match="set HEADROOM_UNKNOWN_TENANT to another tenant first"):
            tenant_archive(name="bolt", **SAID)


def test_the_trial_of_its_own_limits_ends_and_one_of_its_tier_goes_on() -> None:
    policy_create(name="own", tenant="acme", limits=[bucket(500)], **FORCED)
    own, tiers = (change_propose(limit_set, policy=name, limit=bucket(90), **SAID).pk for name in ("own", "pro-all"))
    for number in (own, tiers):
        change_start(change=number, mode="shadow", **SAID)
    assert archiving_of(Tenant.objects.get(name="acme")).trials == 1
    tenant_archive(name="acme", author="ann", reason="contract ended")
    row = Change.objects.get(pk=own)
    assert (row.state, row.end_reason) == ("dropped", "contract ended")
    assert limit_of("own").candidate is None
    assert Change.objects.get(pk=tiers).state == "shadow"
    revision_revert(number=newest().number, **FORCED)
    assert Change.objects.get(pk=own).state == "dropped"
    assert limit_of("own").parameters["rate"] == 500
