"""Results of the command palette: actions of the viewer's role, and tenants, endpoints, policies and pages by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from access.roles import may
from dashboards.actions import ACTIONS, Action
from dashboards.addresses import address
from dashboards.menu import MENU
from dashboards.viewer import principal_of
from quotas.models import Endpoint, Policy
from quotas.pools.queries import pools_named
from tenants.models import Tenant, Tier
from tenants.scope import Principal

MOST = 6
LONGEST = 100


class NamedPolicy(NamedTuple):
    name: str
    place: str  # tier or tenant × endpoint


def tenants_named(beginning: str, most: int) -> list[Tenant]:
    rows = Tenant.objects.select_related("tier").filter(name__startswith=beginning.casefold(), archived_at=None)
    return list(rows.order_by("name")[:most])


def endpoints_named(part: str, most: int) -> list[Endpoint]:
    """By any part of the name. There are few endpoints, so a scan is fine."""
    return list(Endpoint.objects.filter(retired=False, name__contains=part.casefold()).order_by("name")[:most])


def policies_named(beginning: str, most: int) -> list[NamedPolicy]:
    rows = Policy.objects.filter(name__startswith=beginning.casefold()).select_related("tier", "tenant", "endpoint")
    return [NamedPolicy(row.name, _place(row)) for row in rows.order_by("name")[:most]]


def _place(row: Policy) -> str:
    owner = row.tier.name if row.tier else row.tenant.name if row.tenant else "everyone"
    return f"policy, {owner} × {row.scope}"


@dataclass(frozen=True, slots=True)
class PaletteResult:
    icon: str
    label: str
    note: str
    href: str
    is_code: bool = False
    presses: str = ""  # a selector; what to press instead of going to `href`


@dataclass(frozen=True, slots=True)
class ResultGroup:
    title: str
    results: Sequence[PaletteResult]


@require_safe
def palette(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()[:LONGEST]
    principal = principal_of(request)
    groups = [
        ResultGroup("Actions", _actions(query, principal)),
        ResultGroup("Jump to", _things(query)),
        ResultGroup("Pages", _pages(query, principal)),
    ]
    found = {"groups": [group for group in groups if group.results], "query": query}
    return render(request, "dashboards/palette/results.html", found)


def _things(query: str) -> list[PaletteResult]:
    tenants = [
        PaletteResult("tenants", row.name, f"tenant, {row.tier.name}", address("dashboards:tenant", row.name))
        for row in tenants_named(query, MOST)
    ]
    endpoints = [
        PaletteResult(
            "endpoint", row.name, f"{row.method} {row.path}", address("dashboards:endpoint", row.name), is_code=True
        )
        for row in endpoints_named(query, MOST)
    ]
    tiers = [
        PaletteResult("tier", row.name, f"tier {row.label}".strip(), address("dashboards:tier", row.name))
        for row in Tier.objects.filter(retired=False, name__contains=query.casefold()).order_by("name")[:MOST]
    ]
    policies = [
        PaletteResult("layers", row.name, row.place, address("dashboards:policy", row.name))
        for row in policies_named(query, MOST)
    ]
    pools = [
        PaletteResult(
            "pool", pool.name, f"pool on {pool.place_words}", address("dashboards:pool", pool.policy, pool.name)
        )
        for pool in pools_named(query, MOST)
    ]
    return [result for result in (*tenants, *tiers, *endpoints, *policies, *pools) if result.href]


def _pages(query: str, principal: Principal) -> list[PaletteResult]:
    wanted = query.casefold()
    return [
        PaletteResult(item.icon, item.label, item.group, address(item.url))
        for item in MENU
        if wanted in item.label.casefold() and may(principal, item.url, "GET")
    ]


def _actions(query: str, principal: Principal) -> list[PaletteResult]:
    """None before anything is typed: then the palette is for jumping."""
    if not query:
        return []
    fitting = [action for action in ACTIONS if action.fits(query) and action.is_open_to(principal)]
    fitting.sort(key=lambda action: not action.is_named(query))
    return [*_overrides(query, principal), *map(_action, fitting)][:MOST]


def _action(action: Action) -> PaletteResult:
    return PaletteResult(action.icon, action.label, action.note, action.href, presses=action.presses)


def _overrides(query: str, principal: Principal) -> list[PaletteResult]:
    """`override acme`: the dialog of that tenant."""
    before, _, name = query.casefold().rpartition(" ")
    if "override".startswith(before.rpartition(" ")[2] or "?") and may(principal, "dashboards:override-give", "POST"):
        rows = tenants_named(name, MOST) if name else []
        return [
            PaletteResult("clock", f"Give {row.name} an override", f"tenant, {row.tier.name}", override_of(row.name))
            for row in rows
        ]
    return []


def override_of(tenant: str) -> str:
    return f"{address('dashboards:tenant', tenant)}#open-dlg-override"
