"""The algorithms by name and by kind (the letter in a record's header)."""

from quotas.algorithms.base import Algorithm
from quotas.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from quotas.algorithms.concurrency import Concurrency
from quotas.algorithms.sliding import SlidingCounter, SlidingLog
from quotas.algorithms.windows import CalendarQuota, FixedWindow

ALGORITHMS: dict[str, type[Algorithm]] = {
    algorithm.name: algorithm
    for algorithm in (
        TokenBucket,
        Gcra,
        LeakyBucket,
        FixedWindow,
        SlidingLog,
        SlidingCounter,
        Concurrency,
        CalendarQuota,
    )
}
KINDS: dict[str, type[Algorithm]] = {algorithm.kind: algorithm for algorithm in ALGORITHMS.values()}

__all__ = [
    "ALGORITHMS",
    "KINDS",
    "CalendarQuota",
    "Concurrency",
    "FixedWindow",
    "Gcra",
    "LeakyBucket",
    "SlidingCounter",
    "SlidingLog",
    "TokenBucket",
]
