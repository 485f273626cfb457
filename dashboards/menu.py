"""The navigation menu, one item per page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from quotas.status.summary import StatusSummary

GROUPS = ("Observe", "Manage", "Limits", "Improve", "Admin")


@dataclass(frozen=True, slots=True)
class MenuItem:
    group: str
    label: str
    icon: str
    url: str  # url name
    below: tuple[str, ...] = ()  # url names of its subpages, which mark this item as current
    count: Callable[[StatusSummary], int] | None = None
    counted: str = ""  # what the count counts, for screen readers

    @property
    def pages(self) -> tuple[str, ...]:
        return (self.url, *self.below)


MENU: tuple[MenuItem, ...] = (
    MenuItem("Observe", "Overview", "pulse", "dashboards:overview", below=("dashboards:first-run",)),
    MenuItem(
        "Manage",
        "Tenants",
        "tenants",
        "dashboards:tenants",
        below=("dashboards:tenant",),
        count=lambda pulse: pulse.tenants,
        counted="tenants",
    ),
    MenuItem(
        "Manage",
        "Endpoints",
        "endpoint",
        "dashboards:endpoints",
        below=("dashboards:endpoint",),
        count=lambda pulse: pulse.endpoints,
        counted="endpoints",
    ),
    MenuItem("Observe", "Decision log", "log", "dashboards:decisions"),
    MenuItem(
        "Limits",
        "Changes",
        "history",
        "dashboards:changes",
        count=lambda pulse: pulse.open_changes,
        counted="pending changes",
    ),
    MenuItem("Limits", "Limits matrix", "matrix", "dashboards:matrix", below=("dashboards:matrix-import",)),
    MenuItem(
        "Improve",
        "Recommendations",
        "rec",
        "dashboards:recommendations",
        below=("dashboards:recommendation",),
        count=lambda pulse: pulse.waiting,
        counted="recommendations to review",
    ),
    MenuItem(
        "Improve",
        "Simulator",
        "flask",
        "dashboards:simulator",
        below=("dashboards:what-if", "dashboards:what-if-run"),
    ),
    MenuItem("Improve", "Request tester", "send", "dashboards:tester"),
    MenuItem("Admin", "Settings", "sliders", "dashboards:settings"),
)


@dataclass(frozen=True, slots=True)
class MenuEntry:
    item: MenuItem
    is_current: bool
    number: int


@dataclass(frozen=True, slots=True)
class MenuGroup:
    title: str
    entries: Sequence[MenuEntry]


def menu_of(view_name: str, pulse: StatusSummary) -> list[MenuGroup]:
    ordered = sorted(MENU, key=lambda item: GROUPS.index(item.group))
    return [
        MenuGroup(title, [_entry(item, view_name, pulse) for item in items])
        for title, items in groupby(ordered, key=lambda item: item.group)
    ]


def _entry(item: MenuItem, view_name: str, pulse: StatusSummary) -> MenuEntry:
    return MenuEntry(item, view_name in item.pages, item.count(pulse) if item.count else 0)
