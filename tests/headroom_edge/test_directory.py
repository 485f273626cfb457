"""How fast what is published is believed, and what holds while the store is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
import redis

from headroom_edge import AsyncLimiter, Limiter, directory, keys
from headroom_edge.core import Conversation, Core
from headroom_edge.directory import (
    CREDENTIALS_KEPT,
    FRESH_S,
    PEPPER,
    TOKEN,
    Credential,
    Directory,
    secret_hash,
)
from headroom_edge.errors import StoreError
from headroom_edge.plan.routes import Route
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.world import (
    ACME,
    CREDENTIALS,
    ROUTES_OF_RIDES,
    STRANGER,
    ZENITH,
    digest_of,
    publish_directory,
    revoke,
)
from tests.valkeys import SpareValkey


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class World:
    """A directory on a clock of its own, and the limiter that reads for it."""

    def __init__(self, url: str) -> None:
        self.clock = Clock()
        self.directory = Directory(self.clock, self.clock)
        self.limiter = Limiter.from_url(url, budget_ms=AMPLE_MS)
        self.trip_s = 0.0
        self._trips = 0
        exchange = self.limiter._store.exchange

        def counted(commands: Sequence[bytes], deadline: float) -> list[Any]:
            self._trips += 1
            self.clock.now_s += self.trip_s
            return exchange(commands, deadline)

        self.limiter._store.exchange = counted  # type: ignore[method-assign]

    def trips(self) -> int:
        """Round trips since the start."""
        return self._trips

    def whose(self, text: str) -> Credential | None:
        return self.limiter.converse(lambda core: self.directory.credential(core, text))

    def routes(self) -> tuple[Route, ...]:
        self.limiter.converse(self.directory.refresh)
        return self.directory.routes


@pytest.fixture
def world(store: redis.Redis, valkey_url: str) -> World:
    return World(valkey_url)


def test_it_tells_whose_a_key_is(world: World) -> None:
    assert {text: world.whose(text) for text in CREDENTIALS} == CREDENTIALS
    assert world.whose(STRANGER) is None


def test_a_secret_under_another_id_is_no_key(world: World) -> None:
    secret = ACME.rpartition("_")[2]
    assert world.whose(f"hr_{'b' * 16}_{secret}") is None
    assert world.whose(ACME) == CREDENTIALS[ACME]


def test_invented_keys_do_not_push_out_the_known_ones(
    spare_valkey: Callable[..., SpareValkey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "CREDENTIALS_KEPT", 8)
    server = spare_valkey()
    with server.client() as client:
        publish_directory(client)
    world = World(server.url)
    assert world.whose(ACME) == CREDENTIALS[ACME]
    for number in range(40):
        assert world.whose(f"hr_{number:016x}_{number:064x}") is None
    assert world.whose(STRANGER) is None
    server.kill()
    world.clock.now_s += FRESH_S + 0.001
    assert world.whose(ACME) == CREDENTIALS[ACME]
    assert world.whose(STRANGER) is None


@pytest.mark.parametrize("text", ["", "hr_", "x" * 100, ACME + "0", ACME.upper(), ACME + "\n", "\ud800"])
def test_what_is_no_key_asks_nobody(world: World, store: redis.Redis, text: str) -> None:
    world.whose(ACME)
    store.config_resetstat()
    assert world.whose(text) is None
    assert "cmdstat_hmget" not in store.info("commandstats")


def test_it_asks_once_in_a_while(world: World, store: redis.Redis) -> None:
    store.config_resetstat()
    for _ in range(50):
        world.whose(ACME)
        world.whose(STRANGER)
    assert store.info("commandstats")["cmdstat_hmget"]["calls"] == 3  # routes, and each key once


def test_whose_a_key_is_and_whether_routes_are_new_is_one_question(world: World, store: redis.Redis) -> None:
    world.whose(ACME)
    for _ in range(3):
        world.clock.now_s += FRESH_S + 0.001
        trips = world.trips()
        world.whose(ACME)
        assert (world.trips() - trips, world.routes()) == (1, ROUTES_OF_RIDES)
        assert world.trips() - trips == 1


def test_a_new_pepper_is_followed_within_the_same_question(world: World, store: redis.Redis) -> None:
    assert world.whose(ACME) == CREDENTIALS[ACME]
    pepper = bytes(reversed(range(32)))
    digest = secret_hash(pepper, ZENITH)
    store.hset(keys.credentials(keys.shard_of(digest)), digest, str(CREDENTIALS[ZENITH]))
    store.hset(keys.directory(), mapping={TOKEN: "another", PEPPER: pepper.hex()})
    world.clock.now_s += FRESH_S + 0.001
    assert world.whose(ZENITH) == CREDENTIALS[ZENITH]


def test_a_revoked_key_is_refused_within_a_second(world: World, store: redis.Redis) -> None:
    assert FRESH_S <= 0.5
    assert world.whose(ACME) is not None
    revoke(store, ACME)
    world.clock.now_s += FRESH_S + 0.001
    assert world.whose(ACME) is None


def test_a_new_key_is_accepted_within_a_second(world: World, store: redis.Redis) -> None:
    revoke(store, ACME)
    assert world.whose(ACME) is None
    publish_directory(store)
    world.clock.now_s += FRESH_S + 0.001
    assert world.whose(ACME) == CREDENTIALS[ACME]


def test_new_routes_are_taken_over(world: World, store: redis.Redis) -> None:
    assert world.routes() == ROUTES_OF_RIDES
    publish_directory(store, (Route("new:get", "GET", "/new"),))
    assert world.routes() == ROUTES_OF_RIDES
    world.clock.now_s += FRESH_S + 0.001
    assert world.routes() == (Route("new:get", "GET", "/new"),)


def test_an_emptied_store_says_nothing_about_anybody(world: World, store: redis.Redis) -> None:
    assert world.whose(ACME) is not None
    store.flushall()
    world.clock.now_s += FRESH_S + 0.001
    assert world.whose(ACME) == CREDENTIALS[ACME]
    assert world.routes() == ROUTES_OF_RIDES
    with pytest.raises(StoreError, match="no index of credentials"):
        world.whose(STRANGER)


def test_what_somebody_edited_beyond_reading_counts_as_away(world: World, store: redis.Redis) -> None:
    digest = digest_of(ACME)
    store.hset(keys.credentials(keys.shard_of(digest)), digest, "nonsense")
    with pytest.raises(StoreError, match="cannot be read"):
        world.whose(ACME)
    store.hset(keys.directory(), mapping={"token": "other", "routes": "[1"})
    world.clock.now_s += 1
    assert world.routes() == ROUTES_OF_RIDES


def test_before_the_first_publish_nobody_is_known(valkey: redis.Redis, valkey_url: str) -> None:
    with pytest.raises(StoreError, match="no directory of keys and routes yet"):
        World(valkey_url).whose(ACME)


def test_who_was_known_stays_known_while_the_store_is_away(spare_valkey: Callable[..., SpareValkey]) -> None:
    server = spare_valkey()
    with server.client() as client:
        publish_directory(client)
    world = World(server.url)
    assert world.whose(ACME) is not None
    server.kill()
    world.clock.now_s += 60
    assert world.whose(ACME) == CREDENTIALS[ACME]
    assert world.routes() == ROUTES_OF_RIDES
    with pytest.raises(StoreError):
        world.whose(STRANGER)


def test_one_asks_for_all_who_come_meanwhile(world: World, store: redis.Redis) -> None:
    world.whose(ACME)
    core: Core = world.limiter._core
    world.clock.now_s += FRESH_S + 0.001
    first: Conversation[Credential | None] = world.directory.credential(core, ACME)
    next(first)
    second = world.directory.credential(core, ACME)
    with pytest.raises(StopIteration) as end:
        next(second)
    assert end.value.value == CREDENTIALS[ACME]
    first.close()


def test_what_is_kept_is_bounded(world: World) -> None:
    world.whose(ACME)
    for number in range(3 * CREDENTIALS_KEPT):
        world.directory._known.put(f"hr_{number}", world.directory._known.get(ACME))  # type: ignore[arg-type]
    assert len(world.directory._known) <= 2 * CREDENTIALS_KEPT


def test_the_loop_reads_the_same(store: redis.Redis, valkey_url: str) -> None:
    async def whose() -> Credential | None:
        async with AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS) as limiter:
            directory = Directory()
            return await limiter.converse(lambda core: directory.credential(core, ACME))

    work: Coroutine[Any, Any, Credential | None] = whose()
    assert asyncio.run(work) == CREDENTIALS[ACME]


def test_no_secret_is_in_the_store(store: redis.Redis) -> None:
    """A9. The index has hashes, and neither texts nor secrets."""
    held = [str(store.hgetall(keys.credentials(shard))) for shard in range(keys.SHARDS)]
    assert digest_of(ACME) in "".join(held)
    dumped = b"".join(store.dump(key) or b"" for key in store.scan_iter()) + "".join(held).encode()
    for text in CREDENTIALS:
        assert text.encode() not in dumped
        assert text.rpartition("_")[2].encode() not in dumped


def put(store: redis.Redis, text: str, entry: str) -> None:
    digest = digest_of(text)
    store.hset(keys.credentials(keys.shard_of(digest)), digest, entry)


def test_an_entry_of_any_age_is_read(world: World, store: redis.Redis) -> None:
    key_id = ACME.split("_")[1]
    known = Credential(key_id, "acme", frozenset({"check", "read"}), "b" * 16, 1_234_567)
    assert Credential.parse(str(known)) == known
    assert Credential.parse(f"{key_id} check acme").counted_as == key_id
    # An enforcer of 0.2 splits at two blanks and looks for the scope it needs.
    scopes = str(known).split(" ")[1].split(",")
    assert "check" in scopes


def test_a_key_is_refused_from_its_end_on_even_while_the_store_is_away(
    spare_valkey: Callable[..., SpareValkey],
) -> None:
    server = spare_valkey()
    world = World(server.url)
    with server.client() as client:
        publish_directory(client)
        credential = Credential("a" * 16, "acme", frozenset({"check"}), ends_ms=int((world.clock() + 100) * 1_000))
        put(client, ACME, str(credential))
    assert world.whose(ACME) == credential
    server.kill()
    world.clock.now_s += 99.9
    assert world.whose(ACME) == world.directory.fresh(ACME) == credential
    world.clock.now_s += 0.1
    assert world.directory.fresh(ACME) is None
    assert world.whose(ACME) is None


def test_a_slow_answer_of_the_store_does_not_end_a_key_early(spare_valkey: Callable[..., SpareValkey]) -> None:
    server = spare_valkey()
    world = World(server.url)
    end_s = world.clock() + 100
    with server.client() as client:
        publish_directory(client)
        credential = Credential("a" * 16, "acme", frozenset({"check"}), ends_ms=int(end_s * 1_000))
        put(client, ACME, str(credential))
    world.trip_s = 5.0
    assert world.whose(ACME) == credential
    server.kill()
    world.trip_s = 0.0
    world.clock.now_s = end_s - 0.1
    assert world.whose(ACME) == credential
    world.clock.now_s = end_s
    assert world.whose(ACME) is None
