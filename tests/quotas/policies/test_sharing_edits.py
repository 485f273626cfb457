"""Limits that share are written, read back, overridden and undone as all others are."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from headroom_edge.algorithms.sharing import Borrowing, Pool
from quotas.changes.undo import revision_rollback
from quotas.errors import Refused, accepted
from quotas.matrix.edit import limits_plan, sheet_read, sheet_write
from quotas.overrides import override_create
from quotas.policies.apply import document_export, document_plan
from quotas.policies.document import read_document
from quotas.policies.edit import candidate_set, limit_remove, limit_set, policy_create, policy_update
from quotas.policies.explain import standing
from quotas.quota_requests import quota_request_create, quota_request_grant
from tests.quotas.world import FORCED, SAID, limit_of, make_world, newest

pytestmark = pytest.mark.django_db

POOL: dict[str, Any] = {"name": "org", "algorithm": "pool", "rate": 1_000, "burst": 250, "reserve": 50}
SHARE: dict[str, Any] = {
    "name": "team",
    "algorithm": "borrowing",
    "assured": 40,
    "burst": 20,
    "ceiling": 80,
    "ceiling_burst": 40,
    "parent": "org",
}


@pytest.fixture(autouse=True)
def _world() -> None:
    make_world()
    policy_update(name="pro-all", limits=[POOL, SHARE], **FORCED)


def effective(name: str) -> Any:
    (found,) = [
        each.effective.limit.algorithm for each in standing(tenant="acme").limits if each.effective.limit.name == name
    ]
    return found


def sentence(refusal: pytest.ExceptionInfo[Refused]) -> str:
    (problem,) = refusal.value.problems
    return problem.message


def test_an_exported_document_changes_nothing() -> None:
    document = accepted(read_document(document_export()))
    assert document_plan(document=document, author="ann").changes == ()


def test_an_exported_sheet_changes_nothing() -> None:
    edits = sheet_read(sheet_write())
    assert {edit.name for edit in edits} == {"burst", "org", "team"}
    assert limits_plan(edits=edits, author="ann", carry="keep").effect.changes == ()


def test_a_rollback_brings_a_share_back() -> None:
    before = newest().number
    limit_set(policy="pro-all", limit=SHARE | {"assured": 60, "weight": 7}, **SAID)
    assert limit_of("pro-all", "team").parameters["weight"] == 7
    revision_rollback(number=before, **FORCED)
    assert limit_of("pro-all", "team").parameters == {
        "assured": 40,
        "per": "1s",
        "burst": 20,
        "ceiling": 80,
        "ceiling_burst": 40,
        "reserve": 0,
        "parent": "org",
    }


def test_a_pool_cannot_go_before_those_who_borrow_from_it() -> None:
    with pytest.raises(Refused) as refusal:
        limit_remove(policy="pro-all", limit="org", **SAID)
    assert "limit team (tier pro × *) borrows from org, but no limit org is switched on" in sentence(refusal)
    policy_update(name="pro-all", limits=[{"name": "burst", "algorithm": "gcra", "rate": 9_000}], **FORCED)


def test_less_guaranteed_and_a_lower_ceiling_need_force() -> None:
    for cut in ({"assured": 20, "burst": 20}, {"ceiling": 60}, {"ceiling": 40, "ceiling_burst": 20}):
        with pytest.raises(Refused) as refusal:
            limit_set(policy="pro-all", limit=SHARE | cut, **SAID)
        assert "team" in sentence(refusal)
    limit_set(policy="pro-all", limit=SHARE | {"ceiling": 60}, **FORCED)


def test_a_tenant_has_a_share_of_its_own_under_the_same_name() -> None:
    policy_create(name="acme-share", tenant="acme", endpoint="*", limits=[SHARE | {"assured": 70}], **FORCED)
    assert effective("team").assured == 70


def test_a_multiplier_scales_shares_and_pools() -> None:
    override_create(tenant="acme", multiplier=(3, 2), **SAID)
    team, org = effective("team"), effective("org")
    assert isinstance(team, Borrowing)
    assert isinstance(org, Pool)
    assert (team.assured, team.burst, team.ceiling, team.ceiling_burst) == (60, 30, 120, 60)
    assert (org.rate, org.burst, org.reserve) == (1_500, 375, 75)


def test_a_multiplier_keeps_rates_exact_by_a_longer_time() -> None:
    override_create(tenant="acme", multiplier=(1, 3), force=True, **SAID)
    team = effective("team")
    assert (team.assured, team.ceiling, team.per_us) == (40, 80, 3_000_000)


def test_an_override_that_does_not_fit_a_share_is_refused_with_a_sentence() -> None:
    with pytest.raises(Refused) as refusal:
        override_create(tenant="acme", limits={"team": {"assured": 100}}, **SAID)
    assert sentence(refusal) == "limits.team.ceiling cannot be below assured, which is 100; raise it"


def test_an_override_that_breaks_a_chain_is_refused() -> None:
    with pytest.raises(Refused) as refusal:
        override_create(tenant="acme", limits={"team": {"mode": "shadow"}}, **FORCED)
    assert "has mode shadow, but its parent org has enforce" in sentence(refusal)


def test_a_granted_request_raises_the_guaranteed_share_and_its_ceiling() -> None:
    until = timezone.now() + timedelta(days=1)
    asked = quota_request_create(
        tenant="acme", scope="*", limit="team", wanted=100, until=until, reason="sale", author="carl", usage={}
    )
    override = quota_request_grant(request=asked.pk, **SAID)
    assert override.limits == {"team": {"assured": 100, "burst": 50, "ceiling": 100, "ceiling_burst": 50}}
    assert effective("team").words() == "100/s guaranteed, borrows from org up to 100/s"


def test_a_candidate_of_a_limit_that_shares_is_refused() -> None:
    with pytest.raises(Refused) as refusal:
        candidate_set(policy="pro-all", limit="team", candidate={"algorithm": "gcra", "rate": 50}, **SAID)
    assert "cannot be tried in shadow beside the live limit" in sentence(refusal)
