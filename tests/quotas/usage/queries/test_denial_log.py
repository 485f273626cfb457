"""Single denials: the right ones, newest first, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from pytest_django import DjangoAssertNumQueries

from quotas.models import Endpoint, LimitName
from quotas.overrides import override_create
from quotas.policies.edit import policy_update
from quotas.policies.spec import to_us
from quotas.usage.batch_format import DenialRecord
from quotas.usage.queries import denial_log
from quotas.usage.queries.denial_log import DenialFilter, denials_count, denials_read
from quotas.usage.rollups import add_denials
from tenants.models import Tenant
from tests.quotas.world import FORCED, GET, PAY, SAID, newest

pytestmark = pytest.mark.usefixtures("world")

NOW = datetime(2030, 5, 7, 12, 34, 56, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def denied(
    seconds_ago: int,
    tenant: str = "acme",
    endpoint: str = PAY,
    limit: str = "burst",
    reason: str = "limit",
    retry_us: int = 1_500_000,
    revision: int = 2,
) -> None:
    row = DenialRecord(
        tenant=Tenant.objects.get(name=tenant).number if tenant else 0,
        endpoint=Endpoint.objects.get(name=endpoint).number if endpoint else 0,
        at_us=to_us(NOW - seconds_ago * SECOND),
        limit=LimitName.objects.get(name=limit).number if limit else 0,
        reason=reason,
        cost=10,
        retry_us=retry_us,
        revision=revision,
        subject=b"203.0.113.7",
    )
    with transaction.atomic():
        add_denials([row], NOW)


def read(**wanted: Any) -> list[tuple[str, str, str]]:
    return [(row.tenant, row.endpoint, row.limit) for row in denials_read(DenialFilter(**wanted)).denials]


def test_the_newest_come_first_and_each_filter_narrows() -> None:
    denied(9)
    denied(8, "bolt", GET)
    denied(7, "acme", GET, "minute")
    everything = [("acme", GET, "minute"), ("bolt", GET, "burst"), ("acme", PAY, "burst")]
    assert read() == everything
    assert read(tenant="acme") == [everything[0], everything[2]]
    assert read(endpoint=GET) == everything[:2]
    assert read(limit="minute", tenant="acme", reason="limit") == [everything[0]]
    assert read(tenant="nobody") == read(endpoint="no:such") == read(reason="suspended") == []


def test_older_ones_follow_on_the_next_page() -> None:
    for seconds_ago in range(5):
        denied(seconds_ago)
    page = denials_read(DenialFilter(), most=3)
    assert (len(page.denials), page.is_whole) == (3, False)
    rest = denials_read(DenialFilter(), before=page.denials[-1].at, most=3)
    assert (len(rest.denials), rest.is_whole) == (2, True)


def test_no_page_ends_within_a_microsecond() -> None:
    for endpoint in (PAY, GET):
        denied(3, "acme", endpoint)
        denied(3, "bolt", endpoint)
    denied(4)
    page = denials_read(DenialFilter(), most=1)
    assert (len(page.denials), page.is_whole) == (4, False)
    rest = denials_read(DenialFilter(), before=page.denials[-1].at, most=1)
    assert (len(rest.denials), rest.is_whole) == (1, True)


def test_new_ones_are_counted_up_to_a_bound() -> None:
    for seconds_ago in range(4):
        denied(seconds_ago)
    assert denials_count(DenialFilter(), after=NOW - 2 * SECOND) == 2
    assert denials_count(DenialFilter(endpoint=PAY), after=NOW - 9 * SECOND, most=3) == 3


def test_a_search_for_something_rare_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denial_log, "MOST_SEARCHED", 2)
    denied(9, endpoint=GET)
    denied(8)
    denied(7)
    page = denials_read(DenialFilter(endpoint=GET))
    assert (page.denials, page.is_searched) == ([], True)
    assert read() == [("acme", PAY, "burst"), ("acme", PAY, "burst"), ("acme", GET, "burst")]


@pytest.mark.parametrize(
    ("reason", "retry_us", "said"),
    [
        ("limit", 1_500_000, "The limit burst was used up (cost 10); retry after 1.5 s."),
        ("limit", -1, "waiting does not help"),
        ("cost_too_big", -1, "more than burst ever allows at once"),
        ("suspended", 0, "until it is resumed"),
        ("overflow", 90_000, "retry after 90 ms"),
        ("unknown_tenant", 0, "No tenant has the name"),
        ("newer", 0, "Refused for the reason newer."),
    ],
)
def test_each_is_explained(reason: str, retry_us: int, said: str) -> None:
    denied(1, reason=reason, retry_us=retry_us)
    [row] = denials_read(DenialFilter()).denials
    assert said in row.words


def test_what_is_gone_has_no_name_and_a_subject_is_no_address() -> None:
    denied(1, tenant="", endpoint="", limit="")
    [row] = denials_read(DenialFilter()).denials
    assert (row.tenant, row.endpoint, row.limit) == ("", "", "")
    assert len(row.subject) == 8


def test_a_page_costs_as_many_queries_whatever_it_holds(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for seconds_ago in range(30):
        denied(seconds_ago, "acme" if seconds_ago % 2 else "bolt")
    with django_assert_num_queries(4):
        denials_read(DenialFilter())


SHARED = [
    {"name": "org", "algorithm": "pool", "rate": 1_000, "burst": 250},
    {"name": "burst", "algorithm": "borrowing", "assured": 40, "ceiling": 80, "parent": "org"},
]
BORROWED = {
    "limit/pool": "The pool org was full and the guaranteed share of 40/s was used (cost 10); retry after 1.5 s.",
    "limit/share": (
        "The pool org had no more to lend to burst, in fairness to others, and the guaranteed share of 40/s was used "
        "(cost 10); retry after 1.5 s."
    ),
    "limit/ceiling": "The ceiling of 80/s of the limit burst was reached (cost 10); retry after 1.5 s.",
}


@pytest.mark.parametrize("reason", BORROWED)
def test_a_limit_that_borrows_says_what_it_lacked(reason: str) -> None:
    policy_update(name="pro-all", limits=SHARED, **FORCED)
    denied(1, reason=reason, revision=newest().number)
    [row] = denials_read(DenialFilter(reason="limit")).denials
    assert (row.reason, row.cause) == ("limit", reason.removeprefix("limit/"))
    assert row.words == BORROWED[reason]


def test_the_pool_at_the_end_of_a_chain_is_named() -> None:
    share = {"name": "share", "algorithm": "borrowing", "assured": 100, "parent": "org", "subject": "team"}
    leaf = {**SHARED[1], "parent": "share", "subject": "team+key"}
    policy_update(name="pro-all", limits=[SHARED[0], share, leaf], **FORCED)
    for seconds_ago, reason in enumerate(BORROWED):
        denied(seconds_ago, reason=reason, revision=newest().number)
    assert [row.words for row in denials_read(DenialFilter()).denials] == list(BORROWED.values())


def test_denials_are_found_by_their_cause() -> None:
    for seconds, reason in enumerate([*BORROWED, "limit"], start=1):
        denied(seconds, reason=reason)
    for cause in ("pool", "share", "ceiling"):
        for reason in ("", "limit"):
            assert [row.cause for row in denials_read(DenialFilter(cause=cause, reason=reason)).denials] == [cause]
    assert not denials_read(DenialFilter(cause="pool", reason="suspended")).denials
    assert len(denials_read(DenialFilter(reason="limit")).denials) == 4


def test_a_share_that_was_changed_or_overridden_since_is_not_named() -> None:
    policy_update(name="pro-all", limits=SHARED, **FORCED)
    denied(1, reason="limit/pool", revision=newest().number - 1)
    [row] = denials_read(DenialFilter()).denials
    assert row.words.startswith("The pool of the limit burst was full and the guaranteed share was used")
    denied(0, reason="limit/pool", revision=newest().number)
    assert denials_read(DenialFilter()).denials[0].share is not None
    override_create(tenant="acme", endpoint="*", limits={"burst": {"assured": 60}}, **SAID)
    assert denials_read(DenialFilter()).denials[0].share is None


def test_who_has_nothing_guaranteed_is_told_so() -> None:
    share = {**SHARED[1], "assured": 0}
    policy_update(name="pro-all", limits=[SHARED[0], share], **FORCED)
    denied(1, reason="limit/pool", revision=newest().number)
    [row] = denials_read(DenialFilter()).denials
    assert row.words.startswith("The pool org was full, and nothing is guaranteed to burst (cost 10)")
