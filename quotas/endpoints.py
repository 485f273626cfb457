"""Writes endpoints: create, update, retire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Unpack

from django.db.models import Max, Q
from django.utils import timezone

from quotas.changes.draft import Permits, draft
from quotas.changes.snapshot import ENDPOINT, Draft, key_of
from quotas.errors import accepted, refuse
from quotas.lookups import find_endpoint
from quotas.models import Endpoint, Revision
from quotas.models.policy import ENDPOINT_NUMBERS
from quotas.policies.endpoint import DeclaredEndpoint, Hints, parse_endpoint
from quotas.policies.limit_rows import next_number


def endpoint_create(
    *,
    name: str,
    author: str,
    reason: str,
    method: str = "*",
    path: str = "",
    default_cost: int = 1,
    hints: Mapping[str, Any] | None = None,
    **permits: Unpack[Permits],
) -> Endpoint:
    fields = {"name": name, "method": method, "path": path, "default_cost": default_cost, "hints": hints or {}}
    with draft(action="endpoint_create", author=author, reason=reason, **permits) as opened:
        if Endpoint.objects.filter(name=name, retired=False).exists():
            raise refuse("name", "taken", f"endpoint {name} already exists; update it, or choose another name")
        return write_endpoint(opened, accepted(parse_endpoint(fields)))


def endpoint_update(
    *,
    name: str,
    author: str,
    reason: str,
    force: bool = False,
    emergency: bool = False,
    **changes: Any,
) -> Revision | None:
    """`changes`: any of method, path, default_cost and hints."""
    with draft(action="endpoint_update", author=author, reason=reason, force=force, emergency=emergency) as opened:
        row = find_endpoint(name)
        fields = {"method": row.method, "path": row.path, "default_cost": row.default_cost, "hints": row.hints}
        write_endpoint(opened, accepted(parse_endpoint({**fields, **changes, "name": name})))
    return opened.revision


def endpoint_delete(*, name: str, author: str, reason: str, **permits: Unpack[Permits]) -> Revision | None:
    """Afterwards it is treated like any unregistered endpoint: only the limits on `*` apply to it."""
    with draft(action="endpoint_delete", author=author, reason=reason, **permits) as opened:
        retire_endpoint(opened, find_endpoint(name))
    return opened.revision


def write_endpoint(opened: Draft, declared: DeclaredEndpoint) -> Endpoint:
    """Creates or updates an endpoint; a retired one that is declared again keeps its number."""
    opened.touch(key_of(ENDPOINT, declared.name))
    row = Endpoint.objects.filter(name=declared.name).first()
    if row is None:
        newest = Endpoint.objects.aggregate(newest=Max("number"))["newest"]
        row = Endpoint(number=next_number(newest, ENDPOINT_NUMBERS, "endpoint"), name=declared.name)
    _check_route(declared)
    row.method, row.path, row.default_cost = declared.method, declared.path, declared.default_cost
    row.hints, row.retired = _said(declared.hints), False
    row.save()
    return row


def retire_endpoint(opened: Draft, row: Endpoint) -> None:
    opened.touch(key_of(ENDPOINT, row.name))
    policies = list(row.policies.values_list("name", flat=True))
    if policies:
        message = f"endpoint {row.name} has limits in {', '.join(policies)}; delete those policies first"
        raise refuse("endpoint", "in_use", message)
    live = row.overrides.filter(Q(end=None) | Q(end__gt=timezone.now()), cancelled_at=None)
    if override := live.select_related("tenant").first():
        message = f"endpoint {row.name} has override {override.pk} of {override.tenant}; cancel it first"
        raise refuse("endpoint", "in_use", message)
    row.retired = True
    row.save(update_fields=["retired"])


def _check_route(declared: DeclaredEndpoint) -> None:
    if not declared.path:
        return
    others = Endpoint.objects.filter(method=declared.method, retired=False).exclude(name=declared.name).exclude(path="")
    for name, path in others.values_list("name", "path"):
        if DeclaredEndpoint(name, declared.method, path).route == declared.route:
            message = f"{declared.method} {declared.path} is already the route of {name}; choose another path"
            raise refuse("path", "taken", message)


def _said(hints: Hints) -> dict[str, Any]:
    return {name: value for name, value in asdict(hints).items() if value is not None}
