"""A small installation with traffic: tiers free and pro, acme on pro, bolt on free."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from django.db import transaction
from django.test import Client
from django.utils import timezone

from quotas.models import Endpoint, LimitName, Revision
from quotas.models.usage import Denial, DrainState
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.policies.spec import to_us
from quotas.usage.partitions import ensure_partitions, partition_of
from quotas.usage.rollups import add_cells
from tenants.models import Tenant
from tests.quotas.world import GET, PAY, make_world

__all__ = ["GET", "PAY", "counted", "denied", "drained", "make_world", "page", "published", "text_of"]


def counted(
    tenant: str, outcome: str, n: int, *, endpoint: str = PAY, limit: str = "", ago: timedelta = timedelta()
) -> None:
    """So many requests, within the last ten seconds or that long ago."""
    now = timezone.now()
    start = int((now - ago).timestamp()) // 10 * 10
    series = CellSeries(_tenant(tenant), _endpoint(endpoint), outcome, _limit(limit))
    with transaction.atomic():
        add_cells(Cells.of([Cell(start, series, n, n)]), now)


def drained(seconds_ago: float = 1) -> None:
    at = timezone.now() - timedelta(seconds=seconds_ago)
    DrainState.objects.update_or_create(id=1, defaults={"drained_at": at, "run_id": "x"})


def denied(tenant: str, *, endpoint: str = PAY, limit: str = "burst", reason: str = "limit") -> None:
    now = timezone.now()
    with transaction.atomic():
        ensure_partitions([partition_of(Denial, now)])
        Denial.objects.create(
            at=now,
            digest=1,
            tenant_number=_tenant(tenant),
            endpoint_number=_endpoint(endpoint),
            limit_number=_limit(limit),
            reason=reason,
            cost=1,
            retry_us=500_000,
            revision=1,
            subject=b"",
        )


def published(at: datetime | None = None) -> None:
    """As the publisher stamps what it has brought to every shard."""
    Revision.objects.filter(published_us=None).update(published_us=to_us(at or timezone.now()))


def _tenant(name: str) -> int:
    return Tenant.objects.get(name=name).number if name else 0


def _endpoint(name: str) -> int:
    return Endpoint.objects.get(name=name).number if name else 0


def _limit(name: str) -> int:
    return LimitName.objects.get(name=name).number if name else 0


def page(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status, response.content[:500]
    return text_of(response.content)


def text_of(content: bytes) -> str:
    return re.sub(r"\s+", " ", content.decode())
