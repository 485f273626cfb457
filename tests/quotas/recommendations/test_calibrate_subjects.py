"""Limits by key, user or address are sized from the sampled arrivals, with the same evidence and the same guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import numpy as np
import pytest

from quotas.errors import accepted
from quotas.models import DrainState, Endpoint, Recommendation
from quotas.models.recommendation import Kind, Stage
from quotas.models.usage import BEGINNING, GapRecord
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.recommendations.calibrate import calibrate
from quotas.recommendations.lifecycle import recommendation_simulate
from quotas.simulation.synthetic_tenants import SyntheticTenant
from quotas.tenants import NewTenant, tenants_create
from quotas.usage.batch_format import ArrivalRecord
from quotas.usage.rollups import add_arrivals
from tenants.models import Tenant
from tests.quotas.recorded import NOW
from tests.quotas.world import GET, SAID

pytestmark = pytest.mark.django_db
DAY_S = 86_400
DAYS = 28
LIMIT = "{{name: {name}, algorithm: token_bucket, rate: {rate}, per: 1m, burst: 10, subject: {subject}}}"


def at_work(rate: float, since_days: float = DAYS) -> SyntheticTenant:
    """A key that is used five minutes a day, for so many days."""
    first = NOW.timestamp() - since_days * DAY_S
    return SyntheticTenant(
        "key", "working", lambda seconds: np.where((seconds % DAY_S < 300) & (seconds >= first), rate, 0.0)
    )


def make(tenants: Mapping[str, Sequence[SyntheticTenant]], *limits: str, days: float = DAYS) -> None:
    """Each tenant with the keys that were sampled of it, all of them on one endpoint."""
    document = f"""
tiers: [{{name: pro}}]
endpoints: [{{name: "{GET}", method: GET, path: "/v1/rides/{{id}}"}}]
policies: [{{name: pro-get, tier: pro, endpoint: "{GET}", limits: [{", ".join(limits)}]}}]
"""
    document_apply(document=accepted(read_document(document)), **SAID)
    tenants_create(tenants=[NewTenant(name, "pro") for name in tenants], **SAID)
    endpoint = Endpoint.objects.get(name=GET).number
    numbers = dict(Tenant.objects.values_list("name", "number"))
    begin = NOW - timedelta(days=days)
    draw = np.random.default_rng(1)
    add_arrivals(
        (
            ArrivalRecord(numbers[name], endpoint, 1_000 * numbers[name] + place, at_us, 1, True)
            for name, keys in tenants.items()
            for place, key in enumerate(keys)
            for at_us in key.demand(begin.timestamp(), NOW.timestamp(), draw).tolist()
        ),
        NOW,
    )
    DrainState.objects.create(drained_at=NOW, run_id="r")
    GapRecord.objects.create(start=BEGINNING, end=begin, reason="nothing was measured yet")


def per_key(rate: int, subject: str = "key", name: str = "each") -> str:
    return LIMIT.format(name=name, rate=rate, subject=subject)


def test_a_limit_by_key_that_is_too_low_is_raised_and_says_what_it_rests_on() -> None:
    make({f"t{n}": [at_work(0.2), at_work(0.2), at_work(0.1)] for n in range(5)}, per_key(6))
    assert calibrate().proposed
    row = Recommendation.objects.get()
    assert (row.kind, row.limit, row.stage) == (Kind.TIER, "each", Stage.SIMULATED)
    assert row.proposed is not None
    assert row.proposed["parameters"]["rate"] == 12  # twice as much at most
    evidence = row.evidence
    assert (evidence["subject"], evidence["subjects"], evidence["votes"]) == ("key", 15, 5)
    assert 0.2 < evidence["wanted"]["rate"] < 0.5
    assert 27 < evidence["days"] <= 28
    assert [point["burst"] for point in evidence["curve"]] == sorted(
        (point["burst"] for point in evidence["curve"]), reverse=True
    )
    assert "15 subjects of 5 tenants" in row.summary
    assert evidence["advice"]["memory_bytes"] > 15 * 64 * 100
    row = recommendation_simulate(recommendation=row.pk, author=SAID["author"])
    assert row.forecast["denied_share"] < row.forecast["denied_share_now"]
    assert row.forecast["tenants_hit_now"] == 5


@pytest.mark.parametrize("since_days", [DAYS, 1])
def test_one_key_that_abuses_moves_nobodys_limit(since_days: float) -> None:
    calm = {f"t{n}": [at_work(0.05), at_work(0.05), at_work(0.05)] for n in range(5)}
    make(calm | {"t5": [at_work(0.05), at_work(0.05), at_work(1.0, since_days)]}, per_key(13))
    assert calibrate().fitting == 1
    assert not Recommendation.objects.filter(kind=Kind.TIER).exists()
    assert not Recommendation.objects.filter(tenant="t5").exists()


def test_too_few_days_and_too_few_keys_are_said_plainly() -> None:
    make({"t0": [at_work(0.2)], "t1": [at_work(0.2)]}, per_key(6))
    assert calibrate().insufficient == 1
    row = Recommendation.objects.get()
    assert (row.stage, row.proposed) == (Stage.INSUFFICIENT, None)
    assert row.summary == (
        "2 of 2 tenants have traffic here; 5 are needed to size a tier's limit. Days do not help, so there is no date"
    )


def test_a_subject_that_is_not_the_sampled_one_is_said_to_be_unknown() -> None:
    make({f"t{n}": [at_work(0.2)] * 2 for n in range(5)}, per_key(6, "ip", "by-ip"), per_key(6, "key", "by-key"))
    calibrate()
    assert Recommendation.objects.get(limit="by-ip", kind=Kind.TIER).stage == Stage.SIMULATED
    row = Recommendation.objects.get(limit="by-key")
    assert row.stage == Stage.INSUFFICIENT
    assert row.summary == f"arrivals are sampled by ip on {GET}, so there is no data on this subject"
