"""Priorities of endpoints, tiers and tenants: written, recorded, taken back, and said before they hurt."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from headroom_edge.plan.priority import PRIORITIES
from quotas.changes.commit import commit
from quotas.changes.priorities import LoweredPriority
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.endpoint_import.operations import essence, read_api
from quotas.endpoint_import.plan import document_import
from quotas.endpoints import endpoint_create, endpoint_update
from quotas.errors import Refused, accepted
from quotas.models import Endpoint, Revision
from quotas.policies.apply import document_apply, document_export, document_plan
from quotas.policies.configuration import configuration_load, tenants_with_own_limits
from quotas.policies.document import read_document
from quotas.policies.edit import policy_create
from quotas.tenants import tenant_create, tenant_move, tenant_update, tier_create, tier_duplicate, tier_update
from quotas.tenants.sheet import sheet_tenants
from tenants.models import Tenant, Tier
from tests.quotas.world import FORCED, GET, PAY, SAID, newest, waiting

pytestmark = pytest.mark.usefixtures("world")

POOL = {"name": "org", "algorithm": "pool", "rate": 1_000, "burst": 2_000}
WRONG = "priority cannot be 'urgent'; use one of critical, high, normal, sheddable"


def pool_for_everyone() -> None:
    policy_create(name="backend", endpoint="*", limits=[POOL], **FORCED)


class TestWriting:
    def test_an_endpoint_is_normal_unless_somebody_says_otherwise(self) -> None:
        assert endpoint_create(name="rides:new", **SAID).priority == "normal"
        assert endpoint_create(name="rides:pay", priority="critical", **SAID).priority == "critical"
        assert configuration_load().endpoints["rides:pay"].priority == "critical"

    def test_an_edit_of_something_else_keeps_it(self) -> None:
        endpoint_update(name=PAY, priority="critical", **SAID)
        endpoint_update(name=PAY, path="/v2/charges", **SAID)
        assert Endpoint.objects.get(name=PAY).priority == "critical"

    def test_a_tier_and_a_tenant_have_none_of_their_own_at_first(self) -> None:
        loaded = configuration_load()
        assert {tier.priority for tier in loaded.tiers.values()} == {""}
        assert {tenant.priority for tenant in loaded.tenants.values()} == {""}

    def test_those_of_a_tier_and_a_tenant_are_written_and_taken_away(self) -> None:
        tier_update(name="free", priority="sheddable", **SAID)
        tenant_update(name="acme", priority="high", **SAID)
        loaded = configuration_load()
        assert (loaded.tiers["free"].priority, loaded.tenants["acme"].priority) == ("sheddable", "high")
        tier_update(name="free", priority="", **SAID)
        tenant_update(name="acme", priority="", **SAID)
        loaded = configuration_load()
        assert (loaded.tiers["free"].priority, loaded.tenants["acme"].priority) == ("", "")

    def test_they_are_recompiled(self) -> None:
        tier_update(name="free", priority="sheddable", **SAID)
        assert waiting() == ["tier:free"]
        tenant_update(name="acme", priority="high", **SAID)
        assert waiting() == ["tenant:acme"]
        assert tenants_with_own_limits(tiers=["pro", "free"]) == {"acme"}

    def test_a_copy_of_a_tier_has_it_too(self) -> None:
        tier_update(name="free", priority="sheddable", **SAID)
        assert tier_duplicate(source="free", name="basic", **SAID).priority == "sheddable"
        assert tier_duplicate(source="free", name="better", priority="normal", **SAID).priority == "normal"

    def test_new_ones_may_have_one(self) -> None:
        assert tier_create(name="gold", priority="high", **SAID).priority == "high"
        assert tenant_create(name="cargo", tier="gold", priority="normal", **SAID).priority == "normal"
        (row,) = sheet_tenants("name,tier,priority\ndash,gold,Sheddable\n")
        assert row.priority == "sheddable"

    def test_another_word_is_refused_with_one_sentence(self) -> None:
        for refused in (
            lambda: endpoint_update(name=PAY, priority="urgent", **SAID),
            lambda: tier_update(name="free", priority="urgent", **SAID),
            lambda: tier_create(name="gold", priority="urgent", **SAID),
            lambda: tenant_update(name="acme", priority="urgent", **SAID),
            lambda: tenant_create(name="cargo", tier="pro", priority="urgent", **SAID),
            lambda: sheet_tenants("name,tier,priority\ndash,pro,urgent\n"),
        ):
            with pytest.raises(Refused, match=WRONG):
                refused()

    def test_an_endpoint_always_has_one(self) -> None:
        with pytest.raises(Refused, match="priority cannot be ''"):
            endpoint_update(name=PAY, priority="", **SAID)


class TestHistory:
    def test_a_revision_says_what_it_was(self) -> None:
        endpoint_update(name=PAY, priority="critical", **SAID)
        revision = newest()
        assert "priority" not in revision.before[f"endpoint:{PAY}"]
        assert revision.after[f"endpoint:{PAY}"]["priority"] == "critical"

    def test_each_is_reverted(self) -> None:
        endpoint_update(name=PAY, priority="critical", **SAID)
        tier_update(name="free", priority="sheddable", **SAID)
        tenant_update(name="acme", priority="high", **SAID)
        for number in range(newest().number, newest().number - 3, -1):
            revision_revert(number=number, **FORCED)
        assert Endpoint.objects.get(name=PAY).priority == "normal"
        assert (Tier.objects.get(name="free").priority, Tenant.objects.get(name="acme").priority) == ("", "")
        revision_revert(number=newest().number, **FORCED)
        assert Endpoint.objects.get(name=PAY).priority == "critical"

    def test_all_are_rolled_back_together(self) -> None:
        before = newest().number
        endpoint_update(name=PAY, priority="critical", **SAID)
        tier_update(name="free", priority="sheddable", **SAID)
        tenant_update(name="acme", priority="high", **SAID)
        revision_rollback(number=before, **FORCED)
        loaded = configuration_load()
        assert loaded.endpoints[PAY].priority == "normal"
        assert (loaded.tiers["free"].priority, loaded.tenants["acme"].priority) == ("", "")


class TestDocuments:
    TEXT = f"""
tiers: [{{name: free, priority: sheddable}}]
endpoints: [{{name: "{PAY}", method: POST, path: /v1/charges, default_cost: 10, priority: critical}}]
"""

    def test_a_document_sets_them_and_its_export_says_them(self) -> None:
        document_apply(document=accepted(read_document(self.TEXT)), **SAID)
        assert Endpoint.objects.get(name=PAY).priority == "critical"
        assert Tier.objects.get(name="free").priority == "sheddable"
        text = document_export()
        assert text.count("priority: ") == 2
        assert document_apply(document=accepted(read_document(text)), **SAID) is None

    def test_a_tier_that_says_nothing_keeps_it_and_an_empty_one_takes_it_away(self) -> None:
        tier_update(name="free", priority="sheddable", **SAID)
        document_apply(document=accepted(read_document("tiers: [{name: free, label: Free}]")), **SAID)
        assert Tier.objects.get(name="free").priority == "sheddable"
        document_apply(document=accepted(read_document('tiers: [{name: free, priority: ""}]')), **SAID)
        assert Tier.objects.get(name="free").priority == ""

    def test_an_unknown_one_has_its_line(self) -> None:
        problems = read_document(self.TEXT.replace("sheddable", "urgent").replace("critical", "low"))
        assert isinstance(problems, list)
        assert [str(problem) for problem in problems] == [
            f"line 2: tiers[0].priority: {WRONG}",
            "line 3: endpoints[0].priority: priority cannot be 'low'; use one of critical, high, normal, sheddable",
        ]

    def test_a_plan_says_whom_it_makes_less_important(self) -> None:
        pool_for_everyone()
        text = self.TEXT.replace("critical", "sheddable")
        plan = document_plan(document=accepted(read_document(text)), author="ann")
        assert f"  # everyone: priority on {PAY}: normal → sheddable for 2 tenants" in list(plan.lines())


class TestImport:
    TEXT = """
openapi: 3.1.0
info: {title: Rides, version: "1"}
paths:
  /v1/pay: {post: {operationId: pay, tags: [rides], x-headroom-priority: critical}}
  /v1/list: {get: {operationId: list, tags: [rides]}}
  /v1/odd: {get: {operationId: odd, tags: [rides], x-headroom-priority: urgent}}
"""

    def test_an_openapi_document_says_them(self) -> None:
        document = accepted(read_api(self.TEXT))
        document_import(document=document, **SAID)
        found = dict(Endpoint.objects.filter(name__startswith="rides:").values_list("name", "priority"))
        assert found == {"rides:pay": "critical", "rides:list": "normal", GET: "normal"}
        odd = document.operations[-1]
        assert odd.problem == "x-headroom-priority is 'urgent'; write one of critical, high, normal, sheddable."

    def test_one_that_is_registered_keeps_its_own_unless_the_document_says_another(self) -> None:
        document = accepted(read_api(self.TEXT))
        document_import(document=document, **SAID)
        endpoint_update(name="rides:list", priority="high", **SAID)
        endpoint_update(name="rides:pay", priority="high", **SAID)
        again = accepted(read_api(essence(document)))
        document_import(document=again, operations=["POST /v1/pay", "GET /v1/list"], **SAID)
        found = dict(Endpoint.objects.filter(name__startswith="rides:").values_list("name", "priority"))
        assert (found["rides:pay"], found["rides:list"]) == ("critical", "high")


class TestForetold:
    """A dry run says whose requests a full pool will refuse sooner. Nothing has to be forced."""

    def lowered(self, act: Callable[[], object]) -> tuple[LoweredPriority, ...]:
        return commit(act, "dry_run").impact.lowered

    def test_an_endpoint_that_everyone_uses(self) -> None:
        pool_for_everyone()
        act = partial(endpoint_update, name=PAY, priority="sheddable", **SAID)
        (found,) = self.lowered(act)
        assert (found.owner, found.tenants, found.endpoints) == ("everyone", 2, (PAY,))
        assert str(found) == f"priority on {PAY}: normal → sheddable for 2 tenants"
        assert act() is not None

    def test_a_tier_and_a_tenant(self) -> None:
        pool_for_everyone()
        endpoint_update(name=PAY, priority="critical", **SAID)
        high = self.lowered(lambda: tier_update(name="pro", priority="high", **SAID))
        assert [(each.owner, each.before, each.after, each.endpoints) for each in high] == [
            ("tier pro", "critical", "high", (PAY,))
        ]
        low = self.lowered(lambda: tenant_update(name="acme", priority="sheddable", **SAID))
        assert {(each.owner, each.before, each.after, each.endpoint_count) for each in low} == {
            ("tenant acme", "critical", "sheddable", 1),
            ("tenant acme", "normal", "sheddable", 2),  # another endpoint, and those that are not registered
        }

    def test_a_move_to_a_tier_that_has_a_lower_one(self) -> None:
        pool_for_everyone()
        tier_update(name="free", priority="sheddable", **SAID)
        moved = self.lowered(lambda: tenant_move(name="acme", tier="free", **FORCED))
        assert {each.owner for each in moved} == {"tenant acme"}

    def test_what_is_raised_or_concerns_no_pool_is_not_told(self) -> None:
        assert not self.lowered(lambda: endpoint_update(name=PAY, priority="sheddable", **SAID))
        pool_for_everyone()
        assert not self.lowered(lambda: endpoint_update(name=PAY, priority="critical", **SAID))
        assert not self.lowered(lambda: tier_update(name="pro", priority="critical", **SAID))

    def test_a_pool_of_a_tier_concerns_its_tenants_alone(self) -> None:
        policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[POOL], **FORCED)
        (found,) = self.lowered(lambda: endpoint_update(name=PAY, priority="sheddable", **SAID))
        assert (found.owner, found.tenants) == ("tier pro", 1)
        assert not self.lowered(lambda: endpoint_update(name=GET, priority="sheddable", **SAID))


def test_a_dry_run_writes_nothing() -> None:
    before = Revision.objects.count()
    commit(lambda: tier_update(name="pro", priority=PRIORITIES[-1], **SAID), "dry_run")
    assert (Revision.objects.count(), Tier.objects.get(name="pro").priority) == (before, "")
