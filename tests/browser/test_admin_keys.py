"""What admins come for, from the Overview on, with keys alone: Ctrl-K, single keys, Tab, arrows, Enter and Space.

`make test` makes a tenant, which Ctrl-K and Tab do, and moves ten, which takes the keys of a list; `test_jobs.py` has
the matrix, dialogs and overrides. The other jobs are done with keys in the sweep, as `test_admin_jobs.py` does them
with the mouse in `make test`.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.jobs import (
    OPENAPI,
    asking_with,
    holds_one_budget,
    jumps,
    presses,
    skips,
    types_into,
    waits_for_more,
    whole,
)
from tests.browser.person import Person
from tests.browser.world import KEYED
from tests.config.running import Up


@pytest.mark.sweep
def test_a_tier_is_made_and_limited(ada: Person) -> None:
    page, keys = ada.page, ada.page.keyboard
    jumps(ada, "new tier", "New tier")
    expect(page.get_by_role("heading", level=1)).to_have_text("New tier")
    types_into(ada, "Name", "scaleup")
    types_into(ada, "Reason", "a plan for companies that grow")
    presses(ada, "Create tier")
    expect(page.get_by_role("heading", level=1)).to_contain_text("scaleup")
    skips(ada)
    presses(ada, "Add limit")
    expect(page.get_by_role("dialog", name="Add a limit")).to_be_visible()
    types_into(ada, "Endpoint", "rider:quote")
    keys.press("Enter")
    expect(page.locator("#inspector :focus")).to_be_visible()
    for label, text in (("Rate", "7"), ("Burst", "20"), ("Reason", "enough to grow")):
        types_into(ada, label, text)
    presses(ada, "Publish")
    expect(page.locator("#inspector")).to_contain_text("Enforced on")
    whole(ada)


def test_a_tenant_is_made(ada: Person) -> None:
    jumps(ada, "new tenant", "New tenant")
    page = ada.page
    expect(page.get_by_role("heading", level=1)).to_have_text("New tenant")
    types_into(ada, "Label", "Dune Drivers")
    presses(ada, "Create tenant")
    expect(page.locator("#new-key")).to_contain_text(re.compile(r"\S{20,}"))
    whole(ada)


@pytest.mark.sweep
def test_endpoints_are_registered_from_an_openapi_file(ada: Person) -> None:
    jumps(ada, "import openapi", "OpenAPI")
    page = ada.page
    expect(page.get_by_role("heading", level=1)).to_have_text("Import from OpenAPI")
    skips(ada)
    ada.tabs_to("Or paste it")
    page.keyboard.insert_text(OPENAPI.replace("parcels", "crates"))
    presses(ada, "Read document")
    expect(page.get_by_role("button", name="Register selected")).to_be_visible()
    expect(page.get_by_role("checkbox", name="Select GET /crates/v1/labels/{id}")).to_be_checked()
    types_into(ada, "Reason", "crates too")
    presses(ada, "Register selected")
    expect(page.locator("main")).to_contain_text("crates:show")
    whole(ada)


def test_ten_tenants_move_after_reading_who_gets_tighter(ada: Person) -> None:
    page, keys = ada.page, ada.page.keyboard
    ada.goes_to("/?live=0")
    keys.press("g")
    keys.press("t")
    expect(page.get_by_role("heading", level=1)).to_have_text("Tenants")
    page.wait_for_load_state("networkidle")
    keys.press("/")
    presses(ada, "Tier")
    ada.tabs_to("free")
    keys.press("Space")
    expect(page.locator("#list tbody tr").filter(has_text="pro")).to_have_count(0)
    free = page.locator("#list tbody tr").count()
    keys.press("Escape")
    keys.press("j")
    keys.press("x")
    for _ in range(9):
        keys.press("j")
    keys.press("Shift+X")
    expect(page.locator("#bulk")).to_contain_text("10 selected")
    keys.press("b")
    presses(ada, "Move to a tier")
    dialog = page.get_by_role("dialog").filter(has_text="Move 10 tenants")
    expect(dialog.get_by_label("New tier")).to_be_focused()
    keys.type("pro")
    expect(dialog.get_by_role("region", name="What the move changes")).to_be_visible()
    expect(dialog.get_by_role("status")).to_contain_text("asked for more than will pass")
    ada.tabs_to("Move them although")
    keys.press("Space")
    types_into(ada, "Reason", "they bought the pro plan")
    presses(ada, "Move 10 tenants")
    expect(page.locator(".toast")).to_contain_text("Saved as r")
    expect(page.locator("#list h2")).to_have_text(f"{free - 10} tenants")
    whole(ada)


@pytest.mark.sweep
def test_a_tenant_is_archived_and_restored(ada: Person) -> None:
    page = ada.page
    jumps(ada, "juniper", "juniper-cars")
    expect(page.get_by_role("heading", level=1)).to_have_text("Juniper Cars")
    skips(ada)
    presses(ada, "Settings")
    expect(page).to_have_url(re.compile("/settings$"))
    skips(ada)
    presses(ada, "Archive…")
    dialog = page.get_by_role("dialog").filter(has_text="Type its name to confirm")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    types_into(ada, "Reason", "they have left")
    types_into(ada, "Type its name to confirm", "juniper-cars")
    presses(ada, "Archive tenant")
    expect(page.locator("main")).to_contain_text("Archived")
    page.wait_for_load_state("networkidle")  # until the scripts of the new page listen
    skips(ada)
    presses(ada, "Restore…")
    types_into(ada, "Reason", "they are back")
    presses(ada, "Restore tenant")
    expect(page.locator("#new-key")).to_contain_text("hr_")
    presses(ada, "Done")
    expect(page.get_by_role("button", name="Restore…")).to_have_count(0)
    whole(ada)


@pytest.mark.sweep
def test_a_key_is_rotated_under_load(ada: Person, product: Up) -> None:
    page = ada.page
    jumps(ada, "world-of", KEYED)
    expect(page.get_by_role("heading", level=1)).to_have_text("World of Wheels")
    skips(ada)
    presses(ada, "Keys")
    presses(ada, "Issue key")
    types_into(ada, "Purpose", "hourly export")
    types_into(ada, "Reason", "the exports start tonight")
    presses(ada, "Issue key")
    secrets = [page.locator("#new-key").inner_text()]
    presses(ada, "Done")
    page.wait_for_load_state("networkidle")
    with asking_with(f"http://127.0.0.1:{product.gateway_port}", secrets) as answers:
        waits_for_more(page, answers)
        presses(ada, f"Rotate key {secrets[0].split('_')[1]}")
        expect(page.get_by_role("dialog")).to_contain_text("A new key is issued now")
        types_into(ada, "Reason", "the yearly rotation")
        presses(ada, "Rotate key")
        secrets.append(page.locator("#new-key").inner_text())
        waits_for_more(page, answers)
    holds_one_budget(answers)
    whole(ada)


@pytest.mark.sweep
def test_a_cut_is_tried_in_shadow_promoted_and_reverted(ada: Person) -> None:
    page, keys = ada.page, ada.page.keyboard
    ada.goes_to("/?live=0")
    keys.press("g")
    keys.press("m")
    expect(page.get_by_role("heading", level=1)).to_have_text("Limits matrix")
    page.wait_for_load_state("networkidle")
    keys.press("/")
    keys.type("rider:request")
    ada.tabs_to("free, rider:request")
    keys.press("Enter")
    expect(page.locator("#inspector h2")).to_have_text("free × rider:request")
    types_into(ada, "Limit", "3")
    types_into(ada, "Reason", "fewer rides for the dispatchers")
    expect(page.locator("#dry-run")).to_contain_text("cut")
    presses(ada, "Save draft")
    expect(page.locator("#inspector h2:focus")).to_contain_text("Saved as change")
    presses(ada, "its page")
    expect(page.get_by_role("heading", level=1)).to_contain_text("rider:request")
    skips(ada)
    presses(ada, "Start trial")
    expect(page.get_by_role("dialog", name="Start a trial or schedule it")).to_be_visible()
    types_into(ada, "Reason", "first see whom it would hurt")
    presses(ada, "Start")
    expect(page.locator("#verdict")).to_contain_text(
        re.compile("Too early|Too little traffic|No traffic|would see 429s")
    )
    page.wait_for_load_state("networkidle")
    skips(ada)
    presses(ada, "Promote…")
    promote = page.get_by_role("dialog").filter(has_text="It becomes a new revision")
    expect(promote.get_by_role("button", name="Promote for")).to_be_disabled()
    for _ in promote.get_by_role("radiogroup").all():
        ada.tabs_to("Keep")
        keys.press("ArrowDown")
    ada.tabs_to("I have reviewed these cuts")
    keys.press("Space")
    types_into(ada, "Reason", "the dispatchers need it now")
    presses(ada, "Promote for")
    expect(page.locator("#verdict")).to_contain_text("Promoted by ada")
    page.wait_for_load_state("networkidle")
    skips(ada)
    presses(ada, "Revert")
    expect(page.get_by_role("dialog", name="Undo changes").get_by_label("Reason")).to_be_visible()
    types_into(ada, "Reason", "it was not needed after all")
    presses(ada, "Revert")
    expect(page.locator("main")).to_contain_text("it was not needed after all")
    whole(ada)
