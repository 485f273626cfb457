"""What admins come for, from the Overview on, with the mouse; `test_admin_keys.py` does the same with keys alone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.browser.jobs import OPENAPI, answers_late, asking_with, holds_one_budget, menu, waits_for_more, whole
from tests.browser.person import Person
from tests.browser.world import THROTTLED
from tests.config.running import Up


def test_a_tier_is_made_and_limited(ada: Person) -> None:
    page = ada.page
    ada.goes_to("/?live=0")
    menu(page, "Tiers").click()
    page.get_by_role("link", name="New tier").click()
    page.get_by_label("Name", exact=True).fill("startup")
    page.get_by_label("Reason").fill("a plan for young companies")
    page.get_by_role("button", name="Create tier").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("startup")
    menu(page, "Policies").click()
    page.get_by_role("button", name="New policy").click()
    place = page.get_by_role("dialog", name="New policy")
    place.locator("label").filter(has_text="Tier").first.click()
    place.locator("[name=tier]").select_option("startup")
    place.get_by_role("button", name="Set limits").click()
    inspector = page.locator("#inspector")
    for label, text in (("Rate", "7"), ("Burst", "20"), ("Reason", "enough for a start")):
        inspector.get_by_label(label, exact=label != "Reason").fill(text)
    inspector.get_by_role("button", name="Publish").click()
    expect(inspector).to_contain_text("Enforced on")
    whole(ada)


# `test_admin_keys.py` makes one in `make test`.
@pytest.mark.sweep
def test_a_tenant_with_a_key_takes_three_clicks_and_two_fields(ada: Person) -> None:
    page = ada.page
    ada.goes_to("/?live=0")
    menu(page, "Tenants").click()
    page.get_by_role("link", name="New tenant").click()
    dialog = page.get_by_role("dialog", name="New tenant")
    dialog.get_by_label("Label").press_sequentially("Cedar Coaches")
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("cedar-coaches")
    dialog.get_by_label("Tier").select_option("pro")
    dialog.get_by_role("button", name="Create tenant").click()
    expect(dialog.locator("#new-key")).to_contain_text(re.compile(r"\S{20,}"))
    expect(dialog.get_by_label("curl example")).to_contain_text("/v1/check")
    dialog.get_by_role("button", name="Done").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cedar Coaches")
    whole(ada)


def test_endpoints_are_registered_from_an_openapi_file(ada: Person) -> None:
    page = ada.page
    ada.goes_to("/?live=0")
    menu(page, "Endpoints").click()
    page.get_by_role("link", name="Import from OpenAPI").click()
    file = FilePayload(name="parcels.yaml", mimeType="application/yaml", buffer=OPENAPI.encode())
    page.locator("input[type=file]").set_input_files(file)
    page.get_by_role("button", name="Read document").click()
    expect(page.get_by_role("checkbox", name="Select POST /parcels/v1/labels", exact=True)).to_be_checked()
    page.get_by_role("checkbox", name="Select GET /parcels/v1/labels/{id}").uncheck()
    page.get_by_label("Reason").fill("parcels go through the gateway now")
    page.get_by_role("button", name="Register selected").click()
    expect(page.locator("main")).to_contain_text("parcels:label")
    whole(ada)


# `test_admin_keys.py` moves ten in `make test`.
@pytest.mark.sweep
def test_ten_tenants_move_after_reading_who_gets_tighter(ada: Person) -> None:
    page = ada.page
    ada.goes_to("/?live=0")
    menu(page, "Tenants").click()
    page.locator("summary").filter(has_text="Tier:").click()
    for tier in ("enterprise", "pro"):
        page.get_by_role("checkbox", name=tier, exact=True).check()
    expect(page.locator("#f-tier")).to_contain_text("enterprise, pro")
    for row in page.locator("#list tbody tr").filter(has_not_text=THROTTLED).all()[:10]:
        row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Move to a tier").click()
    dialog = page.get_by_role("dialog").filter(has_text="Move 10 tenants")
    dialog.get_by_label("New tier").select_option("free")
    expect(dialog).to_contain_text("tighter")
    held = answers_late(page, "**/tenants/bulk/move*")
    dialog.get_by_label("End it with the move").check()  # the override of green-go
    dialog.get_by_label("Reason").fill("the trial contracts are over")
    held.let_go()
    # What the move changes is told anew, and has to be accepted anew.
    expect(dialog.locator("#stranded-end[checked]")).to_be_attached()
    expect(dialog.get_by_label("Reason")).to_have_value("the trial contracts are over")
    dialog.get_by_label("Move them although").check()
    dialog.get_by_role("button", name="Move 10 tenants").click()
    expect(page.locator(".toast")).to_contain_text("Saved as r")
    whole(ada)


def test_a_tenant_is_archived_and_restored(ada: Person) -> None:
    page = ada.page
    ada.goes_to("/?live=0")
    menu(page, "Tenants").click()
    page.get_by_role("link", name="Fern Taxi").click()
    page.get_by_role("link", name="Settings", exact=True).last.click()
    page.get_by_role("button", name="Archive…").click()
    dialog = page.get_by_role("dialog").filter(has_text="Type its name to confirm")
    dialog.get_by_label("Reason").fill("they have left")
    dialog.get_by_label("Type its name to confirm").fill("fern-tax")
    dialog.get_by_role("button", name="Archive tenant").click()
    expect(dialog.locator("#archive_name_error")).to_be_visible()
    dialog.get_by_label("Type its name to confirm").fill("fern-taxi")
    # The answer to the wrong name is a 422, on purpose.
    ada.troubles.clear()
    dialog.get_by_role("button", name="Archive tenant").click()
    expect(page.locator("main")).to_contain_text("Archived")
    page.get_by_role("button", name="Restore…").click()
    again = page.get_by_role("dialog").filter(has_text="Restore")
    again.get_by_label("Reason").fill("they are back")
    again.get_by_role("button", name="Restore tenant").click()
    expect(again.locator("#new-key")).to_contain_text("hr_")
    again.get_by_role("button", name="Done").click()
    expect(page.get_by_role("button", name="Restore…")).to_have_count(0)
    whole(ada)


def test_a_key_is_rotated_under_load(ada: Person, product: Up) -> None:
    page = ada.page
    ada.goes_to("/?live=0")
    menu(page, "Tenants").click()
    page.get_by_role("link", name="World of Wheels").click()
    page.get_by_role("button", name="Issue key").click()
    dialog = page.get_by_role("dialog").filter(has_text="Issue")
    dialog.get_by_label("Purpose").fill("nightly export")
    dialog.get_by_label("Reason").fill("the exports start tonight")
    dialog.get_by_role("button", name="Issue key").click()
    keys = [page.locator("#new-key").inner_text()]
    page.get_by_role("button", name="Done").click()
    with asking_with(f"http://127.0.0.1:{product.gateway_port}", keys) as answers:
        waits_for_more(page, answers)
        row = page.locator("#keys tr").filter(has_text="nightly export")
        row.get_by_role("button", name="Rotate").click()
        rotate = page.get_by_role("dialog").filter(has_text="A new key is issued now")
        rotate.get_by_label("Reason").fill("the yearly rotation")
        rotate.get_by_role("button", name="Rotate key").click()
        keys.append(page.locator("#new-key").inner_text())
        waits_for_more(page, answers)
    holds_one_budget(answers)
    whole(ada)


def drafts_a_cut(page: Page, rate: str) -> None:
    """From the matrix, for pro on rider:quote."""
    menu(page, "Limits matrix").click()
    page.get_by_role("button", name=re.compile("^pro, rider:quote")).click()
    inspector = page.locator("#inspector")
    inspector.get_by_label("Rate").fill(rate)
    inspector.get_by_label("Reason").fill("fewer quotes for the pricing service")
    expect(inspector.locator("#dry-run")).to_contain_text("cut")
    inspector.get_by_role("button", name="Save draft").click()


def test_a_cut_is_tried_in_shadow_promoted_and_reverted(ada: Person) -> None:
    page = ada.page
    ada.goes_to("/?live=0")
    drafts_a_cut(page, "2")
    page.locator("#inspector").get_by_role("link", name="its page").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("rider:quote")
    page.get_by_role("button", name="Start trial").click()
    start = page.get_by_role("dialog", name="Start a trial or schedule it")
    start.get_by_label("Reason").fill("first see whom it would hurt")
    start.get_by_role("button", name="Start").click()
    expect(page.locator("#verdict")).to_contain_text(
        re.compile("Too early|Too little traffic|No traffic|would see 429s")
    )
    page.get_by_role("button", name="Promote…").click()
    promote = page.get_by_role("dialog").filter(has_text="It becomes a new revision")
    expect(promote.get_by_role("button", name="Promote for")).to_be_disabled()
    for choice in promote.get_by_label("Cut it").all():
        choice.check()
    promote.locator("input[name=reviewed]").check()
    promote.get_by_label("Reason").fill("the service needs it now")
    promote.get_by_role("button", name="Promote for").click()
    expect(page.locator("#verdict")).to_contain_text("Promoted by ada")
    page.get_by_role("button", name="Revert").click()
    undo = page.get_by_role("dialog", name="Undo changes")
    undo.get_by_label("Reason").fill("it was not needed after all")
    undo.get_by_role("button", name="Revert").click()
    expect(page.locator("main")).to_contain_text("it was not needed after all")
    whole(ada)
