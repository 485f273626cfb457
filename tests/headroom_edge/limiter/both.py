"""The two limiters behind one face, so that each behaviour is tested once and on both, and on callbacks."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from headroom_edge import AsyncLimiter, Check, Decision, Limiter
from headroom_edge.core import Conversation, Core
from headroom_edge.results import Result
from headroom_edge.store.breaker import Breaker

T = TypeVar("T")
WAIT_S = 120


class OnThreads:
    """Limiter as it is."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.limiter = Limiter.from_url(url, **settings)
        self.check = self.limiter.check
        self.peek = self.limiter.peek
        self.refund = self.limiter.refund
        self.reset = self.limiter.reset
        self.hold = self.limiter.hold
        self.release = self.limiter.release
        self.ready = self.limiter.ready

    @property
    def core(self) -> Core:
        return self.limiter._core

    @property
    def breaker(self) -> Breaker:
        return self.limiter.breaker

    @property
    def degraded(self) -> int:
        return self.limiter.degraded

    def check_many(self, checks: Iterable[Check], **about: Any) -> list[Decision]:
        return self.limiter.check_many(checks, **about)

    def attend(self) -> None:
        self.limiter._chore_thread.attend()

    def at_once(self, count: int, **about: Any) -> list[Decision]:
        """From `count` threads at the same moment."""
        found: list[Decision] = []
        start = threading.Barrier(count)

        def ask() -> None:
            start.wait(WAIT_S)
            found.append(self.limiter.check(**about))

        threads = [threading.Thread(target=ask) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        return found

    def close(self) -> None:
        self.limiter.close()


class OnLoop:
    """AsyncLimiter on an event loop of its own."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.limiter = self.make(url, **settings)

    @staticmethod
    def make(url: str, **settings: Any) -> AsyncLimiter:
        return AsyncLimiter.from_url(url, **settings)

    @property
    def core(self) -> Core:
        return self.limiter._core

    @property
    def breaker(self) -> Breaker:
        return self.limiter.breaker

    @property
    def degraded(self) -> int:
        return self.limiter.degraded

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)

    def check(self, **about: Any) -> Decision:
        return self.run(self.limiter.check(**about))

    def peek(self, **about: Any) -> Decision:
        return self.run(self.limiter.peek(**about))

    def refund(self, decision: Decision) -> int:
        return self.run(self.limiter.refund(decision))

    def release(self, decision: Decision, *, result: Result = "ignore") -> int:
        return self.run(self.limiter.release(decision, result=result))

    def ready(self, timeout_ms: float = 10_000) -> bool:
        return self.run(self.limiter.ready(timeout_ms))

    def reset(self, **about: Any) -> int:
        return self.run(self.limiter.reset(**about))

    def check_many(self, checks: Iterable[Check], **about: Any) -> list[Decision]:
        return self.run(self.limiter.check_many(checks, **about))

    @contextmanager
    def hold(self, **about: Any) -> Iterator[Decision]:
        holding = self.limiter.hold(**about)
        decision = self.run(holding.__aenter__())
        try:
            yield decision
        except BaseException as error:
            self.run(holding.__aexit__(type(error), error, None))
            raise
        self.run(holding.__aexit__(None, None, None))

    def attend(self) -> None:
        async def attend() -> None:
            assert self.limiter._pipeline is not None
            asked = self.limiter._do_chores(self.limiter._pipeline)
            if asked is not None:
                await asked

        self.run(attend())

    def at_once(self, count: int, **about: Any) -> list[Decision]:
        """As `count` tasks in the same tick."""

        async def ask() -> list[Decision]:
            return await asyncio.gather(*(self.limiter.check(**about) for _ in range(count)))

        return self.run(ask())

    def close(self) -> None:
        if self.loop.is_closed():
            return
        self.run(self.limiter.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(WAIT_S)
        self.loop.close()


class CallbackLimiter(AsyncLimiter):
    """Has every conversation by callbacks, and a single check as the check server has it."""

    async def check_many(
        self, checks: Iterable[Check], *, rows: bool | None = None, budget_ms: float | None = None
    ) -> list[Decision]:
        asked = list(checks)
        if len(asked) != 1 or budget_ms is not None:
            return await super().check_many(asked, rows=rows, budget_ms=budget_ms)
        answer: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        driver = self.callbacks()
        driver.check(asked[0], answer.set_result, answer.set_exception, rows=driver.core.rows if rows is None else rows)
        return [await answer]

    async def check(self, *, budget_ms: float | None = None, rows: bool | None = None, **about: Any) -> Decision:
        about["subject"] = about.get("subject") or {}
        return (await self.check_many([Check(**about)], rows=rows, budget_ms=budget_ms))[0]

    async def _run(self, talk: Conversation[T], budget_ms: float | None) -> T:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.start(lambda _: talk, answer.set_result, answer.set_exception, budget_ms=budget_ms)
        return await answer


class OnCallbacks(OnLoop):
    @staticmethod
    def make(url: str, **settings: Any) -> AsyncLimiter:
        return CallbackLimiter.from_url(url, **settings)


Either = OnThreads | OnLoop
MakeLimiter = Callable[..., Either]


def until(true: Callable[[], bool], seconds: float = WAIT_S) -> None:
    """For what happens in its own time, such as a server that comes back."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
