"""The demo's older days are written while somebody already looks: a day at a time, each once, whoever is killed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import redis
from django.db.models import Sum
from django.test import Client
from django.utils import timezone

from quotas.demo import history
from quotas.demo.rollup_writer import RollupWriter
from quotas.demo.seeding import add_older_days, history_begins, midnight, seed
from quotas.demo.traffic_patterns import Flow, flows
from quotas.models import CalendarCounter, Denial, LimitName, Task
from quotas.models.usage import BEGINNING, GapRecord, Outcome, UsageDay, UsageHour, UsageMinute
from quotas.models.usage_rates import EVERY_ENDPOINT, LatencyHour, PackedSeconds, RatesDay, RatesHour
from quotas.observations.seconds import Seconds
from quotas.status.summary import status_summary_read
from quotas.usage.maintenance import close_days
from tenants.models import Tenant
from tests.access.people import signed_in

pytestmark = pytest.mark.django_db(transaction=True)

FEW = ("delta-shuttle", "blue-line", "night-owl-cars")
DAY = timedelta(days=1)


def silent(*_: object) -> None: ...


@pytest.fixture
def seeded(valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> datetime:
    """The demo with the traffic of a few tenants; returns when it was seeded."""

    def of_few(began_s: int) -> tuple[Flow, ...]:
        return tuple(flow for flow in flows(began_s) if flow.tenant in FEW)

    monkeypatch.setattr(history, "flows", of_few)
    now = timezone.now()
    assert seed(now, silent)
    return now


def filled_since() -> datetime | None:
    return status_summary_read().filled_since


def the_gap() -> GapRecord:
    return GapRecord.objects.get(start=BEGINNING)


def counted(day: datetime) -> dict[str, int]:
    """Requests that limits have counted on one day, by table."""
    of_day = {"start__gte": day, "start__lt": day + DAY}
    counted_outcomes = [Outcome.ALLOWED, Outcome.DENIED]
    found = {
        model.__name__: sum(
            model._default_manager.filter(outcome__in=counted_outcomes, **of_day).values_list("count", flat=True)
        )
        for model in (UsageMinute, UsageHour, UsageDay)
    }
    for rates in (RatesHour, RatesDay):
        rows = rates._default_manager.filter(endpoint_number=EVERY_ENDPOINT, **of_day)
        sums = rows.aggregate(allowed=Sum("allowed"), denied=Sum("denied"))
        found[rates.__name__] = int(sums["allowed"] or 0) + int(sums["denied"] or 0)
    packs = PackedSeconds.objects.filter(**of_day).values_list("packed", flat=True)
    found["PackedSeconds"] = sum(int(Seconds.unpack(packed).offered.sum()) for packed in packs)
    return found


def test_the_days_that_pages_show_first_are_written_at_once_and_older_ones_follow(seeded: datetime) -> None:
    """One world, looked at from all sides: to make it takes seconds."""
    began, yesterday, owner = history_begins(), midnight(seeded) - DAY, signed_in("ann-owner", "owner")
    assert began is not None
    assert filled_since() == the_gap().end == yesterday
    assert len(set(counted(yesterday).values())) == 1
    assert sum(counted(yesterday - DAY).values()) == 0
    assert "older history is being filled in" in text_of(owner)
    # A calibration of two days would say that there is too little data.
    assert not Task.objects.exists()

    seen: list[datetime | None] = []
    assert add_older_days(seeded, lambda *_: seen.append(filled_since())) == 13
    assert seen == [*(yesterday - i * DAY for i in range(1, 13)), None]
    assert (the_gap().end, the_gap().reason) == (began, history.NOTHING_BEFORE)
    assert Task.objects.get().kind == Task.Kind.CALIBRATE
    assert "older history is being filled in" not in text_of(owner)
    every_day_has_the_same_counts_everywhere(began)
    a_quota_of_a_month_counted_the_days_that_were_still_to_come()
    past_days_are_closed_as_they_are(seeded)
    a_denial_names_the_revision_of_its_time_and_a_wait_that_suits_its_limit()


def every_day_has_the_same_counts_everywhere(began: datetime) -> None:
    for place in range(14):
        sums = set(counted(began + place * DAY).values())
        assert len(sums) == 1, place
        assert sums != {0}, place
    assert LatencyHour.objects.filter(start__gte=began, start__lt=began + DAY).exists()


def a_quota_of_a_month_counted_the_days_that_were_still_to_come() -> None:
    """delta-shuttle is in the tier with a quota of a month."""
    tenant = Tenant.objects.get(name="delta-shuttle")
    limit = LimitName.objects.get(name="monthly").number
    counter = CalendarCounter.objects.get(tenant_number=tenant.pk, limit_number=limit)
    hours = UsageHour.objects.filter(tenant_number=tenant.pk, outcome=Outcome.ALLOWED, start__gte=counter.period_start)
    assert counter.used == sum(hours.values_list("cost", flat=True)) > 0


def past_days_are_closed_as_they_are(seeded: datetime) -> None:
    packed = set(PackedSeconds.objects.filter(start__lt=midnight(seeded)).values_list("start", flat=True))
    assert all(start == midnight(start) for start in packed)
    assert close_days(seeded) == 0


def a_denial_names_the_revision_of_its_time_and_a_wait_that_suits_its_limit() -> None:
    numbers = dict(LimitName.objects.values_list("name", "number"))
    daily = list(Denial.objects.filter(limit_number=numbers["daily"]).values_list("at", "retry_us"))
    assert daily
    for at, retry_us in daily:
        again = at + timedelta(microseconds=retry_us)
        assert abs(again - midnight(again + timedelta(seconds=1))) < timedelta(seconds=1)
    quotes = Denial.objects.filter(limit_number=numbers["quotes"])
    assert max(quotes.values_list("retry_us", flat=True)) <= 1_700_000
    assert len(set(quotes.values_list("revision", flat=True))) > 1


def test_a_process_that_is_killed_leaves_no_half_day_and_the_next_one_doubles_nothing(
    seeded: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = midnight(seeded) - 2 * DAY
    with monkeypatch.context() as patch:
        patch.setattr(RollupWriter, "write", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            add_older_days(seeded, silent)
    assert sum(counted(day).values()) == 0
    assert the_gap().end == day + DAY
    with pytest.raises(KeyboardInterrupt):
        add_older_days(seeded, _interrupt)
    once = counted(day)
    assert set(once.values()) != {0}
    with pytest.raises(KeyboardInterrupt):
        add_older_days(seeded, _interrupt)
    assert counted(day) == once
    assert the_gap().end == day - DAY


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def text_of(client: Client) -> str:
    return client.get("/").content.decode()


def test_days_begin_at_midnight_in_utc() -> None:
    start = int(datetime(2030, 1, 1, 22, tzinfo=UTC).timestamp())
    assert [len(day) // 3_600 for day in history.days_of(range(start, start + 30 * 3_600))] == [2, 24, 4]
