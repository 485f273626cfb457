"""The limiter for an event loop."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar, Unpack

from headroom_edge.background_chores import LEASES_TICK, TICK_S, Chore
from headroom_edge.callbacks import CallbackDriver, CallbackRun
from headroom_edge.check import Check, SubjectValues
from headroom_edge.core import CHECK, PEEK, Conversation, Core
from headroom_edge.decision import Decision
from headroom_edge.leases.allowance import AsyncAllowance
from headroom_edge.leases.lease import Lease
from headroom_edge.plan.priority import PRIORITIES
from headroom_edge.results import Result, of_error
from headroom_edge.settings import READY_MS, Options, Settings, seconds
from headroom_edge.store.address import StoreAddress, parse_url
from headroom_edge.store.breaker import Breaker
from headroom_edge.store.on_loop import Breakers, LoopStore, open_on_loop

T = TypeVar("T")


class AsyncLimiter:
    """Limiter for an event loop. Checks made in the same tick of the loop are sent in one write on one connection."""

    def __init__(self, address: StoreAddress, settings: Settings) -> None:
        self._address = address
        self._settings = settings
        self._budget_s = settings.budget_ms / 1_000
        self._patience_s = settings.connect_timeout_ms / 1_000
        self._core = settings.core(address)
        self._leases = self._core.leases
        self._breakers = Breakers(settings.breaker)
        self._pipeline: LoopStore | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._closed = False

    @classmethod
    def from_url(cls, url: str, **settings: Unpack[Options]) -> Self:
        """`settings` are the fields of Settings, such as budget_ms=20, fail="closed", shards=64."""
        return cls(parse_url(url), Settings(**settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection. Leases are given back and settled first, if the store answers within a second."""
        self._closed = True
        if self._tick is not None:
            self._tick.cancel()
        if self._pipeline is not None:
            await self._leave(self._pipeline)
            ending = self._pipeline.close()
            if ending and self._pipeline.loop is asyncio.get_running_loop():
                await asyncio.wait(ending)

    async def _leave(self, pipeline: LoopStore) -> None:
        if pipeline.loop is not asyncio.get_running_loop() or not pipeline.is_reachable:
            return
        if self._core.books:
            await self._run(self._core.give_back(), self._settings.connect_timeout_ms)
        goodbye = self._core.chores.heartbeat.goodbye()
        if goodbye is not None:
            await pipeline.ask([goodbye], self._patience_s, is_counted=False)

    async def ready(self, timeout_ms: float = READY_MS) -> bool:
        """Connect, and load the Lua library if the store has none. Call it before the first request."""
        return await self._run(self._core.ready(), timeout_ms)

    @property
    def degraded(self) -> int:
        """The number of decisions made without the store since the start."""
        return self._core.failures.degraded

    @property
    def breaker(self) -> Breaker:
        """In a cluster: of a primary that does not answer, if there is one."""
        return self._breakers.worst

    async def check(
        self,
        *,
        tenant: str,
        endpoint: str,
        subject: SubjectValues | None = None,
        cost: int | None = None,
        holder: str = "",
        priority: str = "",
        rows: bool | None = None,
        budget_ms: float | None = None,
    ) -> Decision:
        leases = self._leases
        # A holder's slot is taken and released in the store.
        if leases is None or holder:
            talk = self._core.decide(CHECK, [Check(tenant, endpoint, subject or {}, cost, holder, priority)], rows)
            return (await self._run(talk, budget_ms))[0]
        is_valid = not priority or priority in PRIORITIES
        if is_valid and budget_ms is None and endpoint not in self._core.global_endpoints:
            spent = leases.spend(tenant, endpoint, subject, cost, self._core.rows if rows is None else rows)
            if spent is not None:
                return spent
        check = Check(tenant, endpoint, subject or {}, cost, "", priority)
        return await self._run(self._core.check(check, rows), budget_ms)

    def allowance(
        self, *, tenant: str, endpoint: str, subject: SubjectValues | None = None, priority: str = ""
    ) -> AsyncAllowance:
        """For the tightest loops: `await allowance.spend(cost)` does what a check of the same arguments would do.

        It is True if the request is allowed. Only with `leases=True` it is faster than a check.
        """
        check = Check(tenant, endpoint, dict(subject or {}), priority=priority)
        return AsyncAllowance(check, self._find_lease, self._decide)

    def _find_lease(self, check: Check) -> Lease | None:
        if self._leases is None or check.endpoint in self._core.global_endpoints:
            return None
        return self._leases.find(check)

    async def _decide(self, check: Check) -> Decision:
        return await self._run(self._core.check(check, None), None)

    async def check_many(
        self, checks: Iterable[Check], *, rows: bool | None = None, budget_ms: float | None = None
    ) -> list[Decision]:
        """Decide all checks in one round trip. They are independent: a denied one does not undo the others."""
        return await self._run(self._core.decide(CHECK, list(checks), rows), budget_ms)

    async def peek(
        self,
        *,
        tenant: str,
        endpoint: str,
        subject: SubjectValues | None = None,
        cost: int | None = None,
        priority: str = "",
        rows: bool | None = None,
        budget_ms: float | None = None,
    ) -> Decision:
        """Decide as a check would, but charge nothing."""
        talk = self._core.decide(PEEK, [Check(tenant, endpoint, subject or {}, cost, "", priority)], rows)
        return (await self._run(talk, budget_ms))[0]

    @asynccontextmanager
    async def hold(
        self,
        *,
        tenant: str,
        endpoint: str,
        subject: SubjectValues | None = None,
        cost: int | None = None,
        holder: str = "",
        priority: str = "",
        rows: bool | None = None,
        budget_ms: float | None = None,
    ) -> AsyncIterator[Decision]:
        """Check, and release the concurrency slot at the end of the block. Test `decision.allowed` first.

        The end of the block counts as answered, a TimeoutError as a drop; after any other exception nothing is learned.
        """
        check = Check(tenant, endpoint, subject or {}, cost, holder or secrets.token_hex(12), priority)
        (decision,) = await self._run(self._core.decide(CHECK, [check], rows), budget_ms)
        result: Result = "ok"
        try:
            yield decision
        except BaseException as error:
            result = of_error(type(error))
            raise
        finally:
            await self.release(decision, result=result, budget_ms=budget_ms)

    async def release(self, decision: Decision, *, result: Result = "ignore", budget_ms: float | None = None) -> int:
        """Release the concurrency slots of an allowed check before they expire. `hold` does this itself.

        `result` tells limits that adapt how the request ended (results.py).
        """
        return await self._run(self._core.release(decision, result), budget_ms)

    async def refund(self, decision: Decision, *, budget_ms: float | None = None) -> int:
        """Give back what an allowed request was charged, if it still counts. Returns the number of limits refunded."""
        return await self._run(self._core.refund(decision), budget_ms)

    async def reset(
        self,
        *,
        tenant: str,
        endpoint: str,
        subject: SubjectValues | None = None,
        limit: str = "*",
        budget_ms: float | None = None,
    ) -> int:
        """Clear the subject's use of one limit, or of all. Raises StoreError if the store cannot be reached."""
        return await self._run(self._core.reset(Check(tenant, endpoint, subject or {}), limit), budget_ms)

    def observe(self, *, endpoint: str, status: int, seconds: float) -> None:
        """Record a response's status and the time to its first byte. Sent to the store once a second."""
        self._core.chores.observations.add(endpoint, status, seconds)

    def converse(
        self, talk: Callable[[Core], Conversation[T]], *, budget_ms: float | None = None
    ) -> Coroutine[Any, Any, T]:
        """Run the caller's own conversation, such as a look-up followed by a check."""
        return self._run(talk(self._core), budget_ms)

    def start(
        self,
        talk: Callable[[Core], Conversation[T]],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
        *,
        budget_ms: float | None = None,
    ) -> None:
        """As `converse`, by callbacks instead of a task, for servers to which a task is too dear.

        One of the two is called, maybe before this returns. `failed` also gets what `done` raises; it must not raise.
        """
        budget_s = self._budget_s if budget_ms is None else seconds(budget_ms)
        CallbackRun(talk(self._core), self._pipeline_here(), budget_s, done, failed).begin()

    def callbacks(self) -> CallbackDriver:
        """For a connection, which stays on the running loop: as `start`, without looking for the loop each time."""
        return CallbackDriver(self._core, self._pipeline_here(), self._budget_s)

    def _pipeline_here(self) -> LoopStore:
        pipeline = self._pipeline
        if pipeline is None or pipeline.loop is not asyncio.get_running_loop():
            return self._open_pipeline()
        return pipeline

    async def _run(self, talk: Conversation[T], budget_ms: float | None) -> T:
        budget_s = self._budget_s if budget_ms is None else seconds(budget_ms)
        pipeline = self._pipeline_here()
        try:
            commands = next(talk)
            while True:
                started = time.monotonic()
                commands = talk.send(await pipeline.ask(commands, budget_s))
                budget_s = max(0.0, budget_s - (time.monotonic() - started))
        except StopIteration as end:
            answer: T = end.value
            return answer
        finally:
            talk.close()

    def _open_pipeline(self) -> LoopStore:
        self._pipeline = open_on_loop(self._address, self._budget_s, self._patience_s, self._breakers)
        if self._closed:
            self._pipeline.close()
        else:
            self._tick_later(self._pipeline)
        return self._pipeline

    def _tick_later(self, pipeline: LoopStore) -> None:
        tick_s = TICK_S * LEASES_TICK if self._core.books else TICK_S
        self._tick = pipeline.loop.call_later(tick_s, self._attend)

    def _attend(self) -> None:
        if self._pipeline is None or self._closed:
            return
        self._tick_later(self._pipeline)
        # While the breaker is open, a request probes the store; the chores must not.
        if self._pipeline.is_reachable:
            self._do_chores(self._pipeline)

    def _do_chores(self, pipeline: LoopStore) -> asyncio.Future[list[Any]] | None:
        """Send the due chores over the same connection as the checks, which do not wait for them."""
        chores = self._core.chores.take()
        if not chores:
            return None
        asked = pipeline.ask([chore.command for chore in chores], self._patience_s, is_counted=False)
        asked.add_done_callback(lambda answer: self._settle(chores, answer))
        return asked

    def _settle(self, chores: list[Chore], answer: asyncio.Future[list[Any]]) -> None:
        if not answer.cancelled():
            self._core.chores.settle(chores, answer.result())
