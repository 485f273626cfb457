"""A pool's page in the browser: the bar of shares by mouse and by keys, saving, and taking it back."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.sync_api import Locator, Page, expect

from tests.browser.jobs import menu, whole
from tests.browser.person import NARROW, WIDE, Person
from tests.browser.test_pages import check

NAME = "shared-search"


def made(person: Person) -> Page:
    """A pool for everyone with two tenants, made by hand."""
    page = person.page
    person.goes_to("/?live=0")
    loads(page, menu(page, "Pools"))
    if page.get_by_role("link", name=NAME, exact=True).count():
        loads(page, page.get_by_role("link", name=NAME, exact=True))
        return page
    page.get_by_role("link", name="New pool").click()
    for label, text in (("Name", NAME), ("On", "rider:eta"), ("Rate", "100"), ("Burst", "400"), ("Reserve", "200")):
        page.get_by_label(label, exact=True).fill(text)
    page.get_by_label("Reason").fill("to share a rate")
    accepted(page, "Create pool")
    for tenant, share in (("delta-shuttle", "30"), ("blue-line", "20")):
        page.get_by_role("link", name="Add member").click()
        page.get_by_label("Tenant", exact=True).fill(tenant)
        page.get_by_label("Guaranteed").fill(share)
        page.get_by_label("Ceiling").fill("60")
        page.get_by_label("Reason").fill("its share")
        accepted(page, "Add member")
    expect(page.get_by_role("heading", level=1)).to_have_text(NAME)
    # A new limit is refused until its cut is accepted, which the browser notes as an error.
    person.troubles[:] = [each for each in person.troubles if "422" not in each]
    return page


def accepted(page: Page, button: str) -> None:
    """A limit where none was is a cut, which has to be accepted."""
    loads(page, page.get_by_role("button", name=button))
    if page.get_by_label("Apply anyway").count():
        page.get_by_label("Apply anyway").check()
        loads(page, page.get_by_role("button", name=button))


def loads(page: Page, link: Locator) -> None:
    """A click waits for the first bytes only; here the next page is whole, and its scripts have run."""
    with page.expect_navigation():
        link.click()


def share(page: Page, tenant: str) -> Locator:
    return page.get_by_label(f"Guaranteed to {tenant}")


def test_the_list_and_a_pool_are_whole_in_every_way(ada: Person) -> None:
    pool = urlsplit(made(ada).url).path
    for path in ("/pools", pool, f"{pool}/edit"):
        check(ada, path)


def test_shares_are_moved_by_keys_saved_and_taken_back(ada: Person) -> None:
    page = made(ada)
    was = {tenant: int(share(page, tenant).input_value()) for tenant in ("delta-shuttle", "blue-line")}
    slider = page.get_by_role("slider").first
    first = "delta-shuttle" if "delta-shuttle" in (slider.get_attribute("aria-label") or "") else "blue-line"
    second = "blue-line" if first == "delta-shuttle" else "delta-shuttle"
    slider.focus()
    for key in ("Shift+ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    expect(share(page, first)).to_have_value(str(was[first] + 5))
    expect(share(page, second)).to_have_value(str(was[second] - 5))
    expect(slider).to_have_attribute("aria-valuenow", str(was[first] + 5))
    bar = page.get_by_role("region", name="Unsaved shares")
    expect(bar).to_contain_text(f"{first} {was[first]} → {was[first] + 5}")
    expect(bar.get_by_label("Apply anyway")).to_be_visible()
    bar.get_by_label("Apply anyway").check()
    bar.get_by_label("Reason").fill("its peak is higher")
    bar.get_by_role("button", name="Save shares").click()
    expect(page.get_by_role("region", name="Unsaved shares")).to_be_hidden()
    expect(share(page, first)).to_have_value(str(was[first] + 5))
    ada.goes_to("/changes?live=0")
    page.get_by_role("button", name="Revert r").click()
    undo = page.get_by_role("dialog", name="Undo changes")
    undo.get_by_label("Reason").fill("as it was")
    undo.get_by_role("button", name="Revert").click()
    expect(page.locator("#detail")).to_contain_text("as it was")
    page = made(ada)
    expect(share(page, first)).to_have_value(str(was[first]))
    whole(ada)


def test_a_handle_is_dragged_and_what_is_typed_is_discarded(ada: Person) -> None:
    page = made(ada)
    last = page.get_by_role("slider").last
    box, bar = last.bounding_box(), page.locator("#sharebar").bounding_box()
    assert box
    assert bar
    page.mouse.move(box["x"] + 7, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(bar["x"] + bar["width"] * 0.8, box["y"] + 20, steps=4)
    page.mouse.up()
    saved = page.get_by_role("region", name="Unsaved shares")
    expect(saved).to_contain_text("→ 50")
    saved.get_by_role("button", name="Discard").click()
    expect(saved).to_be_hidden()
    whole(ada)


def test_a_part_too_narrow_for_its_label_says_its_name_under_the_pointer(ada: Person) -> None:
    page = made(ada)
    part = page.locator("#sharebar [data-part]").first
    name = part.locator("text").first.text_content() or ""
    expect(part.locator("text").first).to_be_visible()
    share(page, name).fill("1")
    expect(part.locator("text").first).to_be_hidden()
    expect(part.locator("text").last).to_be_hidden()
    expect(part.locator("title")).to_have_text(re.compile(rf"{name}: 1 "))
    whole(ada)


def test_a_narrow_window_has_the_fields_and_no_heap_of_handles(ada: Person) -> None:
    page = made(ada)
    page.set_viewport_size(NARROW)
    expect(page.locator("#sharebar")).to_be_hidden()
    expect(page.get_by_role("slider")).to_have_count(0)
    expect(share(page, "blue-line")).to_be_visible()
    page.set_viewport_size(WIDE)
    expect(page.locator("#sharebar")).to_be_visible()
    expect(page.locator("#sharebar [data-part] text").first).to_be_visible()
    whole(ada)


def test_a_refused_save_sets_no_inline_style(ada: Person) -> None:
    """htmx copies the attributes of what it replaces; the Content-Security-Policy blocks a copied style."""
    page = made(ada)
    page.locator("#pool-why").evaluate("field => { field.style.width = '200px'; }")
    share(page, "blue-line").fill("21")
    page.get_by_role("button", name="Save shares").click()
    expect(page.get_by_role("region", name="Unsaved shares")).to_contain_text("Enter a reason.")
    ada.troubles[:] = [each for each in ada.troubles if "422" not in each]
    whole(ada)


def test_a_share_above_the_rate_is_told_and_a_bad_one_refused(ada: Person) -> None:
    page = made(ada)
    share(page, "delta-shuttle").fill("95")
    page.get_by_label("Ceiling of delta-shuttle").fill("95")
    saved = page.get_by_role("region", name="Unsaved shares")
    expect(saved).to_contain_text("of the guaranteed shares")
    page.get_by_label("Ceiling of delta-shuttle").fill("10")
    expect(saved).to_contain_text("is below its guaranteed share")
    saved.get_by_role("button", name="Discard").click()
    whole(ada)
