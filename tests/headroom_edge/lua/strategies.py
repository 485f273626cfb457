"""Random policies for the tests of agreement between Lua and the reference model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from headroom_edge.algorithms.base import SECOND_US, Algorithm
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Carry, Generation, Limit, Policy
from tests.headroom_edge.lua.world import TENANT, TIER

spans = st.sampled_from([250_000, SECOND_US, 7 * SECOND_US, 60 * SECOND_US])


@dataclass
class Policies:
    """Limits of these sizes. `kinds` are the algorithms of ordinary limits."""

    sizes: st.SearchStrategy[int]
    rates: st.SearchStrategy[int]
    quotas: st.SearchStrategy[int]
    kinds: str = "tgfsoacq"
    lease_ms: st.SearchStrategy[int | None] = field(default_factory=st.none)
    subjects: tuple[str, ...] = ("tenant", "ip", "key|ip", "user+ip")

    def __post_init__(self) -> None:
        calendars = st.builds(
            CalendarQuota,
            self.quotas,
            st.sampled_from(["day", "month"]),
            st.just("Asia/Kolkata"),
            st.just(""),
        ).map(lambda quota: replace(quota, anchor="" if quota.period == "day" else "31"))
        adaptive = st.builds(
            lambda least, more, target_us, hold_us: AdaptiveConcurrency(
                least, least + more, least + more // 2, target_us, hold_us
            ),
            st.integers(1, 3),
            st.integers(0, 3),
            st.sampled_from([1_000, 100_000, SECOND_US]),
            spans,
        )
        self.by_kind: dict[str, st.SearchStrategy[Any]] = {
            "t": st.builds(TokenBucket, self.rates, spans, self.sizes, st.sampled_from([0, 300_000])),
            "g": st.builds(Gcra, self.rates, spans, self.sizes),
            "l": st.builds(LeakyBucket, self.rates, spans, self.sizes),
            "f": st.builds(FixedWindow, self.sizes, spans),
            "s": st.builds(SlidingCounter, self.sizes, spans),
            "o": st.builds(SlidingLog, self.sizes, spans),
            "c": st.builds(Concurrency, st.integers(1, 3), spans),
            "a": adaptive,
            "q": calendars,
        }

    def limit(self, draw: st.DrawFn, name: str) -> Limit:
        algorithm: Algorithm = draw(st.one_of(*(self.by_kind[kind] for kind in self.kinds)))
        return Limit(
            name,
            algorithm,
            Subject.parse(draw(st.sampled_from(self.subjects))),
            unit="requests"
            if isinstance(algorithm, Concurrency | AdaptiveConcurrency)
            else draw(st.sampled_from(["requests", "cost"])),
            mode=draw(st.sampled_from(["enforce", "enforce", "enforce", "shadow"])),
            candidate=draw(st.none() | self.like(algorithm)),
        )

    def like(self, algorithm: Algorithm) -> st.SearchStrategy[Any]:
        return self.by_kind[algorithm.kind]

    def policies(self, draw: st.DrawFn) -> tuple[Policy, ...]:
        """Limits on everything, on one endpoint (some of the same name), for this tenant alone, and for everyone."""
        everywhere = [self.limit(draw, name) for name in ("a", "b", "c")[: draw(st.integers(1, 3))]]
        found = [Policy("all", "*", tuple(everywhere), tier=TIER)]
        if draw(st.booleans()):
            own = (self.limit(draw, "a"), self.limit(draw, "d"))
            found.append(Policy("search", "rides:search", own, tier=TIER))
        if draw(st.booleans()):
            shaper = Limit("shape", draw(self.by_kind["l"]), Subject.parse("tenant"))
            found.append(Policy("own", "rides:book", (shaper, self.limit(draw, "b")), tenant=TENANT))
        if draw(st.booleans()):
            everyone = Limit("g", draw(self.by_kind["t"]), Subject.parse("tenant"))
            found.append(Policy("everyone", "*", (everyone,)))
        # One for each name: the model knows a limit's lease by its name.
        lease_ms = {name: draw(self.lease_ms) for name in ("a", "b", "c", "d", "g")}
        return tuple(
            replace(policy, limits=tuple(replace(one, lease_ms=lease_ms.get(one.name)) for one in policy.limits))
            for policy in found
        )

    def changed(self, draw: st.DrawFn, limit: Limit, now_us: int) -> Limit:
        earlier = [generation.algorithm for generation in limit.past]
        like = self.like(limit.algorithm)
        algorithm = draw(st.sampled_from(earlier) | like if earlier else like)
        if algorithm == limit.algorithm:
            return limit
        past = (Generation(limit.algorithm, limit.since_us, limit.carry), *limit.past)[:8]
        carry: Carry = draw(st.sampled_from(["keep", "proportional", "reset"]))
        return replace(limit, algorithm=algorithm, since_us=now_us, carry=carry, past=past)


SMALL = Policies(st.integers(1, 12), st.sampled_from([1, 2, 3, 7, 10, 30]), st.integers(3, 20))
