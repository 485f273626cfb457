"""What every page has, used as a person does: the inbox, the account menu, keys, and the page of a wrong address."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.jobs import answers_late
from tests.browser.person import NARROW, PATIENCE_MS, WIDE, Person
from tests.browser.world import THROTTLED

expect.set_options(timeout=PATIENCE_MS)


def whole(person: Person) -> None:
    assert not person.troubles, "\n".join(person.troubles)


def test_the_inbox_opens_on_any_page_and_fits(ada: Person) -> None:
    ada.goes_to("/decisions?live=0")
    page = ada.page
    for look in (WIDE, NARROW):
        page.set_viewport_size(look)
        page.locator("[data-inbox]").click()
        expect(page.locator("#inbox .seg")).to_be_visible()
        expect(page.locator("#inbox .pane.p1")).to_be_visible()
        ada.looks("light", look)
        ada.reads_with_axe("light")
        page.keyboard.press("Escape")
        expect(page.locator("#inbox")).to_be_hidden()
    whole(ada)


def test_keys_lead_everywhere(ada: Person) -> None:
    ada.goes_to("/decisions?live=0")
    page = ada.page
    page.keyboard.press("?")
    expect(page.locator("#dlg-keys")).to_be_visible()
    ada.reads_with_axe("light")
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/tenants")
    page.keyboard.press("/")
    expect(page.locator("main input[type=search]").first).to_be_focused()
    page.keyboard.type("gt?")
    assert page.url.endswith("/tenants")
    whole(ada)


def test_a_row_keeps_the_focus_when_its_list_is_fetched_anew(ada: Person) -> None:
    ada.goes_to("/tenants?live=0")
    page = ada.page
    page.keyboard.press("j")
    page.keyboard.press("j")
    row = page.locator("#list tbody tr").nth(1).locator("th[scope=row] a.rowlink")
    expect(row).to_be_focused()
    page.locator("#list tbody").evaluate(
        "part => { part.dataset.old = '1'; dispatchEvent(new PopStateEvent('popstate')); }"
    )
    expect(page.locator("#list tbody[data-old]")).to_have_count(0)
    expect(row).to_be_focused()
    whole(ada)


def test_the_palette_opens_a_dialog_and_the_account_menu_signs_out(ada: Person) -> None:
    ada.goes_to("/decisions?live=0")
    page = ada.page
    page.keyboard.press("Control+k")
    page.locator("#palette input").fill(f"override {THROTTLED}")
    expect(page.locator("#palette-list [role=option]").first).to_contain_text(f"Give {THROTTLED} an override")
    page.keyboard.press("Enter")
    expect(page.locator("#dlg-override")).to_be_visible()
    page.locator('#dlg-override [data-lasts="86400"]').click()
    expect(page.locator("#dlg-override output").last).to_contain_text("UTC")
    page.keyboard.press("Escape")
    page.locator(".me-btn").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    ada.reads_with_axe("light")
    whole(ada)


def test_what_is_done_before_the_scripts_are_there_is_done_when_they_are(ada: Person) -> None:
    page = ada.page
    held = answers_late(page, "**/js/app*.js")
    page.goto(f"{ada.address}/tenants/{THROTTLED}?live=0", wait_until="commit")
    suspend = page.locator("main").get_by_role("button", name="Suspend", exact=True)
    suspend.click()
    expect(suspend).to_have_attribute("aria-busy", "true")
    held.let_go()
    expect(page.get_by_role("dialog").filter(has_text="Suspend")).to_be_visible()
    expect(suspend).not_to_have_attribute("aria-busy", "true")

    held = answers_late(page, "**/js/lists*.js")
    page.goto(f"{ada.address}/tenants", wait_until="commit")
    page.get_by_role("checkbox", name=f"Select {THROTTLED}").check()
    held.let_go()
    expect(page.locator("[data-bulk]")).to_contain_text("1 selected")

    held = answers_late(page, "**/js/lists*.js")
    page.goto(f"{ada.address}/tenants", wait_until="commit")
    page.locator("main input[type=search]").first.fill("nobody-is-called-so")
    held.let_go()
    expect(page.locator("#list")).to_contain_text("No matching tenants")
    whole(ada)


def test_a_flag_on_a_chart_is_reached_by_keyboard_and_listed(ada: Person) -> None:
    ada.goes_to(f"/tenants/{THROTTLED}?span=14d&live=0")
    page = ada.page
    flag = page.locator("#usage a.chart-flag").first
    flag.focus()
    expect(flag).to_be_focused()
    page.locator("#usage .as-table").check(force=True)
    expect(page.locator("#usage .fig-events tbody tr").first).to_be_visible()
    ada.reads_with_axe("light")
    whole(ada)


def test_a_wrong_address_has_a_way_on_in_the_products_look(ada: Person) -> None:
    ada.page.goto(f"{ada.address}/nothing-here")
    ada.looks("light", NARROW)
    ada.reads_with_axe("light")
    ada.page.get_by_role("link", name="Go to the start page").click()
    expect(ada.page.get_by_role("heading", name="Overview")).to_be_visible()
    # Chromium reports the status of the wrong address itself.
    assert all("404" in trouble for trouble in ada.troubles), ada.troubles
