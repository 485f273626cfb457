"""Borrowing from a pool: scenario 18."""

from collections.abc import Iterator

from headroom_edge.algorithms.base import SECOND_US
from quotas.policies.spec import Policy
from quotas.simulation.scenarios.model import BASE_US, Ask, Expectation, Scenario, ScenarioCase, everywhere, limit

A, B = {"team": "a"}, {"team": "b"}
STEP_US = 800  # between the requests of one of them: 1,250/s
ALONE_US, BOTH_US = SECOND_US, 2 * SECOND_US
FIRST_US = BASE_US + ALONE_US  # when B wakes


def _limits(burst: int, reserve: int, own_burst: int) -> tuple[Policy, ...]:
    return everywhere(
        limit("pool", "pool", rate=1_000, burst=burst, reserve=reserve),
        limit("share", "borrowing", assured=100, burst=own_burst, ceiling=1_000, parent="pool", subject="team"),
    )


def _steady() -> Iterator[Ask]:
    """A alone for a second, then both for two."""
    for t_us in range(BASE_US, FIRST_US + BOTH_US, STEP_US):
        if t_us >= FIRST_US:
            wakes = t_us == FIRST_US
            yield Ask(t_us, subject=B, expect=Expectation(accepted=1) if wakes else Expectation())
        yield Ask(t_us, subject=A)


BORROWING = Scenario(
    18,
    "Borrowing from a pool",
    "Two have 100/s each of a pool of 1,000/s, and may borrow the rest. One alone takes all; when the other wakes, its "
    "own share is there at once if the reserve is at least all bursts, and within a second they share by weight. "
    "Without a reserve it waits (sum of bursts − reserve) ÷ rate at most.",
    (
        # Of the pool's 3,000 units, 29 are not lent while the fair share finds its level.
        ScenarioCase("with a reserve, A alone and then both", _limits(250, 200, 100), tuple(_steady()), 2_971, 3_279),
        ScenarioCase(
            "with a reserve, B wakes while A has borrowed all that is lent",
            _limits(200, 100, 50),
            (
                # Own 50, then loans up to 75 % of 100: the requests are of normal priority.
                Ask(BASE_US, count=200, subject=A, expect=Expectation(accepted=75, limit="share", reason="limit")),
                Ask(BASE_US, count=50, subject=B, expect=Expectation(accepted=50)),
            ),
            125,
            125,
        ),
        ScenarioCase(
            "without a reserve, B waits for the rest of its burst",
            _limits(100, 0, 50),
            (
                Ask(BASE_US, count=200, subject=A, expect=Expectation(accepted=75)),
                Ask(
                    BASE_US,
                    count=50,
                    subject=B,
                    expect=Expectation(accepted=25, limit="share", reason="limit", retry_us=1_000),
                ),
                # The whole burst of B has passed after 25 ms, well within (50 + 50 − 0) ÷ 1,000/s.
                Ask(BASE_US + 25_000, count=25, subject=B, expect=Expectation(accepted=25)),
            ),
            125,
            150,
        ),
    ),
)

SCENARIOS = (BORROWING,)
