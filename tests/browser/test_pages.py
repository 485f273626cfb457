"""Every page, light and dark, wide and narrow: nothing is blocked, fails, overflows or cannot be read."""

from __future__ import annotations

import pytest
from django.urls import reverse

from dashboards.menu import MENU
from tests.browser.person import NARROW, WIDE, Person
from tests.browser.world import THROTTLED

BELOW = (
    ("dashboards:tenant", THROTTLED),
    ("dashboards:endpoint", "rider:quote"),
    ("dashboards:endpoint-new",),
    ("dashboards:endpoint-edit", "rider:quote"),
    ("dashboards:endpoints-import",),
    ("dashboards:tier", "pro"),
    ("dashboards:tier-new",),
    ("dashboards:tier-edit", "pro"),
    ("dashboards:recommendation", 1),
    ("dashboards:matrix-import",),
    ("dashboards:first-run",),
    ("dashboards:inbox",),
    ("dashboards:runbook", "denied-share"),
)
PATHS = [*(reverse(item.url) for item in MENU), *(reverse(name, args=rest) for name, *rest in BELOW)]


def check(person: Person, path: str) -> None:
    # Nothing is refreshed while axe reads.
    person.goes_to(f"{path}{'&' if '?' in path else '?'}live=0")
    person.looks("light", WIDE)
    person.reads_with_axe("light")
    person.looks("light", NARROW)
    person.looks("dark", NARROW)
    person.looks("dark", WIDE)
    # Of all that axe looks at, only the colours are others.
    person.reads_with_axe("dark", "color-contrast")
    assert not person.troubles, "\n".join(person.troubles)


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_whole(ada: Person, path: str) -> None:
    check(ada, path)


def test_a_change_that_is_tried_out_is_whole(ada: Person) -> None:
    check(ada, f"{reverse('dashboards:changes')}?change=1")


def test_the_page_of_a_tenants_own_people_is_whole(tess: Person) -> None:
    check(tess, reverse("dashboards:portal"))


def test_signing_in_is_whole(stranger: Person) -> None:
    check(stranger, reverse("dashboards:login"))


def test_a_dialog_that_is_still_loading_has_room_around_its_words(ada: Person) -> None:
    ada.goes_to(f"{reverse('dashboards:changes')}?live=0")
    body = 'getComputedStyle(document.querySelector("#dlg-undo-body > .body"))'
    assert ada.page.evaluate(f"{body}.paddingLeft") != "0px"
