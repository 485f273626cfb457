"""Whatever was edited: rolled back to revision n, the configuration is what it was at n, and compiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from quotas.changes.undo import revision_revert, revision_rollback
from quotas.endpoints import endpoint_create, endpoint_delete, endpoint_update
from quotas.errors import Refused
from quotas.models import Override, Revision
from quotas.models.revision import revisions_stamp
from quotas.overrides import override_cancel, override_create
from quotas.policies.configuration import configuration_load, configuration_part
from quotas.policies.edit import candidate_promote, candidate_set, limit_remove, limit_set, policy_create, policy_delete
from quotas.policies.rename import limit_rename
from quotas.policies.spec import Configuration, Limit
from quotas.tenants import tenant_move, tenant_suspend, tenant_update, tier_create, tier_retire
from tests.quotas.world import FORCED, GET, PAY, SAID, make_world, newest

ENDPOINTS = ["*", PAY, GET, "fares:quote"]
NAMES = st.sampled_from(["burst", "minute"])
RENAMED = st.sampled_from(["burst", "minute", "calm"])
ALGORITHMS = st.sampled_from(
    [
        {"algorithm": "token_bucket", "rate": 5, "burst": 9},
        {"algorithm": "token_bucket", "rate": 6, "burst": 9},
        {"algorithm": "gcra", "rate": 3},
        {"algorithm": "fixed_window", "limit": 3, "window": "1m"},
        {"algorithm": "calendar_quota", "limit": 3, "period": "month"},
    ]
)
LIMITS = st.builds(
    lambda name, algorithm, mode: {"name": name, **algorithm, "mode": mode},
    NAMES,
    ALGORITHMS,
    st.sampled_from(["enforce", "shadow", "off"]),
)
OWNERS = st.sampled_from([{"tier": "free"}, {"tier": "pro"}, {"tenant": "acme"}, {"tenant": "bolt"}])
POLICIES = st.sampled_from(["free-all", "pro-all", "p1", "p2", "p3"])
TIERS = st.sampled_from(["free", "pro"])
OTHER = {"free": "pro", "pro": "free"}
TENANTS = st.sampled_from(["acme", "bolt"])
Edit = Callable[[], object]


def edit(service: Callable[..., object], **fields: Any) -> Edit:
    said = SAID if service in (tenant_suspend, tenant_update, tier_create) else FORCED
    return lambda: service(**fields, **said)


def cancel(nth: int) -> object:
    live = list(Override.objects.filter(cancelled_at=None).values_list("pk", flat=True))
    return override_cancel(override=live[nth % len(live)], **FORCED) if live else None


def go_back(service: Callable[..., object], share: float) -> object:
    return service(number=1 + int(share * (newest().number - 1)), **FORCED)


SHARES = st.floats(0, 1)
EDITS = st.one_of(
    st.builds(
        lambda name, owner, endpoint, limit: edit(policy_create, name=name, endpoint=endpoint, limits=[limit], **owner),
        POLICIES,
        OWNERS,
        st.sampled_from(ENDPOINTS),
        LIMITS,
    ),
    st.builds(lambda policy, limit: edit(limit_set, policy=policy, limit=limit), POLICIES, LIMITS),
    st.builds(lambda policy, name: edit(limit_remove, policy=policy, limit=name), POLICIES, NAMES),
    st.builds(
        lambda policy, name, to: edit(limit_rename, policy=policy, limit=name, to=to), POLICIES, RENAMED, RENAMED
    ),
    st.builds(lambda policy: edit(policy_delete, name=policy), POLICIES),
    st.builds(
        lambda policy, name, algorithm: edit(candidate_set, policy=policy, limit=name, candidate=algorithm),
        POLICIES,
        NAMES,
        ALGORITHMS,
    ),
    st.builds(lambda policy, name: edit(candidate_promote, policy=policy, limit=name), POLICIES, NAMES),
    st.builds(lambda name: edit(endpoint_create, name=name), st.sampled_from(ENDPOINTS[1:])),
    st.builds(
        lambda name, with_limits: edit(endpoint_delete, name=name, with_limits=with_limits),
        st.sampled_from(ENDPOINTS[1:]),
        st.booleans(),
    ),
    st.builds(lambda name: edit(tier_retire, name=name, to=OTHER[name]), TIERS),
    st.builds(lambda name: edit(tier_create, name=name), TIERS),
    st.builds(
        lambda name, cost: edit(endpoint_update, name=name, default_cost=cost),
        st.sampled_from(ENDPOINTS[1:]),
        st.integers(1, 3),
    ),
    st.builds(
        lambda tenant, endpoint: edit(override_create, tenant=tenant, endpoint=endpoint, multiplier=(3, 2)),
        TENANTS,
        st.sampled_from(ENDPOINTS),
    ),
    st.builds(
        lambda tenant, endpoint, name, patch: edit(
            override_create, tenant=tenant, endpoint=endpoint, limits={name: patch}
        ),
        TENANTS,
        st.sampled_from(ENDPOINTS),
        NAMES,
        ALGORITHMS,
    ),
    st.builds(lambda nth: lambda: cancel(nth), st.integers(0, 5)),
    st.builds(
        lambda tenant, tier: edit(tenant_move, name=tenant, tier=tier), TENANTS, st.sampled_from(["free", "pro"])
    ),
    st.builds(lambda tenant: edit(tenant_suspend, name=tenant), TENANTS),
    st.builds(
        lambda tenant, zone: edit(tenant_update, name=tenant, timezone=zone),
        TENANTS,
        st.sampled_from(["UTC", "Asia/Kolkata"]),
    ),
    st.builds(lambda share: lambda: go_back(revision_rollback, share), SHARES),
    st.builds(lambda share: lambda: go_back(revision_revert, share), SHARES),
)


def enforced(configuration: Configuration) -> Mapping[str, object]:
    """What a rollback restores: all but times, memberships, suspensions and the numbers of overrides."""
    policies = {
        policy.name: replace(
            policy,
            limits=tuple(
                replace(limit, since_us=0, past=(), carry="keep", adopts_candidate=False) for limit in policy.limits
            ),
        )
        for policy in configuration.policies
    }
    live = [o for o in configuration.overrides if o.end_us is None]
    return {
        "endpoints": dict(configuration.endpoints),
        "policies": policies,
        "overrides": sorted(str((o.tenant, o.endpoint, o.limits, o.multiplier)) for o in live),
        "timezones": {name: tenant.timezone for name, tenant in configuration.tenants.items()},
    }


def without_history(limit: Limit) -> Limit:
    return replace(limit, since_us=0, past=(), carry="keep", adopts_candidate=False)


def assert_parts_equal_the_whole() -> None:
    revisions_stamp(10**15)
    whole = configuration_load()
    for name, tenant in whole.tenants.items():
        part = configuration_part(tenants=[name])
        mine = {p.name: p for p in part.policies}
        assert {p.name: p for p in whole.policies if p.tier in (tenant.tier, None) and p.tenant in (name, None)} == mine
        assert part.tenants[name] == tenant
        assert part.overrides == tuple(o for o in whole.overrides if o.tenant == name)


def moved_since(number: int) -> bool:
    return Revision.objects.filter(number__gt=number, action__in=("tenant_move", "tier_retire")).exists()


def attempt_all(edits: list[Edit]) -> dict[int, Mapping[str, object]]:
    """What was enforced after each revision; a refused edit leaves none."""
    seen = {newest().number: enforced(configuration_load())}
    for attempt in edits:
        revisions = Revision.objects.count()
        try:
            attempt()
        except Refused:
            assert Revision.objects.count() == revisions
        seen[newest().number] = enforced(configuration_load())
    return seen


def check_rollback(edits: list[Edit], share: float) -> None:
    make_world()
    seen = attempt_all(edits)
    assert Revision.objects.count() == newest().number
    number = sorted(seen)[int(share * (len(seen) - 1))]
    try:
        revision_rollback(number=number, **FORCED)
    except Refused:
        # A tenant that has moved since may have an override that would find nothing to change.
        assert moved_since(number)
        return
    assert enforced(configuration_load()) == seen[number]
    assert_parts_equal_the_whole()


class TestRollback(TestCase):
    @settings(max_examples=6)
    @given(edits=st.lists(EDITS, max_size=10), share=SHARES)
    def test_it_restores_any_revision(self, edits: list[Edit], share: float) -> None:
        """A few; the sweep below has more."""
        check_rollback(edits, share)

    @pytest.mark.sweep
    @settings(max_examples=40)
    @given(edits=st.lists(EDITS, max_size=10), share=SHARES)
    def test_it_restores_any_revision_of_some(self, edits: list[Edit], share: float) -> None:
        check_rollback(edits, share)

    @pytest.mark.faults_long
    @pytest.mark.timeout(3_600)
    @settings(max_examples=200, suppress_health_check=list(HealthCheck))
    @given(edits=st.lists(EDITS, min_size=10, max_size=30), share=SHARES)
    def test_it_restores_any_revision_of_many(self, edits: list[Edit], share: float) -> None:
        check_rollback(edits, share)
