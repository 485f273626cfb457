"""The result of a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Self

from headroom_edge import headers as header_fields
from headroom_edge.check import Check

Failure = Literal["open", "closed", "local"]
FAILURES: Final[tuple[Failure, ...]] = ("open", "closed", "local")
NEVER: Final = -1  # retry_us of a request that can never pass

# hr_check replies with 12 values (see decision_of), then with one row per limit if rows were asked for.
ROWS_FROM: Final = 12


@dataclass(frozen=True, slots=True)
class LimitRow:
    """The state of one enforced limit after the decision."""

    name: str
    allowed: bool
    quota: int
    window_s: int  # 0: the limit has no window (concurrency)
    remaining: int
    reset_us: int
    retry_us: int
    wait_us: int
    mode: str
    unit: str
    subject: str
    scope: str
    cause: str = ""  # why a limit that borrows denied: ceiling, share or pool; empty otherwise


# Treat as immutable. It is not frozen because that would add 2 µs to every check.
@dataclass(slots=True)
class Decision:
    check: Check
    allowed: bool
    reason: str
    limit: str  # the limit that decided: the one that denied, or the tightest; empty: no limit applies
    quota: int
    remaining: int
    reset_us: int
    retry_us: int
    wait_us: int
    revision: int
    holder: str = ""
    raw_receipt: Sequence[Any] = field(default=(), repr=False)
    failure: Failure | None = None  # the failure mode that decided because the store could not
    raw_rows: Sequence[Sequence[Any]] = field(default=(), repr=False)
    parts: Sequence[Decision] = field(default=(), repr=False)  # in a cluster: of the shard, and of global limits

    @property
    def degraded(self) -> bool:
        """Whether the decision was made without the store."""
        return self.failure is not None

    @property
    def reset_after_ms(self) -> int:
        return -(-self.reset_us // 1_000)

    @property
    def retry_after_ms(self) -> int | None:
        """None if waiting does not help."""
        return None if self.retry_us == NEVER else -(-self.retry_us // 1_000)

    @property
    def wait_ms(self) -> int:
        """How long an allowed request must wait before it goes on (leaky bucket)."""
        return -(-self.wait_us // 1_000)

    @property
    def receipt(self) -> str:
        """What a refund needs. Empty if nothing was charged."""
        return ":".join(part.decode() if isinstance(part, bytes) else str(part) for part in self.raw_receipt)

    @property
    def rows(self) -> tuple[LimitRow, ...]:
        """Every enforced limit, if the check asked for rows."""
        return tuple(limit_row(raw) for raw in self.raw_rows)

    def without_rows(self) -> Self:
        return replace(self, raw_rows=())

    def headers(self, profile: header_fields.Profile = header_fields.DRAFT) -> dict[str, str]:
        return header_fields.render(self, profile)


def limit_row(raw: Sequence[Any]) -> LimitRow:
    name, allowed, quota, window_s, remaining, reset_us, retry_us, wait_us, mode, unit, subject, scope = raw
    mode, _, cause = mode.partition(b"/")
    return LimitRow(
        name.decode(),
        allowed == 1,
        quota,
        window_s,
        remaining,
        reset_us,
        retry_us,
        wait_us,
        mode.decode(),
        unit.decode(),
        subject.decode(),
        scope.decode(),
        cause.decode(),
    )


def decision_of(check: Check, reply: list[Any]) -> Decision:
    return Decision(
        check,
        reply[0] == 1,
        reply[1].decode(),
        reply[2].decode(),
        reply[3],
        reply[4],
        reply[5],
        reply[6],
        reply[7],
        reply[8],
        reply[9].decode(),
        reply[10],
        None,
        reply[ROWS_FROM:],
    )
