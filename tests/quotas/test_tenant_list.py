"""Searching, filtering and sorting tenants, and the figures that they are sorted by."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from quotas.keyset import every_row, keyset_page
from quotas.models import TenantSummary
from quotas.models.usage import BEGINNING
from quotas.overrides import override_create
from quotas.tenant_list import FEW, ORDERS, TenantFilter, counts_of_states, tenants_found, with_figures
from quotas.tenant_summary import last_run, measure_tenants
from quotas.usage.tier_usage import measure_tier_usage
from tenants.isolation import narrowed
from tenants.models import Tenant, Tier
from tests.dashboards.world import counted
from tests.quotas.world import SAID, make_world

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world() -> None:
    make_world()


def add(name: str, label: str = "", tier: str = "free", **fields: object) -> Tenant:
    return Tenant.objects.create(name=name, label=label, tier=Tier.objects.get(name=tier), **fields)


def found(order: str = "name", *, now: datetime | None = None, **wanted: object) -> list[str]:
    rows = tenants_found(Tenant.objects.all(), TenantFilter(**wanted), now or timezone.now(), by_staff=True)  # type: ignore[arg-type]
    return [row.name for row in every_row(rows, ORDERS, order)]


def test_a_search_finds_any_part_of_name_label_tag_and_contact() -> None:
    add("delta-shuttle", "Delta Shuttle GmbH", tags=["airport"], contacts=["ops@delta.example"])
    for text in ("elta-sh", "shuttle gm", "GMBH", "rpor", "ops@", "ta", "delta-shuttle"):
        assert found(search=text) == ["delta-shuttle"], text
    assert found(search="deltashuttle") == []
    assert found(search="%") == []
    assert found(search="_e_ta") == []


def test_a_search_of_one_letter_and_of_what_all_share_finds_them_all() -> None:
    Tenant.objects.bulk_create(Tenant(name=f"fleet-{n:04}", tier=Tier.objects.get(name="free")) for n in range(FEW + 5))
    assert len(found(search="fleet")) == FEW + 5
    assert len(found(search="f")) >= FEW + 5
    assert found(search="fleet-0042") == ["fleet-0042"]


def test_what_is_searched_follows_each_change_of_the_tenant() -> None:
    row = add("orbit", "Orbit Rides")
    row.label, row.tags = "Comet Rides", ["partner"]
    row.save()
    assert found(search="orbit rides") == []
    assert found(search="comet") == found(search="partner") == ["orbit"]


def test_filters_narrow_by_several_tiers_a_tag_and_a_state() -> None:
    add("one", tier="free", tags=["city", "pilot"])
    add("two", tier="pro", tags=["city"], suspended=True, suspended_reason="unpaid")
    add("gone", tier="pro", tags=["city"], archived_at=timezone.now())
    assert found(tag="city") == ["one", "two"]
    assert found(tag="cit") == []
    assert found(tag="city", tiers=["pro"]) == ["two"]
    assert found(tag="city", tiers=["pro", "free"], search="on") == ["one"]
    assert found(tag="city", state="active") == ["one"]
    assert found(state="suspended") == ["two"]
    assert found(state="archived") == ["gone"]
    assert "gone" not in found()


def test_the_summary_has_the_last_day_and_the_last_request_of_each_tenant() -> None:
    counted("acme", "a", 60)
    counted("acme", "d", 40, limit="burst")
    counted("acme", "w", 7)  # counted in addition to one of the others
    counted("bolt", "a", 5, ago=timedelta(days=9))
    now = timezone.now()
    assert measure_tenants(now) == 2
    acme, bolt = (Tenant.objects.get(name=name).summary for name in ("acme", "bolt"))
    assert (acme.asked, acme.denied, acme.share) == (100, 40, 0.4)
    assert now - timedelta(minutes=2) < acme.last_at <= now
    assert (bolt.asked, bolt.denied) == (0, 0)
    assert timedelta(days=8) < now - bolt.last_at < timedelta(days=11)
    assert measure_tenants(now + timedelta(seconds=1)) == 0
    run = last_run()
    assert run is not None
    assert run.measured_at == now + timedelta(seconds=1)


def test_figures_leave_with_the_hours_they_came_from() -> None:
    counted("acme", "a", 60)
    now = timezone.now()
    measure_tenants(now)
    measure_tenants(now + timedelta(hours=25))
    acme = Tenant.objects.get(name="acme").summary
    assert (acme.asked, acme.denied) == (0, 0)
    assert acme.last_request is not None


def test_a_new_tenant_is_listed_at_once_in_every_order() -> None:
    add("newcomer")
    for order in ORDERS:
        assert "newcomer" in found(order)
        assert "newcomer" in found(f"-{order}")
    assert Tenant.objects.get(name="newcomer").summary.last_at == BEGINNING


def test_denied_idle_throttled_and_overridden_tenants_have_views_and_counts() -> None:
    add("quiet")
    add("gone", archived_at=timezone.now())
    counted("acme", "a", 60)
    counted("acme", "d", 40, limit="burst")
    counted("bolt", "a", 6)
    override_create(tenant="bolt", multiplier=(2, 1), **SAID)
    now = timezone.now()
    measure_tenants(now)
    assert found(state="denied") == found(state="throttled") == ["acme"]
    assert found(state="override") == ["bolt"]
    assert "quiet" in found(state="idle")
    assert found(state="throttled", now=now + timedelta(minutes=9)) == []
    counts = counts_of_states(timezone.now())
    for state, count in counts.items():
        assert count == len(found(state=state)), state


def test_pages_go_on_where_the_last_ended_in_either_direction_among_many_equals() -> None:
    for n in range(23):
        add(f"fleet-{n:02}")
    TenantSummary.objects.filter(tenant__name__startswith="fleet-1").update(asked=7)
    for order in [sign + name for name in ORDERS for sign in ("", "-")]:
        rows = tenants_found(Tenant.objects.all(), TenantFilter(), timezone.now(), by_staff=True)
        pages = [keyset_page(rows, ORDERS, order=order, size=10)]
        while pages[-1].next and len(pages) < 9:
            pages.append(keyset_page(rows, ORDERS, order=order, after=pages[-1].next, size=10))
        names = [row.name for page in pages for row in page.rows]
        assert sorted(names) == found(), order
        assert pages[0].previous == ""
        back = keyset_page(rows, ORDERS, order=order, before=pages[1].previous, size=10)
        assert [row.pk for row in back.rows] == [row.pk for row in pages[0].rows], order
        assert back.previous == ""


@pytest.mark.parametrize("cursor", ["x", "~", "1~2~3", "nan~1", "99999999999999999999~1", "1~inf", "1~2031-01-01"])
def test_a_cursor_that_cannot_be_read_starts_at_the_beginning(cursor: str) -> None:
    rows = tenants_found(Tenant.objects.all(), TenantFilter(), timezone.now(), by_staff=True)
    for order in ("asked", "share", "last"):
        first = keyset_page(rows, ORDERS, order=order)
        assert list(keyset_page(rows, ORDERS, order=order, after=cursor).rows) in ([*first.rows], [])


def test_a_tenant_finds_itself_and_nobody_else() -> None:
    bolt = Tenant.objects.get(name="bolt")
    with narrowed(bolt.number):
        for search in ("o", "bol", "acme"):
            rows = tenants_found(Tenant.objects.all(), TenantFilter(search=search), timezone.now(), by_staff=False)
            assert [row.name for row in rows] == (["bolt"] if search != "acme" else [])
            asked_as_staff = tenants_found(
                Tenant.objects.all(), TenantFilter(search="acme"), timezone.now(), by_staff=True
            )
            assert list(asked_as_staff) == []


def test_the_series_of_a_row_has_an_hour_a_point() -> None:
    counted("acme", "a", 60, ago=timedelta(hours=3))
    now = timezone.now()
    measure_tenants(now)
    measure_tier_usage(now)
    row = next(
        row for row in with_figures(list(Tenant.objects.select_related("summary")), now) if row.tenant.name == "acme"
    )
    assert len(row.series) == 24
    assert sum(row.series) == 60
