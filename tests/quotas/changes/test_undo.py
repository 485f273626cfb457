from __future__ import annotations

import pytest

from quotas.api_keys import api_key_issue
from quotas.changes.commit import commit
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.endpoints import endpoint_create, endpoint_delete, endpoint_update
from quotas.errors import Refused, accepted
from quotas.models import Override, Policy
from quotas.overrides import override_cancel, override_create
from quotas.policies import spec
from quotas.policies.apply import document_apply
from quotas.policies.configuration import configuration_load
from quotas.policies.document import read_document
from quotas.policies.edit import candidate_set, limit_set, policy_create, policy_delete
from quotas.tenants import (
    tenant_create,
    tenant_move,
    tenant_suspend,
    tenant_update,
    tenants_move,
    tier_create,
    tier_retire,
)
from tenants.models import ApiKey, Tenant, Tier
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket, limit_of, newest, rates

pytestmark = pytest.mark.usefixtures("world")


class TestRollback:
    def test_everything_is_again_as_it_was(self) -> None:
        policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[bucket(5)], **FORCED)
        candidate_set(policy="pro-pay", limit="burst", candidate={"algorithm": "gcra", "rate": 4}, **FORCED)
        then = newest()
        policies = configuration_load().policies
        limit_set(policy="pro-pay", limit=bucket(6), **FORCED)
        candidate_set(policy="pro-pay", limit="burst", candidate=None, **FORCED)
        policy_delete(name="pro-pay", **FORCED)
        endpoint_delete(name=PAY, **FORCED)
        endpoint_create(name="fares:quote", **SAID)
        policy_create(name="pro-pay", tier="free", endpoint="fares:quote", limits=[bucket(9)], **FORCED)
        revision_rollback(number=then.number, **FORCED)
        configuration = configuration_load()
        assert {p.source for p in configuration.policies} == {p.source for p in policies}
        assert sorted(configuration.endpoints) == [PAY, GET]
        restored, before = bucket_of(configuration.policies), bucket_of(policies)
        assert (restored.algorithm, restored.candidate) == (before.algorithm, before.candidate)

    def test_it_is_a_revision_that_can_itself_be_rolled_back(self) -> None:
        limit_set(policy="free-all", limit=bucket(11), **FORCED)
        first = newest().number
        revision_rollback(number=first - 1, **FORCED)
        assert (newest().number, newest().action) == (first + 1, "revision_rollback")
        revision_rollback(number=first, **FORCED)
        assert limit_of("free-all").parameters["rate"] == 11

    def test_the_live_state_is_carried_over(self) -> None:
        limit_set(policy="free-all", limit=bucket(11), **FORCED)
        changed = newest().number
        revision_rollback(number=changed - 1, **FORCED)
        row = limit_of("free-all")
        assert (row.parameters["rate"], row.changed_revision_id) == (10, newest().number)
        assert rates(row.past)[0] == (11, changed, "keep")

    def test_keys_memberships_suspensions_tenants_and_tiers_stay(self) -> None:
        then = newest().number
        tier_create(name="gold", **SAID)
        tenant_create(name="later", tier="gold", **SAID)
        tenant_move(name="acme", tier="gold", **FORCED)
        tenant_suspend(name="bolt", **SAID)
        tenant_update(name="bolt", timezone="Asia/Tokyo", label="Bolt", **SAID)
        api_key_issue(tenant="acme", **SAID)
        revision_rollback(number=then, **FORCED)
        acme, bolt = Tenant.objects.get(name="acme"), Tenant.objects.get(name="bolt")
        assert (acme.tier.name, bolt.suspended, bolt.timezone, bolt.label) == ("gold", True, "UTC", "")
        assert (Tenant.objects.count(), Tier.objects.count(), ApiKey.objects.count()) == (3, 3, 1)

    def test_tags_contacts_and_the_words_of_a_tier_go_back(self) -> None:
        """States from before these fields existed lack them, which means that they were empty."""
        then = newest().number
        Tenant.objects.filter(name="acme").update(tags=["eu"], contacts=["ops@acme.test"])
        tenant_update(name="acme", label="Acme", **SAID)
        document_apply(document=accepted(read_document("tiers: [{name: pro, label: Pro}]")), **FORCED)
        revision_rollback(number=then, **FORCED)
        acme = Tenant.objects.get(name="acme")
        assert (acme.label, acme.tags, acme.contacts, Tier.objects.get(name="pro").label) == (
            "",
            ["eu"],
            ["ops@acme.test"],
            "",
        )

    def test_an_override_made_since_is_cancelled(self) -> None:
        then = newest().number
        row = override_create(tenant="acme", multiplier=(2, 1), **FORCED)
        revision_rollback(number=then, **FORCED)
        assert Override.objects.get(pk=row.pk).cancelled_revision_id == newest().number

    def test_an_override_cancelled_since_comes_back_as_a_new_one(self) -> None:
        row = override_create(tenant="acme", endpoint=PAY, limits={"burst": {"rate": 3}}, **FORCED)
        then = newest().number
        override_cancel(override=row.pk, **FORCED)
        revision_rollback(number=then, **FORCED)
        again = Override.objects.get(cancelled_at=None)
        assert (again.limits, again.scope, again.author) == (row.limits, PAY, "ann")
        assert again.start > row.start
        assert newest().after == {f"override:{again.pk}": newest().after[f"override:{again.pk}"]}

    def test_to_the_newest_changes_nothing(self) -> None:
        assert revision_rollback(number=newest().number, **FORCED) is None

    @pytest.mark.parametrize("number", [0, -1, 10_000])
    def test_a_revision_that_is_not_there(self, number: int) -> None:
        with pytest.raises(Refused, match="there is no revision"):
            revision_rollback(number=number, **FORCED)

    def test_one_that_could_not_be_enforced_is_refused_whole(self) -> None:
        """Memberships stay, so an override may find nothing to change on the tier that its tenant is on now."""
        tier_create(name="gold", **SAID)
        override_create(tenant="acme", limits={"burst": {"rate": 3}}, **FORCED)
        then = newest().number
        policy_create(name="gold-all", tier="gold", limits=[bucket(7)], **FORCED)
        tenant_move(name="acme", tier="gold", **FORCED)
        with pytest.raises(Refused) as refused:
            revision_rollback(number=then, **FORCED)
        assert str(refused.value) == (
            "number: 1 override would change nothing: that of acme (burst on *), which moved from pro to gold since; "
            "a rollback leaves tenants on their tiers, so move it back first, or revert the revision that moved it, "
            "and then roll back"
        )
        assert Policy.objects.filter(name="gold-all").exists()

    @pytest.mark.parametrize("way", ["revert", "move"])
    def test_overrides_that_ended_with_a_move_come_back_once_their_tenants_are_back(self, way: str) -> None:
        override_create(tenant="acme", limits={"minute": {"rate": 2_000}}, **FORCED)
        override_create(tenant="acme", endpoint=PAY, limits={"minute": {"rate": 500}}, **FORCED)
        then = newest().number
        tenants_move(names=["acme"], tier="free", stranded_overrides="end", **FORCED)
        moved = newest().number
        limit_set(policy="free-all", limit=bucket(11), **FORCED)

        def back() -> object:
            return revision_rollback(number=then, **FORCED)

        said = (
            rf"2 overrides would change nothing: that of acme \(minute on \*\), which moved from pro to free since, "
            rf"that of acme \(minute on {PAY}\), which moved from pro to free since; a rollback leaves"
        )
        with pytest.raises(Refused, match=said):
            back()
        with pytest.raises(Refused, match=said):
            commit(back, "dry_run")
        if way == "revert":
            revision_revert(number=moved, **FORCED)
        else:
            tenant_move(name="acme", tier="pro", **FORCED)
        back()
        live = Override.objects.filter(cancelled_at=None).order_by("pk")
        assert [row.limits["minute"]["rate"] for row in live] == [2_000, 500]
        assert limit_of("free-all").parameters["rate"] == 10
        assert Tenant.objects.get(name="acme").tier.name == "pro"


def bucket_of(policies: tuple[spec.Policy, ...]) -> spec.Limit:
    return next(p for p in policies if p.name == "pro-pay").limits[0]


class TestRevert:
    def test_one_change_is_undone_and_later_ones_stay(self) -> None:
        limit_set(policy="free-all", limit=bucket(11), **FORCED)
        wrong = newest().number
        limit_set(policy="pro-all", limit=bucket(55), **FORCED)
        revision = revision_revert(number=wrong, **FORCED)
        assert (limit_of("free-all").parameters["rate"], limit_of("pro-all").parameters["rate"]) == (10, 55)
        assert (revision.action, revision.touched) == ("revision_revert", ["policy:free-all"])

    def test_it_undoes_a_creation_and_a_deletion(self) -> None:
        endpoint_create(name="fares:quote", **SAID)
        revision_revert(number=newest().number, **FORCED)
        assert "fares:quote" not in configuration_load().endpoints
        policy_delete(name="pro-all", **FORCED)
        revision_revert(number=newest().number, **FORCED)
        assert Policy.objects.filter(name="pro-all").exists()

    def test_it_refuses_if_the_same_was_touched_since(self) -> None:
        limit_set(policy="free-all", limit=bucket(11), **FORCED)
        wrong = newest().number
        limit_set(policy="free-all", limit=bucket(12), **FORCED)
        with pytest.raises(Refused, match=f"revision {wrong + 1} touched policy:free-all since"):
            revision_revert(number=wrong, **FORCED)
        assert limit_of("free-all").parameters["rate"] == 12

    def test_a_revert_can_be_reverted(self) -> None:
        endpoint_update(name=PAY, default_cost=3, **FORCED)
        revision_revert(number=newest().number, **FORCED)
        revision_revert(number=newest().number, **FORCED)
        assert configuration_load().endpoints[PAY].default_cost == 3

    def test_a_move_is_undone(self) -> None:
        tenant_move(name="acme", tier="free", **FORCED)
        revision_revert(number=newest().number, **FORCED)
        assert Tenant.objects.get(name="acme").tier.name == "pro"

    def test_a_move_is_not_undone_if_the_tier_is_retired_since(self) -> None:
        tenant_move(name="acme", tier="free", **FORCED)
        moved = newest().number
        tier_retire(name="pro", **FORCED)
        with pytest.raises(Refused, match="there is no tier pro"):
            revision_revert(number=moved, **FORCED)
        assert Tenant.objects.get(name="acme").tier.name == "free"

    def test_suspensions_are_not_undone(self) -> None:
        tenant_suspend(name="acme", **SAID)
        with pytest.raises(Refused, match="only created, suspended or restored tenants"):
            revision_revert(number=newest().number, **FORCED)
        assert Tenant.objects.get(name="acme").suspended

    def test_a_revision_that_is_not_there(self) -> None:
        with pytest.raises(Refused, match="there is no revision 999"):
            revision_revert(number=999, **FORCED)
