"""A backend that gets slow and fails above its capacity, behind a limit that adapts, on the simulation library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headroom_edge import keys
from headroom_edge.observations import Observations
from quotas.policies.compile import Compiler, Target
from quotas.policies.spec import Policy
from quotas.publishing.factors import LoopState, factor_text, loops_of
from tests.headroom_edge.lua.world import NOW_US, TENANT, World

ENDPOINT = "rides:search"
TICK_US = 100_000
SECOND_US = 1_000_000
QUICK_S, LATE_S = 0.05, 0.5  # response times of a backend with a short queue, and with a long one


def publish(world: World, *policies: Policy) -> None:
    """Plans and loops, as the publisher writes them."""
    world.configure(*policies)
    compiler = Compiler(Target(keys.SHARDS, keys.shard_of, keys.shard_prefix), NOW_US)
    compiler.load(world._configuration(policies, ()))
    loops = loops_of(compiler.image)
    world.client.delete(keys.loops())
    if loops:
        world.client.hset(keys.loops(), mapping=dict[Any, Any](loops))


def states(world: World, now_us: int) -> list[LoopState]:
    execute: Any = world.client.execute_command
    found: dict[bytes, bytes] = execute("HGETALL", keys.loop_states())
    every = [LoopState.parse(loop.decode(), text.decode()) for loop, text in found.items()]
    return [state for state in every if state.until_us > now_us]


def copy_factors(world: World, now_us: int, tenants: Iterable[str] = (TENANT,)) -> str:
    text = factor_text(states(world, now_us))
    for tenant in tenants:
        world.client.set(keys.factors(keys.shard_of(tenant)), text)
    return text


def observe(world: World, now_us: int, words: list[Any]) -> None:
    world.client.fcall("hs_observe", 1, keys.ALL, now_us, *words)


@dataclass
class Backend:
    """Answers `capacity(s)` requests per second, and queues one second of them; what does not fit is a 503."""

    world: World
    capacity: Callable[[float], float]
    asked: Callable[[float], int]
    errors: Callable[[int], int] = lambda _: 0  # of so many answers in a tick, how many fail without any overload
    tenants: tuple[str, ...] = (TENANT,)
    now_us: int = NOW_US
    queue: float = 0.0
    seconds: list[tuple[float, float, float]] = field(default_factory=list)  # served, bad and all answers of each

    def __post_init__(self) -> None:
        self.observed = Observations(clock=lambda: self.now_us / SECOND_US)

    def run(self, until_s: int, *, reports: bool = True, report_at: int = 3, copy_at: int = 7) -> None:
        """`report_at`, `copy_at`: the tenth of a second in which processes report, and in which factors are copied."""
        while self.elapsed < until_s:
            tick = (self.now_us - NOW_US) // TICK_US % 10
            if tick == 0:
                self.seconds.append((0.0, 0.0, 0.0))
            self._tick()
            if tick == report_at:
                self._report(reports)
            if tick == copy_at:
                copy_factors(self.world, self.now_us, self.tenants)
            self.now_us += TICK_US

    def _report(self, reports: bool) -> None:
        for words in self.observed.take():
            if reports:
                observe(self.world, self.now_us, words)

    @property
    def elapsed(self) -> float:
        return (self.now_us - NOW_US) / SECOND_US

    def _tick(self) -> None:
        capacity = self.capacity(self.elapsed)
        self.queue += self._admitted()
        served = round(min(self.queue, capacity / 10))
        self.queue -= served
        dropped = round(max(0.0, self.queue - capacity))
        self.queue -= dropped
        failed = min(served, self.errors(served))
        is_late = self.queue / capacity > 0.25
        for _ in range(served - failed):
            self.observed.add(ENDPOINT, 200, LATE_S if is_late else QUICK_S)
        for _ in range(dropped + failed):
            self.observed.add(ENDPOINT, 503, QUICK_S)
        before = self.seconds[-1]
        bad = dropped + (served if is_late else failed)
        self.seconds[-1] = (before[0] + served, before[1] + bad, before[2] + served + dropped)

    def _admitted(self) -> int:
        asked = self.asked(self.elapsed) // 10
        with self.world.client.pipeline(transaction=False) as pipe:
            for n in range(asked):
                tenant = self.tenants[n % len(self.tenants)]
                shard = keys.shard_prefix(keys.shard_of(tenant))
                at_us = self.now_us + n * TICK_US // asked
                pipe.fcall("hs_check", 1, shard, at_us, tenant, ENDPOINT, 1)
            return sum(int(reply[0]) for reply in pipe.execute())

    def served(self, first_s: int, last_s: int) -> float:
        """Per second."""
        return sum(second[0] for second in self.seconds[first_s:last_s]) / (last_s - first_s)

    def bad(self, first_s: int, last_s: int) -> float:
        chosen = self.seconds[first_s:last_s]
        return sum(second[1] for second in chosen) / max(1.0, sum(second[2] for second in chosen))
