"""All leases of a limiter. Decides what a block can pay for, and what to ask the store for. No I/O.

`spend` looks for a block by the exact arguments, without a lock. `consult` looks by the lease key, once the arguments
were found valid; it also repeats a recent denial, or says how to ask the store. What the store replies comes to
`granted` or `heard`.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final

from headroom_edge.check import Check, SubjectValues, prefix_of
from headroom_edge.decision import Decision
from headroom_edge.leases.ask import Ask
from headroom_edge.leases.block import FREE_THREADED, Block, Grant, Settlement
from headroom_edge.leases.decision import LeasedDecision, leased
from headroom_edge.leases.demand import NOTHING, Demand
from headroom_edge.leases.dues import Due, Dues
from headroom_edge.leases.lease import LIMIT, UNKNOWN, Lease, LeasedPlan, Values, longest_lease_ms
from headroom_edge.recent_cache import RecentCache

LEASES_KEPT: Final = 8_192  # at least as many lease keys as this, at most twice as many
PLANS_KEPT: Final = 8_192
ENDPOINTS_KEPT: Final = 1_000
# A store whose library is older does not know leases; it is asked again after this time.
PAUSE_S: Final = 60.0
# A call that took longer was interrupted and tells nobody: the next request may ask again.
ASKING_S: Final = 10.0
COST_OF_RECEIPT: Final = 2  # its position in the receipt of hr_check


class LeaseBook:
    def __init__(
        self, lease_ms: int, shards: int, clock: Callable[[], float] = monotonic, *, of_globals: bool = False
    ) -> None:
        """`of_globals`: all processes share few records, so a nearly empty one is spared, and denials are told to the
        tenants' shards instead of here."""
        self.lease_ms = lease_ms
        self._of_globals = of_globals
        self._shards = shards
        self._clock = clock
        self._start_over()
        _living.add(self)

    def _start_over(self) -> None:
        self._lock = threading.Lock()
        self._fast: dict[str, dict[str, LeasedPlan]] = {}  # tenant → endpoint → plan with open leases
        self._plans: RecentCache[tuple[str, str], LeasedPlan] = RecentCache(PLANS_KEPT)
        self._unknown: RecentCache[tuple[str, str], Demand] = RecentCache(PLANS_KEPT)  # of plans not asked for yet
        self._leases: RecentCache[tuple[str, str, Values], Lease] = RecentCache(LEASES_KEPT, self._retire_all)
        self._open: dict[Lease, None] = {}  # the leases that have a block
        self._dues = Dues()
        self._revisions: dict[str, int] = {}  # by shard
        self._granted_s: dict[str, float] = {}  # endpoint → when it last got a block
        self._paused_until_s = float("-inf")

    def forget(self) -> None:
        """In a forked child: the blocks are the parent's to spend and to settle. Takes no lock; it may be held."""
        for lease in list(self._open):
            lease.close(self._clock())
        self._start_over()

    def spend(
        self, tenant: str, endpoint: str, subject: SubjectValues | None, cost: int | None, rows: bool
    ) -> LeasedDecision | None:
        """Accepts nothing that Check refuses: what differs from the latest valid subject is looked at again."""
        try:
            plan = self._fast[tenant][endpoint]
            of = plan.of
            lease = plan.leases[None if of is None else of(subject)]  # type: ignore[arg-type] # a TypeError if None
            block = lease.block
        except (LookupError, TypeError, AttributeError):
            return None
        if block is None or (subject and subject != lease.subject and not plan.accepts(subject)):
            return None
        if cost is None:
            price = plan.price
        elif type(cost) is int and cost > 0:  # True equals 1, but is no cost
            price = cost
        else:
            return None
        now = self._clock()
        # As Block.take, where the reason why no other thread comes in between is given.
        left = block.left - price
        calls = block.calls - 1
        if left < 0 or calls < 0 or now >= block.end_s:
            return None
        block.left = left
        block.calls = calls
        return leased(block, subject, cost, price, left, now, rows)

    def consult(self, check: Check, rows: bool) -> Decision | Ask | None:
        """The decision; or a call to make; or None: ask as usual, and tell `heard` the decision."""
        with self._lock:
            now = self._clock()
            if now < self._paused_until_s:
                return None
            plan = self._plan(check)
            if plan is None or (not plan.length_s and plan.is_old(now)):
                # Few requests are not worth the larger call.
                return Ask(check, None, NOTHING, None, self.lease_ms, now, True) if self._is_busy(check, now) else None
            lease = self._lease(check, plan)
            return self._answer(lease, check, rows, now) or self._ask(lease, check, now)

    def _answer(self, lease: Lease, check: Check, rows: bool, now: float) -> Decision | None:
        price = lease.price(check.cost)
        block, denial = lease.block, lease.denial
        if block is not None:
            left = block.take(price, now)
            if left >= 0:
                self._know(lease, check)
                return leased(block, check.subject, check.cost, price, left, now, rows)
        if denial is not None and price != UNKNOWN and denial.answers(price, now, rows):
            lease.count(price, now)
            if not self._of_globals:
                self._dues.deny(check.tenant, check.endpoint, denial.decision.limit, price)
            return denial.repeated(check, now, rows)
        return None

    def _ask(self, lease: Lease, check: Check, now: float) -> Ask | None:
        lease.count(lease.price(check.cost), now)
        if now < lease.asking_until_s:
            return None
        settlement = self._close(lease, now)
        want = lease.next_want(now, settlement)
        if settlement is None and want is NOTHING:
            return None
        lease.demand.restart(now)
        lease.asking_until_s = now + ASKING_S
        return Ask(check, lease, want, settlement, self.lease_ms, now, lease.plan.is_old(now))

    def granted(self, ask: Ask, decision: Decision, grant: Grant, profile: Any = None) -> None:
        """`profile`: the plan's text, if it was asked for."""
        check = ask.check
        with self._lock:
            ask.end()
            plan = self._learn(check, decision, grant)
            if ask.learns:
                plan.length_s, plan.learnt_s = longest_lease_ms(profile, self.lease_ms) / 1_000, self._clock()
            lease = self._lease(check, plan)
            if decision.allowed and grant.calls and grant.cost:
                self._open_block(lease, Block(grant, decision, ask.began_s))
                self._know(lease, check)
            elif decision.allowed and ask.want is not NOTHING and self._of_globals:
                lease.spare(decision, lease.price(check.cost), self._clock())
            else:
                self._remember(lease, check, decision)

    def hear(self, tenant: str, revision: int) -> None:
        """A newer revision ends the blocks of the tenant's shard, because their limits may have changed."""
        shard = prefix_of(tenant, self._shards)
        if revision <= self._revisions.get(shard, 0):
            return
        with self._lock:
            self._revisions[shard] = revision
            for lease in list(self._open):
                if prefix_of(lease.tenant, self._shards) == shard:
                    self._retire(lease)

    def heard(self, check: Check, decision: Decision) -> None:
        """A decision of hr_check."""
        with self._lock:
            plan = self._plan(check)
            if plan is not None:
                self._remember(self._lease(check, plan), check, decision)

    def unanswered(self, ask: Ask) -> None:
        """The store may have settled the block or not, so the settlement is repeated later. A new block is lost."""
        with self._lock:
            ask.end()
            if ask.settlement is not None:
                self._dues.put(ask.settlement)

    def pause(self) -> None:
        with self._lock:
            self._paused_until_s = self._clock() + PAUSE_S

    def refund(self, decision: LeasedDecision) -> int:
        with self._lock:
            return decision.give_back(self._clock())

    def undo(self, decision: LeasedDecision) -> None:
        """As `refund`, also after the block's end: until it is settled, the unit goes back to the store with it."""
        with self._lock:
            decision.give_back(float("-inf"))

    def answer(self, check: Check, rows: bool) -> Decision | None:
        """From a block or a recent denial; None: ask the store. It asks for no block itself, but counts the demand."""
        with self._lock:
            plan, now = self._plan(check), self._clock()
            if plan is None or not plan.length_s:
                self._is_busy(check, now)
                return None
            lease = self._lease(check, plan)
            decision = self._answer(lease, check, rows, now)
            if decision is None:
                lease.count(lease.price(check.cost), now)
            return decision

    def find(self, check: Check) -> Lease | None:
        with self._lock:
            plan = self._plan(check)
            return None if plan is None else self._lease(check, plan)

    def take_dues(self, most: int, *, everything: bool = False) -> list[Due]:
        """What to tell the store: blocks that have ended, and with `everything` all of them."""
        with self._lock:
            now = self._clock()
            for lease in list(self._open):
                block = lease.block
                if everything or block is None or block.end_s <= now:
                    self._retire(lease)
            return self._dues.take(most)

    def put_back(self, due: Due) -> None:
        with self._lock:
            self._dues.put(due)

    def endpoints(self, since_s: float) -> list[str]:
        """The endpoints that got a block in the last `since_s` seconds, the latest first."""
        with self._lock:
            least = self._clock() - since_s
            self._granted_s = {name: at for name, at in self._granted_s.items() if at >= least}
            return sorted(self._granted_s, key=lambda name: -self._granted_s[name])

    # From here on, the lock is held.

    def _plan(self, check: Check) -> LeasedPlan | None:
        plan = self._plans.get((check.tenant, check.endpoint))
        if plan is None or plan.as_of != self._revisions.get(prefix_of(check.tenant, self._shards), 0):
            return None
        return plan

    def _is_busy(self, check: Check, now: float) -> bool:
        key = (check.tenant, check.endpoint)
        demand = self._unknown.get(key)
        if demand is None:
            demand = Demand()
            self._unknown.put(key, demand)
        demand.begin(now, self.lease_ms / 1_000)
        demand.count(1)
        return demand.is_enough

    def _lease(self, check: Check, plan: LeasedPlan) -> Lease:
        key = (check.tenant, check.endpoint, plan.values(check.subject))
        lease = self._leases.get(key)
        if lease is None or lease.plan is not plan:
            if lease is not None:
                self._retire(lease)
            lease = Lease(plan, check)
            self._leases.put(key, lease)
        return lease

    def _know(self, lease: Lease, check: Check) -> None:
        """Let the fast path find a lease that has a block."""
        # Without the GIL, nobody may spend without the lock.
        if not FREE_THREADED:
            lease.subject = dict(check.subject)
            lease.plan.know(check.subject)
            lease.plan.leases[lease.values] = lease
            self._fast.setdefault(lease.tenant, {})[lease.endpoint] = lease.plan

    def _learn(self, check: Check, decision: Decision, grant: Grant) -> LeasedPlan:
        plan = self._plan(check)
        if plan is None or plan.dimensions != grant.dimensions:
            plan = LeasedPlan(grant.dimensions, self._revisions.get(prefix_of(check.tenant, self._shards), 0))
            # Until the plan's text is read, with the next call.
            plan.length_s = self.lease_ms / 1_000 if grant.calls else 0.0
            self._plans.put((check.tenant, check.endpoint), plan)
        if check.cost is None and len(decision.raw_receipt) > COST_OF_RECEIPT:
            plan.price = int(decision.raw_receipt[COST_OF_RECEIPT])
        return plan

    def _remember(self, lease: Lease, check: Check, decision: Decision) -> None:
        if not decision.allowed and not decision.degraded and decision.reason == LIMIT and lease.plan.length_s:
            lease.deny(decision, lease.price(check.cost), self._clock())

    def _open_block(self, lease: Lease, block: Block) -> None:
        self._retire(lease)
        lease.block, lease.denial, lease.had_block = block, None, True
        self._open[lease] = None
        if lease.endpoint in self._granted_s or len(self._granted_s) < ENDPOINTS_KEPT:
            self._granted_s[lease.endpoint] = block.began_s

    def _close(self, lease: Lease, now: float) -> Settlement | None:
        self._open.pop(lease, None)
        plan = lease.plan
        plan.leases.pop(lease.values, None)
        if not plan.leases:
            endpoints = self._fast.get(lease.tenant, {})
            if endpoints.get(lease.endpoint) is plan:
                del endpoints[lease.endpoint]
            if not endpoints:
                self._fast.pop(lease.tenant, None)
        return lease.close(now)

    def _retire(self, lease: Lease) -> None:
        settlement = self._close(lease, self._clock())
        if settlement is not None:
            self._dues.put(settlement)

    def _retire_all(self, dropped: Mapping[Any, Lease]) -> None:
        for lease in dropped.values():
            self._retire(lease)


_living: weakref.WeakSet[LeaseBook] = weakref.WeakSet()


def _after_fork() -> None:
    for book in list(_living):
        book.forget()


os.register_at_fork(after_in_child=_after_fork)
