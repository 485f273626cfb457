"""What importing would register: each operation beside what is registered, and the write, as one revision."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Unpack, cast

from headroom_edge.plan.priority import USUAL, Priority
from quotas.changes.draft import Permits, draft
from quotas.changes.rehearsal import foresee
from quotas.changes.snapshot import ENDPOINT, key_of
from quotas.endpoint_import.operations import ApiDocument, Operation, slug
from quotas.endpoints import write_endpoints
from quotas.errors import Refused, accepted, refuse
from quotas.models import Endpoint, Revision
from quotas.policies.document import LARGE
from quotas.policies.endpoint import DeclaredEndpoint, Hints, parse_endpoint
from quotas.policies.export import endpoint_state
from quotas.policies.problems import Problem

ImportState = Literal["new", "different", "same", "cannot"]
MOST_REFUSED: Final = 20  # problems told at once


@dataclass(frozen=True, slots=True)
class FieldChange:
    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class ImportRow:
    operation: Operation
    declared: DeclaredEndpoint | None  # None: it cannot be registered
    state: ImportState
    changes: tuple[FieldChange, ...] = ()

    @property
    def name(self) -> str:
        return self.declared.name if self.declared else ""

    @property
    def may_be_chosen(self) -> bool:
        return self.state in ("new", "different")


@dataclass(frozen=True, slots=True)
class ImportPlan:
    document: ApiDocument
    rows: tuple[ImportRow, ...]

    def of_state(self, *states: ImportState) -> list[ImportRow]:
        return [row for row in self.rows if row.state in states]


def import_plan(document: ApiDocument, service: str = "") -> ImportPlan:
    """`service`: before the colon of every new name; empty: the first tag of the operation."""
    live = [_declared(row) for row in Endpoint.objects.filter(retired=False)]
    by_route = {one.route: one for one in live if one.path}
    by_name = {one.name: one for one in live}
    routes = {one.key: _route(one) for one in document.operations if one.template}
    taken = {found.name for route in routes.values() if (found := by_route.get(route))}
    rows, seen = [], set[tuple[str, str]]()
    for one in document.operations:
        route = routes.get(one.key)
        if route is None or route in seen:
            rows.append(ImportRow(_doubled(one) if route else one, None, "cannot"))
            continue
        seen.add(route)
        current = by_route.get(route)
        name = current.name if current else _free_name(one, document, service, taken)
        taken.add(name)
        rows.append(_row(one, name, current or by_name.get(name)))
    return ImportPlan(document, tuple(rows))


def _route(one: Operation) -> tuple[str, str]:
    return DeclaredEndpoint("", one.method, one.template).route


def _doubled(one: Operation) -> Operation:
    return replace(one, problem="Another operation of the document has the same route.")


def _row(operation: Operation, name: str, current: DeclaredEndpoint | None) -> ImportRow:
    cost = operation.cost or (current.default_cost if current else 1)
    hints = current.hints if current else Hints()
    priority = operation.priority or (current.priority if current else USUAL)
    declared = DeclaredEndpoint(name, operation.method, operation.template, cost, hints, priority)
    if current is None:
        return ImportRow(operation, declared, "new")
    changes = tuple(
        FieldChange(field, getattr(current, field), getattr(declared, field))
        for field in ("method", "path", "default_cost", "priority")
        if getattr(current, field) != getattr(declared, field)
    )
    return ImportRow(operation, declared, "different" if changes else "same", changes)


def _free_name(one: Operation, document: ApiDocument, service: str, taken: Collection[str]) -> str:
    before = slug(service) or slug(one.tag) or slug(document.title) or "api"
    after = slug(one.operation_id) or slug(f"{one.method}-{one.path}") or one.method.lower()
    name, number = f"{before}:{after}", 1
    while name in taken:
        number += 1
        name = f"{before}:{after}-{number}"
    return name


def _declared(row: Endpoint) -> DeclaredEndpoint:
    return DeclaredEndpoint(
        row.name, row.method, row.path, row.default_cost, Hints(**row.hints), cast("Priority", row.priority)
    )


def chosen_of(
    plan: ImportPlan, keys: Collection[str] | None = None, names: Mapping[str, str] | None = None
) -> list[DeclaredEndpoint]:
    """The endpoints to write. `keys`: such as `GET /rides`; None: all new ones. `names`: other names, by key."""
    rows = {row.operation.key: row for row in plan.rows}
    renamed = names or {}
    problems = [_unknown(key) for key in sorted({*(keys or ()), *renamed} - rows.keys())]
    wanted = [row for row in plan.rows if (row.state == "new" if keys is None else row.operation.key in keys)]
    problems += [
        Problem("operations", "operation", f"{row.operation.key} cannot be registered: {row.operation.problem}")
        for row in wanted
        if row.declared is None
    ]
    if problems:
        raise Refused(problems[:MOST_REFUSED])
    return [replace(row.declared, name=renamed.get(row.operation.key, row.name)) for row in wanted if row.declared]


def _unknown(key: str) -> Problem:
    return Problem("operations", "unknown", f"the document has no operation {key[:200]}; correct it")


def endpoints_import(
    *, endpoints: Sequence[DeclaredEndpoint], author: str, reason: str, **permits: Unpack[Permits]
) -> Revision | None:
    """Registers new endpoints and changes those of the same name, all or none."""
    with draft(action="endpoint_import", author=author, reason=reason, **permits) as opened:
        wanted = [_checked(one) for one in endpoints]
        _check_distinct(wanted)
        if opened.is_rehearsal and len(wanted) > LARGE:
            foresee(opened, {key_of(ENDPOINT, one.name): endpoint_state(one) for one in wanted})
        else:
            write_endpoints(opened, wanted)
    return opened.revision


def document_import(
    *,
    document: ApiDocument,
    author: str,
    reason: str,
    service: str = "",
    operations: Collection[str] | None = None,
    names: Mapping[str, str] | None = None,
    **permits: Unpack[Permits],
) -> ImportPlan:
    """Plan, choice and write in one; returns how the document compared before. All new ones, unless some are named."""
    plan = import_plan(document, service)
    endpoints = chosen_of(plan, operations, names)
    endpoints_import(endpoints=endpoints, author=author, reason=reason, **permits)
    return plan


def _checked(one: DeclaredEndpoint) -> DeclaredEndpoint:
    fields: dict[str, Any] = {"name": one.name, **endpoint_state(one)}
    try:
        return accepted(parse_endpoint(fields))
    except Refused as refusal:
        where = f"{one.method} {one.path}"
        raise Refused(replace(each, message=f"{where}: {each.message}") for each in refusal.problems) from None


def _check_distinct(wanted: Sequence[DeclaredEndpoint]) -> None:
    seen: dict[str, DeclaredEndpoint] = {}
    for one in wanted:
        other = seen.setdefault(one.name, one)
        if other is not one:
            message = (
                f"{other.method} {other.path} and {one.method} {one.path} have the same name {one.name}; "
                "give each its own"
            )
            raise refuse("name", "duplicate", message)
