"""Pools to try on the simulator page, as the values of its form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quotas.simulation.presets import THUMBNAIL, Rect

PLACES: Final = 4  # members at most
TENANTS: Final = "tenants"  # each with a share of its own
TEAMS: Final = "teams"  # keys of teams
CLASSES: Final = "classes"  # they ask the pool itself, by priority


Member = Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class SharingPreset:
    key: str
    title: str
    note: str
    lesson: str
    kind: str
    values: Mapping[str, str]
    number: int = 0  # of its scenario; 0: none

    @property
    def thumbnail(self) -> list[Rect]:
        """Two bars for each member: what it asks for at first, and then."""
        pairs = [[int(self.values.get(f"m{n}_{when}", 0)) for when in ("first", "then")] for n in range(1, PLACES + 1)]
        bars = [asked for pair in pairs if any(pair) for asked in (*pair, 0)]
        most = max(bars)
        heights = ((place, max(1.0, THUMBNAIL * asked / most)) for place, asked in enumerate(bars) if asked)
        return [Rect(place, f"{THUMBNAIL - height:.1f}", f"{height:.1f}") for place, height in heights]


def _members(*members: Member) -> dict[str, str]:
    return {
        f"m{number}_{name}": str(value) for number, member in enumerate(members, 1) for name, value in member.items()
    }


def _pool(rate: int, burst: int, reserve: int) -> dict[str, str]:
    return {"rate": str(rate), "burst": str(burst), "reserve": str(reserve)}


_TEAM = {"team_assured": "200", "team_burst": "100", "team_ceiling": "800", "team_ceiling_burst": "200"}
_KEY = {"key_assured": "20", "key_burst": "10", "key_ceiling": "500", "key_weight": "1"}
_LOUD: dict[str, int | str] = {"then": 3_000, "at": 5, "assured": 0, "burst": "", "ceiling": "", "priority": "critical"}
_A: dict[str, int | str] = {
    "first": 1_500,
    "then": 1_500,
    "at": 5,
    "assured": 100,
    "burst": 100,
    "ceiling": 1_000,
    "priority": "critical",
}
_WAKING = _members(_A, _A | {"first": 0}, *[_LOUD | {"first": 0, "weight": 100}] * 2)

PRESETS: Final = (
    SharingPreset(
        "rows",
        "Organisation, teams, keys",
        "three levels of 1,000/s",
        "A key that is busy borrows from its team, and then from the organisation. When another team wakes, its "
        "guaranteed share is there at once.",
        TEAMS,
        {**_pool(1_000, 250, 200), **_TEAM, "team_reserve": "50", **_KEY}
        | _members(
            {"first": 800, "then": 800, "at": 5},
            {"first": 0, "then": 200, "at": 3},
            {"first": 0, "then": 500, "at": 5},
        ),
    ),
    SharingPreset(
        "s18",
        "Borrowing, with a reserve",
        "A alone; at 5 s the others wake",
        "A alone takes the whole pool. At 5 s B wakes, and with it C and D, which have nothing guaranteed. B's "
        "guaranteed requests pass at once, because the reserve is as large as all bursts; what is lent goes by weight.",
        TENANTS,
        _pool(1_000, 400, 200) | _WAKING,
        number=18,
    ),
    SharingPreset(
        "s18n",
        "Borrowing, without a reserve",
        "the same, nothing kept back",
        "Without a reserve, C and D borrow all that is left when they wake, and B's guaranteed requests have to wait: "
        "about (sum of bursts − reserve) ÷ rate.",
        TENANTS,
        _pool(1_000, 400, 0) | _WAKING,
        number=18,
    ),
    SharingPreset(
        "weights",
        "Weights 1 : 2 : 4",
        "all three ask for everything",
        "Nobody has a guaranteed share, and what is lent goes by weight: 143, 286 and 571 of 1,000/s.",
        TENANTS,
        _pool(1_000, 250, 0)
        | _members(*(_LOUD | {"first": 3_000, "weight": weight, "priority": "normal"} for weight in (1, 2, 4))),
    ),
    SharingPreset(
        "open",
        "Market open with priorities",
        "16-fold at 3 s, capacity 800/s",
        "Each class may fill the pool to 100, 90, 75 or 50 %. When the market opens, critical traffic passes whole, "
        "high gets the rest, and the classes below get nothing: a guaranteed share would protect them.",
        CLASSES,
        _pool(800, 400, 0)
        | _members(
            {"first": 20, "then": 320, "at": 3, "priority": "critical"},
            {"first": 60, "then": 960, "at": 3, "priority": "high"},
            {"first": 60, "then": 960, "at": 3, "priority": "normal"},
            {"first": 40, "then": 640, "at": 3, "priority": "sheddable"},
        ),
    ),
)


def sharing_presets() -> Mapping[str, SharingPreset]:
    return {preset.key: preset for preset in PRESETS}
