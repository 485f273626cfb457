"""F1 to F3 through nginx: the store is killed, silent or slow. Every location follows its failure mode."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import redis

from headroom_edge import keys
from headroom_edge.lua_library import ensure_loaded
from tests.faults.proxy import Proxy
from tests.faults.test_store_silent import StutteringProxy
from tests.headroom_edge.limiter.both import until
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.nginx_lua.world import AMPLE, ASKED, lua_nginx, needs_lua
from tests.headroom_edge.world import Answer, Client, publish_directory, publish_world
from tests.valkeys import SpareValkey

pytestmark = needs_lua

# What each endpoint's plan says, and what a location without a known plan falls back to.
MODES = {"rides:list": "open", "rides:get": "closed", "rides:cancel": "local"}
PLENTY = 1_000_000
SHORT = "budget_ms = 100,"
ALIVE = "location = /alive { access_by_lua_block { } content_by_lua_block { ngx.print('yes') } }"


def publish_modes(store: redis.Redis) -> None:
    """One limit an endpoint, named after it, so that an answer shows whose it is."""
    limits = {
        name: (limit(named(name), "fixed_window", limit=PLENTY, window="1d", on_failure=mode),)
        for name, mode in MODES.items()
    }
    publish_world(store, endpoints=limits)


def named(endpoint: str) -> str:
    return endpoint.replace(":", "-")


@dataclass
class Load:
    """Callers that keep asking, and what they were told."""

    client: Client
    fallback: str = "closed"
    answers: list[tuple[str, Answer]] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    early: int = 0  # answers from before every plan's failure mode was known

    def ask(self, endpoint: str) -> Answer:
        answer = self.client.get("/ask", x_tenant="acme", x_endpoint=endpoint, x_fail=self.fallback)
        self.answers.append((endpoint, answer))
        return answer

    def is_well(self) -> bool:
        return not any(is_degraded(self.ask(endpoint)) for endpoint in MODES)

    def is_ill(self) -> bool:
        return all(is_degraded(self.ask(endpoint)) for endpoint in MODES)

    @contextmanager
    def running(self, callers: int = 6) -> Iterator[None]:
        stop = threading.Event()

        def call(endpoint: str) -> None:
            try:
                while not stop.wait(0.002):
                    self.ask(endpoint)
            except BaseException as error:  # noqa: BLE001 - whatever reaches a caller is what the test looks for
                self.errors.append(error)

        threads = [threading.Thread(target=call, args=(list(MODES)[n % len(MODES)],)) for n in range(callers)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(120)

    def assert_nobody_was_harmed(self) -> None:
        assert self.errors == []
        for number, (endpoint, answer) in enumerate(self.answers):
            if is_degraded(answer):
                mode = MODES[endpoint] if MODES[endpoint] != "local" else self.fallback
                if number < self.early and answer.headers["headroom-degraded"] == self.fallback:
                    mode = self.fallback
                assert (answer.headers["headroom-degraded"], answer.status) == (mode, 200 if mode == "open" else 503)
            else:
                expected = (200, f'"{named(endpoint)}";q={PLENTY};w=86400')
                assert (answer.status, answer.headers["ratelimit-policy"]) == expected
                assert answer.headers["ratelimit"].startswith(f'"{named(endpoint)}";r=')


def is_degraded(answer: Answer) -> bool:
    return "headroom-degraded" in answer.headers


@contextmanager
def loaded(folder: Path, url: str, settings: str = SHORT) -> Iterator[Load]:
    """Every plan's failure mode is known, since each was asked once."""
    with lua_nginx(folder, url, settings=settings, locations=ASKED + ALIVE) as running:
        load = Load(running.client)
        until(load.is_well)
        load.early = len(load.answers)
        yield load


def outcomes(store: redis.Redis) -> Counter[str]:
    """Decisions by outcome, as accounted in the store."""
    found: Counter[str] = Counter()
    for cell, packed in store.hgetall(keys.usage(keys.shard_of("acme"))).items():
        if cell != b"_":
            found[str(cell, "ascii")[17:18]] += int(packed) % 2**24  # type: ignore[arg-type] # bytes, as this client gives
    return found


def test_a_killed_store_is_used_again_when_it_is_back_and_told_what_it_missed(
    spare_valkey: Callable[..., SpareValkey], tmp_path: Path
) -> None:
    server = spare_valkey(durable=True)
    with server.client() as store:
        publish_modes(store)
    with loaded(tmp_path, server.url) as load:
        with load.running():
            server.kill()
            until(load.is_ill)
            server.start()
            until(load.is_well)
        load.assert_nobody_was_harmed()
        degraded = Counter(answer.headers.get("headroom-degraded", "") for _, answer in load.answers)
        with server.client() as store:
            until(lambda: outcomes(store)["g"] == degraded["open"] and outcomes(store)["c"] == degraded["closed"])


def test_a_stopped_store_costs_a_budget_until_the_breaker_opens(
    spare_valkey: Callable[..., SpareValkey], tmp_path: Path
) -> None:
    server = spare_valkey()
    with server.client() as store:
        publish_modes(store)
    with loaded(tmp_path, server.url) as load:
        with load.running():
            server.pause()
            until(load.is_ill)
            assert load.client.get("/alive").body == b"yes"
            server.resume()
            until(load.is_well)
        load.assert_nobody_was_harmed()


def test_an_open_breaker_lets_only_probes_ask(valkey: redis.Redis, proxy: Proxy, tmp_path: Path) -> None:
    publish_modes(valkey)
    with loaded(tmp_path, proxy.url) as load:
        proxy.blackhole()
        before = proxy.dialled
        for _ in range(100):
            load.ask("rides:list")
        assert proxy.dialled - before <= 50
        assert load.client.get("/alive").body == b"yes"
        proxy.heal()
        until(load.is_well)
        load.assert_nobody_was_harmed()


@pytest.mark.parametrize("fault", ["reset", "half_close", "refuse"])
def test_a_broken_wire_is_a_store_that_is_away(valkey: redis.Redis, proxy: Proxy, tmp_path: Path, fault: str) -> None:
    publish_modes(valkey)
    with loaded(tmp_path, proxy.url) as load:
        with load.running():
            getattr(proxy, fault)()
            until(load.is_ill)
            proxy.heal()
            until(load.is_well)
        load.assert_nobody_was_harmed()


def test_a_reply_that_breaks_off_or_comes_late_never_reaches_another_request(
    valkey: redis.Redis, valkey_server: SpareValkey, tmp_path: Path
) -> None:
    publish_modes(valkey)
    with StutteringProxy("127.0.0.1", valkey_server.port) as wire, loaded(tmp_path, wire.url) as load:
        for _ in range(2):
            with load.running():
                wire.halve.set()
                until(load.is_ill)
                wire.send_the_rest()
                until(load.is_well)
        for _ in range(4):
            # There and back is over the budget: the first one's reply comes while the second one waits.
            wire.delay(0.06)
            load.ask("rides:list")
            load.ask("rides:get")
            wire.delay(0)
            until(load.is_well)
        load.assert_nobody_was_harmed()


def test_a_slow_store_within_the_budget_decides(valkey: redis.Redis, proxy: Proxy, tmp_path: Path) -> None:
    publish_modes(valkey)
    with loaded(tmp_path, proxy.url, AMPLE) as load:
        proxy.delay(0.02)
        assert all(load.is_well() for _ in range(3))


def test_without_the_library_or_the_configuration_the_failure_mode_decides(
    store: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    publish_modes(store)
    with loaded(tmp_path, valkey_url, AMPLE) as load:
        store.function_flush()
        assert load.is_ill()
        ensure_loaded(store)
        assert load.is_well()
        store.flushall()
        assert load.is_ill()
        publish_modes(store)
        until(load.is_well)
        load.assert_nobody_was_harmed()


def test_before_the_first_answer_the_location_decides(tmp_path: Path) -> None:
    with lua_nginx(tmp_path, "redis://127.0.0.1:9/0", settings='fail = "closed",', locations=ASKED) as running:
        told = [running.client.get("/ask", x_tenant="acme", x_fail=mode).status for mode in ("", "open", "closed", "?")]
    assert told == [503, 200, 503, 503]


def test_a_caller_who_cannot_be_looked_up_gets_the_default(valkey: redis.Redis, proxy: Proxy, tmp_path: Path) -> None:
    publish_modes(valkey)
    key = f"hr_{'a' * 16}_{'1' * 64}"
    with loaded(tmp_path, proxy.url, AMPLE) as load:
        valkey.delete(keys.directory())
        assert [load.client.get("/ask", x_api_key=key, x_fail=mode).status for mode in ("open", "closed")] == [200, 503]
        publish_directory(valkey)
        assert load.client.get("/ask", x_api_key=key).status == 200


def test_an_enforcer_with_few_rights_on_a_socket_in_another_database(tmp_path: Path) -> None:
    """With the ACL of docs/nginx.md."""
    socket = tmp_path / "v.sock"
    folder = tmp_path / "nginx"
    folder.mkdir()
    with SpareValkey(tmp_path / "valkey", socket=socket) as server, server.client() as admin:
        admin.select(3)
        publish_modes(admin)
        rights = "~hr:* -@all +@read +@write -@scripting -@dangerous +fcall +time +select"
        admin.execute_command("ACL", "SETUSER", "nginx", "on", ">s:e@c%ret", *rights.split())
        for parent in (tmp_path, *tmp_path.parents):
            if parent.stat().st_mode & 0o777 == 0o700:
                parent.chmod(0o711)  # nginx's workers have a user of their own
        socket.chmod(0o777)
        address = f"unix://{socket}?db=3"
        settings = f'{SHORT} username = "nginx", password = "s:e@c%ret",'
        with loaded(folder, address, settings) as load:
            until(lambda: admin.hlen(keys.enforcer_info()) == 1)
            load.assert_nobody_was_harmed()
        wrong = address.replace("unix://", "unix://nginx:wrong@")
        with lua_nginx(folder, wrong, settings=AMPLE, locations=ASKED) as running:
            assert is_degraded(running.client.get("/ask", x_tenant="acme"))
