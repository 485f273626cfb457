"""The algorithms by name and by kind (the letter in a record's header)."""

from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from headroom_edge.algorithms.base import Algorithm, Parameter
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.calendar_quota import CalendarQuota
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog

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
        Pool,
        Borrowing,
        AdaptiveConcurrency,
    )
}
KINDS: dict[str, type[Algorithm]] = {algorithm.kind: algorithm for algorithm in ALGORITHMS.values()}

# Names of parameters, by algorithm.
FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(parameter.name for parameter in algorithm.parameters) for name, algorithm in ALGORITHMS.items()
}

# Parameters by name. A sliding log allows a lower limit than the others: here is the looser bound.
PARAMETERS: dict[str, Parameter] = {}
for _algorithm in ALGORITHMS.values():
    for _parameter in _algorithm.parameters:
        PARAMETERS.setdefault(_parameter.name, _parameter)

__all__ = [
    "ALGORITHMS",
    "FIELDS",
    "KINDS",
    "PARAMETERS",
    "AdaptiveConcurrency",
    "Borrowing",
    "CalendarQuota",
    "Concurrency",
    "FixedWindow",
    "Gcra",
    "LeakyBucket",
    "Pool",
    "SlidingCounter",
    "SlidingLog",
    "TokenBucket",
]
