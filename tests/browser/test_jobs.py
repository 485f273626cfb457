"""What people come for, done as a person does it: with what the page shows, and in the main jobs with keys alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect

from config.data_folders import Places
from headroom_edge import Limiter
from tests.browser.person import PATIENCE_MS, Person
from tests.browser.world import THROTTLED

expect.set_options(timeout=PATIENCE_MS)
EVERY_S = 0.2  # the demo's own clients would need minutes to use up a burst
# Newest first; a step that is over has a newer one above it.
DENIED_AFTER = """(since) => [...document.querySelectorAll("#usage-data tbody tr")].slice(1)
    .filter((row) => Number(row.dataset.x) > since)
    .map((row) => Number(row.cells[1].dataset.v) - Number(row.cells[2].dataset.v))
    .filter((gap) => !Number.isNaN(gap))"""


@contextmanager
def asking(home: Places) -> Iterator[None]:
    """A client of the throttled tenant that does not let up."""
    stop = threading.Event()

    def ask() -> None:
        with Limiter.from_url(home.redis_url) as limiter:
            while not stop.wait(EVERY_S):
                limiter.check(tenant=THROTTLED, endpoint="rider:quote")

    client = threading.Thread(target=ask)
    client.start()
    try:
        yield
    finally:
        stop.set()
        client.join()


@pytest.fixture
def busy(home: Places) -> Iterator[None]:
    with asking(home):
        yield


def whole(person: Person) -> None:
    assert not person.troubles, "\n".join(person.troubles)


def newest_step(page: Page) -> float:
    return float(page.locator("#usage-data tbody tr").first.get_attribute("data-x") or 0)


def test_the_throttled_tenant_is_found_understood_and_helped(ada: Person, busy: None) -> None:
    page = ada.page
    ada.goes_to("/?span=15m")
    row = page.locator("#throttled tbody tr").filter(has_text=THROTTLED).filter(has_text="rider:quote")
    expect(row).to_contain_text("quotes")
    row.get_by_role("link", name="Why").click()
    expect(page.locator("#why")).to_contain_text("pro × rider:quote")
    page.goto(page.url + "&limit=quotes&span=15m")
    page.wait_for_function(f"() => ({DENIED_AFTER})(0).some((gap) => gap > 1)")

    page.get_by_role("button", name="Add override").first.click()
    dialog = page.get_by_role("dialog", name=f"Add override for {THROTTLED}")
    dialog.get_by_label("Rate").fill("500")
    dialog.get_by_label("Burst").fill("500")
    expect(dialog.locator("#override-preview")).to_contain_text("No limit gets tighter")
    dialog.get_by_label("Reason").fill("their campaign runs until tomorrow")
    dialog.get_by_role("button", name="Add override").click()
    expect(page.locator("#overrides")).to_contain_text("their campaign runs until tomorrow")

    ada.goes_to(f"/tenants/{THROTTLED}?endpoint=rider:quote&limit=quotes&span=15m")
    page.wait_for_function(
        f"(since) => {{ const gaps = ({DENIED_AFTER})(since); return gaps.length && gaps[0] === 0; }}",
        arg=newest_step(page),
    )
    whole(ada)


def test_an_override_is_given_with_keys_alone(ada: Person) -> None:
    page, keys = ada.page, ada.page.keyboard
    ada.goes_to("/?live=0")
    keys.press("Control+k")
    keys.type("orbit")
    expect(page.get_by_role("option", selected=True)).to_contain_text("orbit-rides")
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Orbit Rides")
    ada.tabs_to("Add override")
    keys.press("Enter")
    ada.tabs_to("Reason")
    keys.type("a busy weekend")
    ada.tabs_to("Add override")
    keys.press("Enter")
    expect(page.locator("#overrides")).to_contain_text("a busy weekend")
    whole(ada)


def test_a_cell_of_the_matrix_is_edited_with_keys_alone(ada: Person) -> None:
    page, keys = ada.page, ada.page.keyboard
    ada.goes_to("/matrix")
    keys.press("/")
    keys.type("partner:bookings")
    expect(page.locator("#matrix-body tr:visible")).to_have_count(1)
    ada.tabs_to("free, partner:bookings")
    keys.press("ArrowRight")
    keys.press("Enter")
    expect(page.locator("#inspector h2")).to_have_text("pro × partner:bookings")
    ada.tabs_to("Limit")
    keys.press("Control+a")
    keys.type("900")
    expect(page.locator("#dry-run")).to_contain_text("No limit drops by more than 10")
    ada.tabs_to("Reason")
    keys.type("they book for two towns now")
    ada.tabs_to("Publish")
    keys.press("Enter")
    expect(page.locator("#inspector")).to_contain_text("Enforced on")
    expect(page.locator("#matrix-body tr:visible")).to_contain_text("900/min")
    whole(ada)


def test_a_recommendation_is_reviewed_and_approved(ada: Person) -> None:
    page = ada.page
    ada.goes_to("/recommendations")
    page.get_by_role("link", name="pro × *").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("pro")
    expect(page.locator("figure[data-chart] canvas").first).to_be_visible()
    page.get_by_label("Comment").fill("the evidence is clear")
    page.get_by_role("button", name="Approve and start").click()
    expect(page.locator("main")).to_contain_text("in shadow")
    whole(ada)


def test_a_change_is_taken_back(ada: Person) -> None:
    page = ada.page
    ada.goes_to("/changes?q=pro-reports")
    page.get_by_role("link").filter(has_text="Raise pro × admin:reports").click()
    page.get_by_role("button", name="Revert r").click()
    dialog = page.get_by_role("dialog", name="Undo changes")
    expect(dialog).to_contain_text("Blocked: this would cut")
    dialog.get_by_label("Apply anyway: I have reviewed these cuts").check()
    dialog.get_by_label("Reason").fill("the reports were too many")
    dialog.get_by_role("button", name="Revert").click()
    expect(page.locator("#detail")).to_contain_text("the reports were too many")
    whole(ada)


def test_a_request_is_tried_without_being_charged(ada: Person) -> None:
    page = ada.page
    ada.goes_to("/tester")
    form = page.locator("#tester form")
    form.get_by_label("Tenant").fill("terminal-two")
    form.get_by_label("Endpoint").fill("rider:quote")
    for _ in range(2):
        form.get_by_role("button", name="Test request").click()
        expect(page.locator("#rules li").filter(has_text="quotes")).to_contain_text("9 of 10 left")
    whole(ada)
