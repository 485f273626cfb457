"""Pools whose rate has decimals. They are kept in a longer time, and told in the one that was typed."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from quotas.pools.members import members_read
from quotas.pools.queries import PoolRow, pool_read
from quotas.pools.shares import evenly, shares_set
from tests.access.people import token
from tests.quotas.pools.world import make_pool_world
from tests.quotas.world import FORCED, PAY

pytestmark = pytest.mark.django_db

CARDS = "/v1/pools/everyone-charge/cards"
WHY = {"reason": "because", "force": True}


@pytest.fixture
def operator(valkey: object) -> APIClient:
    make_pool_world()
    return APIClient(headers={"Authorization": f"Bearer {token('operator')}", "If-Match": "*"})


def set_rate(client: APIClient, rate: float) -> Any:
    answer = client.patch(CARDS, {"rate": rate, **WHY}, format="json")
    assert answer.status_code == 200, answer.content
    return answer.json()


def cards() -> PoolRow:
    found = pool_read("everyone-charge", "cards")
    assert found is not None
    return found


def kite(client: APIClient) -> Any:
    return next(each for each in client.get(f"{CARDS}/members").json()["items"] if each["tenant"] == "kite")


def test_the_rate_is_told_in_the_time_that_was_typed(operator: APIClient) -> None:
    told = set_rate(operator, 2.5)
    assert (told["rate"], told["per"]) == (2.5, "1s")
    assert (cards().seconds, cards().unit_words) == (1, "req/s")


def test_another_rate_after_it_has_the_same_time(operator: APIClient) -> None:
    set_rate(operator, 2.5)
    told = set_rate(operator, 3)
    assert (told["rate"], told["per"]) == (3, "1s")


def test_shares_are_told_in_the_same_time(operator: APIClient) -> None:
    told = set_rate(operator, 40.5)
    assert (told["guaranteed"], told["kept_percent"]) == (80, 50)
    assert (kite(operator)["guaranteed"], kite(operator)["ceiling"]) == (30, 60)


def test_equal_parts_use_all_of_the_rate(operator: APIClient) -> None:
    set_rate(operator, 100.5)
    pool = cards()
    shares_set(policy=pool.policy, limit=pool.name, shares=evenly(pool, members_read(pool).shares), **FORCED)
    assert members_read(pool).promise.assured == 100
    assert operator.get(CARDS).json()["guaranteed"] == 100


def test_a_share_written_as_it_was_read_stays(operator: APIClient) -> None:
    set_rate(operator, 100.5)
    before = kite(operator)
    shares = [{"tenant": "kite", "guaranteed": int(before["guaranteed"])}]
    answer = operator.patch(f"{CARDS}/members", {"shares": shares, **WHY}, format="json")
    assert answer.status_code == 200, answer.content
    assert (kite(operator)["guaranteed"], kite(operator)["ceiling"]) == (before["guaranteed"], before["ceiling"])


@pytest.mark.parametrize("share", [{"guaranteed": 4.2}, {"guaranteed": 0.4, "ceiling": 0.5}])
def test_a_share_may_have_decimals_and_can_be_sent_back(operator: APIClient, share: dict[str, float]) -> None:
    for _ in range(2):
        wanted = {"tenant": "kite", "ceiling": 60, **share}
        answer = operator.patch(f"{CARDS}/members", {"shares": [wanted], **WHY}, format="json")
        assert answer.status_code == 200, answer.content
        share = {name: kite(operator)[name] for name in ("guaranteed", "ceiling")}
        assert share.items() <= wanted.items()


def test_a_new_member_gets_what_was_asked_for(operator: APIClient) -> None:
    set_rate(operator, 100.5)
    member = {"tenant": "kite", "endpoint": PAY, "limit": "charge", "guaranteed": 10, **WHY}
    answer = operator.post(f"{CARDS}/members", member, format="json")
    assert answer.status_code == 201, answer.content
    assert kite(operator)["guaranteed"] == 10
    assert members_read(cards()).promise.assured == 10 + 30 + 20
