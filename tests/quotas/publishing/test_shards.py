"""Compare-and-set on a shard: old, double and reordered publishes are no-ops."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis

from headroom_edge import keys
from headroom_edge.lua_library import ensure_loaded
from quotas.policies.compile import Compiler
from quotas.policies.configuration_index import Touched
from quotas.policies.shard_image import Delta
from quotas.policies.spec import Policy
from quotas.publishing.shards import Shards, SupersededError
from tests.quotas.policies.worlds import NOW_US, SHARDS, TARGET, limit, shard_of, tenant_policy, world

ACME = shard_of("acme")


def own(size: int) -> Policy:
    return tenant_policy("*", limit("burst", rate=1, burst=size))


def edits(*sizes: int) -> tuple[Compiler, list[Delta]]:
    """The image before the first edit, and the deltas of acme's shard."""
    first, compiler = Compiler(TARGET, NOW_US), Compiler(TARGET, NOW_US)
    first.load(world(own(1)))
    compiler.load(world(own(1)))
    deltas = [
        compiler.update(world(own(size), revision=number), Touched(frozenset({"acme"})))[ACME]
        for number, size in enumerate(sizes, 2)
    ]
    return first, deltas


@pytest.fixture
def shards(client: redis.Redis) -> Shards:
    ensure_loaded(client)
    return Shards(client, SHARDS)


def published(shards: Shards, compiler: Compiler) -> None:
    shards.replace(dict(enumerate(compiler.image.shards)))


def test_delta_before_its_base_is_refused(shards: Shards) -> None:
    compiler, (first, second) = edits(2, 3)
    published(shards, compiler)
    assert shards.apply({ACME: second}) == {ACME}
    assert shards.read_contents()[ACME].token == first.base


def test_delta_applied_twice_is_done_once(shards: Shards) -> None:
    compiler, (first, _) = edits(2, 3)
    published(shards, compiler)
    assert shards.apply({ACME: first}) == set()
    assert shards.apply({ACME: first}) == set()
    assert shards.read_contents()[ACME].token == first.token


def test_delta_after_its_successor_changes_nothing(shards: Shards) -> None:
    compiler, (first, second) = edits(2, 3)
    published(shards, compiler)
    shards.apply({ACME: first})
    shards.apply({ACME: second})
    assert shards.apply({ACME: first}) == {ACME}
    assert shards.read_contents()[ACME].token == second.token


def test_whole_shard_of_an_older_revision_is_refused(shards: Shards) -> None:
    compiler, (first, _) = edits(2, 3)
    published(shards, compiler)
    shards.apply({ACME: first})
    with pytest.raises(SupersededError, match="revision 2, newer than 1"):
        published(shards, compiler)
    assert shards.read_contents()[ACME].token == first.token


def test_whole_shard_replaces_whatever_was_there(shards: Shards, client: redis.Redis) -> None:
    compiler, _ = edits(2)
    client.hset(keys.tenants(ACME), "planted", "00009t2")
    client.hset(keys.config(ACME), "p:planted", "{}")
    published(shards, compiler)
    image = compiler.image.shards[ACME]
    assert client.hgetall(keys.tenants(ACME)) == image.entries
    assert client.hgetall(keys.config(ACME)) == image.config
    assert client.keys("hr:*:s:*") == []


def test_library_that_was_flushed_is_loaded_again(shards: Shards, client: redis.Redis) -> None:
    compiler, _ = edits(2)
    client.function_flush()
    published(shards, compiler)
    assert shards.read_contents()[ACME].token == compiler.image.shards[ACME].token


def test_bypass_outlives_a_publish(shards: Shards, client: redis.Redis) -> None:
    compiler, (first, second) = edits(2, 3)
    published(shards, compiler)
    client.fcall("hr_bypass", 1, keys.shard_prefix(ACME), "[]")
    assert shards.apply({ACME: first}) == set()
    assert client.get(keys.shard_prefix(ACME)) == f"{first.token}+1"
    assert shards.apply({ACME: second}) == set()
    assert shards.read_contents()[ACME].token == second.token


def test_more_than_a_chunk_is_staged_in_pieces(shards: Shards, client: redis.Redis) -> None:
    compiler, _ = edits(2)
    many = world(own(1))
    everybody = {f"t-{number}": replace(many.tenants["bob"], name=f"t-{number}") for number in range(3_000)}
    compiler.load(replace(many, tenants=everybody, revision=5))
    published(shards, compiler)
    assert sum(found.entries - 1 for found in shards.read_contents()) == 3_000  # beside what makes each a table
