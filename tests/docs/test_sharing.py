"""The policy on the page about sharing is one that is accepted, and does what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headroom_edge.algorithms.sharing import Borrowing, Pool
from quotas.errors import accepted
from quotas.models import Limit
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from tests.quotas.world import SAID

PAGE = Path(__file__).parents[2] / "docs" / "sharing.md"


def example() -> str:
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.django_db
def test_the_worked_example_is_accepted_with_all_checks_of_an_edit() -> None:
    document_apply(document=accepted(read_document(example())), **SAID)
    assert dict(Limit.objects.values_list("name__name", "algorithm")) == {
        "org": Pool.name,
        "share": Borrowing.name,
        "share-per-key": Borrowing.name,
    }


def test_every_field_of_a_limit_that_shares_is_explained() -> None:
    table = PAGE.read_text().partition("| field | of |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`([a-z_]+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:])))
    assert named == {field.name for kind in (Pool, Borrowing) for field in kind.parameters}
