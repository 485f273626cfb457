"""Tiers: edited, duplicated, and retired only with a place for every tenant."""

from __future__ import annotations

import pytest

from quotas.changes.commit import Proposed, Written, commit
from quotas.changes.promotion import change_promote
from quotas.changes.rollout import change_propose
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.errors import Refused, accepted
from quotas.models import Policy, Revision
from quotas.policies.apply import document_apply, document_export
from quotas.policies.configuration import configuration_load
from quotas.policies.document import read_document
from quotas.policies.edit import candidate_set, policy_create
from quotas.tenants import (
    NewTenant,
    tenant_archive,
    tenant_create,
    tenant_restore,
    tenants_create,
    tier_create,
    tier_duplicate,
    tier_retire,
    tier_update,
)
from tenants.models import Tenant, Tier
from tests.quotas.world import FORCED, PAY, SAID, bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world")


def tier_of(tenant: str) -> str:
    return Tenant.objects.get(name=tenant).tier.name


class TestEditing:
    def test_label_and_description_are_changed_and_undone(self) -> None:
        tier_update(name="pro", label="Professional", description="fleets", **SAID)
        assert newest().after == {"tier:pro": {"label": "Professional", "description": "fleets"}}
        tier_update(name="pro", description="", **SAID)
        row = Tier.objects.get(name="pro")
        assert (row.label, row.description) == ("Professional", "")
        revision_revert(number=newest().number, **SAID)
        assert Tier.objects.get(name="pro").description == "fleets"

    def test_an_unknown_tier_and_a_text_that_is_too_long_are_refused(self) -> None:
        with pytest.raises(Refused, match="there is no tier gold"):
            tier_update(name="gold", label="x", **SAID)
        with pytest.raises(Refused, match="label has 201 characters"):
            tier_update(name="pro", label="x" * 201, **SAID)


class TestDuplicating:
    def test_its_limits_are_copied_under_policies_of_its_own(self) -> None:
        policy_create(name="pay-of-pro", tier="pro", endpoint=PAY, limits=[bucket(300)], **FORCED)
        candidate_set(policy="pro-all", limit="burst", candidate={"algorithm": "gcra", "rate": 4}, **FORCED)
        before = Revision.objects.count()
        tier_duplicate(source="pro", name="gold", label="Gold", **SAID)
        assert (Revision.objects.count(), newest().action) == (before + 1, "tier_duplicate")
        assert sorted(Policy.objects.filter(tier__name="gold").values_list("name", flat=True)) == [
            "gold-all",
            "gold-pay-of-pro",
        ]
        assert limit_of("gold-all").parameters == limit_of("pro-all").parameters
        assert limit_of("gold-all").candidate is None
        assert Tenant.objects.filter(tier__name="gold").count() == 0

    def test_names_of_policies_that_are_taken_get_a_number(self) -> None:
        policy_create(name="gold-all", tenant="acme", limits=[bucket(300)], **FORCED)
        tier_duplicate(source="pro", name="gold", **SAID)
        assert Policy.objects.get(tier__name="gold").name == "gold-all-2"

    def test_a_name_that_is_taken_is_refused(self) -> None:
        with pytest.raises(Refused, match="tier free already exists"):
            tier_duplicate(source="pro", name="free", **SAID)


class TestRetiring:
    def test_every_tenant_needs_a_place(self) -> None:
        with pytest.raises(Refused, match="1 tenant needs another tier before pro is retired: acme; choose one"):
            tier_retire(name="pro", **FORCED)
        assert not Tier.objects.get(name="pro").retired

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"to": "gold"}, "there is no tier gold"),
            ({"to": "pro"}, "tenants cannot stay on pro"),
            ({"to": "free", "places": {"bolt": "free"}}, "tenant bolt is not on tier pro"),
            ({"to": "free", "places": {"acme": "gold"}}, "there is no tier gold"),
        ],
    )
    def test_a_place_has_to_exist(self, fields: dict[str, object], said: str) -> None:
        with pytest.raises(Refused, match=said):
            tier_retire(name="pro", **fields, **FORCED)  # type: ignore[arg-type]

    def test_tenants_move_limits_go_and_it_is_one_revision(self) -> None:
        tenants_create(tenants=[NewTenant("cabs", "pro"), NewTenant("dart", "pro")], **SAID)
        tier_create(name="gold", **SAID)
        before = Revision.objects.count()
        tier_retire(name="pro", to="free", places={"dart": "gold"}, **FORCED)
        assert (Revision.objects.count(), newest().action) == (before + 1, "tier_retire")
        assert [tier_of(name) for name in ("acme", "cabs", "dart")] == ["free", "free", "gold"]
        assert not Policy.objects.filter(tier__name="pro").exists()
        assert "tier:pro" in newest().touched
        assert newest().after["tier:pro"] is None

    def test_who_gets_tighter_has_to_be_accepted(self) -> None:
        with pytest.raises(Refused, match="acme"):
            tier_retire(name="pro", to="free", **SAID)
        tier_retire(name="free", to="pro", **SAID)
        assert tier_of("bolt") == "pro"

    def test_a_dry_run_says_the_same_as_the_write(self) -> None:
        outcome = commit(lambda: tier_retire(name="pro", to="free", **FORCED), "dry_run")
        assert isinstance(outcome, Proposed)
        assert not Tier.objects.get(name="pro").retired
        written = commit(lambda: tier_retire(name="pro", to="free", **FORCED))
        assert isinstance(written, Written)
        assert outcome.effect.changes == written.effect.changes
        assert outcome.impact == written.impact

    def test_nothing_can_be_put_on_it_any_more(self) -> None:
        tier_retire(name="pro", to="free", **FORCED)
        for act in (
            lambda: tenant_create(name="cabs", tier="pro", **SAID),
            lambda: policy_create(name="p", tier="pro", limits=[bucket(1)], **SAID),
            lambda: tier_duplicate(source="pro", name="gold", **SAID),
            lambda: tier_retire(name="pro", to="free", **SAID),
        ):
            with pytest.raises(Refused, match="no tier pro"):
                act()
        assert "pro" not in document_export().split("policies:")[0]

    def test_archived_tenants_go_along_and_can_be_restored(self) -> None:
        tenant_archive(name="acme", **SAID)
        with pytest.raises(Refused, match="acme"):
            tier_retire(name="pro", **FORCED)
        tier_retire(name="pro", to="free", **FORCED)
        tenant_restore(name="acme", **SAID)
        assert tier_of("acme") == "free"

    def test_headrooms_own_tier_stays(self) -> None:
        tier_create(name="headroom", **SAID)
        with pytest.raises(Refused, match="cannot be retired"):
            tier_retire(name="headroom", to="free", **FORCED)

    def test_reverted_everything_is_as_before(self) -> None:
        tier_update(name="pro", label="Professional", **SAID)
        before = configuration_load()
        tier_retire(name="pro", to="free", **FORCED)
        revision_revert(number=newest().number, **FORCED)
        row = Tier.objects.get(name="pro")
        assert (row.retired, row.label, tier_of("acme")) == (False, "Professional", "pro")
        after = configuration_load()
        assert {p.source for p in after.policies} == {p.source for p in before.policies}
        revision_revert(number=newest().number, **FORCED)  # the undo can be undone, too, except that a tier stays
        assert tier_of("acme") == "free"

    def test_rolled_back_the_tier_has_its_limits_but_not_its_tenants(self) -> None:
        then = newest().number
        tier_retire(name="pro", to="free", **FORCED)
        revision_rollback(number=then, **FORCED)
        assert not Tier.objects.get(name="pro").retired
        assert Policy.objects.filter(tier__name="pro").exists()
        assert tier_of("acme") == "free"

    def test_created_again_it_is_the_same_tier_with_the_same_number(self) -> None:
        number = Tier.objects.get(name="pro").number
        tier_update(name="pro", label="Professional", **SAID)
        tier_retire(name="pro", to="free", **FORCED)
        assert tier_create(name="gold", **SAID).number != number
        again = tier_create(name="pro", **SAID)
        assert (again.number, again.label, again.retired) == (number, "", False)

    def test_a_document_that_declares_it_brings_it_back(self) -> None:
        document = accepted(read_document(document_export()))
        tier_retire(name="pro", to="free", **FORCED)
        document_apply(document=document, **FORCED)
        assert not Tier.objects.get(name="pro").retired
        assert Policy.objects.filter(name="pro-all").exists()

    def test_filed_and_promoted_it_does_the_same(self) -> None:
        change = change_propose(tier_retire, name="pro", to="free", **SAID)
        assert not Tier.objects.get(name="pro").retired
        change_promote(change=change.pk, force=True, **SAID)
        assert (Tier.objects.get(name="pro").retired, tier_of("acme")) == (True, "free")

    def test_filed_it_is_refused_if_a_tenant_was_added_since(self) -> None:
        change = change_propose(tier_retire, name="pro", to="free", **SAID)
        tenant_create(name="cabs", tier="pro", **SAID)
        with pytest.raises(Refused, match="cabs"):
            change_promote(change=change.pk, force=True, **SAID)
        assert (Tier.objects.get(name="pro").retired, tier_of("acme")) == (False, "pro")
