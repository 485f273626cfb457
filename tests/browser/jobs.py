"""How admins' jobs are done in the browser: through the menu with the mouse, through Ctrl-K and Tab with keys."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import requests
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.person import PATIENCE_MS, Person
from tests.browser.world import PER_KEY

expect.set_options(timeout=PATIENCE_MS)
ENOUGH: Final = 50  # answers that a client gets on each key
LEFT: Final = re.compile(rf'"{PER_KEY}";r=(\d+)')
OPENAPI: Final = """
openapi: 3.1.0
info: {title: Parcels, version: "1"}
paths:
  /parcels/v1/labels:
    post: {operationId: label, tags: [parcels]}
  /parcels/v1/labels/{id}:
    get: {operationId: show, tags: [parcels]}
"""


def whole(person: Person) -> None:
    assert not person.troubles, "\n".join(person.troubles)


def menu(page: Page, label: str) -> Locator:
    return page.get_by_role("navigation", name="Main").get_by_role("link", name=label)


def jumps(person: Person, words: str, option: str) -> None:
    """Through Ctrl-K, from the Overview."""
    person.goes_to("/?live=0")
    person.page.keyboard.press("Control+k")
    person.page.keyboard.type(words)
    expect(person.page.get_by_role("option", selected=True)).to_contain_text(option)
    person.page.keyboard.press("Enter")


def skips(person: Person) -> None:
    """To the content of a page that was just opened, past the menu."""
    presses(person, "Skip to content")


def types_into(person: Person, label: str, text: str) -> None:
    person.tabs_to(label)
    person.page.keyboard.press("Control+a")
    person.page.keyboard.type(text)


def presses(person: Person, button: str) -> None:
    person.tabs_to(button)
    person.page.keyboard.press("Enter")


@dataclass(frozen=True, slots=True)
class Held:
    """Requests that a slow machine has not answered yet."""

    page: Page
    address: str
    routes: list[Route]

    def let_go(self) -> None:
        while not self.routes:
            self.page.wait_for_timeout(50)
        self.page.unroute(self.address)  # lets go of what it held, too


def answers_late(page: Page, address: str) -> Held:
    held = Held(page, address, [])

    def hold(route: Route) -> None:
        held.routes.append(route)

    page.route(address, hold)
    return held


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    left: int | None  # of the limit that counts each key for itself


@contextmanager
def asking_with(gateway: str, keys: list[str]) -> Iterator[list[Answer]]:
    """A client that asks with the newest key all the time; yields what it is told."""
    stop, answers = threading.Event(), list[Answer]()

    def ask() -> None:
        with requests.Session() as client:
            while not stop.wait(0.02):
                headers = {"Authorization": f"Bearer {keys[-1]}"}
                body = {"endpoint": "rider:track"}
                told = client.post(f"{gateway}/v1/check", json=body, headers=headers, timeout=30)
                left = LEFT.search(told.json().get("headers", {}).get("RateLimit", ""))
                answers.append(Answer(told.status_code, int(left[1]) if left else None))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join()


def waits_for_more(page: Page, answers: list[Answer]) -> None:
    enough = len(answers) + ENOUGH
    while len(answers) < enough:
        page.wait_for_timeout(100)


def holds_one_budget(answers: list[Answer]) -> None:
    """Every request got its answer, and the new key went on where the old one was."""
    assert {answer.status for answer in answers} <= {200, 429}, answers
    left = [answer.left for answer in answers if answer.left is not None]
    assert len(left) >= 2 * ENOUGH
    assert left == sorted(left, reverse=True), left
