"""Calendar quotas laid out for simulated time."""

from dataclasses import replace
from functools import lru_cache

from headroom_edge.algorithms.base import Algorithm
from headroom_edge.algorithms.windows import CalendarQuota
from quotas.policies.spec import Generation, Limit

# As far as the store's clock is exact.
FIRST_S = 0
LAST_S = 4_102_444_800  # the end of the year 2099


def on_calendar(limit: Limit, timezone: str) -> Limit:
    """The limit, its past and its candidate with their periods laid out for a tenant of that zone."""
    return replace(
        limit,
        algorithm=_laid_out(limit.algorithm, timezone),
        candidate=_laid_out(limit.candidate, timezone) if limit.candidate else None,
        past=tuple(Generation(_laid_out(g.algorithm, timezone), g.since_us, g.carry) for g in limit.past),
    )


def _laid_out(algorithm: Algorithm, timezone: str) -> Algorithm:
    if not isinstance(algorithm, CalendarQuota):
        return algorithm
    return algorithm.on(_boundaries(algorithm, timezone))


@lru_cache(maxsize=256)
def _boundaries(algorithm: CalendarQuota, timezone: str) -> tuple[int, ...]:
    return algorithm.boundaries(timezone, FIRST_S, LAST_S)
