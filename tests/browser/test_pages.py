"""Every page, light and dark, wide and narrow: nothing is blocked, fails, overflows or cannot be read.

`make test` looks at pages of each kind in every way, and at those with other parts as they are most easily broken, dark
and narrow; the sweep looks at all of them in every way.
"""

from __future__ import annotations

import pytest
from django.urls import reverse

from dashboards.menu import MENU
from tests.browser.person import NARROW, WIDE, Person
from tests.browser.world import IN_CANARY, IN_SHADOW, KEYED, PROMOTED, SCHEDULED, THROTTLED

BELOW = (
    ("dashboards:tenant", THROTTLED),
    ("dashboards:tenant-settings", THROTTLED),
    ("dashboards:endpoint", "rider:quote"),
    ("dashboards:endpoint-edit", "rider:quote"),
    ("dashboards:endpoints-import",),
    ("dashboards:tier", "pro"),
    ("dashboards:policy", "pro-everywhere"),
    ("dashboards:change", IN_SHADOW),
    ("dashboards:recommendation", 1),
    ("dashboards:inbox",),
)
ALSO_BELOW = (
    ("dashboards:tenant", KEYED),
    ("dashboards:tenant-new",),
    ("dashboards:tenants-import",),
    ("dashboards:tenant-settings", "old-town-taxi"),  # archived
    ("dashboards:tier-new",),
    ("dashboards:tier-edit", "pro"),
    ("dashboards:endpoint-new",),
    ("dashboards:matrix-import",),
    ("dashboards:change", SCHEDULED),
    ("dashboards:change", IN_CANARY),
    ("dashboards:change", PROMOTED),
    ("dashboards:simulator-sharing",),
    ("dashboards:what-if",),
    ("dashboards:first-run",),
    ("dashboards:chart-notes",),
    ("dashboards:runbook", "denied-share"),
)
STATES = (
    "/policies/new?at=free/rider:track",
    "/tenants?state=archived",
    "/tenants?q=nobody-is-called-so",
    "/tenants#open-dlg-new",
    "/policies#open-dlg-policy",
    "/tiers/pro#open-dlg-policy",
    f"/tenants/{THROTTLED}#open-dlg-key",
    f"/tenants/{THROTTLED}#open-dlg-override",
    f"/tenants/{THROTTLED}/settings#open-dlg-archive",
    f"/changes/{IN_SHADOW}#open-dlg-start",
    f"/changes/{IN_SHADOW}#open-dlg-trial",
    f"/changes/{IN_CANARY}#open-dlg-step",
    "/settings#open-dlg-rule",
    "/recommendations/1#open-dlg-edit",
)
PATHS = [*(reverse(item.url) for item in MENU), *(reverse(name, args=rest) for name, *rest in BELOW)]
# A list with a bar for many, and a page of one thing with charts.
OF_EACH_KIND = [reverse("dashboards:tenants"), reverse("dashboards:tenant", args=[THROTTLED])]
# A grid that scrolls, a trial, charts and tables of their own, long forms.
WITH_OTHER_PARTS = [
    reverse("dashboards:overview"),
    reverse("dashboards:matrix"),
    reverse("dashboards:change", args=[IN_SHADOW]),
    reverse("dashboards:decisions"),
    reverse("dashboards:simulator"),
    reverse("dashboards:settings"),
    reverse("dashboards:recommendation", args=[1]),
]
OTHERS = [path for path in PATHS if path not in OF_EACH_KIND]
OTHER_PATHS = [*(reverse(name, args=rest) for name, *rest in ALSO_BELOW), *STATES]


def opens(person: Person, path: str) -> None:
    # Nothing is refreshed while axe reads.
    place, mark, dialog = path.partition("#")
    person.goes_to(f"{place}{'&' if '?' in place else '?'}live=0{mark}{dialog}")


def check(person: Person, path: str) -> None:
    opens(person, path)
    person.looks("light", WIDE)
    person.reads_with_axe("light")
    person.looks("light", NARROW)
    person.looks("dark", NARROW)
    person.looks("dark", WIDE)
    # Of all that axe looks at, only the colours are others.
    person.reads_with_axe("dark", "color-contrast")
    assert not person.troubles, "\n".join(person.troubles)


@pytest.mark.parametrize("path", OF_EACH_KIND)
def test_a_page_is_whole(ada: Person, path: str) -> None:
    check(ada, path)


@pytest.mark.parametrize("path", WITH_OTHER_PARTS)
def test_a_page_is_whole_when_dark_and_narrow(ada: Person, path: str) -> None:
    opens(ada, path)
    ada.looks("dark", NARROW)
    ada.reads_with_axe("dark")
    assert not ada.troubles, "\n".join(ada.troubles)


@pytest.mark.sweep
@pytest.mark.parametrize("path", [*OTHERS, *OTHER_PATHS])
def test_each_page_below_and_each_dialog_is_whole(ada: Person, path: str) -> None:
    check(ada, path)


def test_the_page_of_a_tenants_own_people_is_whole(tess: Person) -> None:
    check(tess, reverse("dashboards:portal"))


def test_signing_in_is_whole(stranger: Person) -> None:
    check(stranger, reverse("dashboards:login"))


def test_a_dialog_that_is_still_loading_has_room_around_its_words(ada: Person) -> None:
    ada.goes_to(f"{reverse('dashboards:changes')}?live=0")
    body = 'getComputedStyle(document.querySelector("#dlg-undo-body > .body"))'
    assert ada.page.evaluate(f"{body}.paddingLeft") != "0px"
