"""Many limits at once: one revision, all or nothing."""

from __future__ import annotations

from typing import Any

import pytest

from quotas.errors import Refused
from quotas.matrix.edit import Edit, limits_plan, limits_set, sheet_read, sheet_write
from quotas.models import Limit, Policy, Revision
from quotas.policies.edit import candidate_set
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world")


def edit(tier: str | None, endpoint: str, rate: int | None, name: str = "burst", **fields: Any) -> Edit:
    if rate is None:
        return Edit(tier, endpoint, name, None)
    whole = bucket(rate, name, **fields)
    return Edit(tier, endpoint, name, {key: value for key, value in whole.items() if key != "name"})


def rates() -> dict[tuple[str, str], int]:
    rows = Limit.objects.select_related("policy", "name")
    return {(row.policy.name, row.name.name): row.parameters["rate"] for row in rows}


def test_many_cells_become_one_revision() -> None:
    before = newest().number
    revision = limits_set(edits=[edit("pro", "*", 150), edit("free", "*", 12), edit("pro", PAY, 7, "pay")], **FORCED)
    assert revision is not None
    assert (revision.number, revision.action) == (before + 1, "limits_set")
    assert set(revision.touched) == {"policy:pro-all", "policy:free-all", "policy:pro-payments-charge"}
    assert rates() == {
        ("pro-all", "burst"): 150,
        ("pro-all", "minute"): 1000,
        ("free-all", "burst"): 12,
        ("pro-payments-charge", "pay"): 7,
    }


def test_everyone_and_services_have_cells_too() -> None:
    limits_set(edits=[edit(None, "payments:*", 500, "backend"), edit(None, "*", 9000, "all")], **FORCED)
    assert {name for name, _ in rates()} >= {"everyone-payments-everywhere", "everyone-everywhere"}


def test_a_policy_goes_with_its_last_limit() -> None:
    limits_set(edits=[edit("pro", "*", None), edit("free", "*", None)], **FORCED)
    assert rates() == {("pro-all", "minute"): 1000}
    assert not Policy.objects.filter(name="free-all").exists()


def test_a_candidate_beside_a_limit_stays() -> None:
    candidate_set(
        policy="pro-all",
        limit="minute",
        candidate={"algorithm": "token_bucket", "rate": 1200, "per": "1m", "burst": 2000},
        **SAID,
    )
    limits_set(edits=[edit("pro", "*", 150)], **SAID)
    assert limit_of("pro-all", "minute").candidate is not None


def test_what_takes_from_somebody_needs_force() -> None:
    with pytest.raises(Refused) as refused:
        limits_set(edits=[edit("pro", "*", 50)], **SAID)
    assert {problem.code for problem in refused.value.problems} == {"cut"}
    assert limit_of("pro-all").parameters["rate"] == 100


def test_a_plan_writes_nothing_and_says_whom_it_hurts() -> None:
    before = Revision.objects.count()
    plan = limits_plan(edits=[edit("pro", "*", 50)], author="ann")
    assert plan.impact.needs_force
    assert plan.impact.hurt == ("acme",)
    assert [change.object for change in plan.effect.changes] == ["policy:pro-all"]
    assert plan.effect.tenants.names == ("acme",)
    assert Revision.objects.count() == before
    nothing = limits_plan(edits=[edit("pro", "*", 100)], author="ann")
    assert (nothing.effect.changes, nothing.impact.needs_force) == ((), False)


def test_one_bad_edit_stops_all_and_is_named_by_its_line() -> None:
    text = (
        "tier,endpoint,name,algorithm,rate,burst\n"
        "pro,*,burst,token_bucket,150,300\n"
        "gold,*,burst,token_bucket,5,10\n"
        f"pro,{GET}x,burst,token_bucket,5,10\n"
    )
    with pytest.raises(Refused) as refused:
        limits_set(edits=sheet_read(text), **SAID)
    assert [(problem.line, problem.path) for problem in refused.value.problems] == [(3, "tier"), (4, "endpoint")]
    assert limit_of("pro-all").parameters["rate"] == 100


def test_a_policy_that_cannot_be_names_the_line_of_the_limit() -> None:
    text = (
        "tier,endpoint,name,algorithm,rate,queue\n"
        "pro,*,smooth,leaky_bucket,150,300\n"
        "pro,*,smooth-too,leaky_bucket,150,300\n"
    )
    with pytest.raises(Refused) as refused:
        limits_set(edits=sheet_read(text), **SAID)
    assert [(problem.line, problem.path) for problem in refused.value.problems] == [(3, "algorithm")]


def test_what_was_exported_changes_nothing() -> None:
    plan = limits_plan(edits=sheet_read(sheet_write()), author="ann")
    assert plan.effect.changes == ()
    assert sheet_write().count("\n") == 4


def test_a_limit_that_is_not_there_cannot_go() -> None:
    with pytest.raises(Refused, match="no limit nothing"):
        limits_set(edits=[edit("pro", "*", None, "nothing")], **SAID)
    with pytest.raises(Refused, match="no limit burst"):
        limits_set(edits=[edit("pro", PAY, None)], **SAID)


def test_a_new_policy_finds_a_free_name() -> None:
    Policy.objects.filter(name="free-all").update(name="pro-payments-charge")
    limits_set(edits=[edit("pro", PAY, 7, "pay")], **FORCED)
    assert ("pro-payments-charge-2", "pay") in rates()
