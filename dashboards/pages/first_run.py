"""Getting started: five steps to the first enforced limit. Each step detects when it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboards.forms import PageForm, outcome_toast, sentences_of
from dashboards.pages.tenant.keys import handed_out
from dashboards.pages.tester.view import limiter
from dashboards.viewer import principal_of, viewer_of
from headroom_edge import Decision
from headroom_edge.keys import shard_of
from quotas.api_keys import api_key_issue
from quotas.changes.commit import Outcome, Proposed, commit
from quotas.changes.turn import turn
from quotas.endpoints import endpoint_create
from quotas.errors import Refused
from quotas.policies.edit import policy_create
from quotas.policies.spec import METHODS
from quotas.status.summary import FirstSteps, first_steps_read
from quotas.status.system import enforcement_read
from quotas.tenants import tenant_create, tier_create
from tenants.models import Tier

REASON = "first steps"
TEN = 10
PATIENCE_MS = 1_000  # somebody waits for the limit's own decision, not for what applies when the store is slow


class EndpointForm(PageForm):
    name = forms.CharField(label="Name", initial="orders:create", max_length=128, help_text="service:operation")
    method = forms.ChoiceField(label="Method", choices=[(each, each) for each in METHODS], initial="POST")
    path = forms.CharField(label="Path", initial="/v1/orders", max_length=512, help_text="A template: /v1/orders/{id}")


class TenantForm(PageForm):
    name = forms.CharField(label="Tenant", initial="first-tenant", max_length=63, help_text="One of your customers")
    tier = forms.CharField(label="Tier", initial="free", max_length=63, help_text="The plan of the customer")


class LimitForm(PageForm):
    rate = forms.IntegerField(label="Rate", initial=2, min_value=1)
    burst = forms.IntegerField(label="Burst", initial=5, min_value=1)

    fields_of: ClassVar[dict[str, str]] = {"limits[0].rate": "rate", "limits[0].burst": "burst"}


@dataclass(frozen=True, slots=True)
class SetupStep:
    number: int
    title: str
    is_done: bool
    form: PageForm | None = None


FORMS: dict[str, type[PageForm]] = {"endpoint": EndpointForm, "tenant": TenantForm, "limit": LimitForm}


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that the page sent for the viewer."""

    number: int
    decision: Decision

    @property
    def status(self) -> int:
        return 200 if self.decision.allowed else 429


@require_http_methods(["GET", "HEAD", "POST"])
def first_run(request: HttpRequest) -> HttpResponse:
    found = first_steps_read()
    kind = request.POST.get("step", "") if request.method == "POST" else ""
    if kind in TRIALS:
        return _page(request, found, **TRIALS[kind](request, found))
    refused = _carry_out(request, found) if kind else None
    if request.method == "POST" and refused is None:
        return redirect("dashboards:first-run")
    return _page(request, found, refused)


def _page(
    request: HttpRequest, found: FirstSteps, refused: dict[str, PageForm] | None = None, **tried: Any
) -> HttpResponse:
    steps = _steps(found, refused or {}, is_connected=enforcement_read() is not None)
    now = next((step for step in steps if not step.is_done), None)
    context = {
        "found": found,
        "steps": steps,
        "current": now.number if now else 0,
        # A later step may be done before an earlier one, but nobody has done it out of turn.
        "done": now.number - 1 if now else len(steps),
        "redis_url": settings.REDIS_URL,
        "gateway_url": settings.GATEWAY_URL or request.build_absolute_uri("/").rstrip("/"),
        "shard": shard_of(found.tenant.name, settings.HEADROOM_SHARDS) if found.tenant else 0,
        "may_act": viewer_of(request).operates,
        **tried,
    }
    return render(request, "dashboards/first_run.html", context, status=422 if refused else 200)


def _send(request: HttpRequest, found: FirstSteps) -> dict[str, Any]:
    """Ten requests of the first tenant, decided and counted like any other. Only until the first one was denied."""
    if found.tenant is None or found.endpoint is None or not found.is_enforced or found.is_denied:
        messages.error(request, "Nothing was sent|Set a limit first; after the first 429 there is no need to.")
        return {}
    name, place = found.tenant.name, found.endpoint.name
    decisions = [limiter().check(tenant=name, endpoint=place, budget_ms=PATIENCE_MS) for _ in range(TEN)]
    return {"sent": [Sent(i, decision) for i, decision in enumerate(decisions, 1)]}


def _issue(request: HttpRequest, found: FirstSteps) -> dict[str, Any]:
    """A key of the first tenant, for the command line. It is shown once."""
    if found.tenant is None:
        return {}
    author = principal_of(request).actor
    try:
        issued = api_key_issue(tenant=found.tenant.name, author=author, reason=REASON, label="first steps")
    except Refused as refused:
        messages.error(request, f"No key was issued|{sentences_of(refused)[0]}")
        return {}
    return handed_out(issued)


TRIALS: dict[str, Callable[[HttpRequest, FirstSteps], dict[str, Any]]] = {"send": _send, "key": _issue}


def _steps(found: FirstSteps, refused: dict[str, PageForm], *, is_connected: bool) -> list[SetupStep]:
    def form(kind: str) -> PageForm:
        return refused.get(kind) or FORMS[kind](auto_id=f"{kind}_%s")

    return [
        SetupStep(1, "Connect Redis", is_connected),
        SetupStep(2, "Add an endpoint", found.endpoint is not None, form("endpoint")),
        SetupStep(3, "Add a tenant", found.tenant is not None, form("tenant")),
        SetupStep(4, "Set a limit", found.is_enforced, form("limit") if found.limit is None else None),
        SetupStep(5, "See the first 429", found.is_denied),
    ]


def _carry_out(request: HttpRequest, found: FirstSteps) -> dict[str, PageForm] | None:
    """None on success, else the form with its errors."""
    kind = request.POST.get("step", "")
    if kind not in FORMS:
        return None
    form = FORMS[kind](request.POST, auto_id=f"{kind}_%s")
    if form.is_valid():
        try:
            outcome = ACTS[kind](found, form.cleaned_data, principal_of(request).actor)
        except Refused as refused:
            form.refused(refused)
        else:
            if isinstance(outcome, Proposed):
                messages.success(request, outcome_toast(outcome))
    return {kind: form} if form.errors else None


def _endpoint(found: FirstSteps, data: dict[str, Any], author: str) -> Outcome[object]:
    """Under four eyes it is filed as a change, which waits for somebody else."""
    return commit(partial(endpoint_create, **data, author=author, reason=REASON))


def _tenant(found: FirstSteps, data: dict[str, Any], author: str) -> None:
    # Two revisions: both or none. Opened by the turn, so that nobody waits in a transaction.
    with turn():
        if not Tier.objects.filter(name=data["tier"], retired=False).exists():
            tier_create(name=data["tier"], author=author, reason=REASON)
        tenant_create(name=data["name"], tier=data["tier"], author=author, reason=REASON)


def _limit(found: FirstSteps, data: dict[str, Any], author: str) -> None:
    # The edit waits for no approval and accepts any cut, so it is only for an installation that limits nothing.
    if found.tenant is None or found.endpoint is None or found.limit is not None:
        return
    fields = {"name": "burst", "algorithm": "token_bucket", "rate": data["rate"], "burst": data["burst"]}
    tier = found.tenant.tier.name
    with turn():
        policy_create(
            name=f"{tier}-first",
            tier=tier,
            endpoint=found.endpoint.name,
            limits=[fields],
            author=author,
            reason=REASON,
            by_design=True,
            force=True,
        )


ACTS: dict[str, Callable[[FirstSteps, dict[str, Any], str], Outcome[object] | None]] = {
    "endpoint": _endpoint,
    "tenant": _tenant,
    "limit": _limit,
}
