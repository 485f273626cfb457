"""F6: the address leads to another node while the old one keeps its connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from headroom_edge import keys
from tests.faults.load import Load, modes
from tests.faults.proxy import Proxy
from tests.headroom_edge.limiter.both import MakeLimiter, until
from tests.headroom_edge.limiter.world import publish
from tests.valkeys import SpareValkey


class Repointed(Proxy):
    def to(self, server: SpareValkey) -> None:
        self._upstream = ("127.0.0.1", server.port)


@pytest.fixture
def old_and_new(spare_valkey: Callable[..., SpareValkey]) -> Iterator[tuple[SpareValkey, SpareValkey]]:
    # Replicas are served at once, and nobody waits for them at the end.
    quick = ("--repl-diskless-sync-delay", "0", "--shutdown-timeout", "0")
    old, new = spare_valkey(*quick), spare_valkey(*quick)
    with old.client() as first, new.client() as second:
        publish(first, modes())
        second.replicaof("127.0.0.1", old.port)
        until(lambda: second.info("replication")["master_link_status"] == "up")
        until(lambda: second.exists(*(keys.shard_prefix(shard) for shard in range(keys.SHARDS))) == keys.SHARDS)
        yield old, new


def test_a_primary_that_became_a_replica_is_left_for_the_new_one(
    old_and_new: tuple[SpareValkey, SpareValkey], make_limiter: MakeLimiter
) -> None:
    old, new = old_and_new
    with Repointed("127.0.0.1", old.port) as wire, old.client() as first, new.client() as second:
        load = Load(make_limiter(wire.url))
        assert load.is_well()
        load.limiter.attend()
        with load.running():
            second.replicaof("NO", "ONE")
            wire.to(new)
            first.replicaof("127.0.0.1", new.port)
            until(load.is_well)
        load.assert_nobody_was_harmed()
        assert load.degraded
        assert load.limiter.breaker.opened == 0
