"""The knee, only where it was passed; and over-commit."""

import numpy as np
import pytest

from quotas.calibration.capacity import Capacity, NoKnee, Sample, capacity_of, over_commit


def queue(capacity: float, loads: np.ndarray, seed: int = 1) -> list[Sample]:
    """A server that takes 5 ms when idle and 5/(1 − load/capacity) when not."""
    noise = np.random.default_rng(seed).uniform(0.95, 1.05, len(loads))
    return [Sample(float(load), float(20 * n / (1 - load / capacity))) for load, n in zip(loads, noise, strict=True)]


def test_a_knee_that_was_passed_is_found() -> None:
    found = capacity_of(queue(1_000, np.linspace(10, 970, 400)))
    assert isinstance(found, Capacity)
    assert found.method == "kneedle"
    assert 700 <= found.load <= 970


@pytest.mark.parametrize("most", [100, 300])
def test_far_below_the_knee_capacity_is_only_known_from_below(most: int) -> None:
    found = capacity_of(queue(1_000, np.linspace(10, most, 400)))
    assert isinstance(found, NoKnee)
    assert found.most_seen == most


def test_latency_that_does_not_follow_load_has_no_knee() -> None:
    draw = np.random.default_rng(3)
    samples = [Sample(float(load), float(p99)) for load, p99 in zip(*draw.uniform(10, 90, (2, 500)), strict=True)]
    assert isinstance(capacity_of(samples), NoKnee)


def test_noise_at_few_loads_is_no_knee() -> None:
    """A job that always sends six at once: slower seconds have more in flight, though the load is the same."""
    draw = np.random.default_rng(1)
    means = 700 * np.exp(0.15 * draw.standard_normal(200))
    found = capacity_of([Sample(float(draw.choice([1, 6])), 2 * mean, float(mean)) for mean in means])
    assert isinstance(found, NoKnee)
    assert found.reason == "the load varied too little"


def test_nothing_seen_is_no_knee() -> None:
    assert isinstance(capacity_of([]), NoKnee)
    assert isinstance(capacity_of([Sample(10, 5)] * 3), NoKnee)


def scalability(in_flight: np.ndarray, contention: float, crosstalk: float) -> list[Sample]:
    """Throughput by the law itself: 100 a second for one in flight."""
    load = 100 * in_flight / (1 + contention * (in_flight - 1) + crosstalk * in_flight * (in_flight - 1))
    mean_ms = in_flight / load * 1_000
    return [Sample(x, 3 * r, r) for x, r in zip(load.tolist(), mean_ms.tolist(), strict=True)]


def test_throughput_that_falls_under_load_gives_its_peak() -> None:
    contention, crosstalk = 0.02, 0.0005
    best = np.sqrt((1 - contention) / crosstalk)
    peak = scalability(np.array([best]), contention, crosstalk)[0].load
    found = capacity_of(scalability(np.linspace(1, 80, 120), contention, crosstalk))
    assert isinstance(found, Capacity)
    assert found.method == "usl"
    assert found.load == pytest.approx(peak, rel=0.01)


def test_a_peak_that_was_not_reached_is_not_claimed() -> None:
    assert isinstance(capacity_of(scalability(np.linspace(1, 20, 120), 0.02, 0.0005)), NoKnee)


def test_it_names_the_side_that_binds() -> None:
    capacity = Capacity(1_000, "kneedle", 1_200)
    roomy, tight = over_commit([100.0] * 7, capacity), over_commit([100.0] * 16, capacity)
    assert (roomy.binds, roomy.factor) == ("demand", 1.0)
    assert (tight.binds, tight.factor) == ("capacity", 0.5)
    unknown = over_commit([1e9], NoKnee(10, "not yet"))
    assert (unknown.binds, unknown.usable) == ("demand", None)
