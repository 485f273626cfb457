"""In-process limiter for limits with failure mode `local`, used while the store is down.

It decides with the reference models on this process's share of each limit. Its counts die with the process; the store
only learns the number of degraded decisions.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import lcm
from typing import Any, Final

from headroom_edge.algorithms import KINDS
from headroom_edge.algorithms.base import SECOND_US, Algorithm, Outcome, ParameterError, State, Verdict
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.check import Check, SubjectValues
from headroom_edge.decision import Decision
from headroom_edge.plan.subject import network
from headroom_edge.recent_cache import RecentCache

STATES_KEPT: Final = 100_000

StateKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LocalLimit:
    name: str
    algorithm: Algorithm  # scaled to this process's share
    counts_requests: bool
    subject: str
    scope: str
    is_global: bool
    alternatives: tuple[tuple[str, ...], ...]

    def key(self, check: Check) -> StateKey:
        owner = "" if self.is_global else check.tenant
        return (owner, self.scope, self.subject, self.name, *subject_values(self.alternatives, check.subject))

    def cost(self, check: Check) -> int:
        return 1 if self.counts_requests or check.cost is None else check.cost


@dataclass(frozen=True, slots=True)
class LocalVerdict:
    allowed: bool
    limit: str
    quota: int
    verdict: Verdict
    wait_us: int

    def decision(self, check: Check, revision: int) -> Decision:
        return Decision(
            check,
            self.allowed,
            self._reason(),
            self.limit,
            self.quota,
            self.verdict.remaining,
            self.verdict.reset_us,
            self.verdict.retry_us,
            self.wait_us,
            revision,
            check.holder,
            failure="local",
        )

    def _reason(self) -> str:
        if self.allowed:
            return "ok"
        return "limit" if self.verdict.retry_us >= 0 else "cost_too_big"


NO_LIMIT: Final = LocalVerdict(True, "", 0, Verdict(True, 0, 0, 0, 0), 0)


@lru_cache(maxsize=4_096)
def local_plan(text: str, share: int) -> tuple[LocalLimit, ...]:
    """The enforced limits of a plan (hr_profile's text), divided by the number of enforcers."""
    return tuple(
        _limit(group, limit, share)
        for group in json.loads(text)["g"]
        for limit in group["l"]
        if limit["m"] == "e" and not limit.get("x")
    )


def _limit(group: Mapping[str, Any], limit: Mapping[str, Any], share: int) -> LocalLimit:
    return LocalLimit(
        name=limit["name"],
        algorithm=_shared(_algorithm(limit), share),
        counts_requests="u" in limit or limit["k"] in "ca",
        subject=group.get("t", "tenant"),
        scope=group["c"],
        is_global="a" in group,
        alternatives=tuple(tuple(names) for names in group.get("d", ())),
    )


def _shared(algorithm: Algorithm, share: int) -> Algorithm:
    """The algorithm scaled to 1/share, or to the smallest part that can still be counted exactly."""
    while share > 1:
        try:
            return algorithm.scaled(1, share)
        except ParameterError:
            share //= 2
    return algorithm


def _algorithm(limit: Mapping[str, Any]) -> Algorithm:
    kind = limit["k"]
    build: Any = KINDS[kind]
    if "P" in limit:
        algorithm: Algorithm = build(limit["Q"], limit["P"], limit["n"], limit.get("mw", 0))
    elif kind == "p":
        algorithm = Pool(limit["aQ"], limit["aP"], limit["an"], limit["rs"])
    elif kind == "b":
        algorithm = _borrowing(limit)
    elif kind == "q":
        # The calendar is in the store only. An outage is short compared to a period, so a window of its length will do.
        algorithm = FixedWindow(limit["n"], limit["hw"] * SECOND_US)
    elif kind == "a":
        # Nothing is learned without the store, so it is a plain limit of its start.
        algorithm = Concurrency(limit["st"], limit["H"])
    else:
        algorithm = build(limit["n"], limit["H"] if kind == "c" else limit["W"])
    return algorithm


def _borrowing(limit: Mapping[str, Any]) -> Borrowing:
    """Nobody lends without the store, so only its own share and its ceiling count."""
    per_us = lcm(limit.get("aP", 1), limit.get("cP", 1))
    assured = limit["aQ"] * per_us // limit["aP"] if "aP" in limit else 0
    ceiling = limit["cQ"] * per_us // limit["cP"] if "cP" in limit else None
    return Borrowing(assured, per_us, limit["an"], ceiling, limit.get("cn"), limit["rs"], parent="")


def subject_values(alternatives: tuple[tuple[str, ...], ...], subject: SubjectValues) -> tuple[str, ...]:
    """Names and values of the first alternative whose dimensions were all sent; empty if there is none."""
    for names in alternatives:
        values = [subject.get(name) for name in names]
        sent = [value for value in values if value is not None]
        if len(sent) == len(names):
            return (*names, *(network(v) if name == "ip" else v for name, v in zip(names, sent, strict=True)))
    return ()


def now_us() -> int:
    return time.time_ns() // 1_000


class LocalLimiter:
    def __init__(self, clock_us: Callable[[], int] = now_us) -> None:
        self._clock_us = clock_us
        self._lock = threading.Lock()
        self._states: RecentCache[StateKey, State] = RecentCache(STATES_KEPT)
        self._held: RecentCache[str, tuple[tuple[StateKey, int], ...]] = RecentCache(STATES_KEPT)

    def decide(self, plan: tuple[LocalLimit, ...], check: Check) -> LocalVerdict:
        """Charge every limit if all of them admit the check, and none otherwise, as the store does."""
        now = self._clock_us()
        with self._lock:
            judged = [(limit, key := limit.key(check), self._judge(limit, key, check, now)) for limit in plan]
            denied = [(limit, outcome.verdict) for limit, _, outcome in judged if not outcome.verdict.admitted]
            if denied:
                return _named(False, *max(denied, key=_wait_of), wait_us=0)
            self._charge(judged, check)
        if not judged:
            return NO_LIMIT
        wait_us = max(outcome.verdict.wait_us for _, _, outcome in judged)
        tightest = min(judged, key=lambda entry: entry[2].verdict.remaining)
        return _named(True, tightest[0], tightest[2].verdict, wait_us=wait_us)

    def refund(self, plan: tuple[LocalLimit, ...], check: Check) -> None:
        """Give back what one decision charged, if it still counts."""
        now = self._clock_us()
        with self._lock:
            for limit in plan:
                key = limit.key(check)
                if (state := self._states.get(key)) is not None:
                    used = limit.algorithm.used(state, now) - limit.cost(check)
                    self._states.put(key, limit.algorithm.with_used(max(0.0, used), now))

    def _judge(self, limit: LocalLimit, key: StateKey, check: Check, now: int) -> Outcome:
        return limit.algorithm.decide(self._states.get(key), now, limit.cost(check))

    def _charge(self, judged: list[tuple[LocalLimit, StateKey, Outcome]], check: Check) -> None:
        for _, key, outcome in judged:
            self._states.put(key, outcome.charged)
        if check.holder:
            held = tuple((key, outcome.charged[-1]) for limit, key, outcome in judged if limit.algorithm.kind == "c")
            if held:
                self._held.put(check.holder, held)

    def release(self, holder: str) -> int:
        with self._lock:
            held = self._held.get(holder) or ()
            self._held.put(holder, ())
            return sum(self._let_go(key, expiry) for key, expiry in held)

    def _let_go(self, key: StateKey, expiry_us: int) -> bool:
        expiries = list(self._states.get(key) or ())
        if expiry_us not in expiries:
            return False
        expiries.remove(expiry_us)
        self._states.put(key, tuple(expiries))
        return True


def _wait_of(denied: tuple[LocalLimit, Verdict]) -> float:
    retry_us = denied[1].retry_us
    return float("inf") if retry_us < 0 else retry_us


def _named(allowed: bool, limit: LocalLimit, verdict: Verdict, wait_us: int) -> LocalVerdict:
    return LocalVerdict(allowed, limit.name, limit.algorithm.capacity, verdict, wait_us)
