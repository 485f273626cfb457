"""Writes the rows of policies and limits, inside an open draft."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from django.db.models import Max

from quotas.changes.snapshot import POLICY, Draft, key_of
from quotas.errors import Refused, read, refuse
from quotas.lookups import find_endpoint, find_tenant, find_tier, next_number
from quotas.models import Endpoint, Limit, LimitName, Policy
from quotas.models.policy import CANDIDATE_SUFFIX, LIMIT_NUMBERS
from quotas.policies import spec
from quotas.policies.adapt import ADAPTING
from quotas.policies.carry_over import Formers, Place, former_limits, generations, hand_over_limits, layers_of
from quotas.policies.layers import Layers
from quotas.policies.limit_codec import (
    NEVER_LEASED,
    algorithm_dump,
    generations_dump,
    limit_parse,
    row_stored,
)
from quotas.policies.spec import PAST_GENERATIONS
from tenants.models import Tenant, Tier


def write_policy(opened: Draft, wanted: spec.Policy) -> Policy:
    """Creates or updates a policy; what it is attached to cannot change."""
    opened.touch(key_of(POLICY, wanted.name))
    place = place_of(wanted)
    row = Policy.objects.filter(name=wanted.name).first()
    if row is None:
        _check_free(wanted, place)
        row = Policy.objects.create(name=wanted.name, **place)
    else:
        check_place(row, wanted, place)
    _write_limits(opened, row, wanted.endpoint, {limit.name: limit for limit in wanted.limits})
    return row


def delete_policy(opened: Draft, row: Policy) -> None:
    opened.touch(key_of(POLICY, row.name))
    _write_limits(opened, row, row.scope, {})
    row.delete()


def change_parameters(opened: Draft, row: Limit, stored: Mapping[str, Any]) -> None:
    """Moves the present parameters to the history; the caller saves the row."""
    old = row_stored(row)
    if old == stored:
        return
    row.past = [{**old, "revision": row.changed_revision_id, "carry": row.carry}, *row.past][:PAST_GENERATIONS]
    row.algorithm, row.parameters = stored["algorithm"], stored["parameters"]
    if row.algorithm in NEVER_LEASED and row.lease_ms:
        row.lease_ms = None
    if row.algorithm not in ADAPTING:
        row.adapt = None
    row.changed_revision_id, row.carry, row.adopts_candidate = opened.number, opened.carry, False


def set_candidate(row: Limit, fields: Mapping[str, Any] | None) -> None:
    """`fields`: an algorithm and its parameters; the subject and unit are those of the limit."""
    row.candidate = None
    if fields is not None:
        name = row.name.name
        limit = read(partial(limit_parse, name), {"unit": row.unit, **fields})
        row.candidate = algorithm_dump(limit.algorithm)
        limit_name(name + CANDIDATE_SUFFIX)
    row.save(update_fields=["candidate"])


def limit_name(name: str) -> LimitName:
    """A name keeps its number for ever; numbers are given under the lock that orders revisions."""
    row = LimitName.objects.filter(name=name).first()
    if row is None:
        number = next_number(LimitName.objects.aggregate(newest=Max("number"))["newest"], LIMIT_NUMBERS, "limit name")
        row = LimitName.objects.create(number=number, name=name)
    return row


class Finders(NamedTuple):
    """How rows are found by name; a bulk write looks them up in memory."""

    tier: Callable[[str], Tier] = find_tier
    tenant: Callable[[str], Tenant] = find_tenant
    endpoint: Callable[[str], Endpoint] = find_endpoint


_ONE_BY_ONE = Finders()


def place_of(wanted: spec.Policy, find: Finders = _ONE_BY_ONE) -> dict[str, Any]:
    """The columns that say to whom and to what the policy is attached."""
    is_service = wanted.endpoint.endswith(":*")
    is_endpoint = not is_service and wanted.endpoint != spec.EVERYWHERE
    return {
        "tier": find.tier(wanted.tier) if wanted.tier else None,
        "tenant": find.tenant(wanted.tenant) if wanted.tenant else None,
        "endpoint": find.endpoint(wanted.endpoint) if is_endpoint else None,
        "service": wanted.endpoint.removesuffix(":*") if is_service else "",
    }


def check_place(row: Policy, wanted: spec.Policy, place: Mapping[str, Any]) -> None:
    if any(getattr(row, field) != value for field, value in place.items()):
        raise place_moved(row.name, wanted)


def place_moved(name: str, wanted: spec.Policy) -> Refused:
    message = f"policy {name} cannot move to {wanted.source}; delete it first, or choose another name"
    return refuse("endpoint", "moved", message)


def place_taken(wanted: spec.Policy, by: str) -> Refused:
    return refuse("endpoint", "taken", f"{wanted.source} already has the policy {by}; put all limits into one")


def _check_free(wanted: spec.Policy, place: Mapping[str, Any]) -> None:
    other = Policy.objects.filter(**place).first()
    if other is not None:
        raise place_taken(wanted, other.name)


def _write_limits(opened: Draft, policy: Policy, scope: str, wanted: Mapping[str, spec.Limit]) -> None:
    present = {row.name.name: row for row in policy.limits.select_related("name")}
    added, removed = wanted.keys() - present.keys(), present.keys() - wanted.keys()
    layers = layers_of(policy.tenant) if policy.tenant and (added or removed) else None
    names = {name: limit_name(name) for name in sorted(added)}
    formers = former_limits({Place.of(policy)}, [row.number for row in names.values()])
    for name in sorted(removed):
        present[name].delete()
    for name, limit in wanted.items():
        row = present.get(name) or new_limit(opened, policy, names[name], formers, _taken_over(layers, scope, name))
        fill_limit(opened, row, limit)
        row.save()
    if policy.tenant and layers:
        hand_over_limits(opened, policy.tenant, layers, scope, added=added, removed=removed)


def _taken_over(layers: Layers | None, scope: str, name: str) -> list[dict[str, Any]]:
    """A tenant's own limit takes over what its tier's limit of the same name has counted."""
    return generations_dump(generations(layers, scope, name)) if layers else []


def new_limit(opened: Draft, policy: Policy, name: LimitName, formers: Formers, past: list[dict[str, Any]]) -> Limit:
    """Without a `past`, a limit that was at this place before continues its own history."""
    former = formers.get((Place.of(policy), name.number)) if not past else None
    return Limit(policy=policy, name=name, **(former or {"changed_revision_id": opened.number, "past": past}))


def fill_limit(opened: Draft, row: Limit, limit: spec.Limit) -> None:
    """Sets the columns of a limit; the caller saves the row."""
    stored = algorithm_dump(limit.algorithm)
    if not row.algorithm:
        row.algorithm, row.parameters, row.carry = stored["algorithm"], stored["parameters"], opened.carry
    else:
        change_parameters(opened, row, stored)
    row.subject, row.unit, row.mode, row.on_failure = str(limit.subject), limit.unit, limit.mode, limit.on_failure
    row.lease_ms = limit.lease_ms
    row.adapt = limit.adapt.describe() if limit.adapt else None
