"""Arrivals of the demo: the right number, at the right time."""

from __future__ import annotations

from random import Random

import pytest

from quotas.demo.shapes import Shape, poisson, pulses, spells, steady, wave


def arrivals(shape: Shape, until_s: float, tick_s: float = 0.1) -> list[int]:
    chance = Random(5)
    return [shape(i * tick_s, (i + 1) * tick_s, chance) for i in range(round(until_s / tick_s))]


@pytest.mark.parametrize("mean", [0.0, 0.05, 3.0, 40.0])
def test_a_random_count_has_its_mean_and_its_variance(mean: float) -> None:
    chance = Random(5)
    counts = [poisson(mean, chance) for _ in range(20_000)]
    average = sum(counts) / len(counts)
    variance = sum((count - average) ** 2 for count in counts) / len(counts)
    assert average == pytest.approx(mean, rel=0.05, abs=0.01)
    assert variance == pytest.approx(mean, rel=0.1, abs=0.01)


def test_steady_traffic_keeps_its_rate() -> None:
    assert sum(arrivals(steady(20), 500)) == pytest.approx(10_000, rel=0.05)


def test_a_wave_is_low_at_its_ends_and_high_in_the_middle() -> None:
    counts = arrivals(wave(1, 50, 600), 600)
    assert sum(counts[:600]) < sum(counts[2_700:3_300]) / 5


@pytest.mark.parametrize("tick_s", [0.1, 0.7, 7.0, 60.0])
def test_pulses_come_whole_and_on_time_however_long_a_tick_is(tick_s: float) -> None:
    counts = arrivals(pulses(25, 30, offset_s=10), 840, tick_s)
    assert sum(counts) == 28 * 25
    assert all(count % 25 == 0 for count in counts)


def test_spells_are_followed_by_silence() -> None:
    counts = arrivals(spells(50, 10, 60), 60)
    assert sum(counts[:100]) == pytest.approx(500, rel=0.2)
    assert sum(counts[100:]) == 0
