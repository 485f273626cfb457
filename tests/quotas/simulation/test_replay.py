"""Replay of arrivals through a list of limits."""

from headroom_edge.algorithms.base import SECOND_US
from quotas.policies.limit_codec import limit_parse
from quotas.simulation.arrivals_csv import Arrival
from quotas.simulation.replay import ReplayTotals, replay

NOW = 1_772_409_600 * SECOND_US
PER_SUBJECT = limit_parse("own", {"algorithm": "fixed_window", "limit": 2, "window": "1s", "subject": "key"})
TOGETHER = limit_parse("all", {"algorithm": "fixed_window", "limit": 3, "window": "1s"})


def arrivals() -> list[Arrival]:
    return [Arrival(NOW + number * SECOND_US // 4, subject) for number, subject in enumerate("aaabbbaa")]


def test_each_denial_names_its_limit() -> None:
    totals = ReplayTotals()
    for decided in replay([PER_SUBJECT, TOGETHER], arrivals()):
        totals.add(decided)
    assert (totals.allowed, totals.denied) == (6, 2)
    assert dict(totals.denied_by) == {"own": 1, "all": 1}


def test_a_wait_delays_the_release_of_a_slot() -> None:
    shaped = limit_parse("shaped", {"algorithm": "leaky_bucket", "rate": 1, "queue": 9})
    slots = limit_parse("slots", {"algorithm": "concurrency", "limit": 2, "hold": "1m"})
    times = (0, 0, SECOND_US, 2 * SECOND_US - 1, 2 * SECOND_US)
    decided = replay([shaped, slots], [Arrival(NOW + time, "", 1, SECOND_US) for time in times])
    assert [one.allowed for one in decided] == [True, True, True, False, True]
