"""A living demo: the seeded tenants call the limiter as real clients do, each in its own way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from quotas.demo.shapes import Shape, pulses, spells, steady, wave
from quotas.limiter import AsyncLimiter, Decision

TICK_S = 0.1
REPORT_S = 60.0
BUDGET_MS = 200.0  # a demo shares its machine: patience rather than a decision without the store
WORK_S = (0.05, 0.6)  # how long a request holds its slot
CLIENTS = 40  # per tenant


@dataclass(frozen=True, slots=True)
class Flow:
    tenant: str
    endpoint: str
    shape: Shape


# Free tenants stay within their daily quota, save for the one that does not care.
FLOWS = (
    Flow("amber-cabs", "fares:quote", pulses(25, 300)),  # a cron job every five minutes: more than its burst
    Flow("amber-cabs", "rides:get", steady(0.02)),
    Flow("blue-line", "rides:get", steady(0.05)),
    Flow("blue-line", "rides:cancel", steady(0.005)),
    Flow("city-wheels", "rides:request", spells(2, 20, 900)),  # cost 5, 30 a minute
    Flow("delta-shuttle", "rides:get", spells(18, 90, 240)),  # a script that ignores every 429
    Flow("early-bird", "rides:get", steady(0.1)),  # suspended, and still calling
    Flow("fleetly", "rides:get", wave(4, 20, 1_800)),
    Flow("fleetly", "rides:request", wave(0.2, 1.5, 1_800)),
    Flow("green-go", "drivers:locate", pulses(60, 15, 2)),  # maps that poll in step: shaped, not denied
    Flow("green-go", "rides:get", steady(2)),
    Flow("harbor-taxi", "rides:get", wave(2, 9, 2_700)),
    Flow("harbor-taxi", "fares:quote", pulses(120, 120, 30)),
    Flow("inner-ring", "rides:get", steady(6)),
    Flow("inner-ring", "drivers:locate", pulses(150, 180, 45)),  # more than its queue holds
    Flow("jet-transfer", "rides:get", spells(15, 300, 1_200)),
    Flow("kite-mobility", "rides:get", wave(10, 30, 3_600)),
    Flow("kite-mobility", "payments:charge", steady(3)),
    Flow("lagoon-ferry", "drivers:locate", steady(8)),
    Flow("lagoon-ferry", "payments:charge", pulses(45, 60, 10)),  # evening out is not its strength
    Flow("nobody-we-know", "rides:get", steady(0.05)),  # an old client with a tenant that never was
)


@dataclass(slots=True)
class Traffic:
    """`most` bounds the checks a second; what would be above it is not sent."""

    limiter: AsyncLimiter
    most: float
    chance: Random
    flows: Sequence[Flow] = FLOWS
    report: Callable[[str], None] = print
    sent: int = 0
    denied: int = 0
    degraded: int = 0
    _calls: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, stop: asyncio.Event) -> None:
        before = time.time()
        next_report = before + REPORT_S
        while not stop.is_set():
            await _pause(stop, TICK_S)
            # A machine that slept has nothing to catch up on.
            now = time.time()
            self.tick(max(before, now - 2 * TICK_S), now)
            before = now
            if now >= next_report:
                next_report = now + REPORT_S
                self._say()
        await self.finish()

    async def finish(self) -> None:
        """Until every call that was sent is over."""
        while self._calls:
            await asyncio.gather(*self._calls)

    def tick(self, start: float, end: float) -> None:
        left = int(self.most * TICK_S)
        for flow in self.chance.sample(self.flows, len(self.flows)):
            count = min(flow.shape(start, end, self.chance), left)
            left -= count
            for _ in range(count):
                call = asyncio.create_task(self._call(flow))
                self._calls.add(call)
                call.add_done_callback(self._calls.discard)

    async def _call(self, flow: Flow) -> None:
        client = self.chance.randrange(CLIENTS)
        subject = {"ip": f"203.0.113.{client}", "key": f"{flow.tenant}-{client % 4}"}
        async with self.limiter.hold(
            tenant=flow.tenant, endpoint=flow.endpoint, subject=subject, budget_ms=BUDGET_MS
        ) as decision:
            self._note(decision)
            if decision.allowed:
                await asyncio.sleep(decision.wait_ms / 1_000 + self.chance.uniform(*WORK_S))

    def _note(self, decision: Decision) -> None:
        self.sent += 1
        self.denied += not decision.allowed
        self.degraded += decision.degraded

    def _say(self) -> None:
        self.report(f"{self.sent} checks in the last minute, {self.denied} denied, {self.degraded} without Redis")
        self.sent = self.denied = self.degraded = 0


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
