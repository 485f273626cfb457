"""What pools will have promised after an edit is what they tell once it is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quotas.changes.commit import Proposed, commit
from quotas.errors import accepted
from quotas.matrix.edit import Edit, limits_plan
from quotas.models import Revision
from quotas.policies.apply import document_apply, document_plan
from quotas.policies.document import read_document
from quotas.policies.edit import policy_create, policy_delete, policy_update
from quotas.pools.members import members_read, tenant_members
from quotas.pools.promises import promises_after
from quotas.pools.queries import pool_read
from tests.quotas.pools.world import DOCUMENT, make_pool_world, make_team_world
from tests.quotas.world import FORCED, PAY, SAID

pytestmark = pytest.mark.django_db

BEST_EFFORT = "The pool can keep only 90 % of the guaranteed shares: they add up to 110/s, and it has 100/s."


@pytest.fixture
def cards(valkey: object) -> None:
    make_pool_world()


def charge(assured: int, **fields: object) -> dict[str, object]:
    return {"name": "charge", "algorithm": "borrowing", "assured": assured, "parent": "cards", **fields}


def text(gold: int) -> str:
    return DOCUMENT.replace("assured: 30, burst: 30", f"assured: {gold}, burst: {gold}")


EDITS: dict[str, Callable[[], object]] = {
    "a tier's share": lambda: policy_update(name="gold-charge", limits=[charge(70)], **FORCED),
    "the pool": lambda: policy_update(
        name="everyone-charge",
        limits=[{"name": "cards", "algorithm": "pool", "rate": 50, "burst": 60, "reserve": 5}],
        **FORCED,
    ),
    "a tenant's first own share": lambda: policy_create(
        name="own", tenant="kite", endpoint=PAY, limits=[charge(90)], **FORCED
    ),
    "an own limit that leaves the pool": lambda: policy_create(
        name="own",
        tenant="kite",
        endpoint=PAY,
        limits=[{"name": "charge", "algorithm": "gcra", "rate": 5, "burst": 5}],
        **FORCED,
    ),
    "a tier that leaves": lambda: policy_delete(name="silver-charge", **FORCED),
    "a tier and a tenant": lambda: document_apply(
        document=accepted(
            read_document(
                text(45) + f"  - {{name: own, tenant: lagoon, endpoint: '{PAY}', limits: "
                "[{name: charge, algorithm: borrowing, assured: 7, burst: 7, parent: cards}]}\n"
            )
        ),
        **FORCED,
    ),
}


@pytest.mark.usefixtures("cards")
@pytest.mark.parametrize("name", EDITS)
def test_it_is_what_the_pool_tells_once_the_edit_is_written(name: str) -> None:
    planned = commit(EDITS[name], "dry_run")
    assert isinstance(planned, Proposed)
    (after,) = promises_after(planned.proposal.before, planned.proposal.after)
    commit(EDITS[name])
    pool = pool_read("everyone-charge", "cards")
    assert pool
    assert after.promise == members_read(pool).promise


@pytest.mark.usefixtures("cards")
def test_an_own_share_that_goes_gives_that_of_the_tier_back() -> None:
    policy_create(name="own", tenant="kite", endpoint=PAY, limits=[charge(90)], **FORCED)
    planned = commit(lambda: policy_delete(name="own", **FORCED), "dry_run")
    assert isinstance(planned, Proposed)
    (after,) = promises_after(planned.proposal.before, planned.proposal.after)
    assert after.promise.assured == 30 + 30 + 20


def test_a_tenant_with_a_share_of_its_own_has_a_copy_of_its_tiers_pool(valkey: object) -> None:
    make_team_world()
    team = {"name": "team", "algorithm": "borrowing", "assured": 1_500, "parent": "org", "subject": "team"}

    def edit() -> object:
        return policy_create(name="own", tenant="acme", limits=[team], **FORCED)

    planned = commit(edit, "dry_run")
    assert isinstance(planned, Proposed)
    (after,) = promises_after(planned.proposal.before, planned.proposal.after)
    assert (after.policy, after.pool, after.tenant) == ("plain-all", "org", "acme")
    edit()
    pool = pool_read("plain-all", "org")
    assert pool
    assert after.promise == tenant_members(pool, "acme").promise


@pytest.mark.usefixtures("cards")
def test_the_plan_of_a_document_warns_and_writes_nothing() -> None:
    revisions = Revision.objects.count()
    plan = document_plan(document=accepted(read_document(text(45))), author="ann")
    assert plan.warnings[0] == f"pool cards of everyone-charge: {BEST_EFFORT}"
    assert f"  # pool cards of everyone-charge: {BEST_EFFORT}" in list(plan.lines())
    assert Revision.objects.count() == revisions
    assert document_plan(document=accepted(read_document(text(31))), author="ann").warnings == ()


def test_the_pool_of_a_new_document_is_judged_as_well(valkey: object) -> None:
    make_pool_world()
    pool = "{name: p, algorithm: pool, rate: 5, burst: 9}"
    share = "{name: l, algorithm: borrowing, assured: 8, burst: 1, parent: p}"
    new = f"  - {{name: bare, tier: silver, endpoint: '*', limits: [{pool}, {share}]}}\n"
    plan = document_plan(document=accepted(read_document(DOCUMENT + new)), author="ann")
    assert "pool p of bare: The pool can keep only 62 %" in plan.warnings[0]


@pytest.mark.usefixtures("cards")
def test_the_plan_of_several_cells_has_the_same_promises() -> None:
    edits = [Edit("gold", PAY, "charge", charge(40)), Edit("silver", PAY, "charge", charge(30))]
    planned = limits_plan(edits=edits, author=SAID["author"])
    assert isinstance(planned, Proposed)
    (after,) = promises_after(planned.proposal.before, planned.proposal.after)
    assert after.promise.assured == 40 + 40 + 30
