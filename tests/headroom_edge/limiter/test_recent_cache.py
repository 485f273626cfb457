from __future__ import annotations

from headroom_edge.recent_cache import RecentCache


def test_it_remembers_what_was_put() -> None:
    recent: RecentCache[str, int] = RecentCache(4)
    recent.put("a", 1)
    assert recent.get("a") == 1
    assert recent.get("b") is None


def test_it_never_holds_more_than_twice_its_size() -> None:
    recent: RecentCache[int, int] = RecentCache(100)
    for number in range(10_000):
        recent.put(number, number)
        assert len(recent) <= 200
    assert all(recent.get(number) == number for number in range(9_900, 10_000))


def test_what_is_used_stays() -> None:
    recent: RecentCache[int, str] = RecentCache(10)
    recent.put(-1, "used")
    for number in range(1_000):
        recent.put(number, "once")
        assert recent.get(-1) == "used"


def test_a_new_value_replaces_the_old_one_in_either_generation() -> None:
    recent: RecentCache[int, str] = RecentCache(2)
    recent.put(1, "old")
    recent.put(2, "x")
    recent.put(3, "y")
    recent.put(1, "new")
    assert recent.get(1) == "new"
