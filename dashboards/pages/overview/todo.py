"""The list "Needs a decision": what a person should look at, most urgent first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.urls import reverse

from dashboards.pages.palette import address
from quotas.models import Change, Override
from quotas.models.change import ChangeState
from quotas.models.quota_request import QuotaRequest
from quotas.models.recommendation import Recommendation
from quotas.status.system import Enforcement
from quotas.status.todo import TodoList
from quotas.usage.queries.denial_causes import ThrottledTenant

# Fewer denials than this share are normal for a limit.
WORTH_A_LOOK: Final = 0.01
MOST_THROTTLED: Final = 2

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


def todo_of(
    decisions: TodoList, throttled: Sequence[ThrottledTenant], enforcement: Enforcement | None, now: datetime
) -> list[TodoItem]:
    return [
        *_switches(enforcement),
        *_throttled(throttled),
        *map(_asked, decisions.requests),
        *map(_change, decisions.changes),
        *_recommended(decisions.recommendations),
        *map(_ending, decisions.ending),
    ]


def _switches(enforcement: Enforcement | None) -> Iterator[TodoItem]:
    for switch in enforcement.switches if enforcement else ():
        text = f"Its limits deny no requests until it ends. {switch.reason}"
        href = f"{reverse('dashboards:changes')}#bypass"
        yield TodoItem("alert", "degraded", f"Bypass active: {switch}", "", text, href, switch.until)


def _throttled(rows: Sequence[ThrottledTenant]) -> Iterator[TodoItem]:
    worth = [row for row in rows if row.tenant and row.limit and row.share >= WORTH_A_LOOK]
    for row in worth[:MOST_THROTTLED]:
        text = f"{100 * row.share:.1f} % of its requests were denied by {row.limit}."
        href = f"{reverse('dashboards:tenant', args=[row.tenant])}?endpoint={row.endpoint or '*'}"
        yield TodoItem("ban", "denied", f"{row.tenant} is throttled on", row.endpoint or "*", text, href)


def _asked(row: QuotaRequest) -> TodoItem:
    href = reverse("dashboards:tenant", args=[row.tenant.name])
    title = f"{row.tenant.name} requests {row.wanted:,} of {row.limit} on"
    return TodoItem("inbox", "brand", title, row.scope, row.reason, href, row.created)


def _change(row: Change) -> TodoItem:
    words, icon, meaning = _CHANGES[ChangeState(row.state)]
    href = f"{reverse('dashboards:changes')}?change={row.pk}"
    return TodoItem(
        icon, meaning, f"Change {row.pk} {words}", "", row.problem or row.reason, href, row.at or row.created
    )


def _recommended(rows: Sequence[Recommendation]) -> Iterator[TodoItem]:
    for row in rows:
        href = address("dashboards:recommendation", str(row.pk))
        if href:
            yield TodoItem("rec", "brand", f"{row.tenant or row.tier} ×", row.endpoint, row.summary, href, row.created)


def _ending(row: Override) -> TodoItem:
    href = f"{reverse('dashboards:tenant', args=[row.tenant.name])}#overrides"
    title = f"Override ends soon: {row.tenant.name} on"
    return TodoItem("clock", "degraded", title, row.scope, row.reason, href, row.end)
