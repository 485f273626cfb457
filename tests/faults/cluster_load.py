"""Processes that ask a cluster while a test hurts it: `python -m tests.faults.cluster_load …`.

Each writes down every answer it got, so that what the store has counted can be compared with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from headroom_edge import AsyncLimiter, Check, Decision, Limiter
from headroom_edge.core import Core
from headroom_edge.lua_library import ensure_loaded
from tests.clusters import SpareCluster
from tests.faults.lease_worker import ASKED, WAIT_S, Tally
from tests.headroom_edge.limiter.both import until
from tests.headroom_edge.limiter.world import ENDPOINT

CALLERS: Final = 3  # in each process
# What only servers and clients of a cluster say to each other.
INTERNAL: Final = ("CROSSSLOT", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "non local key")
ALLOWED, DENIED, AMBIGUOUS = "a", "d", "u"  # the last: decided without the store, which may have counted it
PAUSE_S: Final = 0.001


class Told(NamedTuple):
    """One answer."""

    at_s: float
    tenant: str
    key: str
    outcome: str
    reason: str

    @property
    def is_new(self) -> bool:
        """Whether the subject had never been seen before."""
        return self.key.startswith("new")


class Known(NamedTuple):
    """What a subject was told, by outcome."""

    allowed: int
    denied: int
    ambiguous: int


@dataclass(frozen=True)
class Crowd:
    """Who asks: subjects of these tenants, each of which has the same limit, and now and then a new one."""

    tenants: Sequence[str]
    subjects: int = 8
    limit: int = 20
    share_of_new: float = 0.05
    budget_ms: float = 1_000


@dataclass
class Fleet:
    """The processes: those with an even number use threads, the others an event loop."""

    url: str
    folder: Path
    crowd: Crowd
    count: int = 2
    tally: Tally = field(init=False)
    told: list[Told] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)  # why decisions were made without the store
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tally = Tally.create(self.folder / "tally", self.count)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        crowd = json.dumps(vars(self.crowd))
        module = "tests.faults.cluster_load"
        return subprocess.Popen([sys.executable, "-m", module, self.url, str(self.folder), str(number), crowd])

    @contextmanager
    def running(self) -> Iterator[None]:
        """At the end, `told`, `causes` and `errors` are complete."""
        processes = [self._start(number) for number in range(self.count)]
        try:
            self.wait(1)
            yield
            for process in processes:
                process.send_signal(signal.SIGTERM)
            assert [process.wait(WAIT_S) for process in processes] == [0] * self.count
        finally:
            for process in processes:
                process.kill()
                process.wait(WAIT_S)
        for number in range(self.count):
            self._read(number)

    def wait(self, more: int) -> None:
        """Until each process got this many more answers."""
        before = self.tally.of(ASKED)
        until(lambda: all(now - then >= more for now, then in zip(self.tally.of(ASKED), before, strict=True)))

    def _read(self, number: int) -> None:
        for line in (self.folder / f"answers-{number}").read_text().splitlines():
            at_s, *words = line.split("\t")
            self.told.append(Told(float(at_s), *words))
        ended = json.loads((self.folder / f"end-{number}").read_text())
        self.causes.update(ended["causes"])
        self.errors += ended["errors"]

    def by_subject(self) -> dict[tuple[str, str], Known]:
        found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for each in self.told:
            found[each.tenant, each.key][each.outcome] += 1
        return {who: Known(sums[ALLOWED], sums[DENIED], sums[AMBIGUOUS]) for who, sums in found.items()}

    def degraded(self, tenants: Sequence[str] | None = None) -> list[Told]:
        return [each for each in self.told if each.outcome == AMBIGUOUS and (tenants is None or each.tenant in tenants)]

    def assert_nothing_internal_surfaced(self) -> None:
        assert self.errors == []
        found = [text for text in (*self.causes, *{each.reason for each in self.told}) if is_internal(text)]
        assert found == []

    def wrong_charges(self, cluster: SpareCluster, lost_at_most: int = 0) -> list[str]:
        """Subjects whose count in the store is not what they were told. `lost_at_most`: in all, by a dead primary."""
        found, limit, lost = [], self.crowd.limit, 0
        told = self.by_subject()
        counted = counts(cluster, list(told), limit)
        for who, known in told.items():
            count = counted[who]
            missing = max(0, known.allowed - count)
            lost += missing
            is_right = count <= min(limit, known.allowed + known.ambiguous) and known.allowed <= limit + missing
            # Only who has used up the limit is denied, and denials cost nothing.
            is_right &= not known.denied or count + missing >= limit
            if not is_right or lost > lost_at_most:
                found.append(f"{who}: {known}, and the store counted {count} of {limit}")
        return found

    def full(self) -> int:
        """How many subjects were denied."""
        return sum(known.denied > 0 for known in self.by_subject().values())

    def failure_s(self, told: Sequence[Told]) -> float:
        """From the first to the last of these answers."""
        return max(each.at_s for each in told) - min(each.at_s for each in told) if told else 0.0


def is_internal(text: str) -> bool:
    return any(word in text for word in INTERNAL)


def counts(cluster: SpareCluster, subjects: Sequence[tuple[str, str]], limit: int) -> dict[tuple[str, str], int]:
    """How much of its limit each has used, as the store tells."""
    for node in cluster.primaries():
        with node.client() as client:
            ensure_loaded(client)
    found = {}
    with Limiter.from_url(cluster.url, budget_ms=60_000) as limiter:
        assert limiter.ready(60_000)
        for tenant, key in subjects:
            decision = limiter.peek(tenant=tenant, endpoint=ENDPOINT, subject={"key": key})
            assert not decision.degraded
            found[tenant, key] = limit - decision.remaining - int(decision.allowed)
    return found


class Caller:
    """Chooses who asks, always in the same order, and writes the answers down."""

    def __init__(self, number: int, crowd: Crowd, tally: Tally, process: int) -> None:
        self._random = Random(1_000 * process + number)
        self._name = f"{process}-{number}"
        self._crowd = crowd
        self.lines: list[str] = []
        self._tally = tally
        self._process = process
        self._new = 0

    def _check(self) -> Check:
        if self._random.random() < self._crowd.share_of_new:
            self._new += 1
            key = f"new-{self._name}-{self._new}"
        else:
            key = f"k{self._random.randrange(self._crowd.subjects)}"
        return Check(self._random.choice(self._crowd.tenants), ENDPOINT, {"key": key})

    def checks(self) -> list[Check]:
        """Mostly one; now and then several, of tenants that lie on several servers."""
        return [self._check() for _ in range(6 if self._random.random() < 0.1 else 1)]

    def heard(self, decisions: Sequence[Decision]) -> None:
        now = time.monotonic()
        for each in decisions:
            outcome = AMBIGUOUS if each.degraded else ALLOWED if each.allowed else DENIED
            subject = each.check.subject or {}
            self.lines.append(f"{now}\t{each.check.tenant}\t{subject['key']}\t{outcome}\t{each.reason}\n")
        self._tally.add(self._process, ASKED, len(decisions))


def listen(core: Core, causes: Counter[str]) -> None:
    """Keeps why each decision was made without the store; the log tells only one of many."""
    decide: Callable[..., Decision] = core.failures.decide

    def heard(check: Check, *, cause: str, **about: Any) -> Decision:
        causes[cause] += 1
        return decide(check, cause=cause, **about)

    core.failures.decide = heard  # type: ignore[method-assign]


def work(url: str, folder: Path, number: int, crowd: Crowd) -> None:
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    tally, causes, errors = Tally(folder / "tally"), Counter[str](), list[str]()
    callers = [Caller(each, crowd, tally, number) for each in range(CALLERS)]
    ask = ask_from_threads if number % 2 == 0 else ask_from_tasks
    ask(url, crowd, callers, ended, causes, errors)
    (folder / f"answers-{number}").write_text("".join(line for caller in callers for line in caller.lines))
    (folder / f"end-{number}").write_text(json.dumps({"causes": causes, "errors": errors}))


def ask_from_threads(
    url: str, crowd: Crowd, callers: list[Caller], ended: threading.Event, causes: Counter[str], errors: list[str]
) -> None:
    parent = os.getppid()
    with Limiter.from_url(url, budget_ms=crowd.budget_ms, fail="closed") as limiter:
        limiter.ready(60_000)
        listen(limiter._core, causes)

        def call(caller: Caller) -> None:
            try:
                while not ended.wait(PAUSE_S) and os.getppid() == parent:
                    caller.heard(limiter.check_many(caller.checks()))
            except BaseException as error:  # noqa: BLE001 - whatever reaches a caller is what the test looks for
                errors.append(repr(error))

        threads = [threading.Thread(target=call, args=(caller,)) for caller in callers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def ask_from_tasks(
    url: str, crowd: Crowd, callers: list[Caller], ended: threading.Event, causes: Counter[str], errors: list[str]
) -> None:
    parent = os.getppid()

    async def call(limiter: AsyncLimiter, caller: Caller) -> None:
        try:
            while not ended.is_set() and os.getppid() == parent:
                await asyncio.sleep(PAUSE_S)
                caller.heard(await limiter.check_many(caller.checks()))
        except BaseException as error:  # noqa: BLE001 - as above
            errors.append(repr(error))

    async def run() -> None:
        limiter = AsyncLimiter.from_url(url, budget_ms=crowd.budget_ms, fail="closed")
        await limiter.ready(60_000)
        listen(limiter._core, causes)
        await asyncio.gather(*(call(limiter, caller) for caller in callers))
        await limiter.close()

    asyncio.run(run())


if __name__ == "__main__":
    work(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), Crowd(**json.loads(sys.argv[4])))
