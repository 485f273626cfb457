"""Overrides that a move to another tier leaves without effect, because the tier lacks the limit that they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from django.utils import timezone

from headroom_edge.algorithms.base import counted
from quotas.changes.snapshot import OVERRIDE, Draft, key_of
from quotas.errors import Refused, refuse
from quotas.models import Override
from quotas.overrides import ENDED, cancel_override, overrides_in
from quotas.policies.configuration import configuration_part
from quotas.policies.enforceable import override_problem
from quotas.policies.layers import PolicyIndex
from quotas.policies.spec import to_us
from tenants.models import Tenant

# What a move does about them: nothing moves, they end in the same revision, or their tenants stay where they are.
StrandedChoice = Literal["refuse", "end", "leave_out"]
STRANDED_CHOICES: Final[tuple[StrandedChoice, ...]] = ("refuse", "end", "leave_out")
MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class StrandedOverride:
    override: int
    tenant: str
    endpoint: str  # or `*`
    limits: tuple[str, ...]  # that it changes; empty: it multiplies all

    def __str__(self) -> str:
        what = ", ".join(self.limits) or "all limits"
        return f"override {self.override} of {self.tenant} ({what} on {self.endpoint})"


def stranded_overrides(tenants: Sequence[Tenant], tier: str) -> list[StrandedOverride]:
    """Active and upcoming ones of these tenants, by tenant and number."""
    now = timezone.now()
    live = Override.objects.filter(~overrides_in(ENDED, now), tenant__in=[tenant.pk for tenant in tenants])
    names = set(live.values_list("tenant__name", flat=True))
    if not names:
        return []
    part = configuration_part(tenants=names, tiers=[tier])
    index, now_us = PolicyIndex.of_configuration(part), to_us(now)
    moved = {name: index.of_tenant(replace(part.tenants[name], tier=tier)) for name in names}
    found = (
        StrandedOverride(each.id, each.tenant, each.endpoint, tuple(sorted(each.limits)))
        for each in part.overrides
        if (each.end_us is None or each.end_us > now_us) and override_problem(moved[each.tenant], each, now_us)
    )
    return sorted(found, key=lambda each: (each.tenant, each.override))


def settle_stranded(opened: Draft, tenants: Sequence[Tenant], tier: str, choice: StrandedChoice) -> list[Tenant]:
    """The tenants to move. Call it before they are."""
    found = stranded_overrides(tenants, tier)
    if found and choice == "refuse":
        raise _in_the_way(found, tier)
    if choice == "leave_out":
        kept = {each.tenant for each in found}
        return [tenant for tenant in tenants if tenant.name not in kept]
    if opened.is_rehearsal:
        opened.foresee({key_of(OVERRIDE, each.override): None for each in found})
    else:
        for row in Override.objects.filter(pk__in=[each.override for each in found]).order_by("pk"):
            cancel_override(opened, row)
    return list(tenants)


def _in_the_way(found: Sequence[StrandedOverride], tier: str) -> Refused:
    more = f" and {len(found) - MOST_NAMED:,} more" if len(found) > MOST_NAMED else ""
    they = counted(len(found), "override would", "overrides would")
    them, tenants = ("it", "its tenant") if len(found) == 1 else ("them", "their tenants")
    named = ", ".join(map(str, found[:MOST_NAMED])) + more
    message = (
        f"{they} change nothing on tier {tier}, which lacks the limit: {named}; "
        f"end {them} with the move, or leave {tenants} out"
    )
    return refuse("stranded_overrides", "stranded", message)
