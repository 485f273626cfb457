"""F1, F2, F3 and F32: Envoy in front while the store is killed, silent or slow, or the service itself is away."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from headroom_edge import AsyncLimiter
from tests.faults.proxy import Proxy
from tests.headroom_edge.apps import fastapi_app
from tests.headroom_edge.gateway.rls.asking import serving
from tests.headroom_edge.gateway.rls.envoys import PATIENT, in_front, needs_envoy
from tests.headroom_edge.limiter.both import until
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import ACME, Client, publish_world, served
from tests.valkeys import SpareValkey, free_port

pytestmark = needs_envoy

# Long enough for a busy machine, short enough to be waited for a few times.
BUDGET_MS: Final = 100
DEGRADED: Final = "headroom-degraded"


@dataclass
class World:
    """acme's rides: the list fails open, creating fails closed, one ride is limited locally to 3."""

    envoy: Client
    limiter: AsyncLimiter
    server: SpareValkey
    wire: Proxy

    def list(self) -> tuple[int, str]:
        answer = self.envoy.get("/v1/rides", x_api_key=ACME)
        return answer.status, answer.headers.get(DEGRADED, "")

    def create(self) -> tuple[int, str]:
        answer = self.envoy.post("/v1/rides", {}, x_api_key=ACME)
        return answer.status, answer.headers.get(DEGRADED, "")

    def get(self) -> tuple[int, str]:
        answer = self.envoy.get("/v1/rides/7", x_api_key=ACME)
        return answer.status, answer.headers.get(DEGRADED, "")

    def without_tenant(self) -> int:
        return self.envoy.get("/v1/rides").status

    def is_well(self) -> bool:
        return (self.list(), self.create(), self.without_tenant()) == ((200, ""), (200, ""), 429)

    def knows_the_local_plan(self) -> bool:
        return self.limiter._core.failures._plans.get(("acme", "rides:get")) is not None

    def hurt(self, fault: str) -> None:
        if fault == "killed":
            self.server.kill()
        elif fault == "silent":
            self.wire.blackhole()
        else:
            self.wire.delay(3 * BUDGET_MS / 1_000)

    def mend(self, fault: str) -> None:
        if fault == "killed":
            self.server.start()
        else:
            self.wire.heal()


FAULTS: Final = ("killed", "silent", "slow")


@pytest.fixture
def world(spare_valkey: Callable[..., SpareValkey], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("headroom_edge.aio.TICK_S", 0.05)
    server = spare_valkey(durable=True)
    with server.client() as client:
        publish_world(
            client,
            endpoints={
                "rides:list": (limit("list", "fixed_window", limit=1_000_000, window="1h", on_failure="open"),),
                "rides:create": (limit("create", "fixed_window", limit=1_000_000, window="1h", on_failure="closed"),),
                "rides:get": (limit("get", "fixed_window", limit=3, window="1h", on_failure="local"),),
            },
        )
    with ExitStack() as stack:
        wire = stack.enter_context(Proxy("127.0.0.1", server.port))
        limiter = AsyncLimiter.from_url(wire.url, budget_ms=BUDGET_MS, fail="open")
        rls, rides = stack.enter_context(serving(limiter)), stack.enter_context(served(fastapi_app()))
        folder = tmp_path / "envoy"
        folder.mkdir()
        envoy = stack.enter_context(in_front(folder, {8002: rls.port, 9000: rides.port}, changes=PATIENT))
        found = World(envoy, limiter, server, wire)
        until(found.is_well)
        until(lambda: bool(found.get()) and found.knows_the_local_plan())
        yield found


@pytest.mark.parametrize("fault", FAULTS)
def test_while_the_store_is_away_each_limit_follows_its_failure_mode(world: World, fault: str) -> None:
    world.hurt(fault)
    until(lambda: world.list() == (200, "open"))
    assert world.create() == (503, "")
    # The local limit has 3, whatever the store had counted.
    answers = [world.get() for _ in range(5)]
    assert answers[-1] == (429, "local")
    assert set(answers) <= {(200, "local"), (429, "local")}
    assert world.without_tenant() == 503, "no free pass for who names no tenant"
    world.mend(fault)
    until(world.is_well)


@contextmanager
def load(world: World, seen: Counter[str]) -> Iterator[None]:
    """Four clients that keep asking."""
    stop = threading.Event()

    def call(name: str, ask: Callable[[], object]) -> None:
        while not stop.is_set():
            seen[f"{name} {ask()}"] += 1

    asks = {"list": world.list, "create": world.create, "get": world.get, "no tenant": world.without_tenant}
    threads = [threading.Thread(target=call, args=one) for one in asks.items()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(120)


@pytest.mark.faults_long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS)
def test_hurt_again_and_again_under_load(world: World, fault: str, figures: Callable[[str], None]) -> None:
    seen: Counter[str] = Counter()
    back_s: list[float] = []
    with load(world, seen):
        for _ in range(5):
            time.sleep(1)
            world.hurt(fault)
            time.sleep(3)
            world.mend(fault)
            start = time.monotonic()
            until(world.is_well)
            back_s.append(time.monotonic() - start)
    figures(f"{fault}: 5 rounds, back after at most {max(back_s):.2f} s, {dict(sorted(seen.items()))}")
    allowed = {"list (200, '')", "list (200, 'open')", "create (200, '')", "create (503, '')"}
    allowed |= {f"get ({status}, '{mode}')" for status in (200, 429) for mode in ("", "local")}
    allowed |= {"no tenant 429", "no tenant 503"}
    assert set(seen) <= allowed


def test_without_the_service_requests_are_refused_as_the_file_says(tmp_path: Path) -> None:
    with served(fastapi_app()) as rides:
        ports = {8002: free_port(), 9000: rides.port}
        with in_front(tmp_path, ports) as envoy:
            assert envoy.get("/v1/rides", x_api_key=ACME).status == 503
