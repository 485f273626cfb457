"""The limiter for threads, and the daemon thread that runs its chores."""

from __future__ import annotations

import atexit
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Self, TypeVar, Unpack

from headroom_edge.background_chores import LEASES_TICK, TICK_S, Chore, nothing
from headroom_edge.check import Check, SubjectValues
from headroom_edge.core import CHECK, PEEK, Conversation, Core
from headroom_edge.decision import Decision
from headroom_edge.leases.allowance import Allowance
from headroom_edge.leases.lease import Lease
from headroom_edge.plan.priority import PRIORITIES
from headroom_edge.results import Result, of_error
from headroom_edge.settings import READY_MS, Options, Settings, seconds
from headroom_edge.store.address import StoreAddress, parse_url
from headroom_edge.store.breaker import Breaker
from headroom_edge.store.on_threads import ThreadStore, open_store


class ChoreThread:
    def __init__(self, core: Core, store: ThreadStore, patience_s: float) -> None:
        self._core = core
        self._store = store
        self._patience_s = patience_s
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._started = False
        self._thread: threading.Thread | None = None

    def ensure(self) -> None:
        if not self._started:
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._started:
                return
            self._started = True
            # If no thread can be started, checks still work. Only `local` limits get no plan to decide by.
            with suppress(RuntimeError):
                thread = threading.Thread(target=self._attend, name="headroom-attendant", daemon=True)
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        self._stopped.set()

    def wait(self) -> None:
        """After `stop`: until the store has heard the goodbye, or for as long as it may take to answer."""
        if self._thread is not None:
            self._thread.join(self._patience_s)

    def _attend(self) -> None:
        while not self._stopped.wait(TICK_S * LEASES_TICK if self._core.books else TICK_S):
            # While the breaker is open, a request probes the store; the chores must not.
            if self._store.is_reachable:
                self.attend()
        self._leave()

    def _leave(self) -> None:
        if self._store.is_reachable:
            while leases := self._core.chores.take_leases(everything=True):
                if not self._do(leases):
                    break
            goodbye = self._core.chores.heartbeat.goodbye()
            if goodbye is not None:
                self._do([Chore(goodbye, nothing, nothing)])

    def attend(self) -> None:
        chores = self._core.chores.take()
        if chores:
            self._do(chores)

    def _do(self, chores: list[Chore]) -> bool:
        """Returns whether the store answered without an error."""
        commands = [chore.command for chore in chores]
        replies = self._store.attend(commands, time.monotonic() + self._patience_s)
        self._core.chores.settle(chores, replies)
        return not any(isinstance(reply, Exception) for reply in replies)


T = TypeVar("T")


class Limiter:
    """Decides whether requests are within their limits. Thread-safe: create one per process and keep it.

    A check never raises because of the store. It returns within its budget; if the store did not answer by then, the
    plan's failure mode decides (`decision.degraded`). Invalid arguments raise ValueError.
    """

    def __init__(self, address: StoreAddress, settings: Settings) -> None:
        self._address = address
        self._settings = settings
        self._budget_s = settings.budget_ms / 1_000
        self._start_over()
        _living.add(self)

    @classmethod
    def from_url(cls, url: str, **settings: Unpack[Options]) -> Self:
        """`settings` are the fields of Settings, such as budget_ms=20, fail="closed", shards=64."""
        return cls(parse_url(url), Settings(**settings))

    def _start_over(self) -> None:
        self._core = self._settings.core(self._address)
        self._leases = self._core.leases
        settings, patience_s = self._settings, self._settings.connect_timeout_ms / 1_000
        self._store = open_store(self._address, patience_s, settings.connections, settings.breaker)
        self._chore_thread = ChoreThread(self._core, self._store, patience_s)
        # The thread must not outlive a limiter that was garbage-collected.
        weakref.finalize(self, self._chore_thread.stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Leases are given back and settled first, if the store answers within a second."""
        self._chore_thread.stop()
        self._chore_thread.wait()
        if self._core.books:
            self._run(self._core.give_back(), self._settings.connect_timeout_ms)
        self._store.close()

    def ready(self, timeout_ms: float = READY_MS) -> bool:
        """Connect, and load the Lua library if the store has none. Call it before the first request."""
        return self._run(self._core.ready(), timeout_ms)

    @property
    def degraded(self) -> int:
        """The number of decisions made without the store since the start."""
        return self._core.failures.degraded

    @property
    def breaker(self) -> Breaker:
        """In a cluster: of a primary that does not answer, if there is one."""
        return self._store.breaker

    def check(
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
            check = Check(tenant, endpoint, subject or {}, cost, holder, priority)
            return self._run(self._core.decide(CHECK, [check], rows), budget_ms)[0]
        is_valid = not priority or priority in PRIORITIES
        if is_valid and budget_ms is None and endpoint not in self._core.global_endpoints:
            spent = leases.spend(tenant, endpoint, subject, cost, self._core.rows if rows is None else rows)
            if spent is not None:
                return spent
        check = Check(tenant, endpoint, subject or {}, cost, "", priority)
        return self._run(self._core.check(check, rows), budget_ms)

    def allowance(
        self, *, tenant: str, endpoint: str, subject: SubjectValues | None = None, priority: str = ""
    ) -> Allowance:
        """For the tightest loops: `allowance.spend(cost)` does what a check of the same arguments would do.

        It is True if the request is allowed. Only with `leases=True` it is faster than a check.
        """
        check = Check(tenant, endpoint, dict(subject or {}), priority=priority)
        return Allowance(check, self._find_lease, self._decide)

    def _find_lease(self, check: Check) -> Lease | None:
        if self._leases is None or check.endpoint in self._core.global_endpoints:
            return None
        return self._leases.find(check)

    def _decide(self, check: Check) -> Decision:
        return self._run(self._core.check(check, None), None)

    def check_many(
        self, checks: Iterable[Check], *, rows: bool | None = None, budget_ms: float | None = None
    ) -> list[Decision]:
        """Decide all checks in one round trip. They are independent: a denied one does not undo the others."""
        return self._run(self._core.decide(CHECK, list(checks), rows), budget_ms)

    def peek(
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
        check = Check(tenant, endpoint, subject or {}, cost, "", priority)
        return self._run(self._core.decide(PEEK, [check], rows), budget_ms)[0]

    @contextmanager
    def hold(
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
    ) -> Iterator[Decision]:
        """Check, and release the concurrency slot at the end of the block. Test `decision.allowed` first.

        The end of the block counts as answered, a TimeoutError as a drop; after any other exception nothing is learned.
        """
        check = Check(tenant, endpoint, subject or {}, cost, holder or secrets.token_hex(12), priority)
        (decision,) = self._run(self._core.decide(CHECK, [check], rows), budget_ms)
        result: Result = "ok"
        try:
            yield decision
        except BaseException as error:
            result = of_error(type(error))
            raise
        finally:
            self.release(decision, result=result, budget_ms=budget_ms)

    def release(self, decision: Decision, *, result: Result = "ignore", budget_ms: float | None = None) -> int:
        """Release the concurrency slots of an allowed check before they expire. `hold` does this itself.

        `result` tells limits that adapt how the request ended (results.py).
        """
        return self._run(self._core.release(decision, result), budget_ms)

    def refund(self, decision: Decision, *, budget_ms: float | None = None) -> int:
        """Give back what an allowed request was charged, if it still counts. Returns the number of limits refunded."""
        return self._run(self._core.refund(decision), budget_ms)

    def reset(
        self,
        *,
        tenant: str,
        endpoint: str,
        subject: SubjectValues | None = None,
        limit: str = "*",
        budget_ms: float | None = None,
    ) -> int:
        """Clear the subject's use of one limit, or of all. Raises StoreError if the store cannot be reached."""
        return self._run(self._core.reset(Check(tenant, endpoint, subject or {}), limit), budget_ms)

    def observe(self, *, endpoint: str, status: int, seconds: float) -> None:
        """Record a response's status and the time to its first byte. Sent to the store once a second."""
        self._core.chores.observations.add(endpoint, status, seconds)

    def converse(self, talk: Callable[[Core], Conversation[T]], *, budget_ms: float | None = None) -> T:
        """Run the caller's own conversation, such as a look-up followed by a check."""
        return self._run(talk(self._core), budget_ms)

    def _run(self, talk: Conversation[T], budget_ms: float | None) -> T:
        deadline = time.monotonic() + (self._budget_s if budget_ms is None else seconds(budget_ms))
        self._chore_thread.ensure()
        exchange = self._store.exchange
        try:
            commands = next(talk)
            while True:
                commands = talk.send(exchange(commands, deadline))
        except StopIteration as end:
            answer: T = end.value
            return answer
        finally:
            talk.close()


_living: weakref.WeakSet[Limiter] = weakref.WeakSet()


def _after_fork() -> None:
    # A forked child inherits open connections, no threads, and locks in whatever state they were.
    for limiter in list(_living):
        limiter._start_over()


def say_goodbye() -> None:
    """Takes this process off the list of enforcers. At the exit, the interpreter ends the threads without a word."""
    threads = [limiter._chore_thread for limiter in list(_living)]
    for thread in threads:
        thread.stop()
    for thread in threads:
        thread.wait()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(say_goodbye)
