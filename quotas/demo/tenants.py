"""The tenants of the demo, by tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from quotas.tenants import NewTenant

FREE: Final = (
    NewTenant("amber-cabs", "free", "Amber Cabs", "Europe/Lisbon"),
    NewTenant("blue-line", "free", "Blue Line"),
    NewTenant("city-wheels", "free", "City Wheels", "America/New_York"),
    NewTenant("corner-cab", "free", "Corner Cab", "Europe/Dublin"),
    NewTenant("dockside-rides", "free", "Dockside Rides", "Europe/Amsterdam"),
    NewTenant("early-bird", "free", "Early Bird Transfers"),
    NewTenant("fern-taxi", "free", "Fern Taxi", "Pacific/Auckland"),
    NewTenant("gate-shuttle", "free", "Gate Shuttle"),
    NewTenant("hill-hoppers", "free", "Hill Hoppers", "Asia/Kathmandu"),
    NewTenant("island-wheels", "free", "Island Wheels", "Atlantic/Azores"),
    NewTenant("juniper-cars", "free", "Juniper Cars", "Europe/Helsinki"),
    NewTenant("lantern-cabs", "free", "Lantern Cabs"),
    NewTenant("maple-rides", "free", "Maple Rides", "America/Toronto"),
    NewTenant("metro-hop", "free", "Metro Hop", "Europe/Madrid"),
    NewTenant("night-owl-cars", "free", "Night Owl Cars"),
    NewTenant("old-town-taxi", "free", "Old Town Taxi", "Europe/Prague"),
    NewTenant("pebble-shuttle", "free", "Pebble Shuttle", "Europe/London"),
    NewTenant("quay-cabs", "free", "Quay Cabs", "Europe/Oslo"),
    NewTenant("river-rides", "free", "River Rides", "Africa/Cairo"),
    NewTenant("sunny-side-cabs", "free", "Sunny Side Cabs", "America/Los_Angeles"),
)
PRO: Final = (
    NewTenant("delta-shuttle", "pro", "Delta Shuttle"),
    NewTenant("fleetly", "pro", "Fleetly", "Europe/Berlin"),
    NewTenant("green-go", "pro", "Green Go", "America/Sao_Paulo"),
    NewTenant("harbor-taxi", "pro", "Harbor Taxi"),
    NewTenant("inner-ring", "pro", "Inner Ring", "Asia/Tokyo"),
    NewTenant("jet-transfer", "pro", "Jet Transfer", "Australia/Sydney"),
    NewTenant("north-star-cars", "pro", "North Star Cars", "Europe/Stockholm"),
    NewTenant("orbit-rides", "pro", "Orbit Rides", "Europe/Paris"),
    NewTenant("polar-cabs", "pro", "Polar Cabs", "Atlantic/Reykjavik"),
    NewTenant("ridge-runner", "pro", "Ridge Runner", "America/Denver"),
    NewTenant("swift-shift", "pro", "Swift Shift", "Asia/Dubai"),
    NewTenant("terminal-two", "pro", "Terminal Two", "Europe/Zurich"),
)
ENTERPRISE: Final = (
    NewTenant("kite-mobility", "enterprise", "Kite Mobility", "Asia/Singapore"),
    NewTenant("lagoon-ferry", "enterprise", "Lagoon Ferry", "Africa/Lagos"),
    NewTenant("summit-fleet", "enterprise", "Summit Fleet", "Europe/Vienna"),
    NewTenant("transit-union", "enterprise", "Transit Union", "America/Chicago"),
    NewTenant("world-of-wheels", "enterprise", "World of Wheels"),
)
# Signed up while the story runs.
JOINED: Final = (
    NewTenant("tram-and-taxi", "free", "Tram and Taxi", "Europe/Brussels"),
    NewTenant("upland-cars", "free", "Upland Cars", "America/Bogota"),
    NewTenant("village-wheels", "pro", "Village Wheels", "Europe/Rome"),
)
REGIONS: Final[Mapping[str, str]] = {
    "Africa": "emea",
    "America": "americas",
    "Asia": "apac",
    "Atlantic": "emea",
    "Australia": "apac",
    "Europe": "emea",
    "Pacific": "apac",
}
TAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "delta-shuttle": ("airport",),
    "gate-shuttle": ("airport",),
    "jet-transfer": ("airport", "nightly-sync"),
    "lagoon-ferry": ("ferry",),
    "night-owl-cars": ("watch",),
    "pebble-shuttle": ("nightly-sync",),
    "terminal-two": ("airport",),
    "tram-and-taxi": ("new",),
    "upland-cars": ("new",),
    "village-wheels": ("new",),
}


def _known(tenant: NewTenant) -> NewTenant:
    """With its tags, and addresses of roles for customers that pay."""
    region = REGIONS.get(tenant.timezone.partition("/")[0], "")
    own = ("key-account",) if tenant.tier == "enterprise" else ()
    roles = {"free": (), "pro": ("api",), "enterprise": ("api", "on-call")}[tenant.tier]
    return replace(
        tenant,
        tags=tuple(tag for tag in (region, *own, *TAGS.get(tenant.name, ())) if tag),
        contacts=tuple(f"{role}@{tenant.name}.example" for role in roles),
    )


FIRST: Final = tuple(map(_known, (*FREE, *PRO, *ENTERPRISE)))
LATER: Final = tuple(map(_known, JOINED))
TENANTS: Final = (*FIRST, *LATER)
