"""The call that asks the store for a block."""

from __future__ import annotations

from dataclasses import dataclass

from headroom_edge.check import DEFAULT_COST, PAID, Check, encode_call, encode_profile
from headroom_edge.leases.block import NOTHING_TO_SETTLE, Settlement
from headroom_edge.leases.demand import Want
from headroom_edge.leases.lease import Lease


@dataclass(frozen=True, slots=True)
class Ask:
    """A call of hr_lease: it decides a check, settles the last block and takes the next one."""

    check: Check
    lease: Lease | None  # None: the plan is not known, so a block could not be kept
    want: Want
    settlement: Settlement | None
    longest_ms: int
    began_s: float  # before the call is sent
    learns: bool  # whether to ask for the plan, too

    def commands(self, shards: int) -> list[bytes]:
        lease = self._lease_command(shards)
        return [lease, encode_profile(self.check.tenant, self.check.endpoint, shards)] if self.learns else [lease]

    def _lease_command(self, shards: int) -> bytes:
        check, want = self.check, self.want
        settled = NOTHING_TO_SETTLE if self.settlement is None else self.settlement.words()
        holder = ("holder", check.holder) if check.holder else ()
        priority = ("priority", check.priority) if check.priority else ()
        paid = PAID if check.is_paid else ()
        cost = DEFAULT_COST if check.cost is None else str(check.cost)
        wanted = (str(want.calls), str(want.cost), str(self.longest_ms))
        # The rows tell each limit's unit, and the receipt the default cost.
        return encode_call("hr_lease", check, shards, cost, *wanted, *settled, "ALL", *holder, *priority, *paid)

    def end(self) -> None:
        if self.lease is not None:
            self.lease.asking_until_s = float("-inf")
