"""What waits for people, most urgent first: the inbox of every page, and "Needs a decision" on the overview."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from django.urls import reverse
from django.utils import timezone

from dashboards.addresses import address
from dashboards.viewer import Viewer
from quotas.models import AlertState, Change, Emergency, Override
from quotas.models.change import TRIED, ChangeState
from quotas.models.quota_request import QuotaRequest
from quotas.models.recommendation import Recommendation
from quotas.status.todo import TodoList

# Whose part it is; empty: nobody has to act, it goes on by itself.
Needs = Literal["approver", "operator", ""]

_CHANGES: Final = {
    ChangeState.PENDING: ("is pending", "history", "brand"),
    ChangeState.BLOCKED: ("was blocked when it was due", "alert", "denied"),
    ChangeState.SHADOW: ("is in shadow", "eye", "shadow"),
    ChangeState.CANARY: ("is a canary", "eye", "shadow"),
    ChangeState.SCHEDULED: ("is scheduled", "clock", "info"),
}


@dataclass(frozen=True, slots=True)
class TodoItem:
    icon: str
    meaning: str
    title: str
    code: str  # an endpoint, shown in monospace after the title
    text: str
    href: str
    at: datetime | None = None
    needs: Needs = ""
    author: str = ""  # the identity of who asked for it, if they may not decide it themselves

    def is_for(self, viewer: Viewer, mine: frozenset[str]) -> bool:
        may = {"approver": viewer.approves, "operator": viewer.operates, "": False}[self.needs]
        return may and (not self.author or self.author not in mine)


def items_of(found: TodoList) -> list[TodoItem]:
    return [
        *map(_emergency, found.emergencies),
        *map(_firing, found.alerts),
        *map(_asked, found.requests),
        *(_change(row, is_approved=row.pk in found.approved) for row in found.changes),
        *_recommended(found.recommendations),
        *map(_ending, found.ending),
    ]


def _emergency(row: Emergency) -> TodoItem:
    href = f"{reverse('dashboards:changes')}#emergencies"
    title = f"Look at the emergency of {row.author}: {row.what}"
    return TodoItem("alert", "denied", title, "", row.reason, href, row.at, "operator", row.author_identity)


def _firing(row: AlertState) -> TodoItem:
    href = f"{reverse('dashboards:settings')}#alerts"
    return TodoItem("bell", "denied", row.text, "", f"Alert {row.name} fires.", href, row.since, "operator")


def _asked(row: QuotaRequest) -> TodoItem:
    href = reverse("dashboards:tenant", args=[row.tenant.name])
    title = f"{row.tenant.name} requests {row.wanted:,} of {row.limit} on"
    return TodoItem("inbox", "brand", title, row.scope, row.reason, href, row.created, "approver")


def _change(row: Change, *, is_approved: bool) -> TodoItem:
    state = ChangeState(row.state)
    words, icon, meaning = _CHANGES[state]
    href = reverse("dashboards:change", args=[row.pk])
    text, at = row.problem or row.reason, row.at or row.created
    if state == ChangeState.PENDING and not is_approved:
        title = f"Approve change {row.pk} by {row.author}"
        return TodoItem("check", "info", title, "", text, href, at, "approver", row.author_identity)
    if state in TRIED and row.trial_ends is not None and row.trial_ends <= timezone.now():
        title = f"Change {row.pk} has finished its trial: promote, extend or drop it"
        return TodoItem("eye", "brand", title, "", text, href, row.trial_ends, "operator")
    needs: Needs = "operator" if state in (ChangeState.PENDING, ChangeState.BLOCKED) else ""
    return TodoItem(icon, meaning, f"Change {row.pk} {words}", "", text, href, at, needs)


def _recommended(rows: Sequence[Recommendation]) -> Iterator[TodoItem]:
    for row in rows:
        href = address("dashboards:recommendation", str(row.pk))
        title = f"{row.tenant or row.tier} ×"
        yield TodoItem("rec", "brand", title, row.endpoint, row.summary, href, row.created, "approver")


def _ending(row: Override) -> TodoItem:
    href = f"{reverse('dashboards:tenant', args=[row.tenant.name])}#overrides"
    title = f"Override ends soon: {row.tenant.name} on"
    return TodoItem("clock", "degraded", title, row.scope, row.reason, href, row.end, "operator")
