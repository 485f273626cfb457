"""Live traffic of the demo: its tenants keep calling the limiter, in the patterns of their history."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from headroom_edge import AsyncLimiter, Decision
from headroom_edge.errors import StoreError
from headroom_edge.request_guard import Caller, Guard, Request
from quotas.demo.latency import backend_of
from quotas.demo.traffic_patterns import Flow

REPORT_S: Final = 60
BUDGET_MS: Final = 200.0  # generous, so that a busy machine does not cause decisions without Redis
CLIENTS: Final = 40  # per tenant
KEYS: Final = 4
RETRY_S: Final = 1.0


@dataclass(slots=True)
class LiveTraffic:
    """`most`: new requests per second; the rest is not sent."""

    limiter: AsyncLimiter
    flows: Sequence[Flow]
    most: int
    draw: np.random.Generator
    report: Callable[[str], None] = print
    keys: Mapping[str, str] = field(default_factory=dict)  # tenant → API key that one in KEYS of its clients sends
    sent: int = 0
    denied: int = 0
    degraded: int = 0
    _calls: set[asyncio.Task[None]] = field(default_factory=set)
    _guard: Guard = field(default_factory=Guard)
    _recent: defaultdict[str, deque[float]] = field(default_factory=lambda: defaultdict(deque))  # endpoint → allowed at

    async def run(self, stop: asyncio.Event) -> None:
        second = int(time.time())
        while not stop.is_set():
            second += 1
            await _until(second, stop)
            # After a suspend, skip the missed seconds instead of sending them all at once.
            second = max(second, int(time.time()) - 1)
            if not stop.is_set():
                self.send(second)
            if second % REPORT_S == 0:
                self._say()
        await self.finish()

    def send(self, second: int) -> None:
        """Sends the requests of one second, each at a random time within it."""
        coming = self.arrivals(second)
        loads = Counter(flow.endpoint for flow in coming)
        for flow in coming:
            call = asyncio.create_task(self._come(flow, loads[flow.endpoint], self.draw.random()))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    def arrivals(self, second: int) -> list[Flow]:
        middle = np.array([second + 0.5])
        rates = [flow.demand.intensity(middle)[0] for flow in self.flows]
        counts = self.draw.poisson(rates)
        for place, flow in enumerate(self.flows):
            cron = flow.demand.cron
            if cron is not None and second % cron.every_s == 0:
                counts[place] += cron.size
            if flow.sync is not None:
                counts[place] += int(flow.sync.requests(np.array([second]))[0])
        coming = np.repeat(np.arange(len(self.flows)), counts)
        self.draw.shuffle(coming)
        return [self.flows[place] for place in coming[: self.most]]

    async def finish(self) -> None:
        """Waits for all calls that were sent."""
        while self._calls:
            await asyncio.gather(*self._calls)

    async def _come(self, flow: Flow, load: int, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        for _ in range(flow.retries + 1):
            if await self._call(flow, load):
                return
            await asyncio.sleep(RETRY_S)

    async def _call(self, flow: Flow, load: int) -> bool:
        client = int(self.draw.integers(CLIENTS))
        subject = await self._subject(flow.tenant, client)
        async with self.limiter.hold(
            tenant=flow.tenant, endpoint=flow.endpoint, subject=subject, budget_ms=BUDGET_MS
        ) as decision:
            self._note(decision)
            if decision.allowed:
                work_s = self._work_s(flow.endpoint, load)
                await asyncio.sleep(decision.wait_ms / 1_000 + work_s)
                self.limiter.observe(endpoint=flow.endpoint, status=200, seconds=work_s)
        return decision.allowed

    def _work_s(self, endpoint: str, load: int) -> float:
        """A backend that slows down notices at once how much less a limit lets through."""
        backend, now = backend_of(endpoint), time.time()
        if backend.slowdown is not None:
            recent = self._recent[endpoint]
            recent.append(now)
            while recent[0] < now - 1:
                recent.popleft()
            load = len(recent)
        return float(backend.seconds(np.array([float(load)]), np.array([int(now)]), self.draw)[0])

    async def _subject(self, tenant: str, client: int) -> Mapping[str, str | None]:
        """The first of a tenant's clients sends its API key, as to a gateway. The others are services that name it."""
        address, key = f"203.0.113.{client}", self.keys.get(tenant) if client % KEYS == 0 else None
        if key:
            request = Request("POST", "/", address, lambda name: key if name == "x-api-key" else "")
            with suppress(StoreError):
                caller = await self.limiter.converse(
                    lambda core: self._guard.caller(core, request), budget_ms=BUDGET_MS
                )
                if isinstance(caller, Caller):  # otherwise it was revoked meanwhile
                    return caller.subject
        return {"ip": address, "key": f"{tenant}-{client % KEYS}"}

    def _note(self, decision: Decision) -> None:
        self.sent += 1
        self.denied += not decision.allowed
        self.degraded += decision.degraded

    def _say(self) -> None:
        self.report(f"{self.sent} checks in the last minute, {self.denied} denied, {self.degraded} without Redis")
        self.sent = self.denied = self.degraded = 0


async def _until(second: int, stop: asyncio.Event) -> None:
    try:
        await asyncio.wait_for(stop.wait(), max(0.0, second - time.time()))
    except TimeoutError:
        return
