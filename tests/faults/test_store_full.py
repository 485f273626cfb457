"""F9: the store's memory is full and it may not evict."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.load import ENDPOINTS, MODES, Load, modes
from tests.headroom_edge.limiter.both import MakeLimiter
from tests.headroom_edge.limiter.world import publish
from tests.valkeys import SpareValkey


def test_a_full_store_is_answered_by_the_failure_mode_until_there_is_room(
    spare_valkey: Callable[..., SpareValkey], make_limiter: MakeLimiter
) -> None:
    server = spare_valkey("--maxmemory-policy", "noeviction")
    with server.client() as client:
        publish(client, modes())
        load = Load(make_limiter(server.url))
        assert load.is_well()
        load.limiter.attend()
        client.config_set("maxmemory", "1mb")
        assert [load.ask(endpoint).failure for endpoint in ENDPOINTS] == list(MODES.values())
        assert load.limiter.breaker.opened == 0
        client.config_set("maxmemory", "0")
        assert load.is_well()
    load.assert_nobody_was_harmed()


@pytest.mark.parametrize("function", ["peek", "release"])
def test_what_frees_or_only_reads_still_works(
    spare_valkey: Callable[..., SpareValkey], make_limiter: MakeLimiter, function: str
) -> None:
    server = spare_valkey("--maxmemory-policy", "noeviction")
    with server.client() as client:
        publish(client, modes())
        limiter = make_limiter(server.url)
        with limiter.hold(tenant="acme", endpoint="search") as decision:
            assert not decision.degraded
            client.config_set("maxmemory", "1mb")
            if function == "peek":
                assert not limiter.peek(tenant="acme", endpoint="search").degraded
        left = limiter.peek(tenant="acme", endpoint="search").remaining
        assert left == decision.remaining
