"""The algorithms by name and by kind (the letter in a record's header)."""

from headroom_edge.algorithms.base import Algorithm
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.sliding import SlidingCounter, SlidingLog
from headroom_edge.algorithms.windows import CalendarQuota, FixedWindow

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
