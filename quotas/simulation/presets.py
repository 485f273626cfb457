"""Sample traffic for the simulator page: simple shapes, and the arrivals of the scenarios."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from headroom_edge.algorithms.base import SECOND_US
from quotas.simulation.algorithm_comparison import Timeline
from quotas.simulation.arrivals_csv import Arrival
from quotas.simulation.scenarios import SCENARIOS
from quotas.simulation.scenarios.model import BASE_US, MINUTE_US, Ask

SUBJECT = "you"
MS = 1_000
MINUTE = "1m"
THUMBNAIL = 24  # pixels high


@dataclass(frozen=True, slots=True)
class Rect:
    x: int
    y: str
    height: str


@dataclass(frozen=True, slots=True)
class Preset:
    key: str
    title: str
    note: str
    arrivals: Sequence[Arrival]
    line: Timeline
    parameters: Mapping[str, str] = field(default_factory=dict)  # form values that differ from the defaults
    number: int = 0  # of its scenario; 0: none
    lesson: str = ""

    @property
    def thumbnail(self) -> list[Rect]:
        bars = bars_of_arrivals(self.arrivals, self.line)
        most = max(bars, default=0) or 1
        heights = ((place, max(1.0, THUMBNAIL * count / most)) for place, count in enumerate(bars) if count)
        return [Rect(place, f"{THUMBNAIL - height:.1f}", f"{height:.1f}") for place, height in heights]


def arrivals_of_bars(bars: Sequence[int], line: Timeline) -> list[Arrival]:
    """Spreads the requests of each bar evenly over its step."""
    return [
        Arrival(line.begin_us + place * line.step_us + number * line.step_us // count, SUBJECT)
        for place, count in enumerate(bars)
        for number in range(count)
    ]


def bars_of_arrivals(arrivals: Sequence[Arrival], line: Timeline) -> list[int]:
    """Requests per step; those outside the timeline are left out."""
    bars = [0] * line.steps
    for arrival in arrivals:
        place = (arrival.t_us - line.begin_us) // line.step_us
        if 0 <= place < line.steps:
            bars[place] += 1
    return bars


def _shape(key: str, title: str, note: str, *stretches: tuple[float, float, int]) -> Preset:
    """Each stretch: begin and end in seconds, requests per second; the whole takes twelve seconds."""
    line = Timeline(BASE_US, 250 * MS, 48)
    return Preset(key, title, note, [a for stretch in stretches for a in _even(*stretch)], line)


def _even(begin_s: float, end_s: float, rate: int) -> Iterator[Arrival]:
    count = round((end_s - begin_s) * rate)
    begin_us, span_us = round(begin_s * SECOND_US), round((end_s - begin_s) * SECOND_US)
    return (Arrival(BASE_US + begin_us + number * span_us // count, SUBJECT) for number in range(count))


def _scenario(
    number: int, case: int, step_us: int, steps: int, note: str, key: str = "", title: str = "", **parameters: str
) -> Preset:
    scenario = SCENARIOS[number]
    asks = [event for event in scenario.cases[case].events if isinstance(event, Ask)]
    begin_us = min(ask.t_us for ask in asks) // MINUTE_US * MINUTE_US
    arrivals = [Arrival(ask.t_us, SUBJECT, ask.cost) for ask in asks for _ in range(ask.count)]
    name = key or f"s{number}"
    line = Timeline(begin_us, step_us, steps)
    return Preset(name, title or scenario.title, note, arrivals, line, parameters, number, scenario.lesson)


def _shapes() -> Iterator[Preset]:
    yield _shape("steady", "Steady", "60 per second", (0, 12, 60))
    yield _shape("burst", "Burst", "240 in half a second", (0, 5, 40), (5, 5.5, 480), (5.5, 12, 40))
    idle = ((0.0, 3.0, 60), (7.0, 7.5, 480), (7.5, 10.0, 140), (10.0, 12.0, 60))
    yield _shape("idle", "Idle, then burst", "4 s of silence first", *idle)
    edge = ((0.0, 4.0, 30), (4.75, 5.25, 380), (5.25, 12.0, 30))
    yield _shape("edge", "Window boundary", "a burst across the edge at 5 s", *edge)
    yield _shape("overload", "Sustained overload", "three times the rate", (0, 3, 60), (3, 9, 300), (9, 12, 60))
    yield _shape("market", "Market open", "16-fold within 200 ms", (0, 5, 25), (5, 12, 400))


def _scenarios() -> Iterator[Preset]:
    second = SECOND_US
    meter = {"meter": "1"}
    yield _scenario(1, 0, 100 * MS, 60, "5 s idle, then 200 in 100 ms")
    yield _scenario(2, 0, 100 * MS, 60, "the same arrivals, meter of burst 1", **meter)
    yield _scenario(3, 0, 50 * MS, 60, "300/s for 2 s", **meter)
    yield _scenario(4, 0, 50 * MS, 60, "six at once, then one by one", rate="5", burst="10", queue="10", meter="1")
    yield _scenario(5, 0, 2 * second, 60, "100 s idle", rate="2", burst="10", queue="10", meter="1")
    yield _scenario(6, 1, 50 * MS, 40, "380 calls within 50 ms", burst="400", **meter)
    yield _scenario(7, 0, 50 * MS, 40, "six within a second against 5/s", rate="5", burst="10", queue="10", meter="1")
    yield _scenario(8, 0, 50 * MS, 20, "costs of 5, 6, 11 and 5", rate="5", burst="10", queue="10", meter="10")
    yield _scenario(
        9, 0, 10 * MS, 40, "waits up to 150 ms", rate="10", burst="1", meter="1", max_wait="150ms", queue="10"
    )
    minute = {"rate": "100", "per": MINUTE, "burst": "100", "queue": "100"}
    yield _scenario(10, 0, 2 * second, 60, "100 at second 59, 100 at second 60", meter="1", **minute)
    yield _scenario(
        10,
        3,
        2 * second,
        60,
        "one whenever the estimate has room",
        "s10a",
        "An adversary of the counter",
        meter="1",
        **minute,
    )
    fifty = {"rate": "50", "per": MINUTE, "burst": "50", "queue": "50", "meter": "1"}
    yield _scenario(11, 0, 2 * second, 60, "42 before, 18 now, a quarter gone", **fifty)
    five = {"rate": "5", "per": MINUTE, "burst": "5", "queue": "5", "meter": "5"}
    yield _scenario(12, 0, 2 * second, 60, "an entry leaves at exactly 60 s", **five)
    ten = {"rate": "10", "per": MINUTE, "burst": "10", "queue": "10", "meter": "1"}
    yield _scenario(13, 0, 60 * second, 60, "every 6 s against 10 a minute", **ten)
    yield _scenario(13, 4, 60 * second, 61, "every 6 s, give or take one", "s13j", "A poll with jitter", **ten)
    yield _scenario(15, 0, 100 * MS, 60, "15,700 against 3,000/s", rate="3000", burst="5000", queue="5000", meter="1")
    yield _scenario(17, 0, 50 * MS, 40, "a request each millisecond", rate="1", burst="1", queue="1", meter="1")


@cache
def shapes() -> tuple[Preset, ...]:
    return tuple(_shapes())


@cache
def scenarios() -> tuple[Preset, ...]:
    return tuple(_scenarios())


@cache
def presets() -> Mapping[str, Preset]:
    return {preset.key: preset for preset in (*shapes(), *scenarios())}
