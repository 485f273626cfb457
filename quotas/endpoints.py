"""Writes endpoints: create, update, retire."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Unpack

from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from headroom_edge.plan.priority import USUAL
from quotas.changes.draft import Permits, draft
from quotas.changes.snapshot import ENDPOINT, Draft, key_of
from quotas.errors import Refused, accepted, refuse
from quotas.lookups import find_endpoint, next_number
from quotas.models import Endpoint, Override, Policy, Revision
from quotas.models.policy import ENDPOINT_NUMBERS
from quotas.overrides import cancel_override
from quotas.policies.bulk import delete_policies
from quotas.policies.endpoint import DeclaredEndpoint, Hints, parse_endpoint

_WRITTEN = ["method", "path", "default_cost", "hints", "priority", "retired"]


def endpoint_create(
    *,
    name: str,
    author: str,
    reason: str,
    method: str = "*",
    path: str = "",
    default_cost: int = 1,
    hints: Mapping[str, Any] | None = None,
    priority: str = USUAL,
    **permits: Unpack[Permits],
) -> Endpoint:
    fields = {"name": name, "method": method, "path": path, "default_cost": default_cost, "priority": priority}
    fields["hints"] = hints or {}
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
    """`changes`: any of method, path, default_cost, priority and hints."""
    with draft(action="endpoint_update", author=author, reason=reason, force=force, emergency=emergency) as opened:
        row = find_endpoint(name)
        fields = {"method": row.method, "path": row.path, "default_cost": row.default_cost, "hints": row.hints}
        fields["priority"] = row.priority
        write_endpoint(opened, accepted(parse_endpoint({**fields, **changes, "name": name})))
    return opened.revision


def endpoint_delete(
    *, name: str, author: str, reason: str, with_limits: bool = False, **permits: Unpack[Permits]
) -> Revision | None:
    """Afterwards it is treated like any unregistered endpoint: only the limits on `*` apply to it.

    `with_limits`: its policies go and its overrides end in the same revision, so that undoing it restores them too.
    """
    with draft(action="endpoint_delete", author=author, reason=reason, **permits) as opened:
        row = find_endpoint(name)
        if with_limits:
            _remove_limits(opened, row)
        retire_endpoint(opened, row)
    return opened.revision


def _remove_limits(opened: Draft, row: Endpoint) -> None:
    for override in running_overrides([row]):
        cancel_override(opened, override)
    delete_policies(opened, list(row.policies.select_related("tier", "tenant", "endpoint")))


def write_endpoint(opened: Draft, declared: DeclaredEndpoint) -> Endpoint:
    """Creates or updates an endpoint; a retired one that is declared again keeps its number."""
    return write_endpoints(opened, [declared])[0]


def write_endpoints(opened: Draft, declared: Sequence[DeclaredEndpoint]) -> list[Endpoint]:
    """Many in as many queries as one."""
    if not declared:
        return []
    opened.touch(*(key_of(ENDPOINT, one.name) for one in declared))
    check_routes(declared)
    known = {row.name: row for row in Endpoint.objects.filter(name__in=[one.name for one in declared])}
    _free_routes([one for one in declared if one.name in known], known)
    newest = 0
    if len(known) < len(declared):
        newest = Endpoint.objects.aggregate(newest=Max("number"))["newest"]
    new = []
    for one in declared:
        if one.name not in known:
            newest = next_number(newest, ENDPOINT_NUMBERS, "endpoint")
            known[one.name] = Endpoint(number=newest, name=one.name)
            new.append(known[one.name])
        _fill(known[one.name], one)
    Endpoint.objects.bulk_create(new)
    added = set(map(id, new))
    Endpoint.objects.bulk_create(
        [row for row in known.values() if id(row) not in added],
        update_conflicts=True,
        unique_fields=["number"],
        update_fields=_WRITTEN,
    )
    return [known[one.name] for one in declared]


def _fill(row: Endpoint, declared: DeclaredEndpoint) -> None:
    row.method, row.path, row.default_cost = declared.method, declared.path, declared.default_cost
    row.hints, row.priority, row.retired = _said(declared.hints), declared.priority, False


def _free_routes(declared: Sequence[DeclaredEndpoint], known: Mapping[str, Endpoint]) -> None:
    """Endpoints that exchange their routes give them up first: Postgres compares row by row."""
    held = {(row.method, row.path): row.number for row in known.values() if row.path}
    moving = [
        held[one.method, one.path]
        for one in declared
        if held.get((one.method, one.path), known[one.name].number) != known[one.name].number
    ]
    if moving:
        Endpoint.objects.filter(number__in=moving).update(path="")


def retire_endpoint(opened: Draft, row: Endpoint) -> None:
    retire_endpoints(opened, [row])


def retire_endpoints(opened: Draft, rows: Collection[Endpoint]) -> None:
    """Many in as many queries as one."""
    if not rows:
        return
    opened.touch(*(key_of(ENDPOINT, row.name) for row in rows))
    attached = Policy.objects.filter(endpoint__in=rows).values_list("endpoint__name", "name")
    if problem := endpoints_in_use(rows, attached):
        raise problem
    Endpoint.objects.filter(number__in=[row.number for row in rows]).update(retired=True)


def endpoints_in_use(rows: Collection[Endpoint], attached: Iterable[tuple[str, str]]) -> Refused | None:
    """Why they cannot be retired; `attached`: endpoint and policy."""
    policies: dict[str, list[str]] = defaultdict(list)
    for endpoint, policy in attached:
        policies[endpoint].append(policy)
    if policies:
        name = min(policies)
        message = f"endpoint {name} has limits in {', '.join(policies[name])}; delete those policies first"
        return refuse("endpoint", "in_use", message)
    if rows and (override := running_overrides(rows).first()):
        message = f"endpoint {override.scope} has override {override.pk} of {override.tenant}; cancel it first"
        return refuse("endpoint", "in_use", message)
    return None


def running_overrides(rows: Collection[Endpoint]) -> QuerySet[Override]:
    """On these endpoints, in force or still to come."""
    running = Override.objects.filter(Q(end=None) | Q(end__gt=timezone.now()), cancelled_at=None, endpoint__in=rows)
    return running.select_related("tenant", "endpoint")


def check_routes(declared: Sequence[DeclaredEndpoint]) -> None:
    """Refuses a route that another endpoint has, once all these are as declared."""
    if not any(one.path for one in declared):
        return
    names = {one.name for one in declared}
    rows = Endpoint.objects.filter(retired=False).exclude(path="").order_by().values_list("name", "method", "path")
    taken = {DeclaredEndpoint(*row).route: row[0] for row in rows if row[0] not in names}
    for one in declared:
        if one.path and taken.setdefault(one.route, one.name) != one.name:
            message = f"{one.method} {one.path} is already the route of {taken[one.route]}; choose another path"
            raise refuse("path", "taken", message)


def _said(hints: Hints) -> dict[str, Any]:
    return {name: value for name, value in asdict(hints).items() if value is not None}
