"""Windows: scenarios 10 to 13."""

import random
from collections.abc import Iterator

from headroom_edge.algorithms.base import SECOND_US
from quotas.policies.spec import Limit
from quotas.simulation.scenarios.model import (
    BASE_US,
    HOUR_US,
    MINUTE_US,
    Ask,
    Expectation,
    Scenario,
    ScenarioCase,
    every,
    everywhere,
    limit,
)

FIXED = limit("window", "fixed_window", limit=100, window="1m")
LOG = limit("exact", "sliding_log", limit=100, window="1m")
COUNTER = limit("about", "sliding_counter", limit=100, window="1m")
NOON_US = BASE_US + 12 * HOUR_US


def _around_the_minute(accepted_after: int) -> tuple[Ask, ...]:
    return (
        Ask(BASE_US + 59 * SECOND_US, count=100, expect=Expectation(accepted=100)),
        Ask(BASE_US + 60 * SECOND_US, count=100, expect=Expectation(accepted=accepted_after)),
    )


def _adversary() -> Iterator[Ask]:
    """Fills a window in its last microsecond, then sends a request whenever the estimate has room again."""
    yield Ask(BASE_US + MINUTE_US - 1, count=100)
    yield from every(600_000, 99, BASE_US + MINUTE_US + 600_000)


BOUNDARY = Scenario(
    10,
    "The boundary of a window",
    "Across a boundary a fixed window lets through twice its limit; the sliding log never exceeds it. The sliding "
    "counter keeps its limit here, but a hostile client gets nearly twice: 199 of limit 100 within 59.4 s.",
    (
        ScenarioCase("fixed window", everywhere(FIXED), _around_the_minute(100), 200, 0),
        ScenarioCase("sliding log", everywhere(LOG), _around_the_minute(0), 100, 100),
        ScenarioCase("sliding counter", everywhere(COUNTER), _around_the_minute(0), 100, 100),
        ScenarioCase("sliding counter against an adversary", everywhere(COUNTER), tuple(_adversary()), 199, 0),
        ScenarioCase("sliding log against the same", everywhere(LOG), tuple(_adversary()), 100, 99),
    ),
)

ESTIMATE = Scenario(
    11,
    "What the sliding counter estimates",
    "Previous window × the share of it still covered + current window + the request itself ≤ limit.",
    (
        ScenarioCase(
            "limit 50: 42 before, 18 now, a quarter gone",
            everywhere(limit("about", "sliding_counter", limit=50, window="60s")),
            (
                Ask(BASE_US, count=42),
                Ask(BASE_US + 75 * SECOND_US, count=18, expect=Expectation(accepted=18, remaining=0)),
                # 50.5 with it; room when 42 × (60 − e) ÷ 60 ≤ 31, at e = 15.714286 s.
                Ask(BASE_US + 75 * SECOND_US, expect=Expectation(accepted=0, retry_us=714_286)),
                Ask(BASE_US + 75 * SECOND_US + 714_285, expect=Expectation(accepted=0, retry_us=1)),
                Ask(BASE_US + 75 * SECOND_US + 714_286, expect=Expectation(accepted=1)),
            ),
            61,
            2,
        ),
        ScenarioCase(
            "limit 10: 8 before, 3 now, three quarters gone",
            everywhere(limit("about", "sliding_counter", limit=10, window="60s")),
            (
                Ask(BASE_US, count=8),
                Ask(BASE_US + 105 * SECOND_US, count=3, expect=Expectation(remaining=5)),
                Ask(BASE_US + 105 * SECOND_US, expect=Expectation(accepted=1, remaining=4)),
            ),
            12,
            0,
        ),
    ),
)

EXACT = Scenario(
    12,
    "The sliding log is exact",
    "An entry leaves when it is exactly one window old; two arrivals in the same microsecond count as two.",
    (
        ScenarioCase(
            "limit 5 in 60 s",
            everywhere(limit("exact", "sliding_log", limit=5, window="60s")),
            (
                *(Ask(NOON_US + second * SECOND_US) for second in (10, 25, 40, 55, 65)),
                Ask(NOON_US + 70 * SECOND_US - 1, expect=Expectation(accepted=0, retry_us=1)),
                Ask(NOON_US + 70 * SECOND_US, expect=Expectation(accepted=1, remaining=0)),
            ),
            6,
            1,
        ),
        ScenarioCase(
            "three in the same microsecond",
            everywhere(limit("exact", "sliding_log", limit=2, window="60s")),
            (Ask(NOON_US, count=3, expect=Expectation(accepted=2, retry_us=MINUTE_US)),),
            2,
            1,
        ),
    ),
)


def _polls(jitter_us: int = 0) -> tuple[Ask, ...]:
    """One each 6 s for an hour."""
    draw = random.Random(13)
    offsets = (draw.randint(-jitter_us, jitter_us) for _ in range(600))
    return tuple(Ask(BASE_US + number * 6 * SECOND_US + offset) for number, offset in enumerate(offsets))


def _poll_case(name: str, rule: Limit, denied: int, jitter_us: int = 0) -> ScenarioCase:
    return ScenarioCase(name, everywhere(rule), _polls(jitter_us), 600 - denied, denied)


_TEN_FIXED = limit("window", "fixed_window", limit=10, window="1m")
_TEN_LOG = limit("exact", "sliding_log", limit=10, window="1m")
_TEN_COUNTER = limit("about", "sliding_counter", limit=10, window="1m")
_TEN_BUCKET = limit("burst", "token_bucket", rate=10, per="1m", burst=10)

PACED = Scenario(
    13,
    "A perfectly paced poll",
    "Every 6 s against 10/min: only the counter denies, about one in ten, because it assumes the window before was "
    "evenly spread. With a second of jitter the log and the fixed window deny too; the bucket never does.",
    (
        _poll_case("fixed window", _TEN_FIXED, 0),
        _poll_case("sliding log", _TEN_LOG, 0),
        _poll_case("token bucket, burst 10", _TEN_BUCKET, 0),
        _poll_case("sliding counter", _TEN_COUNTER, 59),
        _poll_case("fixed window, ± 1 s", _TEN_FIXED, 16, SECOND_US),
        _poll_case("sliding log, ± 1 s", _TEN_LOG, 50, SECOND_US),
        _poll_case("token bucket, ± 1 s", _TEN_BUCKET, 0, SECOND_US),
        _poll_case("sliding counter, ± 1 s", _TEN_COUNTER, 66, SECOND_US),
    ),
)

SCENARIOS = (BOUNDARY, ESTIMATE, EXACT, PACED)
