"""A counter for each window of fixed length, aligned to the epoch."""

from dataclasses import dataclass
from typing import ClassVar

from headroom_edge.algorithms.base import TTL_SLACK_MS, PeriodCounter, PerWindow, ceil_div, format_duration


@dataclass(frozen=True, slots=True)
class FixedWindow(PerWindow, PeriodCounter):
    name: ClassVar[str] = "fixed_window"
    kind: ClassVar[str] = "f"

    def words(self) -> str:
        span = format_duration(self.window_us)
        return f"{self.limit:,} per {span} (aligned; up to twice that across a boundary)"

    def ttl_ms(self) -> int:
        # Two windows: after a step back of the clock the stored one may only be about to begin.
        return ceil_div(2 * self.window_us, 1_000) + TTL_SLACK_MS

    def _period(self, now_us: int) -> int:
        return now_us // self.window_us

    def end_us(self, period: int) -> int:
        return (period + 1) * self.window_us

    def _far_ahead(self, period: int, current: int) -> bool:
        return period > current + 1
