"""Edits of limits by place: of tiers, of everyone and of single tenants, many in one revision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Unpack

from django.db.models import Prefetch, Q

from quotas.changes.commit import Outcome, commit
from quotas.changes.draft import Permits, draft
from quotas.changes.foresight import with_candidates_of
from quotas.changes.rehearsal import foresee
from quotas.changes.snapshot import POLICY, State, key_of, snapshots
from quotas.errors import Refused, refuse
from quotas.matrix.sheet import SheetRow, read_sheet, write_sheet
from quotas.models import Endpoint, Limit, Policy, Revision
from quotas.policies import spec
from quotas.policies.bulk import delete_policies, write_policies
from quotas.policies.export import policy_state
from quotas.policies.limit_codec import row_fields
from quotas.policies.problems import Problem
from quotas.policies.validate import parse_policy
from tenants.models import Tenant, Tier

LONGEST_NAME = 63
MOST_EDITS = 20_000

Fields = Mapping[str, Any]


class Place(NamedTuple):
    """Where a policy is attached. Neither a tier nor a tenant: for everyone."""

    tier: str | None
    endpoint: str  # or `service:*`, or `*`
    tenant: str | None = None

    @property
    def owner(self) -> str:
        return self.tenant or self.tier or "everyone"


@dataclass(frozen=True, slots=True)
class Edit:
    tier: str | None  # None: a tenant's, or everyone's
    endpoint: str  # or `service:*`, or `*`
    name: str  # of the limit
    fields: Fields | None  # all of them; None: the limit goes
    line: int | None = None  # of the table it came from
    tenant: str | None = None

    @property
    def place(self) -> Place:
        return Place(self.tier, self.endpoint, self.tenant)


def limits_set(
    *, edits: Sequence[Edit], author: str, reason: str, carry: spec.Carry = "keep", **permits: Unpack[Permits]
) -> Revision | None:
    """Other limits stay as they are. A policy is created where there is none, and deleted with its last limit."""
    with draft(action="limits_set", author=author, reason=reason, carry=carry, **permits) as opened:
        present = _present({edit.tenant for edit in edits})
        _check_names(edits)
        wanted = list(_wanted(edits, present))
        left = {Place(policy.tier, policy.endpoint, policy.tenant) for policy in wanted}
        emptied = {edit.place for edit in edits} - left
        gone = [present[place] for place in emptied]
        if opened.is_rehearsal:
            foresee(opened, _after(wanted, gone))
            return None
        delete_policies(opened, gone)
        write_policies(opened, wanted)
    return opened.revision


def _after(wanted: Iterable[spec.Policy], gone: Iterable[Policy]) -> dict[str, State]:
    states = {key_of(POLICY, policy.name): policy_state(policy) for policy in wanted}
    live = snapshots(states)
    after: dict[str, State] = {key: with_candidates_of(live[key], state) for key, state in states.items()}
    return after | {key_of(POLICY, row.name): None for row in gone}


def limits_plan(*, edits: Sequence[Edit], author: str, carry: spec.Carry = "keep") -> Outcome[object]:
    """What `limits_set` would do, found out by a dry run; refused as `limits_set` would be, but for cuts."""
    plan = partial(limits_set, edits=edits, author=author, reason="dry run", carry=carry, force=True)
    return commit(plan, "dry_run")


def sheet_read(text: str) -> list[Edit]:
    """The edits in a CSV file; refused with the line of each invalid row."""
    rows = read_sheet(text)
    if wrong := [row for row in rows if isinstance(row, Problem)]:
        raise Refused(wrong)
    return [Edit(r.tier, r.endpoint, r.name, r.fields, r.line) for r in rows if isinstance(r, SheetRow)]


def sheet_write() -> str:
    """All limits of tiers and of everyone as CSV; importing it changes nothing."""
    places = sorted(_present({None}).items(), key=lambda item: (item[0].tier is None, item[0][:2]))
    return write_sheet(
        (place.tier, place.endpoint, name, fields)
        for place, row in places
        for name, fields in sorted(_limits(row).items())
    )


def _present(tenants: Collection[str | None]) -> dict[Place, Policy]:
    """The policies of these tenants; of None: those of tiers and of everyone."""
    limits = Prefetch("limits", Limit.objects.select_related("name"))
    of = Q(tenant__name__in=[name for name in tenants if name]) | (Q(tenant=None) if None in tenants else Q(pk=None))
    rows = Policy.objects.filter(of).select_related("tier", "tenant", "endpoint").prefetch_related(limits)
    return {place_of(row): row for row in rows}


def place_of(row: Policy) -> Place:
    return Place(row.tier.name if row.tier else None, row.scope, row.tenant.name if row.tenant else None)


def _limits(row: Policy) -> dict[str, dict[str, Any]]:
    return {limit.name.name: row_fields(limit) for limit in row.limits.all()}


def _wanted(edits: Sequence[Edit], present: Mapping[Place, Policy]) -> Iterator[spec.Policy]:
    """The edited policies that still have limits."""
    groups: dict[Place, list[Edit]] = defaultdict(list)
    for edit in edits:
        groups[edit.place].append(edit)
    names = set(Policy.objects.values_list("name", flat=True))
    problems: list[Problem] = []
    for place, group in groups.items():
        row = present.get(place)
        limits = _edited(_limits(row) if row else {}, group)
        if not limits:
            continue
        name = row.name if row else _new_name(place, names)
        found = parse_policy(_policy_fields(name, place, limits))
        if isinstance(found, spec.Policy):
            yield found
        else:
            problems += [_placed(problem, list(limits), group) for problem in found]
    if problems:
        raise Refused(problems)


def _edited(limits: dict[str, dict[str, Any]], group: Iterable[Edit]) -> dict[str, dict[str, Any]]:
    for edit in group:
        if edit.fields is not None:
            limits[edit.name] = dict(edit.fields)
        elif limits.pop(edit.name, None) is None:
            raise refuse("limit", "unknown", f"{_words(edit.place)} has no limit {edit.name}; correct the name")
    return limits


def _policy_fields(name: str, place: Place, limits: Mapping[str, Fields]) -> dict[str, Any]:
    listed = [{"name": limit, **fields} for limit, fields in limits.items()]
    return {"name": name, "tier": place.tier, "tenant": place.tenant, "endpoint": place.endpoint, "limits": listed}


def _new_name(place: Place, taken: set[str]) -> str:
    base = f"{place.owner}-{place.endpoint.replace('*', 'everywhere').replace(':', '-')}"[:LONGEST_NAME]
    tries = (base if n == 1 else f"{base[: LONGEST_NAME - 5]}-{n}" for n in range(1, MOST_EDITS))
    name = next(one for one in tries if one not in taken)
    taken.add(name)
    return name


def _placed(problem: Problem, names: Sequence[str], group: Sequence[Edit]) -> Problem:
    """The problem with the line of the edit that caused it."""
    head, _, field = problem.path.partition(".")
    if not head.startswith("limits["):
        return replace(problem, line=group[0].line)
    name = names[int(head[len("limits[") : -1])]
    line = next((edit.line for edit in group if edit.name == name), None)
    return replace(problem, path=field, line=line)


def _check_names(edits: Sequence[Edit]) -> None:
    if len(edits) > MOST_EDITS:
        raise refuse("edits", "too_many", f"these are {len(edits):,} limits; change at most {MOST_EDITS:,} at once")
    tiers = set(Tier.objects.filter(retired=False).values_list("name", flat=True))
    wanted = {edit.tenant for edit in edits if edit.tenant}
    rows = Tenant.objects.filter(name__in=wanted).values_list("name", "archived_at") if wanted else ()
    tenants = dict(rows)
    endpoints = set(Endpoint.objects.filter(retired=False).values_list("name", flat=True))
    problems = []
    for edit in edits:
        if edit.tier is not None and edit.tier not in tiers:
            message = f"there is no tier {edit.tier!r:.80}; use {', '.join(sorted(tiers)) or 'none: everyone'}"
            problems.append(Problem("tier", "unknown", message, edit.line))
        if edit.tenant is not None and edit.tenant not in tenants:
            message = f"there is no tenant {edit.tenant!r:.80}; create it, or correct the name"
            problems.append(Problem("tenant", "unknown", message, edit.line))
        elif edit.tenant is not None and tenants[edit.tenant] is not None:
            message = f"tenant {edit.tenant} is archived; restore it first"
            problems.append(Problem("tenant", "archived", message, edit.line))
        if not edit.endpoint.endswith(spec.EVERYWHERE) and edit.endpoint not in endpoints:
            message = f"there is no endpoint {edit.endpoint!r:.80}; register it, or correct the name"
            problems.append(Problem("endpoint", "unknown", message, edit.line))
    if problems:
        raise Refused(problems)


def _words(place: Place) -> str:
    return f"{place.owner} × {place.endpoint}"
