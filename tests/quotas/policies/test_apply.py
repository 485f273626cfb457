from __future__ import annotations

import pytest

from quotas.errors import Refused, accepted
from quotas.models import Endpoint, Policy
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from tenants.models import Tier
from tests.quotas.world import DOCUMENT, FORCED, limit_of, newest, waiting

pytestmark = pytest.mark.usefixtures("world")

ADDED = """
tiers: [{name: pro}, {name: gold}]
endpoints: [{name: "fares:quote"}]
policies:
  - {name: gold-quotes, tier: gold, endpoint: "fares:quote", limits: [{name: q, algorithm: gcra, rate: 5}]}
  - {name: free-all, tier: free, endpoint: "*", limits: [{name: burst, algorithm: token_bucket, rate: 99, burst: 99}]}
"""


def apply(text: str) -> object:
    return document_apply(document=accepted(read_document(text)), **FORCED)


def test_all_of_it_is_one_revision() -> None:
    before = newest().number
    apply(ADDED)
    assert newest().number == before + 1
    assert newest().touched == ["endpoint:fares:quote", "policy:free-all", "policy:gold-quotes", "tier:gold"]
    assert waiting() == ["common", "tier:free", "tier:gold"]
    assert limit_of("free-all").parameters["rate"] == 99


def test_applied_again_it_changes_nothing() -> None:
    assert apply(DOCUMENT) is None


def test_what_it_does_not_name_stays() -> None:
    apply(ADDED)
    assert Policy.objects.filter(name="pro-all").exists()


def test_one_part_that_cannot_be_keeps_all_of_it_out() -> None:
    before = newest().number, Tier.objects.count(), Endpoint.objects.count()
    with pytest.raises(Refused, match="there is no tier silver"):
        apply(ADDED.replace("tier: free", "tier: silver"))
    assert before == (newest().number, Tier.objects.count(), Endpoint.objects.count())
    assert limit_of("free-all").parameters["rate"] == 10


def test_a_policy_cannot_move_silently() -> None:
    with pytest.raises(Refused, match=r"policy free-all cannot move to tier pro × \*; delete it first"):
        apply('policies: [{name: free-all, tier: pro, endpoint: "*", limits: [{name: q, algorithm: gcra, rate: 5}]}]')
