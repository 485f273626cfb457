"""The names of limits and their numbers: what was counted belongs to the number, so a rename keeps it where it can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.utils import timezone

from quotas.changes.snapshot import Draft
from quotas.models import Limit, LimitName, Override, QuotaRequest, Recommendation
from quotas.models.policy import CANDIDATE_SUFFIX
from quotas.models.quota_request import RequestAnswer
from quotas.models.recommendation import OPEN
from quotas.overrides import ENDED, overrides_in
from tenants.history import acting
from tenants.models import Tenant

_BATCH: Final = 2_000
PolicyStates = Mapping[str, Mapping[str, Any] | None]  # by name of the policy; None: it is not there


def why_it_resets(limit: Limit, to: str) -> str:
    """Why the counts do not go along; empty: they do."""
    others = Limit.objects.filter(name=limit.name).exclude(pk=limit.pk).count()
    if others:
        what = "another policy has" if others == 1 else f"{others} other policies have"
        return f"{what} a limit called {limit.name.name}, which keeps the counts of that name"
    if (override := live_override(limit.name.name)) is not None:
        return f"override {override.pk} of {override.tenant} uses the name {limit.name.name}, which keeps its counts"
    if to != limit.name.name and is_used(to):
        return f"the name {to} was used before and has counts of its own"
    return ""


def rename_number(opened: Draft, name: LimitName, to: str) -> None:
    """Gives a number another name, with everything that mentions it by name."""
    former = name.name
    with acting(revision=opened.number):  # by which an undo finds out who had which name before
        for held, wanted in ((former, to), (former + CANDIDATE_SUFFIX, to + CANDIDATE_SUFFIX)):
            for row in LimitName.objects.filter(name=held):
                row.name = wanted
                row.save(update_fields=["name"])
    policies = Limit.objects.filter(name=name.number).values_list("policy__name", flat=True)
    Recommendation.objects.filter(stage__in=OPEN, policy__in=policies, limit=former).update(limit=to)
    QuotaRequest.objects.filter(answer=RequestAnswer.WAITING, limit=former).update(limit=to)
    _rename_in_ended_overrides(opened, former, to)
    for tenant in Tenant.objects.filter(handovers__contains=[{"limit": former}]):
        tenant.handovers = [one | {"limit": to} if one["limit"] == former else one for one in tenant.handovers]
        tenant.save(update_fields=["handovers"])
        opened.recompiled.add(tenant.name)


def rename_as_filed(opened: Draft, before: PolicyStates, after: PolicyStates) -> None:
    """For the promotion of a rename: gives the limit its new name now, where its counts can go along."""
    for policy, wanted in after.items():
        was, is_now = limits_of(before.get(policy)), limits_of(wanted)
        for former, to in zip(was - is_now, is_now - was, strict=False):
            held = Limit.objects.select_related("name").filter(policy__name=policy, name__name=former).first()
            if held is not None and not why_it_resets(held, to):
                rename_number(opened, held.name, to)


def live_override(name: str) -> Override | None:
    """One that is active or upcoming and changes, or brings, a limit of this name."""
    rows = Override.objects.filter(~overrides_in(ENDED, timezone.now()), limits__has_key=name)
    return rows.select_related("tenant").order_by("pk").first()


def _rename_in_ended_overrides(opened: Draft, former: str, to: str) -> None:
    """What was counted while they applied is carried over by their limits' names."""
    ended = Override.objects.filter(overrides_in(ENDED, timezone.now()), limits__has_key=former)
    rows = list(ended.select_related("tenant"))
    for row in rows:
        opened.recompiled.add(row.tenant.name)
        row.limits = {to if name == former else name: fields for name, fields in row.limits.items()}
    Override.objects.bulk_update(rows, ["limits"], batch_size=_BATCH)


def limits_of(state: Mapping[str, Any] | None) -> set[str]:
    return set(state["limits"]) if state else set()


def is_used(name: str) -> bool:
    return LimitName.objects.filter(name__in=[name, name + CANDIDATE_SUFFIX]).exists()
