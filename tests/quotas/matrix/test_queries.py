"""The matrix: what stands where, what is inherited, and never a query per cell."""

from __future__ import annotations

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from quotas.matrix.edit import Edit, limits_set
from quotas.matrix.queries import EVERYONE, Cell, MatrixLimit, matrix_read
from quotas.overrides import override_create
from quotas.policies.edit import policy_create
from quotas.policies.limit_words import limit_short
from tests.quotas.world import FORCED, GET, PAY, SAID, bucket

pytestmark = pytest.mark.usefixtures("world")


def cell(tier: str, scope: str) -> Cell:
    found = matrix_read(timezone.now()).cell(tier, scope)
    assert found is not None
    return found


def short(limits: tuple[MatrixLimit, ...]) -> dict[str, str]:
    return {one.limit.name: str(limit_short(one.limit.algorithm)) for one in limits}


def test_it_has_a_line_for_every_scope_and_a_column_for_every_tier() -> None:
    policy_create(name="backend", endpoint="payments:*", limits=[bucket(500, "backend")], **FORCED)
    found = matrix_read(timezone.now())
    assert [line.scope for line in found.lines] == ["*", "payments:*", PAY, GET]
    assert [column.tier for column in found.columns] == ["free", "pro", EVERYONE]


def test_a_cell_has_its_own_limits_and_inherits_the_others() -> None:
    policy_create(name="pay", tier="pro", endpoint=PAY, limits=[bucket(7), bucket(5, "pay")], **FORCED)
    found = cell("pro", PAY)
    assert (found.policy, short(found.limits)) == ("pay", {"burst": "7/s burst 14", "pay": "5/s burst 10"})
    assert short(found.inherited) == {"minute": "1,000/min burst 2,000"}
    assert short(cell("pro", GET).inherited) == {"burst": "100/s burst 200", "minute": "1,000/min burst 2,000"}
    assert cell("pro", "*").inherited == ()


def test_limits_for_everyone_add_up() -> None:
    limits_set(
        edits=[
            Edit(None, "*", "all", {"algorithm": "token_bucket", "rate": 900}),
            Edit(None, "payments:*", "all", {"algorithm": "token_bucket", "rate": 90}),
        ],
        **FORCED,
    )
    assert len(cell(EVERYONE, PAY).inherited) == 2
    assert len(cell(EVERYONE, GET).inherited) == 1


def test_tenants_with_limits_of_their_own_are_counted() -> None:
    override_create(tenant="acme", endpoint="*", multiplier=(2, 1), **SAID)
    policy_create(name="acme-own", tenant="acme", endpoint=PAY, limits=[bucket(900, "pay")], **FORCED)
    assert (cell("pro", PAY).own, cell("pro", "*").own, cell("free", PAY).own) == (1, 1, 0)


def test_it_costs_as_many_queries_for_a_thousand_cells(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    with django_assert_num_queries(6):
        matrix_read(timezone.now())
