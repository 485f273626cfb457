from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quotas.errors import Refused
from quotas.matrix.edit import Edit, limits_set
from quotas.models import Limit, LimitName, Outbox, Policy, Revision
from quotas.overrides import override_create
from quotas.policies.edit import limit_remove, limit_set, policy_create, policy_delete, policy_update
from quotas.tenants import tenant_archive
from tests.quotas.world import FORCED, PAY, SAID, bucket, limit_of, newest, waiting

pytestmark = pytest.mark.usefixtures("world")


def test_a_policy_of_a_tier() -> None:
    policy_create(
        name="pro-pay", tier="pro", endpoint=PAY, limits=[bucket(5, subject="key|ip", mode="shadow")], **FORCED
    )
    limits = {
        "burst": {
            "algorithm": "token_bucket", "rate": 5, "per": "1s", "burst": 10,
            "subject": "key|ip", "unit": "requests", "mode": "shadow", "on_failure": "open",
        }
    }  # fmt: skip
    assert newest().before == {"policy:pro-pay": None}
    assert newest().after == {"policy:pro-pay": {"tier": "pro", "tenant": None, "endpoint": PAY, "limits": limits}}
    assert waiting() == ["tier:pro"]


@pytest.mark.parametrize(
    ("place", "touched"),
    [
        ({"tenant": "acme"}, ["tenant:acme"]),
        ({"tenant": "acme", "endpoint": PAY}, ["tenant:acme"]),
        ({}, ["common"]),
        ({"endpoint": PAY}, ["common"]),
        ({"endpoint": "payments:*"}, ["common"]),
    ],
)
def test_where_a_policy_stands_decides_what_is_recompiled(place: dict[str, Any], touched: list[str]) -> None:
    policy = policy_create(name="other", limits=[bucket(5)], **place, **FORCED)
    assert waiting() == touched
    assert Policy.objects.get(pk=policy.pk).scope == place.get("endpoint", "*")


def test_updating_replaces_the_limits_by_name() -> None:
    kept = limit_of("pro-all").pk
    policy_update(name="pro-all", limits=[bucket(50), bucket(7, "hourly", per="1h")], **FORCED)
    assert sorted(Limit.objects.filter(policy__name="pro-all").values_list("name__name", flat=True)) == [
        "burst",
        "hourly",
    ]
    assert limit_of("pro-all").pk == kept


def test_updating_to_the_same_changes_nothing() -> None:
    before = newest().number
    assert policy_update(name="free-all", limits=[bucket(10)], **FORCED) is None
    assert (newest().number, Outbox.objects.count()) == (before, before)


def test_one_limit_is_set_and_removed() -> None:
    limit_set(policy="free-all", limit=bucket(3, "extra"), **FORCED)
    limit_set(policy="free-all", limit=bucket(4, "extra"), **FORCED)
    assert limit_of("free-all", "extra").parameters["rate"] == 4
    assert limit_of("free-all").parameters["rate"] == 10
    limit_remove(policy="free-all", limit="extra", **FORCED)
    assert Limit.objects.filter(policy__name="free-all").count() == 1


def test_deleting_takes_its_limits_along_and_says_so() -> None:
    policy_delete(name="pro-all", **FORCED)
    assert not Limit.objects.filter(policy__name="pro-all").exists()
    assert newest().after == {"policy:pro-all": None}
    before = newest().before["policy:pro-all"]
    assert before is not None
    assert sorted(before["limits"]) == ["burst", "minute"]


def test_a_limit_name_keeps_its_number_for_ever() -> None:
    number = LimitName.objects.get(name="minute").number
    policy_delete(name="pro-all", **FORCED)
    policy_create(name="later", tier="pro", limits=[bucket(1, "new"), bucket(1, "minute")], **FORCED)
    assert LimitName.objects.get(name="minute").number == number
    assert LimitName.objects.get(name="new").number > number


def shaper(name: str) -> dict[str, Any]:
    return {"name": name, "algorithm": "leaky_bucket", "rate": 5, "queue": 5}


def two_shapers_across_policies() -> None:
    policy_create(name="one", tier="pro", endpoint=PAY, limits=[shaper("a")], **FORCED)
    policy_create(name="two", tenant="acme", limits=[shaper("b")], **FORCED)


def an_override_without_its_limit() -> None:
    override_create(tenant="acme", limits={"minute": {"rate": 9}}, **FORCED)
    limit_remove(policy="pro-all", limit="minute", **FORCED)


REFUSALS: list[tuple[Callable[[], object], str]] = [
    (
        lambda: policy_create(name="pro-all", tier="pro", limits=[bucket(1)], **FORCED),
        "policy pro-all already exists",
    ),
    (
        lambda: policy_create(name="x", tier="pro", limits=[bucket(1)], **FORCED),
        "tier pro × * already has the policy pro-all",
    ),
    (lambda: policy_create(name="x", tier="gold", limits=[bucket(1)], **FORCED), "there is no tier gold"),
    (lambda: policy_create(name="x", tenant="nobody", limits=[bucket(1)], **FORCED), "there is no tenant nobody"),
    (lambda: policy_create(name="x", endpoint="a:b", limits=[bucket(1)], **FORCED), "there is no endpoint a:b"),
    (lambda: policy_create(name="x", tier="pro", tenant="acme", limits=[bucket(1)], **FORCED), "not to both"),
    (lambda: policy_create(name="x", limits=[], **FORCED), "the policy has no limits"),
    (lambda: policy_create(name="x", limits=[bucket(0)], **FORCED), "limits[0].rate: rate must be a number above 0"),
    (lambda: policy_update(name="x", limits=[bucket(1)], **FORCED), "there is no policy x"),
    (lambda: policy_delete(name="x", **FORCED), "there is no policy x"),
    (lambda: policy_delete(name="pro-all", carry="twice", **FORCED), "carry must be one of keep, proportional, reset"),  # type: ignore[arg-type]
    (lambda: limit_set(policy="x", limit=bucket(1), **FORCED), "there is no policy x"),
    (lambda: limit_remove(policy="pro-all", limit="x", **FORCED), "policy pro-all has no limit x"),
    (lambda: limit_remove(policy="free-all", limit="burst", **FORCED), "the policy has no limits"),
    (two_shapers_across_policies, "more than one enforced leaky_bucket"),
    (an_override_without_its_limit, "there is no limit minute on * to change"),
]


@pytest.mark.parametrize(("attempt", "sentence"), REFUSALS)
def test_a_refusal_says_why_and_leaves_nothing_behind(attempt: Callable[[], object], sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        attempt()
    assert sentence in str(refused.value)
    # Every row that is there belongs to a revision, and every revision is in the outbox.
    states = {key: state for revision in Revision.objects.order_by("number") for key, state in revision.after.items()}
    there = {key.removeprefix("policy:") for key, state in states.items() if state and key.startswith("policy:")}
    assert set(Policy.objects.values_list("name", flat=True)) == there
    assert sum(len(states[f"policy:{name}"]["limits"]) for name in there) == Limit.objects.count()
    assert Outbox.objects.count() == Revision.objects.count()


def test_an_archived_tenant_gets_no_policy() -> None:
    tenant_archive(name="acme", **SAID)
    with pytest.raises(Refused, match="tenant acme is archived; restore it first"):
        policy_create(name="own", tenant="acme", limits=[bucket(5)], **FORCED)
    with pytest.raises(Refused, match="tenant acme is archived; restore it first"):
        limits_set(edits=[Edit(None, "*", "burst", bucket(5), tenant="acme")], **FORCED)
    assert not Policy.objects.filter(tenant__name="acme").exists()
