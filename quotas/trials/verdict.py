"""The verdict on a trial in one sentence: is it safe to promote, too early to say, or above a bar."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from headroom_edge.algorithms.base import counted
from quotas.models import Change
from quotas.trials.counts import TrialCounts

ENOUGH_HOURS: Final = 24.0  # a whole day, unless the trial is planned to be shorter
FEWEST: Final = 100  # requests before a conclusion
Tone = Literal["ok", "wait", "no"]


@dataclass(frozen=True, slots=True)
class Verdict:
    tone: Tone
    title: str
    text: str
    code: str  # safe, early, no_traffic, above_share, above_tenant, gap

    @property
    def is_safe(self) -> bool:
        return self.tone == "ok"

    def __str__(self) -> str:
        return f"{self.title}. {self.text}"


def verdict_of(row: Change, counts: TrialCounts) -> Verdict:
    """Above a bar counts at once; below both, the trial must have lasted long enough."""
    total, worst = counts.total, counts.worst
    hours, enough = counts.hours, enough_hours(row, counts.begin)
    lasted = f"{short_hours(hours)} of {short_hours(planned_hours(row, counts.begin))} hours are in"
    if not total.asked:
        return Verdict(
            "wait", "No traffic yet", f"No request has met its limits since it started; {lasted}.", "no_traffic"
        )
    who = f"{counts.hit} of {counted(len(counts.tenants), 'tenant', 'tenants')} would see 429s"
    of_all = f"{total.would_deny:,} of {counted(total.asked, 'request', 'requests')}, {percent(total.share)}"
    if total.asked >= FEWEST and total.share > row.bar_share:
        text = f"{of_all}, above your bar of {percent(row.bar_share)}. {lasted}."
        return Verdict("no", f"Not safe: {who}", text, "above_share")
    if worst is not None and worst.share > row.bar_tenant:
        text = (
            f"{worst.tenant} would be denied {worst.would_deny:,} of {worst.asked:,} requests, {percent(worst.share)}, "
            f"above your bar of {percent(row.bar_tenant)} for one tenant. {lasted}."
        )
        return Verdict("no", f"Not safe: {who}", text, "above_tenant")
    below = f"{of_all}, below your bar of {percent(row.bar_share)}"
    if total.asked < FEWEST:
        return Verdict("wait", "Too little traffic to say", f"{of_all}. {lasted}.", "no_traffic")
    if hours < enough:
        text = f"{below}. {lasted}; {short_hours(enough)} are enough to decide."
        return Verdict("wait", f"Going well, but too early: {who}", text, "early")
    missing = f" Counts may be missing in {counted(len(counts.gaps), 'gap', 'gaps')}." if counts.gaps else ""
    return Verdict("ok", f"Safe to promote: {who}", f"{below}. {lasted}.{missing}", "safe")


def planned_hours(row: Change, begin: datetime) -> float:
    return max((row.trial_ends - begin).total_seconds() / 3600, 0.0) if row.trial_ends else ENOUGH_HOURS


def enough_hours(row: Change, begin: datetime) -> float:
    return min(ENOUGH_HOURS, planned_hours(row, begin))


def percent(share: float) -> str:
    """With as many digits as tell it from a bar: 0.30 %, 12 %."""
    value = 100 * share
    if value and value < 0.01:
        return "< 0.01 %"
    return f"{value:.2g} %" if value < 10 else f"{value:.3g} %"


def short_hours(hours: float) -> str:
    return f"{hours:.1f}".removesuffix(".0") if hours < 10 else f"{hours:.0f}"
