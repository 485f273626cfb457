"""A world with recorded usage: tenants whose demand is known, counted as the drain would have counted them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import numpy as np

from quotas.errors import accepted
from quotas.models import DrainState, Endpoint, LimitName
from quotas.models.usage import BEGINNING, GapRecord, UsageDay, UsageMinute
from quotas.observations.cells import Cells
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.recommendations.calibrate import calibrate
from quotas.simulation.synthetic_tenants import SyntheticTenant, Throttle
from quotas.tenants import NewTenant, tenants_create
from quotas.usage.rate_aggregation import LoadColumns
from quotas.usage.rates import store_seconds
from quotas.usage.rollups import add_cells
from tenants.models import Tenant
from tests.database import kept
from tests.quotas.world import GET, PAY, SAID

NOW = datetime(2031, 3, 5, tzinfo=UTC)

DOCUMENT = f"""
tiers: [{{name: free}}, {{name: pro}}]
endpoints:
  - {{name: "{PAY}", method: POST, path: /v1/charges}}
  - {{name: "{GET}", method: GET, path: "/v1/rides/{{id}}"}}
policies:
  - name: pro-get
    tier: pro
    endpoint: "{GET}"
    limits:
      - {{name: steady, algorithm: token_bucket, rate: 12, per: 1m, burst: 15}}
  - name: free-pay
    tier: free
    endpoint: "{PAY}"
    limits:
      - {{name: hourly, algorithm: sliding_counter, limit: 100000, window: 1h}}
"""


def make_recorded(
    tenants: Mapping[str, SyntheticTenant], tier: str = "pro", endpoint: str = GET, days: float = 28
) -> None:
    """`tenants` by name; each has asked for what it wanted on one endpoint, up to NOW."""
    document_apply(document=accepted(read_document(DOCUMENT)), **SAID)
    tenants_create(tenants=[NewTenant(name, tier) for name in tenants], **SAID)
    record(tenants, endpoint, NOW - timedelta(days=days), NOW)
    DrainState.objects.create(drained_at=NOW, run_id="r")
    GapRecord.objects.create(start=BEGINNING, end=NOW - timedelta(days=days), reason="nothing was measured yet")


def record(tenants: Mapping[str, SyntheticTenant], endpoint: str, begin: datetime, end: datetime) -> None:
    """In minutes and days, which calibration cannot do without; what a throttle denied counts against `steady`."""
    number = Endpoint.objects.get(name=endpoint).number
    limit = LimitName.objects.get(name="steady").number
    numbers = dict(Tenant.objects.values_list("name", "number"))
    parts = []
    for place, (name, tenant) in enumerate(tenants.items()):
        found = tenant.attempts(begin.timestamp(), end.timestamp(), np.random.default_rng(place))
        minutes = found.times_us // 60_000_000 * 60
        for denied, letter, by in ((False, "a", 0), (True, "d", limit)):
            starts, counts = np.unique(minutes[found.denied == denied], return_counts=True)
            filled = np.ones_like(starts)
            series = (60 * filled, numbers[name] * filled, number * filled, ord(letter) * filled, by * filled)
            parts.append(Cells(starts, *series, counts, counts))
    cells = Cells.joined(parts)
    add_cells(cells, end, (UsageMinute, UsageDay))
    store_seconds(LoadColumns.of_cells(cells).summed().by_row())


def working(name: str, rate: float, throttle: Throttle | None = None, hours: int = 4) -> SyntheticTenant:
    """At work a few hours a day: enough to learn from, and not too much to record."""
    return SyntheticTenant(
        name, "working", lambda seconds: np.where(seconds % 86_400 // 3_600 < hours, rate, 0.0), throttle=throttle
    )


@kept
def make_held_too_low(tenants: int = 5) -> None:
    """A tier that is held too low, with the recommendation to raise it."""
    make_recorded({f"t{number}": working(f"t{number}", 0.35, hours=2) for number in range(tenants)}, days=15)
    calibrate()


@kept
def make_giant() -> None:
    """One tenant that needs more than its tier, which fits the others, with the recommendation to override it."""
    fleet = {f"t{number}": working(f"t{number}", 0.05) for number in range(22)}
    make_recorded(fleet | {"giant": working("giant", 0.6)}, days=21)
    calibrate()
