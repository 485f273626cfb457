"""Counts of a trial as the drain would have stored them."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from quotas.models import Endpoint, LimitName
from quotas.models.usage import ROLLUPS
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.usage.rollups import add_cells
from tenants.models import Tenant
from tests.quotas.world import GET


def counted(
    at: datetime,
    tenant: str,
    *,
    allowed: int = 0,
    denied: int = 0,
    would: int = 0,
    passes: int = 0,
    limit: str = "burst",
    endpoint: str = GET,
) -> None:
    """`would`: of those allowed, the candidate would deny them. `passes`: of those denied, it would allow them."""
    who, place = Tenant.objects.get(name=tenant).number, Endpoint.objects.get(name=endpoint).number
    live = LimitName.objects.get(name=limit).number
    beside = LimitName.objects.filter(name=f"{limit}~candidate").values_list("number", flat=True).first() or 0
    second = int(at.timestamp())
    cells = [
        Cell(second, CellSeries(who, place, letter, number), count, count)
        for letter, number, count in (
            ("a", 0, allowed),
            ("d", live, denied),
            ("n", beside, would),
            ("y", beside, passes),
        )
        if count
    ]
    with transaction.atomic():
        add_cells(Cells.of(cells), at, ROLLUPS)
