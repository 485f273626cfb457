"""The list of pools, and one pool: who has, who lends and who borrows, with its shares to edit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from dashboards.forms import number_of
from dashboards.lists import Asked, asked_of
from dashboards.pages.pools.chart import busiest_colors, pool_chart
from dashboards.pages.pools.demand import Demand, demand_of
from dashboards.pages.pools.figures import (
    MOST_PARTS,
    PoolFigures,
    TreeProposal,
    TreeRow,
    head_sentence,
    pool_figures,
    scaled,
)
from dashboards.pages.pools.flow import pool_flow
from dashboards.viewer import principal_of
from quotas.changes.queries import newest_change
from quotas.changes.snapshot import POLICY, key_of
from quotas.models import Revision
from quotas.models.revision import newest_revision_number
from quotas.pools.amounts import KEEP
from quotas.pools.demand import demand_ask, demand_newest
from quotas.pools.members import ORDERS, Members, every_share, members_read, tenant_members
from quotas.pools.queries import PoolRow, is_change_of, pool_read, pools_found
from quotas.pools.shares import evenly
from quotas.pools.use import DAY, ShareKey, causes_read, history_read, use_read, uses_now
from quotas.tasks import task_send
from tenants.models import Tenant
from tenants.scope import tenants_of

FILTERS: Final = ("tenant", "shares")
SHORT_CAUSES: Final = {"pool": "pool full", "share": "above fair share", "ceiling": "above ceiling"}
KINDS: Final = {"shared": "all tenants", "tier": "each tenant of", "tenant": "one tenant"}


@dataclass(frozen=True, slots=True)
class PoolLine:
    pool: PoolRow
    used: float | None
    borrowed: float | None

    @property
    def share(self) -> float | None:
        return None if self.used is None or not self.pool.rate else self.used / self.pool.rate


@require_safe
def pools(request: HttpRequest) -> HttpResponse:
    """`?tenant=acme`: those that hold for this tenant."""
    wanted = request.GET.get("tenant", "")[:63]
    tenant = tenants_of(principal_of(request)).filter(name=wanted).first() if wanted else None
    found = pools_found(tenant=tenant)
    uses = uses_now(found)
    lines = [_line(pool, uses.get((pool.policy, pool.name))) for pool in found]
    unknown = wanted if tenant is None else ""
    return render(request, "dashboards/pools/list.html", {"lines": lines, "tenant": tenant, "unknown": unknown})


def _line(pool: PoolRow, amount: Any) -> PoolLine:
    if amount is None:
        return PoolLine(pool, None, None)
    return PoolLine(pool, scaled(pool, amount.used), scaled(pool, amount.lent))


@dataclass(frozen=True)
class PoolPage:
    """A pool as its page shows it."""

    pool: PoolRow
    members: Members
    tenant: Tenant | None  # whose pool, if it is not shared
    asked: Asked

    @property
    def number(self) -> int | None:
        return self.tenant.number if self.tenant else None

    @property
    def is_shared(self) -> bool:
        return self.pool.kind == "shared"

    @property
    def is_unowned(self) -> bool:
        """Whether no tenant has it: its tier has none, or its tenant is archived."""
        return not self.is_shared and self.tenant is None


def find_pool(policy: str, limit: str) -> PoolRow:
    pool = pool_read(policy, limit)
    if pool is None:
        raise Http404(f"No pool is called {limit} in a policy {policy}.")
    return pool


@require_safe
def pool(request: HttpRequest, name: str, limit: str) -> HttpResponse:
    """`?shares=even` fills in even shares, `?shares=demand` those that were measured last; nothing is saved by that.

    `?saved=42`: these shares were just saved as r42.
    """
    page = _page(request, find_pool(name, limit))
    now = timezone.now()
    use = use_read(page.pool, page.members, tenant=page.number)
    history = history_read(page.pool, page.members, use, now, tenant=page.number)
    demand = _demand(page)
    figures = pool_figures(page.pool, page.members, use, busiest_colors(history), _proposed(page, demand))
    sentence = head_sentence(page.pool, page.members, figures, is_unowned=page.is_unowned)
    context = {
        "page": page,
        "pool": page.pool,
        "members": page.members,
        "use": use,
        "figures": figures,
        "sentence": sentence,
        "chart": None if page.is_unowned else pool_chart(page.pool, history),
        "history": history,
        "flow": pool_flow(page.pool, figures, sentence),
        "bar": _bar(page, figures),
        "free": _free(page.pool, figures),
        "causes": _causes(page, now),
        "demand": demand,
        "others": pools_found(),
        "revision": newest_revision_number(),
        "changed": _changed(request, page),
        "tenants": _tenants(request, page),
        "next_address": page.asked.address(after=page.members.next),
        "previous_address": page.asked.address(before=page.members.previous),
        "plan_address": reverse("dashboards:pool-plan", args=[name, limit]),
        "shares_address": reverse("dashboards:pool-shares", args=[name, limit]),
    }
    return render(request, "dashboards/pools/page.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def pool_demand(request: HttpRequest, name: str, limit: str) -> HttpResponse:
    """POST asks for a proposal. GET is how far it has come; once it is over, htmx loads the pool's page with it."""
    pool = find_pool(name, limit)
    address = f"{reverse('dashboards:pool', args=[name, limit])}?shares=demand"
    if request.method == "POST":
        task_send(demand_ask(pool=pool, author=principal_of(request).actor))
        return redirect(address)
    task = demand_newest(pool)
    if task is None or task.is_over:
        return HttpResponse(headers={"HX-Redirect": address})
    return render(request, "dashboards/pools/demand.html", {"pool": pool, "demand": Demand(task)})


def _page(request: HttpRequest, pool: PoolRow) -> PoolPage:
    asked = asked_of(request, FILTERS, ORDERS, "-asked")
    if pool.kind == "shared":
        members = members_read(pool, order=asked.order, after=asked.after, before=asked.before)
        return PoolPage(pool, members, None, asked)
    tenant = _whose(request, pool, asked.one("tenant"))
    members = tenant_members(pool, tenant.name) if tenant else members_read(pool)
    return PoolPage(pool, members, tenant, asked)


def _whose(request: HttpRequest, pool: PoolRow, wanted: str) -> Tenant | None:
    """The tenant of the pool; of a tier's pool the one that is asked for, or the busiest. None: no tenant has it."""
    rows = tenants_of(principal_of(request)).filter(archived_at=None).select_related("tier")
    owners = rows.filter(name=pool.tenant) if pool.tenant else rows.filter(tier__name=pool.tier)
    if not wanted:
        return owners.order_by("-summary__asked", "name").first()
    found = owners.filter(name=wanted).first()
    if found is None:
        raise Http404(f"No tenant {wanted} has the pool {pool.name}.")
    return found


def _tenants(request: HttpRequest, page: PoolPage) -> list[str]:
    if page.pool.kind != "tier":
        return []
    rows = tenants_of(principal_of(request)).filter(archived_at=None, tier__name=page.pool.tier)
    return list(rows.order_by("-summary__asked", "name").values_list("name", flat=True)[:50])


def _changed(request: HttpRequest, page: PoolPage) -> Revision | None:
    """The last change of the pool or its shares. A share that was just removed has no policy left to find it by."""
    shares = every_share((*page.members.nodes, *page.members.shares))
    policies = {page.pool.policy, *(share.policy for share in shares)}
    saved = number_of(request.GET.get("saved", ""))
    lenders = [page.pool.name, *(node.limit for node in page.members.nodes)]
    if saved is not None and not is_change_of(page.pool, lenders, saved):
        saved = None
    return newest_change([key_of(POLICY, name) for name in policies], also=saved)


def _demand(page: PoolPage) -> Demand | None:
    """None: nobody asked for it here."""
    if page.asked.one("shares") != "demand" or not page.members.is_whole:
        return None
    return demand_of(page.pool, is_apart=page.is_shared and bool(page.members.shares))


def _proposed(page: PoolPage, demand: Demand | None) -> dict[ShareKey, TreeProposal]:
    pool = page.pool
    if demand is not None:
        return demand.shares(pool)
    if page.asked.one("shares") != "even" or not page.members.is_whole:
        return {}
    near = [share for share in (*page.members.nodes, *page.members.shares) if share.parent == pool.name]
    return {
        (each.tenant, each.scope, each.limit): TreeProposal(
            float(each.assured or 0), None if each.ceiling in (KEEP, None) else float(each.ceiling or 0)
        )
        for each in evenly(pool, near)
    }


def _bar(page: PoolPage, figures: PoolFigures) -> list[TreeRow]:
    """The parts of the bar: what the pool itself guarantees. Empty: there is nothing to move between."""
    near = [row for row in figures.rows if row.share.level == 2]
    is_fit = page.members.is_whole and 0 < len(near) <= MOST_PARTS
    return near if is_fit and all(row.share.is_counted_apart for row in near) else []


def _free(pool: PoolRow, figures: PoolFigures) -> float | None:
    return None if figures.used is None else max(0.0, pool.rate - figures.used)


@dataclass(frozen=True, slots=True)
class CauseLine:
    words: str
    count: int
    read: int  # denials in the log that were looked at
    address: str  # of those in the log

    @property
    def share(self) -> float:
        return self.count / self.read


def _causes(page: PoolPage, now: datetime) -> list[CauseLine]:
    found = causes_read(page.pool, page.members, now, tenant=page.number)
    return [
        CauseLine(SHORT_CAUSES[cause], count, found.read, _log_address(page, cause, now))
        for cause, count in found.counts.items()
    ]


def _log_address(page: PoolPage, cause: str, now: datetime) -> str:
    """The decision log can name one endpoint and one limit; what is several is left out."""
    place = page.pool.scope if page.pool.row.policy.endpoint_id else ""
    limit = next(iter(page.members.limits)) if len(page.members.limits) == 1 else ""
    tenant = page.tenant.name if page.tenant else ""
    asked = {"tenant": tenant, "endpoint": place, "limit": limit, "cause": cause, "since": (now - DAY).isoformat()}
    return f"{reverse('dashboards:decisions')}?{urlencode({name: value for name, value in asked.items() if value})}"
