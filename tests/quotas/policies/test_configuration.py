from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from pytest_django.fixtures import Settings

from quotas.models.revision import revisions_stamp
from quotas.overrides import override_create
from quotas.policies import spec
from quotas.policies.configuration import configuration_load, configuration_part, tenants_with_own_limits
from quotas.policies.edit import candidate_set, policy_create
from quotas.tenants import NewTenant, tenant_move, tenant_suspend, tenants_create, tier_create
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket, make_world, newest

pytestmark = pytest.mark.django_db

# Whole or part, whatever there is: revision, tiers, endpoints, names, tenants, handovers, policies, limits,
# overrides, changes that are tried out, and the times of revisions.
QUERIES = 11
SAVEPOINTS = 2


@pytest.fixture(autouse=True)
def rich_world() -> None:
    make_world()
    policy_create(name="acme-pay", tenant="acme", endpoint=PAY, limits=[bucket(5, subject="key|ip")], **FORCED)
    policy_create(name="protect", endpoint="payments:*", limits=[bucket(500, "backend")], **FORCED)
    policy_create(name="protect-get", endpoint=GET, limits=[bucket(900, "backend")], **FORCED)
    candidate_set(policy="free-all", limit="burst", candidate={"algorithm": "gcra", "rate": 4}, **FORCED)
    override_create(tenant="acme", multiplier=(3, 2), end=timezone.now() + timedelta(hours=1), **FORCED)
    tenant_suspend(name="bolt", **SAID)
    tenants_create(tenants=[NewTenant("city", "free"), NewTenant("dart", "pro", timezone="Asia/Tokyo")], **SAID)
    tenant_move(name="city", tier="pro", **FORCED)


def by_name(configuration: spec.Configuration) -> dict[str, spec.Policy]:
    return {policy.name: policy for policy in configuration.policies}


class TestTheWhole:
    def test_it_has_everything(self) -> None:
        whole = configuration_load()
        assert whole.revision == newest().number
        assert set(whole.tiers) == {"free", "pro"}
        assert {name: e.default_cost for name, e in whole.endpoints.items()} == {PAY: 10, GET: 1}
        assert [(o.tenant, o.endpoint, o.multiplier) for o in whole.overrides] == [("acme", "*", (3, 2))]
        assert {n: (t.tier, t.suspended, t.timezone) for n, t in whole.tenants.items()} == {
            "acme": ("pro", False, "UTC"),
            "bolt": ("free", True, "UTC"),
            "city": ("pro", False, "UTC"),
            "dart": ("pro", False, "Asia/Tokyo"),
        }
        assert whole.limit_numbers.keys() == {"burst", "minute", "backend", "burst~candidate"}

    def test_policies_stand_where_they_were_put(self) -> None:
        policies = by_name(configuration_load())
        assert {name: policy.source for name, policy in policies.items()} == {
            "free-all": "tier free × *",
            "pro-all": "tier pro × *",
            "acme-pay": f"tenant acme × {PAY}",
            "protect": "global × payments:*",
            "protect-get": f"global × {GET}",
        }
        assert str(policies["acme-pay"].limits[0].subject) == "key|ip"
        candidate = policies["free-all"].limits[0].candidate
        assert candidate is not None
        assert candidate.name == "gcra"

    def test_the_number_of_queries_is_fixed(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(QUERIES + SAVEPOINTS):
            configuration_load()

    def test_unknown_tenants_are_denied_or_have_a_stand_in(self, settings: Settings) -> None:
        assert configuration_load().unknown_tenant is None
        settings.HEADROOM_UNKNOWN_TENANT = "bolt"
        assert configuration_load().unknown_tenant == "bolt"


class TestAPart:
    def test_it_has_what_a_tenant_needs(self) -> None:
        revisions_stamp(1_000)
        part, whole = configuration_part(tenants=["acme"]), configuration_load()
        assert set(by_name(part)) == {"pro-all", "acme-pay", "protect", "protect-get"}
        assert all(by_name(whole)[name] == policy for name, policy in by_name(part).items())
        assert part.tenants == {"acme": whole.tenants["acme"]}
        assert part.overrides == whole.overrides
        assert (part.revision, part.tiers, part.endpoints, part.limit_numbers) == (
            whole.revision,
            whole.tiers,
            whole.endpoints,
            whole.limit_numbers,
        )

    def test_it_has_the_policies_of_the_named_tiers(self) -> None:
        assert set(by_name(configuration_part(tiers=["free"]))) == {"free-all", "protect", "protect-get"}

    def test_what_does_not_exist_is_not_in_it(self) -> None:
        part = configuration_part(tenants=["nobody"], tiers=["gold"])
        assert (part.tenants, set(by_name(part))) == ({}, {"protect", "protect-get"})

    def test_the_number_of_queries_is_fixed(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(QUERIES + SAVEPOINTS):
            configuration_part(tenants=["acme", "bolt", "city", "dart"], tiers=["free", "pro"])


def test_tenants_with_own_limits_are_those_with_a_policy_an_override_or_a_handover() -> None:
    tier_create(name="gold", **SAID)
    tenants_create(tenants=[NewTenant("eve", "gold")], **SAID)
    override_create(tenant="dart", multiplier=(2, 1), **FORCED)
    assert tenants_with_own_limits(tiers=["pro", "gold"]) == {"acme", "city", "dart"}
    assert tenants_with_own_limits(tiers=["free"]) == set()
