"""API keys of a tenant: their states and use; issue, rotate, rename and revoke."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from dashboards.forms import MomentField, ReasonedForm, in_zone
from dashboards.pages.tenant.limits import TenantLimit
from dashboards.viewer import principal_of
from headroom_edge.keys import OWN_ENDPOINTS
from quotas.api_keys import (
    LONGEST_LABEL,
    MOST_LIVE,
    IssuedKey,
    KeyState,
    api_key_issue,
    api_key_revoke,
    api_key_rotate,
    api_key_update,
    key_state,
)
from quotas.errors import Refused
from quotas.models import Endpoint
from quotas.policies.spec import EVERYWHERE
from quotas.publishing.key_arrival import key_arrives
from quotas.usage.key_uses import requests_by_key, with_last_use
from tenants.models import ApiKey, Tenant
from tenants.scope import tenant_get

MOST_KEYS: Final = 30
USE_DAYS: Final = 7
MEANINGS: Final[dict[KeyState, str]] = {
    "active": "allowed",
    "expiring": "degraded",
    "overlap": "info",
    "expired": "line",
    "revoked": "line",
}


class ZonedForm(ReasonedForm):
    zone = forms.CharField(required=False, widget=forms.HiddenInput({"data-zone-name": ""}))

    def moment(self, name: str) -> datetime | None:
        """The field has no zone; it is in the viewer's."""
        return in_zone(self.cleaned_data.get(name), self.cleaned_data.get("zone", ""))


class KeyForm(ZonedForm):
    label = forms.CharField(label="Purpose", max_length=LONGEST_LABEL)
    scopes = forms.MultipleChoiceField(
        label="Permissions",
        choices=[("check", "check requests"), ("read", "read its own limits and usage")],
        widget=forms.CheckboxSelectMultiple,
        initial=["check"],
        error_messages={"required": "Choose at least one permission."},
    )
    expires = MomentField(label="Expires", required=False)

    fields_of: ClassVar[dict[str, str]] = {"expires_at": "expires"}


class RotateForm(ZonedForm):
    until = MomentField(label="The old key works until", error_messages={"required": "Say when the old key ends."})
    expires = MomentField(label="The new key expires", required=False)

    fields_of: ClassVar[dict[str, str]] = {"expires_at": "expires"}


class LabelForm(ReasonedForm):
    label = forms.CharField(label="Purpose", max_length=LONGEST_LABEL)


@dataclass(frozen=True, slots=True)
class KeyLine:
    row: ApiKey
    state: KeyState
    requests: int  # in the last USE_DAYS days

    @property
    def meaning(self) -> str:
        return MEANINGS[self.state]

    @property
    def is_live(self) -> bool:
        return self.state not in ("expired", "revoked")

    @property
    def rotates(self) -> bool:
        return self.state in ("active", "expiring")


def keys_of(row: Tenant, lines: Sequence[TenantLimit], now: datetime) -> dict[str, Any]:
    """The newest keys, those that work before those that no longer do."""
    rows = list(with_last_use(row.api_keys.select_related("successor")).order_by("-created")[:MOST_KEYS])
    uses = requests_by_key([key.key_id for key in rows], now, USE_DAYS)
    found = [KeyLine(key, key_state(key, now), uses.get(key.key_id, 0)) for key in rows]
    return {
        "keys": sorted(found, key=lambda line: not line.is_live),
        "live_keys": sum(line.is_live and line.state != "overlap" for line in found),
        "most_keys": MOST_LIVE,
        "use_days": USE_DAYS,
        "key_form": KeyForm(auto_id="key_%s"),
        "per_key_only": unbounded_by_tenant(lines),
    }


def unbounded_by_tenant(lines: Iterable[TenantLimit]) -> list[str]:
    """Names of limits per key where no limit counts the tenant as a whole: there each new key adds budget."""
    own = [line for line in lines if line.limit.mode == "enforce" and not line.effective.is_global]
    whole = {line.scope for line in own if str(line.limit.subject) == "tenant"}
    per_key = (line for line in own if any("key" in names for names in line.limit.subject.alternatives))
    return sorted({line.limit.name for line in per_key if not whole & {line.scope, EVERYWHERE}})


@require_POST
def key_issue(request: HttpRequest, name: str) -> HttpResponse:
    """The response contains the key, which is shown only once."""
    row = tenant_get(principal_of(request), name)
    form = KeyForm(request.POST, auto_id="key_%s")

    def issue() -> dict[str, Any]:
        data = form.cleaned_data
        asked: dict[str, Any] = {"label": data["label"], "scopes": data["scopes"], "expires_at": form.moment("expires")}
        return handed_out(api_key_issue(tenant=row.name, **asked, **_said(request, form)))

    done = _tried(form, issue)
    context = {"tenant": row, "key_form": form, **(done or {})}
    return render(request, "dashboards/tenant/key_form.html", context, status=200 if done else 422)


@require_http_methods(["GET", "POST"])
def key_rotate(request: HttpRequest, name: str, key_id: str) -> HttpResponse:
    row, key = _found(request, name, key_id)
    form = RotateForm(request.POST or None, auto_id="rotate_%s")

    def rotate() -> dict[str, Any]:
        until, expires = form.moment("until"), form.moment("expires")
        assert until is not None  # noqa: S101 - the field is required
        issued = api_key_rotate(key_id=key_id, until=until, expires_at=expires, **_said(request, form))
        key.refresh_from_db()
        return handed_out(issued)

    done = _tried(form, rotate)
    context = {"tenant": row, "key": key, "form": form, **(done or {})}
    return render(request, "dashboards/tenant/key_rotate_form.html", context, status=_status(request, done))


@require_http_methods(["GET", "POST"])
def key_label(request: HttpRequest, name: str, key_id: str) -> HttpResponse:
    row, key = _found(request, name, key_id)
    form = LabelForm(request.POST or None, initial={"label": key.label}, auto_id="label_%s")

    def rename() -> dict[str, Any]:
        api_key_update(key_id=key_id, label=form.cleaned_data["label"], **_said(request, form))
        return {"toast": "Purpose saved"}

    return _answered(request, row, key, form, rename, "dashboards/tenant/key_label_form.html")


@require_http_methods(["GET", "POST"])
def key_revoke(request: HttpRequest, name: str, key_id: str) -> HttpResponse:
    row, key = _found(request, name, key_id)
    form = ReasonedForm(request.POST or None, auto_id="revoke_%s")

    def revoke() -> dict[str, Any]:
        api_key_revoke(key_id=key_id, **_said(request, form))
        return {"toast": f"Key {key_id} revoked|Requests with it are refused"}

    return _answered(request, row, key, form, revoke, "dashboards/tenant/key_revoke_form.html")


def _answered(
    request: HttpRequest, row: Tenant, key: ApiKey, form: ReasonedForm, act: Callable[[], dict[str, Any]], template: str
) -> HttpResponse:
    done = _tried(form, act)
    if done:
        messages.success(request, done["toast"])
        return HttpResponse(headers={"HX-Redirect": f"{reverse('dashboards:tenant', args=[row.name])}#keys"})
    context = {"tenant": row, "key": key, "form": form}
    return render(request, template, context, status=_status(request, done))


def _tried(form: ReasonedForm, act: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    if not form.is_bound or not form.is_valid():
        return None
    try:
        return act()
    except Refused as refused:
        form.refused(refused)
    return None


def _status(request: HttpRequest, done: object) -> int:
    return 200 if done or request.method == "GET" else 422


def _said(request: HttpRequest, form: ReasonedForm) -> dict[str, Any]:
    return {"author": principal_of(request).actor, "reason": form.cleaned_data["reason"]}


def _found(request: HttpRequest, name: str, key_id: str) -> tuple[Tenant, ApiKey]:
    row = tenant_get(principal_of(request), name)
    key = row.api_keys.select_related("successor").filter(key_id=key_id).first()
    if key is None:
        raise Http404
    return row, key


def handed_out(issued: IssuedKey) -> dict[str, Any]:
    """What a page needs to show a new key, once it works."""
    return {"issued": issued, "works": key_arrives(issued.row), **_where_to_try()}


def _where_to_try() -> dict[str, str]:
    endpoints = Endpoint.objects.filter(retired=False).exclude(name__startswith=OWN_ENDPOINTS).order_by("name")
    example = endpoints.values_list("name", flat=True).first() or EVERYWHERE
    return {"gateway": settings.GATEWAY_URL or "$GATEWAY", "example": example}
