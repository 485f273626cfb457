"""Policies as a list to search, and one of them with its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db.models import F, Max, Prefetch, Q, QuerySet, Value
from django.db.models.functions import Coalesce

from headroom_edge.algorithms.sharing import Borrowing, Pool
from quotas.keyset import SortColumn
from quotas.models import Limit, Policy
from quotas.policies.limit_codec import algorithm_load, row_stored
from quotas.policies.spec import EVERYWHERE
from tenants.models import Tenant

KINDS: Final = {
    "tenant": Q(tenant__isnull=False),
    "tier": Q(tier__isnull=False),
    "everyone": Q(tier=None, tenant=None),
}
ORDERS: Final = {
    "name": SortColumn("name"),
    "owner": SortColumn("owner_name", tie="name", tie_kind="text"),
    "endpoint": SortColumn("place_name", tie="name", tie_kind="text"),
    "changed": SortColumn("changed", "int", tie="name", tie_kind="text"),
}


@dataclass(frozen=True, slots=True)
class PolicyFilter:
    text: str = ""  # a part of the name, or of the owner's
    kind: str = ""  # of the owner: one of KINDS
    endpoint: str = ""  # its name, `service:*` or `*`


def policies_found(wanted: PolicyFilter) -> QuerySet[Policy]:
    """With `changed`, the newest revision that gave one of its limits its parameters."""
    return _whole(_matching(wanted)).annotate(
        owner_name=Coalesce("tenant__name", "tier__name", Value("")),
        place_name=Coalesce("endpoint__name", F("service")),
        changed=Coalesce(Max("limits__changed_revision"), 0),
    )


def policy_read(name: str) -> Policy | None:
    return _whole(Policy.objects.filter(name=name)).first()


def lender_read(name: str, *, tier: str | None, tenant: str | None) -> Pool | Borrowing | None:
    """The limit that a limit of this tier or tenant would borrow from: its own, its tier's, or everyone's."""
    rows = Limit.objects.filter(name__name=name, algorithm__in=(Pool.name, Borrowing.name)).exclude(mode="off")
    owner = Q(policy__tier=None, policy__tenant=None)
    if tenant:
        owner |= Q(policy__tenant__name=tenant) | Q(policy__tier__in=Tenant.objects.filter(name=tenant).values("tier"))
    if tier:
        owner |= Q(policy__tier__name=tier)
    first = (
        rows.filter(owner)
        .order_by(F("policy__tenant").asc(nulls_last=True), F("policy__tier").asc(nulls_last=True))
        .first()
    )
    algorithm = algorithm_load(row_stored(first)) if first else None
    return algorithm if isinstance(algorithm, Pool | Borrowing) else None


def _whole(rows: QuerySet[Policy]) -> QuerySet[Policy]:
    limits = Limit.objects.select_related("name").order_by("name__name")
    return rows.select_related("tier", "tenant", "endpoint").prefetch_related(Prefetch("limits", limits))


def _matching(wanted: PolicyFilter) -> QuerySet[Policy]:
    rows = Policy.objects.all()
    if wanted.text:
        text = wanted.text.casefold()
        rows = rows.filter(Q(name__contains=text) | Q(tenant__name__contains=text) | Q(tier__name__contains=text))
    if wanted.kind:
        rows = rows.filter(KINDS[wanted.kind])
    if wanted.endpoint:
        rows = rows.filter(_at(wanted.endpoint))
    return rows


def _at(scope: str) -> Q:
    if scope == EVERYWHERE:
        return Q(endpoint=None, service="")
    if scope.endswith(":*"):
        return Q(service=scope.removesuffix(":*"))
    return Q(endpoint__name=scope)
