"""The navigation menu, one item per page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from access.roles import may
from quotas.status.summary import StatusSummary
from tenants.scope import Principal

GROUPS = ("Observe", "Manage", "Limits", "Improve", "Admin")


@dataclass(frozen=True, slots=True)
class MenuItem:
    group: str
    label: str
    icon: str
    url: str  # url name
    below: tuple[str, ...] = ()  # url names of its subpages, which mark this item as current
    count: Callable[[StatusSummary], int] | None = None  # only of what somebody has to act on
    counted: str = ""  # what the count counts, for screen readers
    is_red: bool = False  # what is counted is wrong, not only waiting
    go: str = ""  # the key after G that opens the page

    @property
    def pages(self) -> tuple[str, ...]:
        return (self.url, *self.below)


MENU: tuple[MenuItem, ...] = (
    MenuItem("Observe", "Overview", "pulse", "dashboards:overview", below=("dashboards:first-run",), go="o"),
    MenuItem(
        "Manage",
        "Tenants",
        "tenants",
        "dashboards:tenants",
        below=(
            "dashboards:tenant",
            "dashboards:tenant-new",
            "dashboards:tenant-settings",
            "dashboards:tenants-import",
            "dashboards:tenants-import-run",
            "dashboards:tenants-bulk",
        ),
        go="t",
    ),
    MenuItem(
        "Manage",
        "Tiers",
        "tier",
        "dashboards:tiers",
        below=("dashboards:tier", "dashboards:tier-new", "dashboards:tier-edit"),
        go="i",
    ),
    MenuItem(
        "Manage",
        "Endpoints",
        "endpoint",
        "dashboards:endpoints",
        below=(
            "dashboards:endpoint",
            "dashboards:endpoint-new",
            "dashboards:endpoint-edit",
            "dashboards:endpoints-import",
        ),
        go="e",
    ),
    MenuItem("Observe", "Decision log", "log", "dashboards:decisions", go="d"),
    MenuItem("Limits", "Overrides", "clock", "dashboards:overrides", go="v"),
    MenuItem("Limits", "Limits matrix", "matrix", "dashboards:matrix", below=("dashboards:matrix-import",), go="m"),
    MenuItem(
        "Limits",
        "Policies",
        "layers",
        "dashboards:policies",
        below=("dashboards:policy", "dashboards:policy-new"),
        go="p",
    ),
    MenuItem(
        "Limits",
        "Pools",
        "pool",
        "dashboards:pools",
        below=("dashboards:pool", "dashboards:pool-new", "dashboards:pool-edit", "dashboards:pool-member-new"),
        go="l",
    ),
    MenuItem(
        "Limits",
        "Changes",
        "history",
        "dashboards:changes",
        count=lambda pulse: pulse.waits.approvals + pulse.waits.changes,
        counted="changes to decide",
        go="c",
    ),
    MenuItem(
        "Improve",
        "Recommendations",
        "rec",
        "dashboards:recommendations",
        below=("dashboards:recommendation",),
        count=lambda pulse: pulse.waits.recommendations,
        counted="recommendations to review",
        go="r",
    ),
    MenuItem(
        "Improve",
        "Simulator",
        "flask",
        "dashboards:simulator",
        below=("dashboards:simulator-sharing", "dashboards:what-if", "dashboards:what-if-run"),
        go="s",
    ),
    MenuItem("Improve", "Request tester", "send", "dashboards:tester", go="q"),
    MenuItem(
        "Admin",
        "Settings",
        "sliders",
        "dashboards:settings",
        below=("dashboards:runbook",),
        count=lambda pulse: pulse.waits.alerts,
        counted="alerts that fire",
        is_red=True,
        go="x",
    ),
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


def menu_of(view_name: str, pulse: StatusSummary, principal: Principal) -> list[MenuGroup]:
    """Only pages that the viewer may open."""
    open_to = [item for item in MENU if may(principal, item.url, "GET")]
    ordered = sorted(open_to, key=lambda item: GROUPS.index(item.group))
    return [
        MenuGroup(title, [_entry(item, view_name, pulse) for item in items])
        for title, items in groupby(ordered, key=lambda item: item.group)
    ]


def _entry(item: MenuItem, view_name: str, pulse: StatusSummary) -> MenuEntry:
    return MenuEntry(item, view_name in item.pages, item.count(pulse) if item.count else 0)
