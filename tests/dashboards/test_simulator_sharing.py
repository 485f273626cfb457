"""The simulator's page about sharing shows who gets what of a pool, and says the result in words."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from dashboards.pages.simulator.sharing_form import BLANK, MOST
from quotas.simulation.sharing_presets import PRESETS

HTMX = {"HX-Request": "true"}
PAGE = "/simulator/sharing"


def text_of(content: bytes) -> str:
    return re.sub(r"\s+", " ", content.decode())


def chosen(client: Client, preset: str) -> str:
    return text_of(client.post(PAGE, {"preset": preset}, headers=HTMX).content)


def typed(**fields: str) -> dict[str, str]:
    """One member that asks for 500/s of a pool of 1,000/s."""
    return {**BLANK, "kind": "tenants", "m1_first": "500", "m1_then": "500", **fields}


def members(page: str) -> dict[str, list[int]]:
    """Member → the numbers of its row, without the last."""
    table = page[page.index('id="h-members"') :]
    rows = re.findall(r'<tr> <th scope="row">([^<]+)</th>(.*?)</tr>', table)
    return {name: [int(n.replace(",", "")) for n in re.findall(r">([\d,]+)</td>", cells)] for name, cells in rows}


@pytest.mark.parametrize("preset", [preset.key for preset in PRESETS])
def test_every_preset_runs_and_has_an_address(client: Client, preset: str) -> None:
    response = client.post(PAGE, {"preset": preset}, headers=HTMX)
    page = text_of(response.content)
    assert "passed in any second" in page
    again = text_of(client.get(response["HX-Replace-Url"]).content)
    assert members(again) == members(page)
    assert parse_qs(urlsplit(response["HX-Replace-Url"]).query)["chosen"] == [preset]


def test_it_opens_with_scenario_18(client: Client) -> None:
    page = text_of(client.get(PAGE).content)
    assert "Scenario 18." in page
    assert "No guaranteed request was refused." in page
    assert "B wakes at 5 s, and its first request passes at once." in page
    assert 'aria-current="page">Sharing</a>' in page


def test_without_a_reserve_guaranteed_requests_wait_and_the_page_promises_no_time(client: Client) -> None:
    page = chosen(client, "s18n")
    assert "Guaranteed requests of B were refused for 259 ms, because the pool was lent out." in page
    assert "Without a reserve, a guaranteed request may have to wait as long as others borrow" in page


def test_weights_divide_what_is_lent(client: Client) -> None:
    assert "In the last 2 s A gets 143/s, B gets 286/s and C gets 572/s." in chosen(client, "weights")


def test_the_market_opens_and_critical_requests_pass(client: Client) -> None:
    found = members(chosen(client, "open"))
    asked, allowed, denied = found["A (critical)"]
    assert (asked, denied) == (allowed, 0)
    assert found["C (normal)"][2] > 6_000


def test_keys_borrow_from_their_team_and_then_from_the_organisation(client: Client) -> None:
    busiest = members(chosen(client, "rows"))["a/1"]
    assert busiest[0] == 8_000
    assert all(busiest[1:4])  # own, from the team, from the pool
    assert busiest[4] > 0  # its ceiling of 500/s


def test_numbers_can_be_edited(client: Client) -> None:
    page = text_of(
        client.post(PAGE, typed(rate="100", burst="10", m1_assured="40", m1_burst="5"), headers=HTMX).content
    )
    asked, own, borrowed, *_ = members(page)["A"]
    assert asked == 5_000
    assert own == pytest.approx(405, abs=5)
    assert own + borrowed == pytest.approx(1_000, rel=0.05)


def test_shares_above_the_rate_are_allowed_and_said(client: Client) -> None:
    fields = typed(m1_assured="800", m1_burst="10", m2_then="500", m2_assured="400", m2_burst="10", reserve="20")
    page = text_of(client.post(PAGE, fields, headers=HTMX).content)
    assert "The pool can keep only 83 % of the guaranteed shares" in page


@pytest.mark.parametrize(
    ("fields", "slot", "sentence"),
    [
        ({"rate": "many"}, "rate", "Rate must be a whole number."),
        ({"rate": "0"}, "rate", "Rate must be a number above 0"),
        ({"reserve": "251"}, "reserve", "Reserve cannot be above the burst of 250"),
        ({"m1_assured": "200", "m1_ceiling": "100"}, "m1_ceiling", "Ceiling cannot be below the guaranteed share"),
        ({"m1_burst": "5"}, "m1_burst", "Burst belongs to a guaranteed share"),
        ({"m1_at": "11"}, "m1_at", "less than or equal to 10"),
        ({"m1_first": "0", "m1_then": "0"}, "m1_first", "Nobody asks for anything."),
        ({"m1_then": "20000"}, "m1_first", f"Too many requests: 200,000 of at most {MOST:,}"),
        ({"m1_priority": "urgent"}, "m1_priority", "Select a valid choice"),
        ({"kind": "teams", "team_ceiling": "x"}, "team_ceiling", "Ceiling must be a whole number."),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(
    client: Client, fields: dict[str, str], slot: str, sentence: str
) -> None:
    response = client.post(PAGE, typed(**fields), headers=HTMX)
    assert response["HX-Reswap"] == "none"
    slots = text_of(response.content).split('class="slot" id="e-')[1:]
    assert {words.partition('"')[0] for words in slots if 'class="error"' in words} == {slot}
    assert sentence in text_of(response.content)
    assert sentence in text_of(client.post(PAGE, typed(**fields)).content)


def test_an_unknown_kind_or_preset_is_no_error_of_the_server(client: Client) -> None:
    for fields in ({"kind": "x", "rate": "1"}, {"preset": "x"}, {"preset": "", "rate": "5"}):
        assert client.get(PAGE, fields).status_code == 200
