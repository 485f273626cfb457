"""The part of a page about limits that adapt: live value, bounds, reason, timeline, and the button that pins it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from dashboards.figure import Column, Figure, FigureRow, Panel, limit_line
from dashboards.forms import NOT_SAVED, outcome_toast, told
from dashboards.viewer import principal_of
from quotas.adaptive.pin import limit_pin, limit_unpin
from quotas.adaptive.queries import SHOWN, AdaptiveLimit, AdaptivePoint, adaptive_limits, adaptive_timeline
from quotas.changes.commit import commit
from quotas.models import Endpoint
from tenants.models import Tenant

MOST: Final = 6  # limits on one page
STEP_S: Final = 30  # at most one point in so many seconds is drawn
PINNED: Final = "Pinned to its live value"
UNPINNED: Final = "Unpinned"


@dataclass(frozen=True, slots=True)
class AdaptivePart:
    limit: AdaptiveLimit
    figure: Figure


@dataclass(frozen=True, slots=True)
class AdaptiveTable:
    """A limit that each tenant has a counter of; the lowest first."""

    limit: str
    policy: str
    lowest: list[AdaptiveLimit]
    count: int

    @property
    def key(self) -> str:
        return f"{self.policy}-{self.limit}".replace(".", "_")


def endpoint_shown(endpoint: Endpoint, now: datetime) -> dict[str, Any]:
    """Counters of all tenants together have a chart each. Those of one tenant are lines: there may be thousands."""
    found = _lowest_first(adaptive_limits(now, endpoint=endpoint))
    return {
        "adaptive": _parts([each for each in found if not each.tenant_number], now),
        "adaptive_tables": _tables([each for each in found if each.tenant_number]),
    }


def _tables(ranked: list[AdaptiveLimit]) -> list[AdaptiveTable]:
    found: dict[tuple[str, str], list[AdaptiveLimit]] = {}
    for each in ranked:
        found.setdefault((each.limit, each.policy), []).append(each)
    return [AdaptiveTable(*name, rows[:MOST], len(rows)) for name, rows in found.items()]


def tenant_parts(tenant: Tenant, now: datetime) -> list[AdaptivePart]:
    return _parts(_lowest_first(adaptive_limits(now, tenant=tenant)), now)


def _parts(ranked: list[AdaptiveLimit], now: datetime) -> list[AdaptivePart]:
    return [AdaptivePart(each, _figure(each, now)) for each in ranked[:MOST]]


def _lowest_first(found: list[AdaptiveLimit]) -> list[AdaptiveLimit]:
    """Those that are furthest below their ceilings first."""
    return sorted(found, key=lambda each: (each.value / max(1, each.most), each.limit, each.tenant))


def _figure(limit: AdaptiveLimit, now: datetime) -> Figure:
    points = _thinned(adaptive_timeline(limit.policy, limit.limit, now - SHOWN, now, limit.tenant_number))
    unit, scale = ("%", 10) if limit.is_rate else ("at once", 1)
    return Figure(
        id=f"adaptive-{limit.key}",
        title=f"Live value of {limit.limit}",
        note=f"the last 6 hours, read every 10 seconds{f', of {limit.tenant}' if limit.tenant else ''}",
        columns=(Column("Live", unit, "line", "1"),),
        rows=[FigureRow(point.at, [point.value / scale]) for point in reversed(points)],
        x_name="At",
        panels=(Panel(unit, 96),),
        marks=[
            limit_line(limit.least / scale, f"floor {limit.words_of(limit.least)}"),
            limit_line(limit.most / scale, f"ceiling {limit.words_of(limit.most)}"),
        ],
        classes="c-8",
        start=(now - SHOWN).timestamp(),
        end=now.timestamp(),
    )


def _thinned(points: list[AdaptivePoint]) -> list[AdaptivePoint]:
    """The lowest of each step."""
    lowest: dict[int, AdaptivePoint] = {}
    for point in points:
        step = int(point.at.timestamp()) // STEP_S
        if step not in lowest or point.value < lowest[step].value:
            lowest[step] = point
    return list(lowest.values())


@require_POST
def pin(request: HttpRequest, policy: str, limit: str) -> HttpResponse:
    """`act`: pin or unpin; `at`: a share, or empty for its newest value."""
    author = principal_of(request).actor
    unpinned = partial(limit_unpin, policy=policy, limit=limit, author=author, reason=UNPINNED)
    at = request.POST.get("at", "").strip()
    pinned = partial(limit_pin, policy=policy, limit=limit, author=author, reason=PINNED, at=at)
    edit = unpinned if request.POST.get("act") == "unpin" else pinned
    told(request, lambda: commit(edit), outcome_toast, NOT_SAVED)
    return redirect(_back(request))


def _back(request: HttpRequest) -> str:
    wanted = request.POST.get("next", "")
    is_ours = wanted.startswith("/") and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None)
    return wanted if is_ours else reverse("dashboards:overview")
