"""Who sends bad tokens is slowed down; whoever shares the address with them is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headroom_edge.gateway.bad_tokens import ADDRESSES_KEPT, AT_ONCE, EVERY_S, BadTokens
from headroom_edge.problems import unauthorised
from tests.headroom_edge.world import ACME, MACHINE, STRANGER, Answer, Client

ON_BOTH = True
REFUSED = unauthorised("The token is unknown.")
Ask = Callable[[Client, str], Answer]


def check(gateway: Client, key: str, address: str = "203.0.113.9") -> Answer:
    return gateway.post("/v1/check", {"tenant": "acme", "endpoint": "x:y"}, x_api_key=key, x_forwarded_for=address)


def release(gateway: Client, key: str) -> Answer:
    body = {"tenant": "acme", "endpoint": "x:y", "holder": "h"}
    return gateway.post("/v1/release", body, x_api_key=key, x_forwarded_for="203.0.113.9")


def authz(gateway: Client, key: str) -> Answer:
    original = {"x_forwarded_method": "GET", "x_forwarded_uri": "/v1/rides", "x_forwarded_for": "203.0.113.9"}
    return gateway.get("/v1/authz?proxy=caddy", x_api_key=key, **original)


@pytest.mark.parametrize(("ask", "good"), [(check, MACHINE), (release, MACHINE), (authz, ACME)])
@pytest.mark.parametrize("bad", [STRANGER, "", "hr_nonsense"])
def test_bad_and_missing_tokens_are_throttled_and_good_ones_are_not(
    gateway: Client, ask: Ask, good: str, bad: str
) -> None:
    statuses = [ask(gateway, bad).status for _ in range(AT_ONCE)]
    assert set(statuses) == {401}
    denied = ask(gateway, bad)
    # On a slow machine the first ones may have been forgiven already.
    while denied.status == 401:
        denied = ask(gateway, bad)
    assert (denied.status, denied.json()["limit"]) == (429, "bad-tokens")
    assert 1 <= int(denied.headers["retry-after"]) <= EVERY_S
    assert ask(gateway, good).status == 200


def test_every_address_is_counted_by_itself(gateway: Client) -> None:
    for _ in range(AT_ONCE + 1):
        check(gateway, "")
    assert check(gateway, "", address="198.51.100.7").status == 401


def test_nginx_is_told_to_answer_429(gateway: Client) -> None:
    original = {"x_original_method": "GET", "x_original_uri": "/v1/rides"}
    for _ in range(AT_ONCE + 20):
        answer = gateway.get("/v1/authz", **original)
    assert (answer.status, answer.headers["x-headroom-status"]) == (403, "429")


def test_an_address_is_forgiven_one_token_at_a_time() -> None:
    now = [1_000.0]
    tokens = BadTokens(lambda: now[0])
    assert [tokens.judge(REFUSED, "203.0.113.9").status for _ in range(AT_ONCE + 2)] == [401] * AT_ONCE + [429] * 2
    now[0] += EVERY_S
    assert [tokens.judge(REFUSED, "203.0.113.9").status for _ in range(2)] == [401, 429]
    now[0] += AT_ONCE * EVERY_S
    assert [tokens.judge(REFUSED, "203.0.113.9").status for _ in range(AT_ONCE + 1)] == [401] * AT_ONCE + [429]


def test_an_ipv6_network_counts_as_one_address() -> None:
    tokens = BadTokens(lambda: 1_000.0)
    statuses = [tokens.judge(REFUSED, f"2001:db8::{number:x}").status for number in range(AT_ONCE + 1)]
    assert statuses == [401] * AT_ONCE + [429]
    assert tokens.judge(REFUSED, "2001:db8:0:1::1").status == 401


def test_many_addresses_do_not_fill_the_memory() -> None:
    tokens = BadTokens(lambda: 1_000.0)
    for number in range(3 * ADDRESSES_KEPT):
        tokens.judge(REFUSED, str(number))
    assert len(tokens._paid_until_s) <= 2 * ADDRESSES_KEPT
