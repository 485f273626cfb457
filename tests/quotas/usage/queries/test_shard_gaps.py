"""A gap or a failover of some shards concerns their tenants, and is told to those who look at everybody."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from headroom_edge import keys
from quotas.models import AuditEvent
from quotas.models.usage import DrainState, GapRecord, ShardOwner
from quotas.usage.queries.annotations import annotations_read
from quotas.usage.queries.demand import gaps_between
from quotas.usage.queries.grouped_usage import UsageQuery, usage_query
from quotas.usage.queries.periods import Period, period_read
from quotas.usage.queries.traffic import traffic_read
from tenants.models import Tenant
from tests.quotas.world import make_world

pytestmark = pytest.mark.django_db

ACME, BOLT = keys.shard_of("acme"), keys.shard_of("bolt")
HERS = sorted({ACME, *range(20)} - {BOLT})
MINUTE = timedelta(minutes=1)


@pytest.fixture
def now(valkey: object) -> datetime:
    """A primary with 20 shards, acme's among them, was away five minutes ago."""
    make_world()
    now = timezone.now()
    DrainState.objects.create(drained_at=now, run_id="x")
    GapRecord.objects.create(start=now - 9 * MINUTE, end=now - 5 * MINUTE, reason="Redis was gone.", shards=HERS)
    detail = {"node": "127.0.0.1:7001", "former": ["127.0.0.1:7000"], "shards": HERS, "of": 64}
    AuditEvent.objects.create(kind="store_failover", detail=detail)
    return now


def period(now: datetime) -> Period:
    return period_read("1h", "", "", now + MINUTE)


def number(name: str) -> int:
    return Tenant.objects.get(name=name).number


def test_the_traffic_of_a_tenant_has_the_gaps_of_its_shard(now: datetime) -> None:
    known = {name: traffic_read(period(now), owners=[number(name)]) for name in ("acme", "bolt")}
    assert [gap.reason for gap in known["acme"].gaps] == ["Redis was gone."]
    assert not known["bolt"].gaps
    assert known["acme"].seconds < known["bolt"].seconds


def test_the_traffic_of_everybody_says_which_part_is_concerned(now: datetime) -> None:
    (gap,) = traffic_read(period(now)).gaps
    assert gap.words == f"Redis was gone. Counts of {len(HERS)} of 64 shards may be missing."


@pytest.mark.parametrize(("tenants", "gaps"), [((), 1), (("acme",), 1), (("bolt",), 0), (("acme", "bolt"), 1)])
def test_usage_has_the_gaps_of_the_tenants_it_is_about(now: datetime, tenants: tuple[str, ...], gaps: int) -> None:
    asked = UsageQuery(now - timedelta(hours=1), now, timedelta(minutes=1), tenants=tenants)
    assert len(usage_query(asked, now).gaps) == gaps


def test_calibration_leaves_out_the_gaps_of_other_shards(now: datetime) -> None:
    gaps = gaps_between(now - timedelta(hours=1), now)
    assert (len(gaps.all), len(gaps.of("acme")), len(gaps.of("bolt"))) == (1, 1, 0)


def test_a_failover_is_on_the_charts_of_whom_it_concerns(now: datetime) -> None:
    def failovers(tenant: str = "") -> list[str]:
        whose = Tenant.objects.get(name=tenant) if tenant else None
        return [each.words for each in annotations_read(period(now), whose) if each.label == "failover"]

    words = f"Redis failed over: 127.0.0.1:7001 took over {len(HERS)} shards"
    assert (failovers(), failovers("acme"), failovers("bolt")) == ([words], [words], [])


def test_what_waits_for_its_primary_is_not_known_yet(now: datetime) -> None:
    late = ShardOwner("dead", "127.0.0.1:7000", now - 3 * MINUTE, tuple(HERS))
    rest = ShardOwner("x", "127.0.0.1:7002", now, tuple(set(range(64)) - set(HERS)))
    DrainState.objects.update(owners=[late.as_json(), rest.as_json()])
    assert traffic_read(period(now), owners=[number("acme")]).drained_at == now - 3 * MINUTE
    assert traffic_read(period(now), owners=[number("bolt")]).drained_at == now
    assert traffic_read(period(now)).drained_at == now
    asked = UsageQuery(now - timedelta(hours=1), now, MINUTE, tenants=("acme",))
    assert usage_query(asked, now).measured.until == now - 3 * MINUTE
