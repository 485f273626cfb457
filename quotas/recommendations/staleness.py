"""Whether a recommendation still rests on what holds now.

With each recommendation its base is stored: its limit, the overrides in force on it, the tenants of its tier and the
parameters of calibration. It is compared when somebody looks, so there is no moment at which a recommendation is stale
and does not say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import reduce
from hashlib import sha256
from json import dumps
from operator import or_
from typing import Any

from django.db.models import Count, F, Max, Q, Sum
from django.utils import timezone

from quotas.calibration.parameters import Parameters
from quotas.models import Limit, Override, Recommendation
from quotas.models.recommendation import UNDECIDED
from quotas.overrides import ACTIVE, overrides_in
from quotas.policies.limit_codec import algorithm_load, row_stored
from quotas.policies.limit_words import limit_short
from quotas.recommendations.in_force import in_force, touches
from quotas.recommendations.settings import calibration_parameters
from quotas.recommendations.targets import Target, present
from tenants.models import Tenant

Members = tuple[str, int]  # a tier, and the newest tenant that there was


def base_of(target: Target, tenant: str, parameters: Parameters) -> dict[str, Any]:
    """What a recommendation for this limit is measured under; `tenant`: for that one alone."""
    held = in_force(target)
    newest = Tenant.objects.aggregate(newest=Max("number"))["newest"] or 0
    return {
        "parameters": _digest(asdict(parameters)),
        "overrides": (held.of_one(tenant) if tenant else held).numbers,
        "newest": newest,
        "members": _members([(target.tier, newest)])[target.tier, newest] if target.tier else "",
    }


def stale_reason(row: Recommendation, now: datetime | None = None) -> str:
    """In one sentence what has changed; empty: nothing has."""
    return stale_reasons([row], now).get(row.pk, "")


def stale_reasons(rows: Iterable[Recommendation], now: datetime | None = None) -> dict[int, str]:
    """Of those that are stale; one on which somebody has decided never is. The queries do not grow with the rows."""
    judged = [row for row in rows if row.stage in UNDECIDED and row.proposed is not None]
    if not judged:
        return {}
    present_base = _Present.read(judged, now or timezone.now())
    found = ((row.pk, present_base.reason(row)) for row in judged)
    return {number: reason for number, reason in found if reason}


def marked(rows: Iterable[Recommendation]) -> list[Recommendation]:
    """The same rows, which now know why they are stale."""
    found = list(rows)
    reasons = stale_reasons(found)
    for row in found:
        row.stale_reason = reasons.get(row.pk, "")
    return found


@dataclass(frozen=True, slots=True)
class _Present:
    limits: Mapping[tuple[str, str], Limit]
    overrides: Sequence[Override]
    members: Mapping[Members, str]
    parameters: str

    @classmethod
    def read(cls, rows: Sequence[Recommendation], now: datetime) -> _Present:
        named = reduce(or_, (Q(policy__name=row.policy, name__name=row.limit) for row in rows))
        limits = Limit.objects.filter(named).select_related("policy", "name")
        whose = Q(tenant__tier__name__in={row.tier for row in rows}) | Q(tenant__name__in={row.tenant for row in rows})
        overrides = Override.objects.filter(whose, overrides_in(ACTIVE, now))
        wanted = {(row.tier, row.base["newest"]) for row in rows if row.tier and row.base}
        return cls(
            {(limit.policy.name, limit.name.name): limit for limit in limits},
            list(overrides.select_related("endpoint", "tenant__tier").order_by("pk")),
            _members(wanted),
            _digest(asdict(calibration_parameters())),
        )

    def reason(self, row: Recommendation) -> str:
        limit = self.limits.get((row.policy, row.limit))
        if limit is None:
            return f"limit {row.limit} of policy {row.policy} no longer exists"
        if limit.mode != "enforce":
            return f"limit {row.limit} of policy {row.policy} is no longer enforced"
        if row_stored(limit) != row.current:
            before, after = (str(limit_short(algorithm_load(one))) for one in (row.current, row_stored(limit)))
            return f"limit {row.limit} of policy {row.policy} was changed from {before} to {after}"
        if not row.base:
            return ""
        return self._of_overrides(row) or self._of_tenants(row) or self._of_parameters(row)

    def _of_overrides(self, row: Recommendation) -> str:
        mine = {one.pk: one for one in self.overrides if self._concerns(row, one)}
        before = set(row.base["overrides"])
        if new := [one for number, one in mine.items() if number not in before]:
            one = new[-1]
            return (
                f"override {one.pk} for {one.tenant.name} by {one.author} (r{one.created_revision_id}) is in force now"
            )
        if ended := sorted(before - mine.keys()):
            return f"override {ended[-1]} that was in force then has ended"
        return ""

    @staticmethod
    def _concerns(row: Recommendation, one: Override) -> bool:
        is_whose = one.tenant.name == row.tenant if row.tenant else one.tenant.tier.name == row.tier
        return is_whose and touches(one, row.limit, row.endpoint)

    def _of_tenants(self, row: Recommendation) -> str:
        if not row.tier or self.members.get((row.tier, row.base["newest"])) == row.base["members"]:
            return ""
        return f"tenants have joined or left tier {row.tier}"

    def _of_parameters(self, row: Recommendation) -> str:
        return "" if row.base["parameters"] == self.parameters else "the parameters of calibration were changed"


def _members(wanted: Iterable[Members]) -> dict[Members, str]:
    """A fingerprint of the tenants of each tier, without tenants that were created later: they have no traffic yet."""
    keys = sorted(set(wanted))
    if not keys:
        return {}
    sums: dict[str, Any] = {}
    for place, (tier, newest) in enumerate(keys):
        mine = Q(tier__name=tier, number__lte=newest)
        sums[f"count{place}"] = Count("number", filter=mine)
        sums[f"sum{place}"] = Sum("number", filter=mine)
        sums[f"squares{place}"] = Sum(F("number") * F("number"), filter=mine)
    found = present().aggregate(**sums)
    parts = ("count", "sum", "squares")
    return {key: "-".join(str(found[f"{part}{place}"] or 0) for part in parts) for place, key in enumerate(keys)}


def _digest(values: Mapping[str, Any]) -> str:
    return sha256(dumps(values, sort_keys=True).encode()).hexdigest()[:16]
