"""A service with a number of workers behind a limit on requests in flight, in simulated time.

Requests arrive at random and wait for a free worker; the service time is log-normal. It shows what a limit does to
throughput and latency while load, workers or speed change.
"""

import math
import random
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from statistics import fmean
from typing import Protocol

from headroom_edge.algorithms.base import SECOND_US


class Gate(Protocol):
    """The limit in front of the service."""

    def admit(self, now_us: int, holder: str) -> bool: ...

    def release(self, now_us: int, holder: str) -> None:
        """The request was answered."""


@dataclass(frozen=True, slots=True)
class Service:
    """What happens at a time in seconds: requests per second, workers, and how many times slower each request is."""

    load: Callable[[float], float]
    workers: Callable[[float], int] = lambda _: 20
    slowness: Callable[[float], float] = lambda _: 1.0
    mean_s: float = 0.02
    sigma: float = 0.5


@dataclass(frozen=True, slots=True)
class Answered:
    at_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Phase:
    per_s: float  # answers
    mean_ms: float


def phase(answers: Iterable[Answered], begin_s: float, end_s: float) -> Phase:
    found = [answer.latency_s for answer in answers if begin_s <= answer.at_s < end_s]
    return Phase(len(found) / (end_s - begin_s), 1_000 * fmean(found) if found else 0.0)


def run(gate: Gate, service: Service, seconds: float, *, start_us: int, seed: int = 5) -> list[Answered]:
    return _Run(gate, service, start_us, random.Random(seed)).until(seconds)


@dataclass(slots=True)
class _Request:
    holder: str
    arrived_s: float


class _Run:
    def __init__(self, gate: Gate, service: Service, start_us: int, draw: random.Random) -> None:
        self._gate, self._service, self._start_us, self._draw = gate, service, start_us, draw
        self._mu = math.log(service.mean_s) - service.sigma**2 / 2
        self._events: list[tuple[float, int, _Request | None]] = []  # time, number, the request that ends (or arrives)
        self._queue: deque[_Request] = deque()
        self._busy, self._number = 0, 0
        self._answers: list[Answered] = []

    def until(self, seconds: float) -> list[Answered]:
        self._plan(self._draw.expovariate(self._service.load(0.0)), None)
        while self._events and self._events[0][0] <= seconds:
            at_s, number, request = heappop(self._events)
            if request is None:
                self._arrive(at_s, str(number))
            else:
                self._end(at_s, request)
            self._work(at_s)
        return self._answers

    def _plan(self, at_s: float, request: _Request | None) -> None:
        self._number += 1
        heappush(self._events, (at_s, self._number, request))

    def _arrive(self, at_s: float, holder: str) -> None:
        self._plan(at_s + self._draw.expovariate(self._service.load(at_s)), None)
        if self._gate.admit(self._us(at_s), holder):
            self._queue.append(_Request(holder, at_s))

    def _work(self, at_s: float) -> None:
        while self._queue and self._busy < self._service.workers(at_s):
            self._busy += 1
            takes_s = self._draw.lognormvariate(self._mu, self._service.sigma) * self._service.slowness(at_s)
            self._plan(at_s + takes_s, self._queue.popleft())

    def _end(self, at_s: float, request: _Request) -> None:
        self._busy -= 1
        self._gate.release(self._us(at_s), request.holder)
        self._answers.append(Answered(at_s, at_s - request.arrived_s))

    def _us(self, at_s: float) -> int:
        return self._start_us + int(at_s * SECOND_US)
