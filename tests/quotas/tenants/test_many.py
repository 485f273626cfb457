from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from pytest_django.fixtures import Settings

from quotas.changes.approval import change_approve
from quotas.changes.commit import Proposed, Written, commit
from quotas.changes.promotion import change_promote
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.errors import Refused
from quotas.models import Override, Revision
from quotas.overrides import override_create
from quotas.own_limits import own_limits_install
from quotas.policies.configuration import configuration_load
from quotas.tenants import (
    NewTenant,
    tenant_archive,
    tenant_move,
    tenants_create,
    tenants_move,
    tenants_resume,
    tenants_suspend,
    tenants_tag,
    tier_retire,
)
from quotas.tenants.moves import move_preview
from quotas.tenants.stranded import StrandedOverride
from tenants.models import Tenant
from tests.quotas.world import FORCED, SAID, newest, waiting

pytestmark = pytest.mark.usefixtures("world")
MANY = [f"t{number}" for number in range(20)]


@pytest.fixture
def many(world: None) -> None:
    tenants_create(tenants=[NewTenant(name, "free") for name in MANY], **SAID)


@pytest.mark.usefixtures("many")
class TestMove:
    def test_many_move_in_one_revision(self) -> None:
        before = newest().number
        tenants_move(names=[*MANY, "acme"], tier="pro", **FORCED)
        assert newest().number == before + 1
        assert newest().touched == sorted(f"tenant:{name}" for name in MANY)
        assert set(Tenant.objects.filter(name__in=MANY).values_list("tier__name", flat=True)) == {"pro"}

    def test_each_carries_over_what_it_would_carry_over_alone(self) -> None:
        tenant_move(name="t0", tier="pro", **FORCED)
        tenants_move(names=MANY[1:], tier="pro", **FORCED)
        alone, together = Tenant.objects.get(name="t0"), Tenant.objects.get(name="t1")
        assert [(h["scope"], h["limit"]) for h in alone.handovers] == [("*", "burst")]
        assert [{**h, "revision": 0} for h in alone.handovers] == [{**h, "revision": 0} for h in together.handovers]

    def test_one_that_gets_tighter_keeps_all_of_them(self) -> None:
        with pytest.raises(Refused, match="a cut of"):
            tenants_move(names=[*MANY, "acme"], tier="free", **SAID)
        assert Tenant.objects.get(name="acme").tier.name == "pro"

    def test_an_override_of_a_limit_that_the_tier_lacks_is_named(self) -> None:
        override = override_create(tenant="acme", limits={"minute": {"rate": 2_000}}, **SAID)
        with pytest.raises(Refused) as refused:
            tenants_move(names=["acme"], tier="free", **FORCED)
        assert str(refused.value) == (
            f"stranded_overrides: 1 override would change nothing on tier free, which lacks the limit: "
            f"override {override.pk} of acme (minute on *); end it with the move, or leave its tenant out"
        )
        assert move_preview(names=["acme"], tier="free").stranded == (
            StrandedOverride(override.pk, "acme", "*", ("minute",)),
        )

    def test_an_override_in_the_way_ends_with_the_move_and_comes_back_with_its_revert(self) -> None:
        override = override_create(tenant="acme", limits={"minute": {"rate": 2_000}}, **SAID)
        other = override_create(tenant="acme", limits={"burst": {"rate": 500}}, **SAID)

        def move() -> object:
            return tenants_move(names=["acme"], tier="free", stranded_overrides="end", **FORCED)

        foretold, written = commit(move, "dry_run"), commit(move)
        assert isinstance(foretold, Proposed)
        assert isinstance(written, Written)
        assert newest().touched == [f"override:{override.pk}", "tenant:acme"]
        assert (foretold.proposal.touched, foretold.impact) == (written.proposal.touched, written.impact)
        assert list(Override.objects.filter(cancelled_at=None)) == [other]
        revision_revert(number=newest().number, **FORCED)
        limits = Override.objects.filter(cancelled_at=None).order_by("pk").values_list("limits", flat=True)
        assert list(limits) == [{"burst": {"rate": 500}}, {"minute": {"rate": 2_000}}]
        assert Tenant.objects.get(name="acme").tier.name == "pro"

    def test_the_tenants_of_overrides_in_the_way_can_be_left_out(self) -> None:
        tenants_create(tenants=[NewTenant("calm", "pro")], **SAID)
        override_create(tenant="acme", limits={"minute": {"rate": 2_000}}, **SAID)
        preview = move_preview(names=["acme", "calm"], tier="free", stranded_overrides="leave_out")
        assert ([move.tenant for move in preview.moves], preview.left_out) == (["calm"], 1)
        tenants_move(names=["acme", "calm"], tier="free", stranded_overrides="leave_out", **FORCED)
        assert newest().touched == ["tenant:calm"]

    def test_an_approved_move_ends_the_overrides_in_its_way(self, settings: Settings) -> None:
        override = override_create(tenant="acme", limits={"minute": {"rate": 2_000}}, **SAID)
        settings.HEADROOM_FOUR_EYES = True
        move = partial(tenants_move, names=["acme"], tier="free", stranded_overrides="end", **FORCED)
        outcome = commit(move)
        assert isinstance(outcome, Proposed)
        assert outcome.change
        change_approve(change=outcome.change.pk, approver="bob", reason="I agree")
        change_promote(change=outcome.change.pk, accept=["*"], **FORCED)
        override.refresh_from_db()
        assert override.cancelled_at
        assert Tenant.objects.get(name="acme").tier.name == "free"

    def test_a_dry_run_says_the_same_as_the_move_and_writes_nothing(self) -> None:
        def move() -> object:
            return tenants_move(names=[*MANY, "acme"], tier="free", **FORCED)

        foretold = commit(move, "dry_run")
        assert Tenant.objects.get(name="acme").tier.name == "pro"
        written = commit(move)
        assert isinstance(written, Written)
        assert (foretold.effect, foretold.impact) == (written.effect, written.impact)

    def test_a_proposal_moves_them_once_it_is_promoted(self) -> None:
        outcome = commit(lambda: tenants_move(names=MANY, tier="pro", **FORCED), "propose")
        assert isinstance(outcome, Proposed)
        assert outcome.change is not None
        change_promote(change=outcome.change.pk, **FORCED)
        assert Tenant.objects.filter(tier__name="pro").count() == len(MANY) + 1


class TestSwitch:
    def test_those_that_are_suspended_keep_their_reason(self) -> None:
        tenants_suspend(names=["acme"], author="ann", reason="first")
        tenants_suspend(names=["acme", "bolt"], author="ann", reason="second")
        assert newest().touched == ["tenant:bolt"]
        assert dict(Tenant.objects.values_list("name", "suspended_reason")) == {"acme": "first", "bolt": "second"}
        tenants_resume(names=["acme", "bolt"], **SAID)
        assert not Tenant.objects.filter(suspended=True).exists()
        assert waiting()[-1:] == ["tenant:bolt"]

    def test_a_dry_run_leaves_them_as_they_are(self) -> None:
        outcome = commit(lambda: tenants_suspend(names=["acme", "bolt"], **SAID), "dry_run")
        assert outcome.effect.tenants.count == 2
        assert not Tenant.objects.filter(suspended=True).exists()


class TestTag:
    def test_tags_are_added_and_removed(self) -> None:
        tenants_tag(names=["acme", "bolt"], add=["Pilot", "eu"], **SAID)
        tenants_tag(names=["acme"], add=["vip"], remove=["pilot"], **SAID)
        assert dict(Tenant.objects.values_list("name", "tags")) == {"acme": ["eu", "vip"], "bolt": ["eu", "pilot"]}
        assert newest().after["tenant:acme"]["tags"] == ["eu", "vip"]

    def test_a_rollback_takes_them_back(self) -> None:
        then = newest().number
        tenants_tag(names=["acme", "bolt"], add=["eu"], **SAID)
        revision_rollback(number=then, **FORCED)
        assert list(Tenant.objects.values_list("tags", flat=True)) == [[], []]

    def test_adding_what_is_there_changes_nothing(self) -> None:
        tenants_tag(names=["acme"], add=["eu"], **SAID)
        assert tenants_tag(names=["acme"], add=["eu"], remove=["other"], **SAID) is None


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (lambda: tenants_move(names=[], tier="pro", **FORCED), "no tenant is chosen"),
    (lambda: tenants_move(names=["acme", "nobody"], tier="pro", **FORCED), "there is no tenant nobody"),
    (lambda: tenants_suspend(names=[f"x{n}" for n in range(20_001)], **SAID), "more than 20,000 tenants are chosen"),
    (lambda: tenants_tag(names=["acme"], **SAID), "no tag is given"),
    (lambda: tenants_tag(names=["acme"], add=["eu"], remove=["eu"], **SAID), "eu would be added and removed"),
    (lambda: tenants_tag(names=["acme"], add=[f"t{n}" for n in range(21)], **SAID), "there are 21 tags"),
]


@pytest.mark.parametrize(("attempt", "sentence"), REFUSALS)
def test_a_refusal_says_why_and_leaves_nothing_behind(attempt: Callable[[], object], sentence: str) -> None:
    before = Revision.objects.count()
    with pytest.raises(Refused, match=sentence):
        attempt()
    assert Revision.objects.count() == before


def test_an_archived_tenant_is_not_changed_together_with_others() -> None:
    tenant_archive(name="bolt", **SAID)
    attempts: list[Callable[[], object]] = [
        lambda: tenants_move(names=["acme", "bolt"], tier="free", **FORCED),
        lambda: tenants_suspend(names=["acme", "bolt"], **SAID),
        lambda: tenants_tag(names=["acme", "bolt"], add=["eu"], **SAID),
    ]
    for attempt in attempts:
        with pytest.raises(Refused, match="tenant bolt is archived; restore it first"):
            attempt()
    assert configuration_load().tenants["acme"].tier == "pro"


@pytest.mark.usefixtures("world")
class TestHeadroomsOwn:
    @pytest.fixture(autouse=True)
    def own(self, world: None) -> None:
        own_limits_install("ann")

    def test_customers_are_not_put_on_its_tier_even_with_force(self) -> None:
        for edit in (
            lambda: tenants_move(names=["acme"], tier="headroom", **FORCED),
            lambda: tenants_create(tenants=[NewTenant("zest", "headroom")], **SAID),
            lambda: tier_retire(name="pro", to="headroom", **FORCED),
        ):
            with pytest.raises(Refused, match="tier headroom has the limits on Headroom's own pages and API"):
                edit()
        assert list(Tenant.objects.filter(tier__name="headroom").values_list("name", flat=True)) == ["headroom"]

    def test_its_tenant_is_neither_moved_nor_suspended(self) -> None:
        with pytest.raises(Refused, match="stays on its tier"):
            tenants_move(names=["headroom", "acme"], tier="free", **FORCED)
        with pytest.raises(Refused, match="would switch off the limits that protect"):
            tenants_suspend(names=["acme", "headroom"], **SAID)
        assert not Tenant.objects.filter(suspended=True).exists()
