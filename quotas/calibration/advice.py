"""Which algorithm suits an endpoint, why, and what it costs in Redis."""

from __future__ import annotations

from dataclasses import dataclass

from headroom_edge.algorithms.sliding_log import LONGEST_LOG
from quotas.calibration.burst import Point
from quotas.policies.endpoint import Hints

RECORD_BYTES = 181  # a subject's record with one limit on Redis 7, measured; Valkey needs about two thirds of it
LOG_ENTRY_BYTES = 8
MOST_LOG_BYTES = 64 * 2**20
FEW = 100  # subjects
EVEN = 2  # a client with no larger burst paces its requests
LONG_BURST_S = 2.0  # a burst of more seconds of the rate needs an allowance of its own


@dataclass(frozen=True, slots=True)
class Facts:
    """Measurements of one limit's traffic."""

    point: Point  # of one subject
    subjects: int  # active within one window
    window_s: int = 60  # of an exact count


@dataclass(frozen=True, slots=True)
class Advice:
    algorithm: str
    reason: str
    memory_bytes: int  # in Redis, for all active subjects


def advise(hints: Hints, facts: Facts) -> Advice:
    per_window = facts.point.burst + facts.point.rate * facts.window_s
    log_bytes = facts.subjects * int(RECORD_BYTES + LOG_ENTRY_BYTES * min(per_window, LONGEST_LOG))
    if hints.exact and per_window <= LONGEST_LOG and log_bytes <= MOST_LOG_BYTES:
        return Advice("sliding_log", _exact(per_window, facts), log_bytes)
    record_bytes = facts.subjects * RECORD_BYTES
    if hints.exact:
        why = f"an exact log of {per_window:,.0f} entries for each of {facts.subjects:,} subjects is too large"
        return Advice("sliding_counter", f"{why}; the counter estimates it with two numbers", record_bytes)
    return Advice(*_cheap(hints, facts), record_bytes)


def _cheap(hints: Hints, facts: Facts) -> tuple[str, str]:
    burst, seconds = facts.point.burst, facts.point.burst / max(facts.point.rate, 1e-9)
    if hints.bursty is False and burst <= EVEN:
        return "gcra", "requests come evenly and the endpoint cannot absorb bursts: a meter keeps them apart"
    if hints.bursty is False:
        who = "its few clients can wait" if _are_few(hints, facts) else "a short wait is better than a denial"
        return (
            "leaky_bucket",
            f"bursts of {burst:,} arrive and the endpoint cannot absorb them, so they are spread out; {who}",
        )
    if burst <= EVEN:
        return "token_bucket", (
            "requests are paced; a bucket never denies a client that keeps its pace, while a sliding counter would"
        )
    if seconds > LONG_BURST_S:
        size = f"a burst of {burst:,} equals {seconds:,.0f} s at the measured rate"
        return "token_bucket", f"{size}; a token bucket allows it after a quiet time"
    return "token_bucket", f"bursts of {burst:,} fit a small bucket; one number of state per subject"


def _are_few(hints: Hints, facts: Facts) -> bool:
    return hints.clients == "few" or (hints.clients is None and facts.subjects <= FEW)


def _exact(per_window: float, facts: Facts) -> str:
    return (
        f"the count must be exact, and {per_window:,.0f} entries in {facts.window_s} s for each of "
        f"{facts.subjects:,} subjects are affordable"
    )
