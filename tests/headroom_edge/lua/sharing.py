"""Members of a pool that ask at the same time, by the clock of the simulation."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headroom_edge import keys
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit
from tests.headroom_edge.lua.world import NOW_US, TENANT, World

BATCH = 500  # calls in one pipeline


def pool(rate: int = 10, burst: int = 20, reserve: int = 0, name: str = "org", subject: str = "tenant") -> Limit:
    return Limit(name, Pool(rate, SECOND_US, burst, reserve), Subject.parse(subject))


def share(
    assured: int = 2,
    burst: int = 2,
    ceiling: int | None = None,
    ceiling_burst: int | None = None,
    *,
    reserve: int = 0,
    weight: int | None = None,
    name: str = "team",
    parent: str = "org",
    subject: str = "team",
) -> Limit:
    most = ceiling_burst or (ceiling and max(ceiling, burst))
    algorithm = Borrowing(assured, SECOND_US, burst, ceiling, most, reserve, parent, weight)
    return Limit(name, algorithm, Subject.parse(subject))


@dataclass(frozen=True, slots=True)
class Arrival:
    at_us: int  # since the start
    member: str


@dataclass(frozen=True, slots=True)
class Answer:
    at_us: int
    member: str
    allowed: bool
    retry_us: int


Load = Callable[[float], float]  # requests per second at a time in seconds


def poisson(loads: Mapping[str, Load], seconds: float, seed: int = 1) -> list[Arrival]:
    chance = random.Random(seed)
    found = []
    for member, load in loads.items():
        at = 0.0
        while at < seconds:
            rate = load(at)
            at += chance.expovariate(rate) if rate else 0.01
            if rate and at < seconds:
                found.append(Arrival(int(at * SECOND_US), member))
    return sorted(found, key=lambda arrival: arrival.at_us)


def steady(rate: float) -> Load:
    return lambda at: rate


def ask(
    world: World,
    arrivals: Sequence[Arrival],
    endpoint_of: Callable[[str], str] = lambda member: "rides:search",
    before: Callable[[int], None] = lambda index: None,
) -> list[Answer]:
    """Asks the store in the order of arrival. `before` is called before each batch, with its number."""
    found = []
    for start in range(0, len(arrivals), BATCH):
        before(start // BATCH)
        batch = arrivals[start : start + BATCH]
        with world.client.pipeline(transaction=False) as pipe:
            for arrival in batch:
                args = (NOW_US + arrival.at_us, TENANT, endpoint_of(arrival.member), 1, "team", arrival.member)
                pipe.fcall("hs_check", 1, keys.tenant_prefix(TENANT), *args)
            replies: list[Any] = pipe.execute()
        for arrival, raw in zip(batch, replies, strict=True):
            found.append(Answer(arrival.at_us, arrival.member, raw[0] == 1, raw[6]))
    return found


def per_second(answers: Sequence[Answer], begin_s: float, end_s: float) -> dict[str, float]:
    """Admitted requests per second and member."""
    counts = Counter(a.member for a in answers if a.allowed and begin_s * SECOND_US <= a.at_us < end_s * SECOND_US)
    return {member: count / (end_s - begin_s) for member, count in counts.items()}


def excess(times_us: Sequence[int], rate: int, burst: int) -> int:
    """How far the fullest window of any length is above rate × length + burst, in millionths. Above 0: too full."""
    worst, lowest = -burst * SECOND_US, 0
    for index, at_us in enumerate(times_us):
        ahead = index * SECOND_US - rate * at_us
        lowest = min(lowest, ahead) if index else ahead
        worst = max(worst, ahead - lowest + (1 - burst) * SECOND_US)
    return worst


def max_min(capacity: float, demands: Mapping[str, float], weights: Mapping[str, int]) -> dict[str, float]:
    """Who gets how much if what is left over is always shared by weight."""
    left, open_demands, got = capacity, dict(demands), dict.fromkeys(demands, 0.0)
    while open_demands:
        total = sum(weights[member] for member in open_demands)
        content = [m for m, demand in open_demands.items() if demand <= left * weights[m] / total]
        if not content:
            return got | {member: left * weights[member] / total for member in open_demands}
        for member in content:
            got[member] = open_demands.pop(member)
        left = capacity - sum(got.values())
    return got
