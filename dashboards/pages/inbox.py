"""The inbox: what waits for the viewer. An entry leaves when it is done, not when it is read."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboards.todo import items_of
from dashboards.viewer import principal_of, viewer_of
from quotas.status.todo import todo_read
from tenants.identity import identities_of

MOST: Final = 20  # of each kind


@require_safe
def inbox(request: HttpRequest) -> HttpResponse:
    """A page; for the popover of every page (`HX-Request`), only its list."""
    items = items_of(todo_read(timezone.now(), MOST))
    viewer, mine = viewer_of(request), identities_of(principal_of(request))
    context = {"everything": items, "for_you": [item for item in items if item.is_for(viewer, mine)], "most": MOST}
    is_part = request.headers.get("HX-Request") == "true"
    return render(request, f"dashboards/inbox/{'list' if is_part else 'page'}.html", context)
