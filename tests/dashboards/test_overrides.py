"""Overrides of all tenants on one page: what they change, whether they are needed, and dialogs for one and many."""

from __future__ import annotations

import csv
import io
import re
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from quotas.models import Override, Revision
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.override_edits import overrides_extend
from quotas.overrides import override_cancel, override_create
from quotas.tenants import NewTenant, tenants_create
from quotas.usage.backfill import backfill_usage
from tenants.models import Tenant
from tests.access.people import signed_in
from tests.dashboards.world import PAY, drained, make_world, page
from tests.quotas.world import FORCED, SAID

pytestmark = pytest.mark.django_db

ALL = {"burst": {"rate": 150, "burst": 300}}
GIVE = {"tenants": "acme bolt", "place": "*|×", "factor": "1.5", "reason": "a festival"}


@pytest.fixture(autouse=True)
def world(valkey: object) -> None:
    make_world()
    drained()


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in("olga", "operator")


def hours(count: float) -> datetime:
    return timezone.now() + timedelta(hours=count)


def given(tenant: str = "acme", **fields: object) -> Override:
    return override_create(tenant=tenant, **{"limits": ALL, "end": hours(100), **fields}, **FORCED)  # type: ignore[arg-type]


def asked_for(tenant: str, per_second: int) -> None:
    """So many requests in each second of a minute."""
    start = int(timezone.now().timestamp()) // 60 * 60 - 600
    series = CellSeries(Tenant.objects.get(name=tenant).number, 1, "a", 0)
    backfill_usage(Cells.of([Cell(start + i, series, per_second, per_second) for i in range(60)]), timezone.now())


def picks(text: str) -> list[int]:
    return [int(number) for number in re.findall(r'data-pick="(\d+)"', text)]


def test_tabs_tell_active_upcoming_ending_endless_and_ended_ones_apart(operator: Client) -> None:
    later = given(start=hours(24))
    soon, endless = given(end=hours(2)), given("bolt", end=None)
    over = given()
    override_cancel(override=over.pk, **FORCED)
    assert picks(page(operator, "/overrides")) == [soon.pk, later.pk, endless.pk]
    assert picks(page(operator, "/overrides?state=ending")) == [soon.pk]
    assert picks(page(operator, "/overrides?state=endless")) == [endless.pk]
    assert picks(page(operator, "/overrides?state=upcoming")) == [later.pk]
    assert picks(page(operator, "/overrides?state=ended")) == [over.pk]
    text = page(operator, "/overrides")
    assert "2 are in force for 2 tenants" in text
    assert "100/s burst 200" in text
    assert "150/s burst 300" in text


def test_it_is_searched_filtered_and_sorted(operator: Client) -> None:
    one = override_create(
        tenant="acme",
        endpoint=PAY,
        limits={"burst": {"rate": 150}},
        end=hours(9),
        author="ann",
        reason="Rail strike",
    )
    two = given("bolt", end=hours(5))
    assert picks(page(operator, "/overrides?q=rail")) == [one.pk]
    assert picks(page(operator, f"/overrides?endpoint={PAY}")) == [one.pk]
    assert picks(page(operator, "/overrides?endpoint=*")) == [two.pk]
    assert picks(page(operator, "/overrides?tier=free")) == picks(page(operator, "/overrides?tenant=bolt")) == [two.pk]
    assert picks(page(operator, "/overrides?order=-tenant")) == [two.pk, one.pk]
    assert picks(page(operator, "/overrides?order=created")) == [one.pk, two.pk]


def test_still_needed_compares_use_with_the_limit_underneath(operator: Client) -> None:
    given()
    asked_for("acme", 20)
    assert re.search(r"no, 20\s*% of the limit underneath", page(operator, "/overrides"))
    asked_for("acme", 110)
    text = page(operator, "/overrides")
    assert re.search(r"<b>130\s*%</b>", text)


def test_a_viewer_reads_and_exports_but_is_offered_no_change(client: Client) -> None:
    row = override_create(tenant="acme", multiplier=(3, 2), author="ann", reason="=1+1")
    text = page(client, "/overrides")
    assert "× 1.5" in text
    for word in ("Give override", ">Extend<", ">End<", "data-pick="):
        assert word not in text
    content = b"".join(client.get("/overrides.csv")).decode()
    (line,) = csv.DictReader(io.StringIO(content))
    assert (line["id"], line["tenant"], line["reason"]) == (str(row.pk), "acme", "'=1+1")
    assert client.post("/overrides/end", {"names": row.pk}).status_code == 403


def test_one_override_for_many_tenants_is_one_revision(operator: Client) -> None:
    dialog = operator.post("/overrides/new?q=o", {"all": "1"}).content.decode()
    assert 'value="bolt"' in dialog
    dialog = operator.post("/overrides/new", {"names": ["acme", "bolt"]}).content.decode()
    assert "2 tenants, in one revision" in dialog
    assert "Override" not in [row.action for row in Revision.objects.all()]
    preview = operator.post("/overrides/preview", GIVE).content.decode()
    assert "Affects 2 tenants" in preview
    before = Revision.objects.count()
    response = operator.post("/overrides/give", GIVE)
    assert response.headers["HX-Redirect"] == "/overrides"
    assert Revision.objects.count() == before + 1
    assert {(row.tenant.name, row.multiplier_numerator) for row in Override.objects.all()} == {("acme", 3), ("bolt", 3)}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tenants": ""}, "Name at least one tenant"),
        ({"tenants": "acme nobody"}, "There is no tenant nobody"),
        ({"factor": ""}, "Enter a factor"),
        ({"factor": "0"}, "greater than or equal"),
        ({"reason": ""}, "Enter a reason"),
        ({"place": "*|burst", "main": ""}, "Enter a number"),
        ({"ends": "2001-01-01T00:00"}, "nd must be later than start"),
        ({"factor": "0.5"}, "note-denied"),
    ],
)
def test_what_is_wrong_is_said_in_the_dialog_and_what_was_typed_stays(
    operator: Client, wrong: dict[str, str], words: str
) -> None:
    response = operator.post("/overrides/give", GIVE | wrong)
    assert response.status_code == 422
    text = response.content.decode()
    assert words in text
    assert ("a festival" in text) is ("reason" not in wrong)
    assert not Override.objects.exists()


def test_several_are_extended_at_once_and_often_ones_are_told(operator: Client) -> None:
    first, second = given(), given("bolt")
    for _ in range(2):
        overrides_extend(overrides=[first.pk], by=timedelta(hours=1), **SAID)
    picked = {"names": [first.pk, second.pk]}
    dialog = operator.post("/overrides/extend", picked).content.decode()
    assert "Extend 2 overrides" in dialog
    assert "acme was extended 2 times before" in dialog
    assert "bolt was extended" not in dialog
    wrong = operator.post("/overrides/extend", {**picked, "do": "apply", "by": "until", "reason": "longer"})
    assert wrong.status_code == 422
    assert "Choose a date and a time" in wrong.content.decode()
    done = operator.post("/overrides/extend", {**picked, "do": "apply", "by": "24h", "reason": "longer"})
    assert done.headers["HX-Redirect"] == "/overrides"
    second.refresh_from_db()
    assert second.end is not None
    assert second.end > hours(123)


def test_all_that_match_are_ended_also_on_other_pages(operator: Client) -> None:
    names = [f"fleet-{n:02}" for n in range(60)]
    tenants_create(tenants=[NewTenant(name, "free") for name in names], **SAID)
    kept = given("acme")
    for name in names[:55]:
        given(name, limits={}, multiplier=(2, 1))
    assert len(picks(page(operator, "/overrides"))) == 50
    dialog = operator.post("/overrides/end?q=fleet", {"all": "1"}).content.decode()
    numbers = re.findall(r'name="names" value="(\d+)"', dialog)
    assert len(numbers) == 55
    answer = operator.post("/overrides/end", {"names": numbers, "do": "apply", "reason": "over"})
    assert answer.status_code == 422  # ending them cuts limits
    answer = operator.post("/overrides/end", {"names": numbers, "do": "apply", "reason": "over", "force": "on"})
    assert answer.headers["HX-Redirect"] == "/overrides"
    assert list(Override.objects.filter(cancelled_at=None)) == [kept]


def test_an_edit_changes_values_and_the_end(operator: Client) -> None:
    row = given()
    dialog = operator.get(f"/overrides/{row.pk}/edit").content.decode()
    assert 'name="limits.burst.rate" value="150"' in dialog
    typed = {"limits.burst.rate": "180", "limits.burst.burst": "300", "end": "", "reason": "more", "do": "apply"}
    assert operator.post(f"/overrides/{row.pk}/edit", typed).status_code == 200
    fresh = Override.objects.get(cancelled_at=None)
    assert (fresh.limits["burst"], fresh.end) == ({"rate": 180, "burst": 300}, None)
    assert operator.post(f"/overrides/{row.pk}/edit", typed).status_code == 422
    assert operator.get("/overrides/999999/edit").status_code == 404


PARAMETERS = ("q", "state", "tier", "endpoint", "tenant", "order", "after", "before", "view")


@pytest.mark.parametrize("value", ["'\"<b>", "1~inf"])
def test_garbage_in_all_parameters_is_shown_as_text_or_ignored(operator: Client, value: str) -> None:
    check_garbage(operator, dict.fromkeys(PARAMETERS, value))


@pytest.mark.sweep
@pytest.mark.parametrize("value", ["", "'\"<b>", "%25", "~", "-1", "9" * 30, "ü" * 300, "1~inf", "1~2031-01-01"])
def test_garbage_in_any_parameter_is_shown_as_text_or_ignored(operator: Client, value: str) -> None:
    for name in PARAMETERS:
        check_garbage(operator, {name: value})


def check_garbage(operator: Client, garbage: dict[str, str]) -> None:
    for address in ("/overrides", "/overrides.csv"):
        response = operator.get(address, garbage)
        assert response.status_code == 200, garbage
        assert b"'\"<b>" not in b"".join(response), garbage
    for action in ("extend", "end"):
        answer = operator.post(f"/overrides/{action}", {"names": next(iter(garbage.values())), **garbage})
        assert answer.status_code in (200, 422), garbage


@pytest.mark.parametrize(
    ("typed", "stored", "shown"),
    [
        ("4.2", {"rate": 4.2}, "4.2/s"),
        ("4.2/10s", {"rate": 4.2, "per": "10s"}, "4.2/10s"),
        ("120", {"rate": 120}, "120/s"),
    ],
)
def test_a_rate_with_decimals_is_given_and_edited_as_typed(
    operator: Client, typed: str, stored: dict[str, object], shown: str
) -> None:
    give = {"place": "*|burst", "main": typed, "reason": "a festival", "force": "on"}
    assert operator.post("/tenants/acme/override/give", give).status_code == 200
    row = Override.objects.get()
    assert row.limits == {"burst": stored}
    assert shown in page(operator, "/overrides")
    where = f"/overrides/{row.pk}/edit"
    assert f'value="{typed}"' in operator.get(where).content.decode()
    edit = {"do": "apply", "reason": "a bit more", "force": "on"}
    assert operator.post(where, {**edit, "limits.burst.rate": typed}).status_code == 200
    assert Override.objects.count() == 1
    assert operator.post(where, {**edit, "limits.burst.rate": "5.5/1m"}).status_code == 200
    assert Override.objects.get(cancelled_at=None).limits == {"burst": {"rate": 5.5, "per": "1m"}}


def test_what_is_no_rate_is_refused_beside_the_field(operator: Client) -> None:
    for typed in ("4.2/0s", "1e3", "many", "-1", "4.2.1"):
        refused = operator.post("/tenants/acme/override/give", {"place": "*|burst", "main": typed, "reason": "why"})
        assert refused.status_code == 422
        assert "Enter a number such as 100, 4.2 or 4.2/10s." in refused.content.decode()
