"""Nesting, fairness and distribution: scenarios 16, 17, 19 to 21."""

import random

from headroom_edge.algorithms.base import SECOND_US
from quotas.policies.spec import Policy
from quotas.simulation.scenarios.model import (
    BASE_US,
    MINUTE_US,
    TIER,
    Ask,
    Expectation,
    Scenario,
    ScenarioCase,
    every,
    everywhere,
    limit,
)

NEIGHBOUR = "globex-36"  # on the same shard as acme

PER_IP = limit("per-ip", "token_bucket", rate=10, burst=10, subject="ip")
PER_KEY = limit("per-key", "token_bucket", rate=100, burst=100, subject="key")
PER_ORG = limit("per-org", "token_bucket", rate=10_000, burst=10_000)

NESTED = Scenario(
    16,
    "All or nothing",
    "10/s per address, 100/s per key, 10,000/s per organisation: if one denies, the others are not charged; "
    "if several deny, the reply has the longest wait.",
    (
        ScenarioCase(
            "the address denies",
            everywhere(PER_IP, PER_KEY, PER_ORG),
            (
                Ask(BASE_US, count=10, subject={"ip": "192.0.2.1", "key": "k1"}, expect=Expectation(accepted=10)),
                Ask(
                    BASE_US,
                    count=50,
                    subject={"ip": "192.0.2.1", "key": "k1"},
                    expect=Expectation(
                        accepted=0,
                        limit="per-ip",
                        retry_us=100_000,
                        rows={"per-ip": 0, "per-key": 90, "per-org": 9_990},
                    ),
                ),
                Ask(
                    BASE_US,
                    subject={"ip": "192.0.2.2", "key": "k1"},
                    expect=Expectation(accepted=1, rows={"per-ip": 9, "per-key": 89, "per-org": 9_989}),
                ),
            ),
            11,
            50,
        ),
        ScenarioCase(
            "two deny, the longer wait is reported",
            everywhere(
                limit("per-minute", "fixed_window", limit=5, window="1m"),
                limit("per-second", "token_bucket", rate=5, burst=5),
            ),
            (
                Ask(BASE_US + 1_000_000, count=5),
                Ask(BASE_US + 1_000_000, expect=Expectation(accepted=0, limit="per-minute", retry_us=59 * SECOND_US)),
            ),
            5,
            1,
        ),
    ),
)

HAMMERING = Scenario(
    17,
    "Denials cost nothing",
    "A client that keeps retrying is allowed as soon as its token is there.",
    (
        ScenarioCase(
            "token bucket, 1/s, burst 1, a request each millisecond",
            everywhere(limit("burst", "token_bucket", rate=1, burst=1)),
            (
                *every(1_000, 1_000),
                Ask(BASE_US + SECOND_US - 1, expect=Expectation(accepted=0, retry_us=1)),
                Ask(BASE_US + SECOND_US, expect=Expectation(accepted=1)),
            ),
            2,
            1_000,
        ),
    ),
)

NEIGHBOURS = Scenario(
    19,
    "Two tenants on one shard",
    "An overload of one tenant changes no decision for the other.",
    (
        ScenarioCase(
            "token bucket, 10/s, burst 10",
            everywhere(limit("burst", "token_bucket", rate=10, burst=10)),
            tuple(
                event
                for number in range(20)
                for event in (
                    Ask(BASE_US + number * 100_000, count=50),
                    Ask(BASE_US + number * 100_000, tenant=NEIGHBOUR, expect=Expectation(accepted=1, remaining=9)),
                )
            ),
            29 + 20,
            971,
        ),
    ),
)

_SHARED = limit("rate", "fixed_window", limit=5, window="1m")
_OWN = limit("rate", "fixed_window", limit=2, window="1m")

SCOPES = Scenario(
    20,
    "One counter for all endpoints, or one per endpoint",
    "A limit on * counts all endpoints together; the same name on an endpoint replaces it there.",
    (
        ScenarioCase(
            "fixed window, 5/min on *, 2/min on orders:list",
            (
                Policy("everywhere", "*", (_SHARED,), tier=TIER),
                Policy("list", "orders:list", (_OWN,), tier=TIER),
            ),
            (
                Ask(BASE_US, endpoint="orders:create", count=3, expect=Expectation(accepted=3, remaining=2)),
                Ask(BASE_US, endpoint="orders:list", count=3, expect=Expectation(accepted=2, remaining=0)),
                Ask(BASE_US, endpoint="orders:cancel", count=2, expect=Expectation(accepted=2, remaining=0)),
                Ask(BASE_US, endpoint="orders:create", expect=Expectation(accepted=0, retry_us=MINUTE_US)),
            ),
            7,
            2,
        ),
    ),
)


def _servers(order: str) -> tuple[Ask, ...]:
    """Three servers, 100/s each, for three seconds."""
    times = [BASE_US + number * 10_000 + offset for number in range(300) for offset in (0, 3_000, 7_000)]
    if order == "in blocks":
        times = [time // SECOND_US * SECOND_US + number % 300 for number, time in enumerate(times)]
    elif order == "at random":
        draw = random.Random(21)
        times = sorted(time // SECOND_US * SECOND_US + draw.randrange(SECOND_US) for time in times)
    return tuple(Ask(time) for time in times)


SERVERS = Scenario(
    21,
    "Three servers, one window",
    "A limit of 200/s and 100/s at each of three servers: exactly 200 pass in each aligned second, in any order.",
    tuple(
        ScenarioCase(
            f"fixed window, {order}",
            everywhere(limit("window", "fixed_window", limit=200, window="1s")),
            _servers(order),
            600,
            300,
        )
        for order in ("in turn", "in blocks", "at random")
    ),
)

SCENARIOS = (NESTED, HAMMERING, NEIGHBOURS, SCOPES, SERVERS)
