"""Limits that were there before: one that is deleted and made again, or rolled back over, goes on where it ended.

State belongs to (scope, limit name, subject), so a new limit at the place of a former one starts from the former's
parameters and past. The history of all rows (tenants.history) knows them, whatever their policies were called.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from django.db.models import Model, Q

from quotas.models import Limit, Policy


class Place(NamedTuple):
    """To whom and to what a policy is attached."""

    tier: int | None
    tenant: int | None
    endpoint: int | None
    service: str

    @classmethod
    def of(cls, policy: Policy) -> Place:
        return cls(policy.tier_id, policy.tenant_id, policy.endpoint_id, policy.service)


Former = dict[str, Any]  # columns of a limit
Formers = dict[tuple[Place, int], Former]  # by place and number of the limit's name


def former_limits(places: Collection[Place], names: Collection[int]) -> Formers:
    """The last state of every limit of these names that was ever at one of these places."""
    if not places or not names:
        return {}
    at = _policies(places)
    events = _events(Limit).filter(policy_id__in=at, name_id__in=names).order_by("policy_id", "name_id", "-pgh_id")
    found: dict[tuple[Place, int], Any] = {}
    for event in events.distinct("policy_id", "name_id"):
        key = (at[event.policy_id], event.name_id)
        if key not in found or found[key].pgh_id < event.pgh_id:
            found[key] = event
    return {key: _columns(event) for key, event in found.items()}


def _policies(places: Collection[Place]) -> dict[int, Place]:
    """Of every policy that is or was there, by its id."""
    tiers, tenants = {place.tier for place in places}, {place.tenant for place in places}
    attached = Q(tier_id__in=tiers) | Q(tier_id=None), Q(tenant_id__in=tenants) | Q(tenant_id=None)
    rows = _events(Policy).filter(*attached).order_by("pgh_obj_id", "-pgh_id").distinct("pgh_obj_id")
    columns = ("pgh_obj_id", "tier_id", "tenant_id", "endpoint_id", "service")
    known = ((number, Place(*place)) for number, *place in rows.values_list(*columns))
    return {number: place for number, place in known if place in places}


def _events(model: type[Model]) -> Any:
    event_model: Any = model.events.rel.related_model  # type: ignore[attr-defined] # made by tracked()
    return event_model.objects


def _columns(event: Any) -> Former:
    columns = ("algorithm", "parameters", "changed_revision_id", "carry", "past")
    return {column: getattr(event, column) for column in columns}
