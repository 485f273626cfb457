"""Which requests a trial is about: the tenants, endpoints and limit names that its change touches, and since when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, F, Q, QuerySet

from quotas.changes.trial_policies import TriedLimit, tried_limits
from quotas.models import Change, Endpoint, Limit, LimitName, Revision
from quotas.models.change import ChangeState
from quotas.models.policy import CANDIDATE_SUFFIX
from quotas.models.usage import Outcome
from quotas.models.usage_rates import EVERY_ENDPOINT
from quotas.policies.spec import EVERYWHERE
from tenants.models import Tenant

OVER: Final = (ChangeState.PROMOTED, ChangeState.DROPPED, ChangeState.REVERTED)


# Which revision put a change into a state; a filed or scheduled one has none.
_WRITTEN_BY: Final = {
    "shadow": "start_revision",
    "canary": "start_revision",
    "promoted": "end_revision",
    "dropped": "end_revision",
    "reverted": "revert_revision",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """A state that the change has been in, as its history recorded it."""

    state: str
    share: int | None  # of a canary, in thousandths
    at: datetime
    author: str
    reason: str


@dataclass(frozen=True, slots=True)
class Window:
    """From when a trial has counted, in whole minutes, and until when. None: until now."""

    begin: datetime
    end: datetime | None


@dataclass(frozen=True, slots=True)
class TrialScope:
    limits: tuple[TriedLimit, ...]
    where: Q  # on rows of rollups
    peaks: Q  # on rows of rates
    live: frozenset[int]  # numbers of limits, as in the rollups
    candidates: frozenset[int]
    shadows: frozenset[int]

    @property
    def denies(self) -> Q:
        """Requests that were allowed, and that the change would deny. A request counts once for each such limit."""
        return Q(outcome=Outcome.CANDIDATE_DENIES, limit_number__in=self.candidates) | Q(
            outcome=Outcome.SHADOW_DENIES, limit_number__in=self.shadows
        )

    @property
    def allows(self) -> Q:
        return Q(outcome=Outcome.CANDIDATE_ALLOWS, limit_number__in=self.candidates)

    @property
    def denied(self) -> Q:
        """By the limits as they are enforced."""
        return Q(outcome=Outcome.DENIED, limit_number__in=self.live)


def stages_of(row: Change) -> list[Stage]:
    """The first is its filing. A new share of a canary is a stage of its own."""
    columns = ("state", "share", "pgh_created_at", "pgh_context", "starter", "author", "end_author", "end_reason")
    numbers = ("start_revision", "end_revision", "revert_revision")
    events = list(row.events.order_by("pgh_id").values(*columns, *numbers))  # type: ignore[attr-defined] # pghistory's
    named = {event[name] for event in events for name in numbers if event[name]}
    written = dict(Revision.objects.filter(number__in=named).values_list("number", "created"))
    found: list[Stage] = []
    for event in events:
        stage = _stage(event, written, is_first=not found)
        last = found[-1] if found else None
        if last is None or last.state != stage.state or (stage.state == "canary" and last.share != stage.share):
            found.append(stage)
    return found


def _stage(event: Mapping[str, Any], written: Mapping[int, datetime], *, is_first: bool) -> Stage:
    told = (event["pgh_context"] or {}).get("author")
    is_over = event["state"] in OVER
    who = event["author"] if is_first else event["end_author"] if is_over else told or event["starter"]
    number = event[_WRITTEN_BY[event["state"]]] if event["state"] in _WRITTEN_BY else None
    at = written.get(number or 0, event["pgh_created_at"])
    return Stage(event["state"], event["share"], at, who, event["end_reason"] if is_over else "")


def window_of(stages: Sequence[Stage], state: str) -> Window | None:
    """The last time that the change was in this state. A canary began with its first share; scheduled counts on."""
    going = {state, "scheduled", "blocked"} if state == "shadow" else {state}
    begin = end = None
    for stage in stages:
        if begin is None or end is not None:
            if stage.state == state:
                begin, end = stage.at, None
        elif stage.state not in going:
            end = stage.at
    return Window(begin.replace(second=0, microsecond=0), end) if begin else None


def scope_of(row: Change) -> TrialScope:
    """Of its shadow."""
    limits = tuple(tried_limits(row))
    names = {limit.limit for limit in limits}
    candidates = {limit.limit + CANDIDATE_SUFFIX for limit in limits if limit.role == "candidate"}
    numbers = dict(LimitName.objects.filter(name__in=names | candidates).values_list("name", "number"))
    return TrialScope(
        limits,
        requests_of(limits),
        requests_of(limits, in_rates=True),
        frozenset(numbers[name] for name in names if name in numbers),
        frozenset(numbers[name] for name in candidates if name in numbers),
        frozenset(numbers[one.limit] for one in limits if one.role == "shadow" and one.limit in numbers),
    )


def requests_of(limits: Collection[TriedLimit], *, in_rates: bool = False) -> Q:
    """Each request once, however many of the limits it meets. `in_rates`: of rows of rates, which sum endpoints up."""
    owners: dict[tuple[str | None, str | None], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for limit in limits:
        owners[limit.tier, limit.tenant][limit.endpoint].add(limit.limit)
    where = Q(pk__in=[])
    for (tier, tenant), places in owners.items():
        is_summed = in_rates and EVERYWHERE in places
        endpoints = Q(endpoint_number=EVERY_ENDPOINT) if is_summed else _endpoints(tier, tenant, places)
        where |= _tenants(tier, tenant, places) & endpoints
    return where


def _tenants(tier: str | None, tenant: str | None, places: Mapping[str, Collection[str]]) -> Q:
    if tenant:
        return Q(tenant_number__in=Tenant.objects.filter(name=tenant).values("number"))
    if not tier:
        return Q(tenant_number__gt=0)
    names = {name for limits in places.values() for name in limits}
    owned: QuerySet[Any, Any] = Limit.objects.exclude(mode="off").filter(policy__tenant__tier__name=tier)
    scopes = Q(policy__endpoint=None) | Q(policy__endpoint__name__in=[place for place in places if place != EVERYWHERE])
    replaced = owned.filter(scopes, name__name__in=names).values("policy__tenant__number").order_by()
    all_replaced = replaced.annotate(names=Count("name", distinct=True)).filter(names=len(names))
    within = Tenant.objects.filter(tier__name=tier).exclude(number__in=all_replaced.values("policy__tenant__number"))
    return Q(tenant_number__in=within.values("number"))


def _endpoints(tier: str | None, tenant: str | None, places: Mapping[str, Collection[str]]) -> Q:
    services = [place.removesuffix(EVERYWHERE) for place in places if place.endswith(":*")]
    if EVERYWHERE not in places:
        found = Endpoint.objects.filter(Q(name__in=list(places)) | _in_services(services))
        return Q(endpoint_number__in=found.values("number"))
    if not (tier or tenant):
        return Q()  # no other limit replaces a global one
    names = set(places[EVERYWHERE])
    own = Limit.objects.exclude(mode="off").filter(name__name__in=names, policy__endpoint__isnull=False)
    own = own.filter(policy__tier__name=tier) if tier else own.filter(policy__tenant__name=tenant)
    replaced: QuerySet[Any, Any] = own.values(number=F("policy__endpoint__number")).order_by()
    whole = replaced.annotate(names=Count("name", distinct=True)).filter(names=len(names))
    elsewhere = Endpoint.objects.filter(number__in=whole.values("number")).exclude(name__in=list(places))
    return ~Q(endpoint_number__in=elsewhere.values("number"))


def _in_services(prefixes: Sequence[str]) -> Q:
    found = Q(pk__in=[])
    for prefix in prefixes:
        found |= Q(name__startswith=prefix)
    return found
