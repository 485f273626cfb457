"""The proposed shares of a pool, and the words that tell of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.priority import USUAL, Priority
from quotas.calibration.counts import HOUR_S
from quotas.simulation.pool_replay import CAUSES, MemberReplay

WORSE: Final = " More would be denied than now, so today's shares serve better."


@dataclass(frozen=True, slots=True)
class PoolShare:
    """A member's share as it is now: a tenant's borrowing limit right under the pool."""

    tenant: str
    number: int  # of the tenant
    limit: str
    share: Borrowing
    endpoints: frozenset[int] | None = None  # that it counts; None: all
    scope: str = "*"
    priority: Priority = USUAL
    unmeasured: str = ""  # why its demand is not known

    @property
    def key(self) -> str:
        return f"{self.tenant} {self.scope} {self.limit}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of units in a replay."""

    asked: int = 0
    own: int = 0
    borrowed: int = 0
    denied_by: Mapping[str, int] = field(default_factory=dict)  # cause (ceiling, share, pool) → units

    @property
    def denied(self) -> int:
        return sum(self.denied_by.values())

    @property
    def denied_share(self) -> float:
        return self.denied / self.asked if self.asked else 0.0

    def json(self) -> dict[str, Any]:
        counts = {"asked": self.asked, "own": self.own, "borrowed": self.borrowed, "denied": self.denied}
        return {**counts, "denied_by": dict(self.denied_by)}

    @classmethod
    def of(cls, found: MemberReplay) -> Outcome:
        return cls(found.asked, found.own, found.borrowed, found.denied_by)

    @classmethod
    def total(cls, parts: Sequence[Outcome]) -> Outcome:
        causes = {cause: sum(part.denied_by.get(cause, 0) for part in parts) for cause in CAUSES}
        asked, own, borrowed = (sum(getattr(part, name) for part in parts) for name in ("asked", "own", "borrowed"))
        return cls(asked, own, borrowed, causes)


@dataclass(frozen=True, slots=True)
class MemberProposal:
    member: PoolShare
    proposed: Borrowing | None  # None: its share stays
    reasons: tuple[str, ...]
    now: Outcome | None = None  # of the replay; None: it was not replayed
    then: Outcome | None = None

    def json(self) -> dict[str, Any]:
        return {
            "tenant": self.member.tenant,
            "limit": self.member.limit,
            "endpoint": self.member.scope,
            "now": self.member.share.describe(),
            "proposed": self.proposed.describe() if self.proposed else None,
            "reasons": list(self.reasons),
            "forecast_now": self.now.json() if self.now else None,
            "forecast_then": self.then.json() if self.then else None,
        }


@dataclass(frozen=True, slots=True)
class PoolForecast:
    """The same requests through today's shares and through shares that were fitted in the same way."""

    start: str
    end: str
    is_unseen: bool  # whether the shares were fitted on earlier days only
    seconds: int  # that were replayed: the busiest of the span
    now: Outcome
    then: Outcome

    @property
    def sentence(self) -> str:
        """What it would change, for people."""
        before, after = self.now, self.then
        hours = f"{self.seconds / HOUR_S:,.1f}".removesuffix(".0")
        basis = (
            "days that the shares were not fitted to" if self.is_unseen else "the days that the shares were fitted to"
        )
        return (
            f"In the busiest {hours} h of {basis}: {_share(before)} denied now, {_share(after)} with such shares; "
            f"borrowed {_percent(before.borrowed, before.asked)} now, {_percent(after.borrowed, after.asked)} then."
            f"{WORSE if after.denied > before.denied else ''}"
        )

    def json(self) -> dict[str, Any]:
        return {
            "start": self.start,
            "end": self.end,
            "is_unseen": self.is_unseen,
            "replayed_seconds": self.seconds,
            "sentence": self.sentence,
            "now": self.now.json(),
            "then": self.then.json(),
        }


@dataclass(frozen=True, slots=True)
class PoolProposal:
    pool: Pool
    proposed: Pool  # the same with another reserve
    members: tuple[MemberProposal, ...]
    warnings: tuple[str, ...]
    forecast: PoolForecast | None  # None: there was nothing to replay
    measured_until: datetime

    @property
    def is_changed(self) -> bool:
        return self.proposed != self.pool or any(one.proposed for one in self.members)

    def json(self) -> dict[str, Any]:
        return {
            "pool": {"now": self.pool.describe(), "proposed": self.proposed.describe()},
            "members": [one.json() for one in self.members],
            "warnings": list(self.warnings),
            "forecast": self.forecast.json() if self.forecast else None,
            "measured_until": self.measured_until.isoformat(),
        }


def _share(outcome: Outcome) -> str:
    return _percent(outcome.denied, outcome.asked)


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole if whole else 0.0
    return f"{share:.2g} %" if 0 < share < 10 else f"{share:.0f} %"
