"""Time and change: scenarios 24 to 28."""

from datetime import UTC, datetime

from headroom_edge.algorithms.base import SECOND_US, Algorithm
from quotas.policies.spec import Carry, Limit
from quotas.simulation.scenarios.model import (
    BASE_US,
    HOUR_US,
    MINUTE_US,
    Ask,
    Expectation,
    PolicyChange,
    Scenario,
    ScenarioCase,
    algorithm,
    changed_limit,
    everywhere,
    limit,
)

FIVE = {
    "token bucket": limit("five", "token_bucket", rate=5, per="1m", burst=5),
    "meter": limit("five", "gcra", rate=5, per="1m", burst=5),
    "leaky bucket": limit("five", "leaky_bucket", rate=5, per="1m", queue=5),
    "fixed window": limit("five", "fixed_window", limit=5, window="1m"),
    "sliding log": limit("five", "sliding_log", limit=5, window="1m"),
    "sliding counter": limit("five", "sliding_counter", limit=5, window="1m"),
    "concurrency": limit("five", "concurrency", limit=5, hold="1m"),
}


def _step_back(name: str, rule: Limit) -> ScenarioCase:
    """All is used at 10 s. After a step an hour back nothing more passes, and within two windows all is available."""
    back_us = BASE_US + 10 * SECOND_US - HOUR_US
    events = (
        Ask(BASE_US + 10 * SECOND_US, count=6, expect=Expectation(accepted=5)),
        Ask(back_us, expect=Expectation(accepted=0, remaining=0)),
        Ask(back_us + 2 * MINUTE_US, count=6, expect=Expectation(accepted=5)),
    )
    return ScenarioCase(f"{name}: an hour back", everywhere(rule), events, 10, 3)


def _there_and_back(name: str, rule: Limit) -> ScenarioCase:
    """One request an hour ahead. Back again, no more passes than before, and within two windows all is available."""
    events = (
        Ask(BASE_US + 10 * SECOND_US, count=5, expect=Expectation(accepted=5)),
        Ask(BASE_US + 10 * SECOND_US + HOUR_US, expect=Expectation(accepted=1)),
        Ask(BASE_US + 11 * SECOND_US),
        Ask(BASE_US + 3 * MINUTE_US, count=6, expect=Expectation(accepted=5)),
    )
    first_back = rule.algorithm.kind in "fsoc"  # a bucket cannot know how much was used, so it starts empty
    return ScenarioCase(f"{name}: an hour ahead and back", everywhere(rule), events, 11 + first_back, 2 - first_back)


CLOCK = Scenario(
    24,
    "The clock steps",
    "An hour back, or ahead and back: no one gets free tokens, and no one is locked out for more than one window.",
    tuple(step(name, rule) for name, rule in FIVE.items() for step in (_step_back, _there_and_back)),
)


def _expiry(name: str, rule: Limit) -> ScenarioCase:
    """All is used in the first microsecond of a window; by the time the record expires, it has refilled anyway."""
    expired_us = BASE_US + rule.algorithm.ttl_ms() * 1_000
    events = (
        Ask(BASE_US, count=6, expect=Expectation(accepted=5)),
        Ask(expired_us, count=6, expect=Expectation(accepted=5, remaining=0)),
    )
    return ScenarioCase(name, everywhere(rule), events, 10, 2)


EXPIRY = Scenario(
    25,
    "Expiry gives nothing extra",
    "A record outlives its refill, so waiting for it to expire gains no more than waiting for the refill.",
    tuple(_expiry(name, rule) for name, rule in FIVE.items()),
)


def _at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * SECOND_US


def _used_up_until(*moments: str) -> tuple[Ask, ...]:
    """A second before each moment three pass and the fourth must wait a second; at the last moment all is free."""
    told = Expectation(accepted=3, retry_us=SECOND_US)
    before = (Ask(_at(moment) - SECOND_US, count=4, expect=told) for moment in moments)
    return (*before, Ask(_at(moments[-1]), expect=Expectation(accepted=1, remaining=2)))


CALENDAR = Scenario(
    26,
    "The tenant's own calendar",
    "Anchor day 31 means the last day of shorter months. A day without midnight starts at its first instant.",
    (
        ScenarioCase(
            "monthly, Asia/Kolkata, anchor 31",
            everywhere(limit("monthly", "calendar_quota", limit=3, period="month", anchor=31)),
            _used_up_until("2026-03-30T18:30", "2026-04-29T18:30", "2026-05-30T18:30"),
            10,
            3,
            "Asia/Kolkata",
        ),
        ScenarioCase(
            "daily, Asia/Beirut, over the night the clocks go forward at midnight",
            everywhere(limit("daily", "calendar_quota", limit=3, period="day")),
            _used_up_until("2026-03-27T22:00", "2026-03-28T22:00", "2026-03-29T21:00"),
            10,
            3,
            "Asia/Beirut",
        ),
        ScenarioCase(
            "weekly from Sunday, named zone",
            everywhere(limit("weekly", "calendar_quota", limit=3, period="week", anchor="sun", timezone="Etc/GMT-3")),
            _used_up_until("2026-03-07T21:00", "2026-03-14T21:00"),
            7,
            2,
            "Asia/Kolkata",
        ),
        ScenarioCase(
            "yearly from 29 February",
            everywhere(limit("yearly", "calendar_quota", limit=3, period="year", anchor="02-29")),
            _used_up_until("2027-02-28T00:00", "2028-02-29T00:00"),
            7,
            2,
        ),
    ),
)

USED_US = BASE_US + 10 * SECOND_US
LEFT: dict[Carry, int] = {"keep": 900, "proportional": 0, "reset": 1_000}
RAISED = {
    "token bucket": (
        limit("rate", "token_bucket", rate=100, per="1m", burst=100),
        algorithm("token_bucket", rate=1_000, per="1m", burst=1_000),
    ),
    "fixed window": (
        limit("rate", "fixed_window", limit=100, window="1m"),
        algorithm("fixed_window", limit=1_000, window="1m"),
    ),
    "sliding log": (
        limit("rate", "sliding_log", limit=100, window="1m"),
        algorithm("sliding_log", limit=1_000, window="1m"),
    ),
    "sliding counter": (
        limit("rate", "sliding_counter", limit=100, window="1m"),
        algorithm("sliding_counter", limit=1_000, window="1m"),
    ),
}


def _raised(name: str, old: Limit, new: Algorithm, carry: Carry) -> ScenarioCase:
    left = LEFT[carry]
    events = (
        Ask(USED_US, count=101, expect=Expectation(accepted=100)),
        PolicyChange(everywhere(changed_limit(old, new, USED_US, carry))),
        Ask(USED_US, count=1_001, expect=Expectation(accepted=left, remaining=0)),
    )
    return ScenarioCase(f"{name}, {carry}", everywhere(old), events, 100 + left, 1_002 - left)


CARRY_OVER = Scenario(
    27,
    "A used-up limit is raised",
    "100 of 100/min are used, then it becomes 1,000: keep leaves 900, proportional 0 until it refills, reset 1,000.",
    tuple(_raised(name, old, new, carry) for name, (old, new) in RAISED.items() for carry in LEFT),
)

_A = limit("a", "fixed_window", limit=5, window="1m")
_B = limit("b", "token_bucket", rate=1, burst=50)
_C = limit("c", "sliding_log", limit=20, window="1m")

NEIGHBOURS_STAY = Scenario(
    28,
    "Limits are added, removed and moved",
    "Adding, removing or moving a limit does not change the state of the others.",
    (
        ScenarioCase(
            "three limits of one record",
            everywhere(_A, _B),
            (
                Ask(BASE_US, count=2, expect=Expectation(rows={"a": 3, "b": 48})),
                PolicyChange(everywhere(_C, _A, _B)),
                Ask(BASE_US, expect=Expectation(rows={"a": 2, "b": 47, "c": 19})),
                PolicyChange(everywhere(_B, _C)),
                Ask(BASE_US, count=2, expect=Expectation(rows={"b": 45, "c": 17})),
                PolicyChange(everywhere(_C, _B, _A)),
                Ask(BASE_US, expect=Expectation(rows={"a": 4, "b": 44, "c": 16})),
            ),
            6,
            0,
        ),
    ),
)

SCENARIOS = (CLOCK, EXPIRY, CALENDAR, CARRY_OVER, NEIGHBOURS_STAY)
