"""Whoever was on a tier and wherever they went: reverted, its retirement leaves everything as it was."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from quotas.changes.undo import revision_revert
from quotas.policies.apply import document_export
from quotas.policies.configuration import configuration_load
from quotas.policies.document import read_document
from quotas.policies.edit import policy_create
from quotas.tenants import NewTenant, tenant_archive, tenants_create, tier_create, tier_retire
from tenants.models import Tenant
from tests.quotas.world import FORCED, SAID, bucket, make_world, newest

TENANTS = ("acme", "cabs", "dart", "echo")


MOVES = (
    st.dictionaries(st.sampled_from(TENANTS), st.sampled_from(["free", "gold"])),
    st.sampled_from(["free", "gold"]),
    st.sets(st.sampled_from(TENANTS)),
    st.booleans(),
)


class TestRoundTrip(TestCase):
    @settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow])
    @given(*MOVES)
    def test_a_tier_that_is_retired_and_reverted_is_as_it_was(
        self, places: dict[str, str], to: str, own: set[str], archives: bool
    ) -> None:
        check_round_trip(places, to, own, archives=archives)

    @pytest.mark.sweep
    @settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
    @given(*MOVES)
    def test_many_tiers_that_are_retired_and_reverted_are_as_they_were(
        self, places: dict[str, str], to: str, own: set[str], archives: bool
    ) -> None:
        check_round_trip(places, to, own, archives=archives)


def check_round_trip(places: dict[str, str], to: str, own: set[str], *, archives: bool) -> None:
    make_world()
    tier_create(name="gold", **SAID)
    tenants_create(tenants=[NewTenant(name, "pro") for name in TENANTS[1:]], **SAID)
    for name in sorted(own):
        policy_create(name=f"own-{name}", tenant=name, limits=[bucket(70)], **FORCED)
    if archives:
        tenant_archive(name="echo", **SAID)
    before, exported = _shape(), read_document(document_export())
    tier_retire(name="pro", to=to, places=places, **FORCED)
    assert {tenant.name: tenant.tier.name for tenant in Tenant.objects.filter(name__in=TENANTS)} == {
        name: places.get(name, to) for name in TENANTS
    }
    revision_revert(number=newest().number, **FORCED)
    assert _shape() == before
    assert read_document(document_export()) == exported


def _shape() -> object:
    configuration = configuration_load()
    return (
        {name: (tenant.tier, tenant.suspended) for name, tenant in configuration.tenants.items()},
        {
            (policy.name, policy.tier, policy.tenant, policy.endpoint): sorted(
                (limit.name, str(limit.algorithm), limit.mode) for limit in policy.limits
            )
            for policy in configuration.policies
        },
        {name: tier.number for name, tier in configuration.tiers.items()},
    )
