"""The traffic of each demo tenant: which endpoints it calls, how often, and in which pattern.

Rates are requests per second. Their sum stays near ten, so that the demo uses a small part of one core.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import numpy as np

from quotas.demo.partners import DISPATCH
from quotas.demo.slow_backend import ETA
from quotas.demo.story import LEFT, RATINGS
from quotas.observations.arrays import Floats, Ints
from quotas.simulation.synthetic_tenants import (
    DAY_S,
    HOUR_S,
    MINUTE_S,
    Intensity,
    SyntheticTenant,
    abuser,
    cron_burst,
    diurnal_weekly,
    growing,
    new,
    steady,
)

# The epoch began on a Thursday; the synthetic week ends with its two quiet days.
TO_MONDAY_S: Final = 3 * DAY_S
MOST_GROWTH: Final = 3.0
UNKNOWN: Final = "nobody-we-know"


@dataclass(frozen=True, slots=True)
class Sync:
    """A job that sends at an even pace for the first minute of an hour of the day (UTC)."""

    hour: int
    per_second: int

    def requests(self, seconds: Ints) -> Ints:
        since = seconds % DAY_S - self.hour * HOUR_S
        return np.where((since >= 0) & (since < MINUTE_S), self.per_second, 0)


@dataclass(frozen=True, slots=True)
class Flow:
    tenant: str
    endpoint: str
    demand: SyntheticTenant
    retries: int = 0  # how often clients retry after a 429, a second later
    sync: Sync | None = None


def flows(began_s: int) -> tuple[Flow, ...]:
    """`began_s`: start of the demo's history, from which growth and new tenants are timed."""
    unknown = Flow(UNKNOWN, "rider:track", steady(UNKNOWN, 0.04))
    return (*_free(began_s), *_pro(began_s), *_enterprise(), *_partners(), unknown)


def _free(began_s: int) -> list[Flow]:
    two_days_ago = began_s + 12 * DAY_S
    return [
        Flow("amber-cabs", "rider:quote", cron_burst("amber-cabs", 0.01, 22, 600)),
        Flow("amber-cabs", "rider:track", steady("amber-cabs", 0.03)),
        Flow("blue-line", "rider:track", by_day("blue-line", 0.02, 0.15)),
        Flow("blue-line", "rider:cancel", steady("blue-line", 0.004)),
        Flow("city-wheels", "rider:request", by_day("city-wheels", 0.005, 0.06, hours=-5)),
        Flow("city-wheels", "rider:quote", by_day("city-wheels", 0.01, 0.12, hours=-5)),
        Flow("corner-cab", "rider:track", steady("corner-cab", 0.05)),
        Flow("dockside-rides", "rider:quote", by_day("dockside-rides", 0.01, 0.1)),
        Flow("early-bird", "rider:track", steady("early-bird", 0.06)),
        Flow("fern-taxi", "rider:track", by_day("fern-taxi", 0.01, 0.12, hours=12)),
        Flow("gate-shuttle", "partner:bookings", steady("gate-shuttle", 0.02)),
        Flow("hill-hoppers", "driver:nearby", steady("hill-hoppers", 0.04)),
        Flow("island-wheels", "rider:track", steady("island-wheels", 0.02)),
        Flow("juniper-cars", "rider:quote", by_day("juniper-cars", 0.005, 0.08, hours=2)),
        Flow("lantern-cabs", "rider:request", by_day("lantern-cabs", 0.01, 0.1, weekend=1.0)),
        Flow("maple-rides", "rider:track", growth("maple-rides", 0.03, 1.08, began_s)),
        Flow("metro-hop", "rider:track", growth("metro-hop", 0.1, 1.06, began_s)),
        Flow("night-owl-cars", "driver:nearby", abuser("night-owl-cars", 0.02, 18, two_days_ago)),
        Flow("old-town-taxi", "rider:quote", until(steady("old-town-taxi", 0.015), began_s + _seconds(LEFT))),
        Flow("pebble-shuttle", "partner:bookings", cron_burst("pebble-shuttle", 0.003, 14), sync=Sync(1, 3)),
        Flow("quay-cabs", "rider:quote", cron_burst("quay-cabs", 0.005, 17, 1_800), retries=2),
        Flow("river-rides", "rider:track", by_day("river-rides", 0.01, 0.09, hours=2)),
        Flow("sunny-side-cabs", "rider:quote", by_day("sunny-side-cabs", 0.01, 0.07, hours=-8)),
        Flow("tram-and-taxi", "rider:track", new("tram-and-taxi", 0.05, began_s + 5 * DAY_S)),
        Flow("upland-cars", "rider:quote", new("upland-cars", 0.03, began_s + 11 * DAY_S)),
    ]


def _pro(began_s: int) -> list[Flow]:
    rated_s = began_s + _seconds(RATINGS)
    rating = ("fleetly", "green-go", "harbor-taxi", "orbit-rides", "polar-cabs", "terminal-two")
    return [
        *(Flow(name, "rider:rate", new(name, 0.012, rated_s)) for name in rating),
        Flow("delta-shuttle", "rider:quote", by_day("delta-shuttle", 0.6, 0.85, weekend=1.0), retries=1),
        Flow("delta-shuttle", "rider:track", by_day("delta-shuttle", 0.06, 0.24)),
        Flow("fleetly", "rider:track", by_day("fleetly", 0.06, 0.48, hours=1)),
        Flow("fleetly", "rider:request", by_day("fleetly", 0.006, 0.06, hours=1)),
        Flow("fleetly", "rider:quote", by_day("fleetly", 0.03, 0.21, hours=1)),
        Flow("green-go", "driver:location", cron_burst("green-go", 0.03, 30, 60)),
        Flow("green-go", "rider:track", by_day("green-go", 0.03, 0.15, hours=-3)),
        Flow("harbor-taxi", "rider:track", by_day("harbor-taxi", 0.06, 0.27)),
        Flow("harbor-taxi", "rider:quote", by_day("harbor-taxi", 0.1, 0.62)),
        Flow("inner-ring", "driver:location", cron_burst("inner-ring", 0.06, 46, 300)),
        Flow("inner-ring", "driver:nearby", by_day("inner-ring", 0.03, 0.15, hours=9)),
        Flow("jet-transfer", "partner:bookings", by_day("jet-transfer", 0.015, 0.12, hours=10), sync=Sync(2, 30)),
        Flow("jet-transfer", "admin:reports", cron_burst("jet-transfer", 0.0001, 6)),
        Flow("north-star-cars", "rider:track", by_day("north-star-cars", 0.03, 0.21, hours=1)),
        Flow("north-star-cars", "rider:quote", by_day("north-star-cars", 0.08, 0.62, hours=1)),
        Flow("orbit-rides", "rider:quote", by_day("orbit-rides", 0.1, 0.64, hours=1)),
        Flow("orbit-rides", "driver:earnings", steady("orbit-rides", 0.015)),
        Flow("polar-cabs", "rider:track", steady("polar-cabs", 0.075)),
        Flow("ridge-runner", "driver:location", by_day("ridge-runner", 0.06, 0.27, hours=-7)),
        Flow("swift-shift", "rider:quote", growth("swift-shift", 0.075, 1.05, began_s)),
        Flow("terminal-two", "partner:bookings", by_day("terminal-two", 0.03, 0.12, hours=1)),
        Flow("terminal-two", "rider:cancel", steady("terminal-two", 0.006)),
        Flow("village-wheels", "rider:track", new("village-wheels", 0.06, began_s + 9 * DAY_S)),
    ]


def _enterprise() -> list[Flow]:
    return [
        Flow("kite-mobility", "rider:track", by_day("kite-mobility", 0.24, 1.05, hours=8)),
        Flow("kite-mobility", "payments:charge", by_day("kite-mobility", 0.015, 0.12, hours=8)),
        Flow("lagoon-ferry", "driver:nearby", by_day("lagoon-ferry", 0.09, 0.48, hours=1)),
        Flow("lagoon-ferry", "payments:charge", cron_burst("lagoon-ferry", 0.006, 18, 600)),
        Flow("summit-fleet", "driver:location", by_day("summit-fleet", 0.24, 0.66, hours=1)),
        Flow("summit-fleet", "partner:exports", cron_burst("summit-fleet", 0.0001, 5)),
        Flow("transit-union", "rider:track", by_day("transit-union", 0.15, 0.72, hours=-6)),
        Flow("transit-union", "rider:request", by_day("transit-union", 0.015, 0.15, hours=-6)),
        Flow("transit-union", "admin:users", steady("transit-union", 0.015)),
        Flow("world-of-wheels", "rider:track", by_day("world-of-wheels", 2.0, 6.0, weekend=0.7)),
        Flow("world-of-wheels", "rider:quote", by_day("world-of-wheels", 0.24, 0.9, weekend=0.7)),
        # The only one on this endpoint, so that its history can be limited by itself.
        Flow("world-of-wheels", ETA, by_day("world-of-wheels", 4.0, 6.0, weekend=1.0)),
        Flow("world-of-wheels", "rider:request", by_day("world-of-wheels", 0.03, 0.18, weekend=0.7)),
        Flow("world-of-wheels", "payments:charge", by_day("world-of-wheels", 0.015, 0.12, weekend=0.7)),
        Flow("world-of-wheels", "driver:location", by_day("world-of-wheels", 0.3, 0.9, weekend=0.8)),
    ]


def _partners() -> list[Flow]:
    """While one of them works, others sleep. Once a day the rides of a whole fleet are passed on in one minute."""
    return [
        Flow("kite-mobility", DISPATCH, at_work("kite-mobility", 0.1, 2.2, hours=8)),
        Flow("lagoon-ferry", DISPATCH, at_work("lagoon-ferry", 0.08, 1.2, hours=1)),
        Flow("summit-fleet", DISPATCH, at_work("summit-fleet", 0.08, 1.5, hours=1), sync=Sync(11, 14)),
        Flow("transit-union", DISPATCH, at_work("transit-union", 0.08, 1.9, hours=-6)),
        Flow("world-of-wheels", DISPATCH, at_work("world-of-wheels", 0.1, 0.9)),
    ]


def by_day(name: str, low: float, high: float, *, hours: int = 0, weekend: float = 0.4) -> SyntheticTenant:
    """Busiest at noon in its time zone, quiet on Saturday and Sunday."""
    base = diurnal_weekly(name, low, high, weekend)
    return replace(base, intensity=_moved(base.intensity, hours * HOUR_S + TO_MONDAY_S))


def at_work(name: str, low: float, high: float, *, hours: int = 0) -> SyntheticTenant:
    """Busy for some hours around noon in its time zone, on every day of the week, and nearly silent at night."""

    def intensity(seconds: Floats) -> Floats:
        wave = (1 - np.cos(2 * np.pi * (seconds + hours * HOUR_S) / DAY_S)) / 2
        found: Floats = low + (high - low) * wave**3
        return found

    return SyntheticTenant(name, "at work", intensity)


def growth(name: str, rate: float, daily: float, began_s: int) -> SyntheticTenant:
    """Grows day by day up to MOST_GROWTH times its first rate, because the demo may run for months."""
    base = growing(name, rate, daily, began_s)
    return replace(base, intensity=lambda seconds: np.minimum(base.intensity(seconds), rate * MOST_GROWTH))


def until(base: SyntheticTenant, end_s: float) -> SyntheticTenant:
    return replace(base, intensity=lambda seconds: np.where(seconds < end_s, base.intensity(seconds), 0.0))


def _seconds(span: timedelta) -> int:
    return int(span.total_seconds())


def _moved(intensity: Intensity, by_s: int) -> Intensity:
    def moved(seconds: Floats) -> Floats:
        return intensity(seconds + by_s)

    return moved
