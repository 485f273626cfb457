"""A document: exported, planned, applied; and what other hands changed since."""

from __future__ import annotations

import pytest

from quotas.errors import Refused, accepted
from quotas.models import Limit, Outbox, Policy, Revision
from quotas.policies.apply import document_apply, document_export, document_plan
from quotas.policies.document import Document, read_document
from quotas.policies.edit import candidate_set, limit_set, policy_create
from tests.quotas.world import DOCUMENT, PAY, SAID, bucket, limit_of, make_world, newest

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def document(text: str) -> Document:
    return accepted(read_document(text))


def everything() -> tuple[int, int, int, int]:
    return Revision.objects.count(), Outbox.objects.count(), Policy.objects.count(), Limit.objects.count()


class TestExport:
    def test_applying_it_is_no_change(self) -> None:
        policy_create(name="acme-pay", tenant="acme", endpoint=PAY, limits=[bucket(500, mode="off")], **SAID)
        policy_create(
            name="backend",
            endpoint="payments:*",
            limits=[{"name": "1e5", "algorithm": "calendar_quota", "limit": 9, "period": "month", "timezone": "UTC"}],
            force=True,
            **SAID,
        )
        candidate_set(policy="pro-all", limit="burst", candidate={"algorithm": "gcra", "rate": 5}, **SAID)
        before = everything()
        assert document_apply(document=document(document_export()), **SAID) is None
        assert everything() == before
        assert limit_of("pro-all").candidate is not None

    def test_a_comment_tells_what_other_hands_changed_since_the_last_apply(self) -> None:
        assert "drift" not in document_export()
        limit_set(policy="free-all", limit=bucket(11), author="bob", reason="more\nfor free")
        lines = document_export().splitlines()
        note = next(index for index, line in enumerate(lines) if "drift" in line)
        assert lines[note] == (
            f"  # drift: bob changed this in revision {newest().number} (more for free), "
            "after the last apply in revision 1"
        )
        assert lines[note + 1] == "  - name: free-all"


class TestPlan:
    def test_it_is_a_diff_and_changes_nothing(self) -> None:
        before = everything()
        text = DOCUMENT.replace("{name: pro}", "{name: pro}, {name: gold}").replace("rate: 10,", "rate: 12,")
        plan = document_plan(document=document(text), author="ann")
        assert [(change.object, change.action) for change in plan.changes] == [
            ("policy:free-all", "update"),
            ("tier:gold", "create"),
        ]
        assert (plan.revision, plan.tenants.names) == (newest().number, ("bolt",))
        assert everything() == before

    def test_it_reads_as_people_know_it(self) -> None:
        limit_set(policy="free-all", limit=bucket(11), author="bob", reason="more")
        policy_create(name="acme-all", tenant="acme", limits=[bucket(500)], **SAID)
        plan = document_plan(document=document(DOCUMENT.replace("rate: 10,", "rate: 12,")), author="ann")
        assert list(plan.lines()) == [
            "  # policy free-all will be changed",
            f"  # drift: bob changed this in revision {newest().number - 1} (more), after the last apply in revision 1",
            '  ~ policy "free-all"',
            "      ~ limits.burst.rate: 11 -> 12",
            "      ~ limits.burst.burst: 22 -> 20",
            "",
            "Plan: 0 to create, 1 to change, 0 to delete.",
            "1 tenant is affected; 0 lose more than 10 %.",
            "1 other object is not in the document; it stays as it is.",
        ]

    def test_what_it_leaves_alone_is_counted(self) -> None:
        plan = document_plan(document=document("tiers: [{name: gold}]"), author="ann")
        count = len(plan.others)
        assert count > 1
        assert list(plan.lines())[-1] == f"{count} other objects are not in the document; they stay as they are."

    def test_nothing_to_do_is_said(self) -> None:
        plan = document_plan(document=document(DOCUMENT), author="ann")
        assert list(plan.lines()) == ["No changes. The live configuration matches the document."]

    def test_it_tells_whom_it_would_hurt(self) -> None:
        plan = document_plan(document=document(DOCUMENT.replace("rate: 100,", "rate: 50,")), author="ann")
        assert plan.impact.hurt == ("acme",)
        with pytest.raises(Refused, match="cut of 50 %"):
            document_apply(document=document(DOCUMENT.replace("rate: 100,", "rate: 50,")), **SAID)

    def test_it_is_refused_as_applying_it_would_be(self) -> None:
        with pytest.raises(Refused, match="there is no tier gold"):
            document_plan(document=document(DOCUMENT.replace("tier: free", "tier: gold")), author="ann")


class TestMany:
    def test_policies_are_written_together_as_one_by_one(self) -> None:
        fields = "limits: [{name: burst, algorithm: gcra, rate: 5}, {name: day, algorithm: gcra, rate: 9}]"
        text = f"""
policies:
  - {{name: free-pay, tier: free, endpoint: "{PAY}", {fields}}}
  - {{name: everyone, endpoint: "*", {fields.replace("burst", "all")}}}
  - {{name: pro-all, tier: pro, endpoint: "*", {fields}}}
  - {{name: bolt-all, tenant: bolt, endpoint: "*", {fields}}}
"""
        document_apply(document=document(text), force=True, **SAID)
        assert newest().touched == ["policy:bolt-all", "policy:everyone", "policy:free-pay", "policy:pro-all"]
        assert newest().after["policy:free-pay"]["limits"].keys() == {"burst", "day"}
        assert newest().after["policy:pro-all"]["limits"].keys() == {"burst", "day"}
        burst = limit_of("pro-all")
        assert (burst.algorithm, burst.changed_revision_id) == ("gcra", newest().number)
        assert [past["parameters"]["rate"] for past in burst.past] == [100]
        assert [past["parameters"]["rate"] for past in limit_of("bolt-all").past] == [10]

    @pytest.mark.parametrize(
        ("policy", "sentence"),
        [
            ("{name: two, tier: pro, endpoint: '*', LIMITS}", "already has the policy pro-all"),
            ("{name: pro-all, tier: free, endpoint: 'rides:get', LIMITS}", "cannot move to tier free × rides:get"),
            ("{name: two, tier: pro, endpoint: 'no:such', LIMITS}", "there is no endpoint no:such"),
        ],
    )
    def test_one_that_is_wrong_leaves_nothing_behind(self, policy: str, sentence: str) -> None:
        before = everything()
        limits = "limits: [{name: new-name, algorithm: gcra, rate: 5}]"
        other = f"{{name: rides, tier: free, endpoint: 'rides:get', {limits}}}"
        text = f"policies: [{other.replace('rides:get', PAY)}, {policy.replace('LIMITS', limits)}]"
        with pytest.raises(Refused, match=sentence):
            document_apply(document=document(text), force=True, **SAID)
        assert everything() == before
