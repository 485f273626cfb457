"""Bursts, idleness and shaping: scenarios 1 to 9 and 15."""

from collections.abc import Iterator

from headroom_edge.algorithms.base import SECOND_US
from quotas.policies.spec import Limit
from quotas.simulation.scenarios.model import (
    BASE_US,
    Ask,
    Event,
    Expectation,
    Scenario,
    ScenarioCase,
    every,
    everywhere,
    limit,
)

MS = 1_000
IDLE_US = 5 * SECOND_US


def _one(
    name: str, rule: Limit, events: Iterator[Event] | tuple[Event, ...], accepted: int, denied: int
) -> ScenarioCase:
    return ScenarioCase(name, everywhere(rule), tuple(events), accepted, denied)


def _burst() -> Iterator[Ask]:
    """200 requests in 100 ms, after five idle seconds."""
    return every(MS // 2, 200, BASE_US + IDLE_US)


def _sustained() -> Iterator[Ask]:
    """300/s for two seconds."""
    return (Ask(BASE_US + number * SECOND_US // 300) for number in range(600))


def _spread_batch() -> Iterator[Ask]:
    """380 calls within 50 ms."""
    return (Ask(BASE_US + number * 50 * MS // 380) for number in range(380))


BUCKET = limit("burst", "token_bucket", rate=100, burst=200)
METER = limit("paced", "gcra", rate=100)
SMALL = limit("burst", "token_bucket", rate=5, burst=10)
QUEUE = limit("smooth", "leaky_bucket", rate=100, queue=100)

IDLE_THEN_BURST = Scenario(
    1,
    "A burst after idleness",
    "A token bucket saves up: with 100/s and burst 200, 200 requests at once pass.",
    (_one("token bucket, burst 200", BUCKET, _burst(), 200, 0),),
)

METER_AND_BUCKET = Scenario(
    2,
    "GCRA equals a token bucket of the same capacity",
    "GCRA with burst 1 passes one request every 10 ms; with burst 200 it passes the whole burst.",
    (
        _one("meter, burst 1", METER, _burst(), 10, 190),
        _one("meter, burst 200", limit("paced", "gcra", rate=100, burst=200), _burst(), 200, 0),
    ),
)

SUSTAINED = Scenario(
    3,
    "Three times the rate for two seconds",
    "The bucket passes what it saved plus what it refilled; GCRA passes only the rate.",
    (
        # 200 saved, and 199.67 refilled by the last arrival at 1.997 s.
        _one("token bucket, burst 200", BUCKET, _sustained(), 399, 201),
        _one("meter, burst 1", METER, _sustained(), 200, 400),
    ),
)

FRACTIONS = Scenario(
    4,
    "Tokens refill in fractions",
    "5/s refills half a token in 100 ms, up to the burst.",
    (
        _one(
            "token bucket, 5/s, burst 10",
            SMALL,
            (
                Ask(BASE_US, count=6, expect=Expectation(remaining=4)),
                Ask(BASE_US + 100 * MS, expect=Expectation(remaining=3)),  # 3.5 tokens
                Ask(BASE_US + 200 * MS, expect=Expectation(remaining=3)),  # 3.0 tokens
                Ask(BASE_US + 2_200 * MS, expect=Expectation(remaining=9)),
            ),
            9,
            0,
        ),
    ),
)

CAPPED = Scenario(
    5,
    "A long idle time",
    "However long it is idle, a bucket holds no more than its burst.",
    (
        _one(
            "token bucket, 2/s, burst 10",
            limit("burst", "token_bucket", rate=2, burst=10),
            (
                Ask(BASE_US, count=10, expect=Expectation(accepted=10)),
                Ask(
                    BASE_US + 100 * SECOND_US,
                    count=11,
                    expect=Expectation(accepted=10, limit="burst", retry_us=500 * MS),
                ),
            ),
            20,
            1,
        ),
    ),
)

BATCH = Scenario(
    6,
    "The batch script",
    "380 calls after 90 s of silence: a queue of 100 takes 100 plus what drains meanwhile; a bucket of 400 takes all.",
    (
        _one(
            "leaky bucket, all at once", QUEUE, (Ask(BASE_US, count=380, expect=Expectation(limit="smooth")),), 100, 280
        ),
        # By the last arrival, after 49.9 ms, 4.99 have left the queue.
        _one("leaky bucket, over 50 ms", QUEUE, _spread_batch(), 104, 276),
        _one("token bucket, burst 400", limit("burst", "token_bucket", rate=100, burst=400), _spread_batch(), 380, 0),
    ),
)

APP_OPEN = Scenario(
    7,
    "An app starts and sends six requests",
    "Six requests within one aligned second against 5/s: the bucket has room, the window does not.",
    (
        _one("token bucket, burst 10", SMALL, every(100 * MS, 6), 6, 0),
        _one("fixed window", limit("window", "fixed_window", limit=5, window="1s"), every(100 * MS, 6), 5, 1),
    ),
)

COST = Scenario(
    8,
    "Cost",
    "A request of cost 5 takes five tokens; a cost above the burst can never pass, and the reply says so.",
    (
        _one(
            "token bucket, burst 10, in cost",
            limit("burst", "token_bucket", rate=5, burst=10, unit="cost"),
            (
                Ask(BASE_US, cost=5, expect=Expectation(remaining=5)),
                Ask(BASE_US, cost=6, expect=Expectation(accepted=0, reason="limit", retry_us=200 * MS)),
                Ask(BASE_US, cost=11, expect=Expectation(accepted=0, reason="cost_too_big", retry_us=-1, remaining=5)),
                Ask(BASE_US, cost=5, expect=Expectation(remaining=0)),
            ),
            2,
            2,
        ),
        _one(
            "token bucket, burst 10, in requests",
            SMALL,
            (Ask(BASE_US, cost=11, expect=Expectation(remaining=9)),),
            1,
            0,
        ),
    ),
)

MAX_WAIT = Scenario(
    9,
    "A token that is due soon",
    "With max_wait, a request whose token is due soon is accepted with a wait, and charged.",
    (
        _one(
            "token bucket, 10/s, burst 1, max_wait 150 ms",
            limit("burst", "token_bucket", rate=10, burst=1, max_wait="150ms"),
            (
                Ask(BASE_US, expect=Expectation(accepted=1, wait_us=0, remaining=0)),
                Ask(BASE_US, expect=Expectation(accepted=1, wait_us=100 * MS, remaining=0)),
                Ask(BASE_US, expect=Expectation(accepted=0, retry_us=50 * MS)),
                Ask(BASE_US + 50 * MS, expect=Expectation(accepted=1, wait_us=150 * MS)),
            ),
            3,
            1,
        ),
    ),
)

SHAPING = Scenario(
    15,
    "Shaping to 3,000/s",
    "The backlog carries over from one second to the next and is capped; the interval of 333.3… µs does not drift.",
    (
        _one(
            "leaky bucket, queue 5,000",
            limit("smooth", "leaky_bucket", rate=3_000, queue=5_000),
            (
                Ask(BASE_US, count=4_000, expect=Expectation(accepted=4_000, wait_us=1_333_000)),
                Ask(BASE_US + SECOND_US, count=2_500, expect=Expectation(accepted=2_500, wait_us=1_166_334)),
                Ask(BASE_US + 2 * SECOND_US, count=3_200, expect=Expectation(accepted=3_200, wait_us=1_233_000)),
                Ask(BASE_US + 3 * SECOND_US, count=6_000, expect=Expectation(accepted=4_300, retry_us=334)),
            ),
            14_000,
            1_700,
        ),
    ),
)

SCENARIOS = (
    IDLE_THEN_BURST,
    METER_AND_BUCKET,
    SUSTAINED,
    FRACTIONS,
    CAPPED,
    BATCH,
    APP_OPEN,
    COST,
    MAX_WAIT,
    SHAPING,
)
