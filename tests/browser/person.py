"""Somebody at the browser, and everything that goes wrong under their hands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Request, Response, ViewportSize
from playwright.sync_api import TimeoutError as Late

from tests.browser.world import PASSWORD

PATIENCE_MS: Final = 180_000  # two cores are shared with the whole product
REDRAWN_MS: Final = 30_000
WIDE: Final[ViewportSize] = {"width": 1440, "height": 900}
NARROW: Final[ViewportSize] = {"width": 390, "height": 844}
BAD: Final = ("serious", "critical")
DRAWN: Final = """() => [...document.querySelectorAll("figure[data-chart]")].every((figure) =>
    !figure.querySelector(".fig-table tr[data-x]")
    || [...figure.querySelectorAll(".chart")].every((box) => !box.clientWidth || box.querySelector("canvas")))"""
FITS: Final = "() => document.documentElement.scrollWidth <= window.innerWidth"
FOCUSED: Final = """() => { const at = document.activeElement;
    if (at === document.body) return "";
    const name = at.getAttribute("aria-label") || at.labels?.[0]?.innerText || at.textContent;
    return name.replace(/\\s+/g, " ").trim(); }"""
MOST_TABS: Final = 40
REPLACED: Final = ("htmx:sendAbort", "htmx:afterRequest")
# What ends to the right of its card or dialog, where nobody can scroll to it; and tables that hide their last columns.
CUT_OFF: Final = """() => { const scrolls = (each) => /auto|scroll/.test(getComputedStyle(each).overflowX);
    const isReached = (each, card) => each !== card && (scrolls(each) || isReached(each.parentElement, card));
    const cards = [...document.querySelectorAll(".card, dialog[open]")];
    const beyond = cards.flatMap((card) => [...card.querySelectorAll("*")].filter(
        (each) => each.getBoundingClientRect().right > card.getBoundingClientRect().right + 0.5
            && each.checkVisibility() && !isReached(each.parentElement, card)));
    const hidden = [...document.querySelectorAll(".table-wrap")]
        .filter((each) => each.scrollWidth > each.clientWidth + 1);
    return [...beyond, ...hidden].slice(0, 8)
        .map((each) => `${each.tagName}.${each.className} ${each.textContent.trim().slice(0, 40)}`); }"""
WIDER: Final = """() => [...document.body.querySelectorAll("*")]
    .filter((each) => each.getBoundingClientRect().right > window.innerWidth + 0.5 && each.checkVisibility())
    .slice(0, 8).map((each) => `${each.tagName}.${each.className} ${each.textContent.trim().slice(0, 40)}`)"""


@dataclass
class Person:
    """One page, watched; `troubles` has to be empty at the end."""

    page: Page
    address: str
    troubles: list[str] = field(default_factory=list)

    @classmethod
    def at(cls, context: BrowserContext, address: str) -> Person:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        person = cls(page, address)
        page.on("console", person._console)
        page.on("pageerror", lambda error: person.troubles.append(f"error: {error}"))
        page.on("requestfailed", person._failed)
        page.on("response", person._response)
        return person

    def _console(self, message: ConsoleMessage) -> None:
        # A violation of the Content-Security-Policy is written here as an error too. A dry run that a newer one
        # replaces is one of htmx' errors, too, although the page wants it so; requests that fail are noted below.
        if message.type in ("error", "warning") and not message.text.startswith(REPLACED):
            self.troubles.append(f"console: {message.text}")

    def _failed(self, request: Request) -> None:
        # The browser drops what is still open when a page is left.
        if request.failure != "net::ERR_ABORTED":
            self.troubles.append(f"failed: {request.url} {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self.troubles.append(f"{response.status}: {response.url}")

    def goes_to(self, path: str) -> None:
        self.page.goto(self.address + path)
        self.page.wait_for_function(DRAWN)

    def signs_in(self, name: str) -> None:
        self.goes_to("/login")
        self.page.get_by_label("User name").fill(name)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(lambda url: "/login" not in url)

    def tabs_to(self, name: str) -> None:
        """With the keyboard alone, to what is called so; nowhere if it has the focus."""
        seen = [self.page.evaluate(FOCUSED)]
        while not seen[-1].startswith(name) and len(seen) <= MOST_TABS:
            self.page.keyboard.press("Tab")
            seen.append(self.page.evaluate(FOCUSED))
        if seen[-1].startswith(name):
            return
        raise AssertionError(f"{name} cannot be reached with Tab: {seen}")

    def looks(self, scheme: str, size: ViewportSize) -> None:
        """In this colour scheme, at this size; nothing may stand out to the right, of the window or of its card."""
        # Without motion: axe would read a colour half way through its transition.
        self.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
        self.page.set_viewport_size(size)
        self.page.wait_for_function(DRAWN)
        try:
            # Charts are drawn anew after the window has changed.
            self.page.wait_for_function(FITS, timeout=REDRAWN_MS)
        except Late:
            wider = self.page.evaluate(WIDER)
            self.troubles.append(f"{scheme}, {size['width']} px: wider than the window: {wider}")
        try:
            self.page.wait_for_function(f"() => ({CUT_OFF})().length === 0", timeout=REDRAWN_MS)
        except Late:
            self.troubles.append(f"{scheme}, {size['width']} px: cut off: {self.page.evaluate(CUT_OFF)}")

    def reads_with_axe(self, scheme: str, *rules: str) -> None:
        only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
        found = Axe().run(self.page, options={"resultTypes": ["violations"], **only})
        for each in found.response["violations"]:
            if each["impact"] in BAD:
                places = [f"{node['target']} {node.get('failureSummary', '')[:160]}" for node in each["nodes"][:4]]
                self.troubles.append(f"axe, {scheme}: {each['id']} ({each['impact']}), {len(each['nodes'])}: {places}")
