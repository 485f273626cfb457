from __future__ import annotations

from collections.abc import Collection

import pytest

from quotas.errors import Refused, accepted
from quotas.models import Endpoint, Policy
from quotas.policies.apply import MOST_SIMILAR, Names, document_apply, document_export, unresolved
from quotas.policies.document import MOST_PROBLEMS, Document, read_document
from quotas.policies.spec import Policy as Declared
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


def test_a_tier_gets_the_label_and_the_description_that_the_document_says() -> None:
    apply("tiers: [{name: pro, label: Pro, description: For paying customers}]")
    assert newest().after == {"tier:pro": {"label": "Pro", "description": "For paying customers"}}
    apply('tiers: [{name: pro, label: ""}]')
    row = Tier.objects.get(name="pro")
    assert (row.label, row.description) == ("", "For paying customers")


def test_what_it_does_not_say_of_a_tier_stays() -> None:
    apply("tiers: [{name: pro, label: Pro}]")
    assert apply(DOCUMENT) is None


def test_an_export_has_what_is_said_of_a_tier_and_applied_again_changes_nothing() -> None:
    apply("tiers: [{name: pro, label: Pro, description: 'yes, it: is'}]")
    text = document_export()
    assert "description: 'yes, it: is'" in text
    assert apply(text) is None


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


def test_a_document_full_of_unknown_names_is_answered_with_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search for a similar name compares it with all, so a search for each would take minutes."""
    searched: list[str] = []

    def search(name: str, known: Collection[str], n: int) -> list[str]:
        searched.extend([name] if known else [])
        return []

    monkeypatch.setattr("quotas.policies.apply.get_close_matches", search)
    policies = tuple(Declared(f"p{n}", f"s:o{n}", ()) for n in range(1_000))
    problems = unresolved(Document(policies=policies), Names(endpoints=["s:o"]))
    assert len(problems) == MOST_PROBLEMS
    assert len(searched) == MOST_SIMILAR
