"""The list "Needs a decision": bypasses and throttled tenants, then what waits for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from django.urls import reverse

from dashboards.todo import TodoItem, items_of
from quotas.status.system import Enforcement
from quotas.status.todo import TodoList
from quotas.usage.queries.denial_causes import ThrottledTenant

# Fewer denials than this share are normal for a limit.
WORTH_A_LOOK: Final = 0.01
MOST_THROTTLED: Final = 2


def todo_of(
    decisions: TodoList, throttled: Sequence[ThrottledTenant], enforcement: Enforcement | None
) -> list[TodoItem]:
    return [*_switches(enforcement), *_throttled(throttled), *items_of(decisions)]


def _switches(enforcement: Enforcement | None) -> Iterator[TodoItem]:
    for switch in enforcement.switches if enforcement else ():
        text = f"Its limits deny no requests until it ends. {switch.reason}"
        href = f"{reverse('dashboards:changes')}#bypass"
        yield TodoItem("alert", "degraded", f"Bypass active: {switch}", "", text, href, switch.until)


def _throttled(rows: Sequence[ThrottledTenant]) -> Iterator[TodoItem]:
    worth = [row for row in rows if row.tenant and row.limit and row.share >= WORTH_A_LOOK and not row.is_calm]
    for row in worth[:MOST_THROTTLED]:
        text = f"{100 * row.share:.1f} % of its requests were denied by {row.limit}."
        href = f"{reverse('dashboards:tenant', args=[row.tenant])}?endpoint={row.endpoint or '*'}"
        yield TodoItem("ban", "denied", f"{row.tenant} is throttled on", row.endpoint or "*", text, href)
