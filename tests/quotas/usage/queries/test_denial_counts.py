"""A filter of the decision log and a share on a page mean the same requests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from quotas.usage.queries.denial_causes import causes_read, revision_spans
from quotas.usage.queries.denial_counts import DenialCount, denials_counted
from quotas.usage.queries.denial_log import DenialFilter
from quotas.usage.queries.periods import SPANS, hours_to, period_read
from quotas.usage.queries.traffic import traffic_read
from tests.dashboards.world import GET, counted

pytestmark = pytest.mark.usefixtures("world")

HOUR = timedelta(hours=1)


def count(**wanted: Any) -> DenialCount | None:
    now = timezone.now()
    return denials_counted(DenialFilter(**{"since": now - HOUR, **wanted}), now)


def denied(**wanted: Any) -> int:
    found = count(**wanted)
    assert found is not None
    return found.denied


def test_each_filter_counts_just_its_requests() -> None:
    counted("acme", "a", 1_000)
    counted("acme", "d", 40, limit="burst")
    counted("acme", "d", 3, limit="minute", endpoint=GET)
    counted("bolt", "z", 2, limit="burst")
    counted("", "u", 5, endpoint="")
    counted("acme", "d", 7, limit="burst", ago=3 * HOUR)
    assert denied() == 50
    assert denied(tenant="acme") == 43
    assert denied(tier="free") == 2
    assert denied(tenant="acme", tier="free") == 0
    assert denied(endpoint=GET) == 3
    assert denied(endpoint="-") == 5
    assert denied(limit="burst", tenant="acme") == 40
    assert denied(limit="-") == 5
    assert denied(reason="cost_too_big") == 2
    assert denied(tenant="nobody") == denied(endpoint="a:b") == denied(limit="nothing") == denied(tier="gold") == 0
    assert denied(since=timezone.now() - 4 * HOUR) == 57


def test_what_is_never_listed_is_told_apart() -> None:
    counted("bolt", "p", 12)
    counted("bolt", "d", 3, limit="burst")
    assert count() == DenialCount(denied=15, unlisted=12, kept_since=None)
    only = count(reason="suspended")
    assert only is not None
    assert not only.is_listed
    old = count(since=timezone.now() - timedelta(days=9))
    assert old is not None
    assert old.kept_since is not None


def test_a_filter_without_a_time_or_with_an_odd_one_counts_nothing() -> None:
    now = timezone.now()
    assert denials_counted(DenialFilter(), now) is None
    assert count(since=now - timedelta(days=900)) is None
    assert count(until=now - 2 * HOUR) is None


@pytest.mark.parametrize("span", SPANS)
def test_causes_and_revisions_lead_to_as_many_requests_as_they_say(span: str) -> None:
    for minutes, n in ((0, 40), (7, 9), (300, 11), (4_000, 13)):
        counted("acme", "d", n, limit="burst", ago=timedelta(minutes=minutes))
    counted("acme", "p", 4)
    now = timezone.now()
    period = period_read(span, "", "", now)
    for cause in causes_read(period):
        wanted = DenialFilter(since=period.begin, reason=cause.kind, limit=cause.limit or "-")
        found = denials_counted(wanted, now)
        assert found is not None
        assert found.denied == cause.denied
    for reign in revision_spans(traffic_read(period), [], before=1):
        found = denials_counted(DenialFilter(since=reign.begin, until=reign.end), now)
        assert found is not None
        assert found.denied == reign.denied > 0


def test_a_day_of_a_list_is_whole_hours() -> None:
    at = timezone.now()
    day = hours_to(at)
    assert day.begin < at < day.end == day.begin + 24 * HOUR
    assert day.end.minute == 0
