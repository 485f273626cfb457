"""The simulator shows what every algorithm makes of the same arrivals, and says what cannot be simulated."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from dashboards.pages.simulator.forms import EXAMPLE, MOST_ARRIVALS, timeline_of
from quotas.simulation.arrivals_csv import Arrival
from quotas.simulation.presets import presets, scenarios
from quotas.simulation.scenarios import SCENARIOS

HTMX = {"HX-Request": "true"}
TYPED = {
    "rate": "100",
    "per": "1s",
    "burst": "200",
    "meter": "1",
    "queue": "100",
    "in_flight": "20",
    "takes": "200ms",
    "quota": "500",
    "traffic": "s1",
    "algorithms": ["token_bucket", "gcra"],
}


def text_of(content: bytes) -> str:
    return re.sub(r"\s+", " ", content.decode())


def counts(page: str) -> dict[str, tuple[int, int]]:
    """Algorithm → accepted and denied, as its panel says."""
    found = re.findall(r'id="m-(\w+)".*?allowed <b>([\d,]+)</b>.*?denied <b>([\d,]+)</b>', page)
    return {name: (int(ok.replace(",", "")), int(no.replace(",", ""))) for name, ok, no in found}


def asked(client: Client, **fields: str | list[str]) -> str:
    response = client.post("/simulator", {**TYPED, **fields}, headers=HTMX)
    assert response.status_code == 200
    return text_of(response.content)


def test_it_opens_with_six_algorithms_on_the_same_arrivals(client: Client) -> None:
    found = counts(text_of(client.get("/simulator").content))
    assert len(found) == 6
    assert {sum(pair) for pair in found.values()} == {890}


def test_a_scenario_comes_out_as_it_must(client: Client) -> None:
    assert counts(asked(client)) == {"token_bucket": (200, 0), "gcra": (10, 190)}


@pytest.mark.parametrize("preset", [preset.key for preset in scenarios()])
def test_every_scenario_of_the_list_gives_its_own_cases(client: Client, preset: str) -> None:
    one = presets()[preset]
    found = counts(text_of(client.post("/simulator", {"preset": preset}, headers=HTMX).content))
    expected = {(case.accepted, case.denied) for case in SCENARIOS[one.number].cases}
    assert expected & set(found.values())
    assert {sum(pair) for pair in found.values()} == {len(one.arrivals)}


def test_a_preset_brings_its_parameters_and_its_address(client: Client) -> None:
    response = client.post("/simulator", {**TYPED, "preset": "s10"}, headers=HTMX)
    query = parse_qs(urlsplit(response["HX-Replace-Url"]).query)
    assert query["per"] == ["1m"]
    assert query["traffic"] == ["s10"]
    assert "Scenario 10." in text_of(response.content)
    again = client.get(response["HX-Replace-Url"])
    assert counts(text_of(again.content)) == counts(text_of(response.content))


def test_bars_are_spread_evenly(client: Client) -> None:
    page = asked(client, traffic="paint", bars="0,250,0,0", step="1000000", algorithms=["fixed_window", "gcra"])
    assert counts(page) == {"fixed_window": (100, 150), "gcra": (84, 166)}


def test_a_csv_is_replayed(client: Client) -> None:
    page = asked(client, traffic="csv", csv=EXAMPLE, rate="1", algorithms=["fixed_window"])
    assert counts(page) == {"fixed_window": (2, 1)}


@pytest.mark.parametrize(
    ("fields", "slot", "sentence"),
    [
        ({"rate": "many"}, "rate", "Enter a number such as 100, 4.2 or 4.2/10s."),
        ({"rate": ""}, "rate", "Rate is missing. Enter a number."),
        ({"per": "soon"}, "per", "duration"),
        ({"max_wait": "soon"}, "max_wait", "Token bucket: max_wait"),
        ({"takes": "x"}, "takes", "duration"),
        ({"rate": "20000", "algorithms": ["sliding_log"]}, "rate", "Sliding log: "),
        ({"algorithms": []}, "algorithms", "Choose at least one algorithm."),
        ({"traffic": "csv", "csv": "t_us,subject\n"}, "csv", "Line 1: column cost is missing"),
        ({"traffic": "csv", "csv": "t_us,subject,cost\n5,a,1\n4,a,1\n"}, "csv", "Line 3: t_us 4 is before"),
        ({"traffic": "paint", "bars": "20001", "step": "250000"}, "bars", "Too many requests: 20,001"),
        ({"traffic": "paint", "bars": "x", "step": "250000"}, "bars", "Paint again"),
        ({"traffic": "nothing"}, "bars", "Unknown traffic"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field_and_nothing_is_lost(
    client: Client, fields: dict[str, str | list[str]], slot: str, sentence: str
) -> None:
    response = client.post("/simulator", {**TYPED, **fields}, headers=HTMX)
    assert response["HX-Reswap"] == "none"
    slots = text_of(response.content).split('class="slot" id="e-')[1:]
    told = {words.partition('"')[0] for words in slots if 'class="error"' in words}
    assert told == {slot}
    assert sentence in text_of(response.content)
    whole = text_of(client.post("/simulator", {**TYPED, **fields}).content)
    assert sentence in whole
    assert all(f'value="{value}"' in whole for value in (fields.get("rate"), fields.get("per")) if value)


def test_more_arrivals_than_fit_are_refused(client: Client) -> None:
    lines = "".join(f"{number},a,1\n" for number in range(MOST_ARRIVALS + 1))
    assert "Too many requests. The maximum is 20,000." in asked(
        client, traffic="csv", csv=f"t_us,subject,cost\n{lines}"
    )


def test_no_arrivals_are_no_mistake(client: Client) -> None:
    assert counts(asked(client, traffic="csv", csv="t_us,subject,cost\n")) == {"token_bucket": (0, 0), "gcra": (0, 0)}


@pytest.mark.parametrize("last_us", [0, 999, 10**6, 3_600_000_000, 10**15])
def test_a_timeline_holds_all_arrivals_in_few_steps(last_us: int) -> None:
    arrivals = [Arrival(7, "a"), Arrival(7 + last_us, "a")]
    line = timeline_of(arrivals)
    assert line.begin_us <= 7
    assert line.begin_us + line.span_us > 7 + last_us
    assert line.steps <= 66


@pytest.mark.parametrize(("typed", "per"), [("4.2", "10s"), ("4.2/10s", "1s"), ("42", "100s")])
def test_a_rate_with_decimals_counts_as_it_is_typed(client: Client, typed: str, per: str) -> None:
    bars = ",".join(["5"] * 100)
    fields = {"traffic": "paint", "bars": bars, "step": "1000000", "rate": typed, "per": per, "burst": "1"}
    found = counts(asked(client, **fields, algorithms=["token_bucket"]))
    assert found == {"token_bucket": (42, 458)}


def test_windows_count_whole_units_and_say_so_once(client: Client) -> None:
    page = asked(client, rate="4.2", algorithms=["token_bucket", "fixed_window", "sliding_log"])
    assert "Fixed window, sliding log count whole units. Untick such algorithms, or enter a whole rate." in page
    for typed in ("0", "-1", "4.2/0s", "1e3", "many", "1/2/3", "4.2/10y"):
        assert 'class="error' in asked(client, rate=typed), typed
