"""The state of what a revision touches, as JSON: before and after it, and the configuration as it was before.

Whoever writes rows gets the open draft, and touches an object before writing it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from headroom_edge.plan.priority import USUAL
from quotas.models import Change, Endpoint, Limit, Override, Policy, Revision
from quotas.models.change import ChangeState, holding
from quotas.policies import spec
from quotas.policies.canary import CanaryChange, canaries_of
from quotas.policies.export import given, given_priority, tier_state
from quotas.policies.limit_codec import policies_of, policy_of, row_state
from quotas.policies.spec import to_us
from tenants.models import Tenant, Tier

State = dict[str, Any] | None  # None: the object does not exist
States = Mapping[str, State]  # by key, such as `policy:pro-all`

TIER, TENANT, ENDPOINT, POLICY, OVERRIDE, CHANGE = "tier", "tenant", "endpoint", "policy", "override", "change"


def key_of(kind: str, name: object) -> str:
    return f"{kind}:{name}"


def split_key(key: str) -> tuple[str, str]:
    kind, _, name = key.partition(":")
    return kind, name


def snapshots(keys: Iterable[str]) -> dict[str, State]:
    by_kind: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        kind, name = split_key(key)
        by_kind[kind].append(name)
    found: dict[str, State] = {}
    for kind, names in by_kind.items():
        states = _READERS[kind](names)
        found |= {key_of(kind, name): states.get(name) for name in names}
    return found


@dataclass(slots=True)
class Draft:
    """A change that is being written; `quotas.changes.draft` opens and closes it."""

    number: int  # of the revision it will be
    author: str
    reason: str
    carry: spec.Carry  # how live state moves to the limits that this changes
    before: dict[str, State] = field(default_factory=dict)
    is_rehearsal: bool = False  # it will not be written
    is_dry_run: bool = False  # a rehearsal of which nothing is kept, so it may not use up a number
    foreseen: dict[str, State] = field(default_factory=dict)  # in a rehearsal: what would be written
    former_tiers: Mapping[str, str] = field(default_factory=dict)  # in a rollback, of tenants; it moves none of them
    recompiled: set[str] = field(default_factory=set)  # tenants whose past changed, though their state did not
    revision: Revision | None = None  # set once it is written; None if nothing changed

    def touch(self, *keys: str) -> None:
        """Call it before the first write to these objects: it remembers what they were."""
        self.before |= snapshots(key for key in keys if key not in self.before)

    def foresee(self, states: States) -> None:
        """In a rehearsal, in place of writing."""
        self.touch(*states)
        self.foreseen |= states

    def after(self) -> dict[str, State]:
        return snapshots(key for key in self.before if key not in self.foreseen) | self.foreseen

    def created(self, key: str) -> None:
        """For an object whose key was not known before it was written."""
        self.before[key] = None


def _tiers(names: Collection[str]) -> dict[str, State]:
    fields = ("label", "description", "priority")
    rows = Tier.objects.filter(name__in=names, retired=False).order_by().values_list("name", *fields)
    return {name: tier_state(*texts) for name, *texts in rows}


def _tenants(names: Collection[str]) -> dict[str, State]:
    fields = ("tier__name", "label", "timezone", "suspended_reason", "tags", "contacts", "archived_at", "priority")
    rows = Tenant.objects.filter(name__in=names).order_by().values_list("name", *fields)
    return {
        name: tenant_state(
            tier=tier,
            label=label,
            timezone=timezone,
            suspended=reason,
            tags=tags,
            contacts=contacts,
            archived=archived.astimezone(UTC).isoformat() if archived else "",
            priority=priority,
        )
        for name, tier, label, timezone, reason, tags, contacts, archived, priority in rows
    }


def tenant_state(
    *,
    tier: str,
    label: str,
    timezone: str,
    suspended: str,
    tags: Sequence[str] = (),
    contacts: Sequence[str] = (),
    archived: str = "",
    priority: str = "",
) -> dict[str, Any]:
    """`suspended`: the reason; `archived`: since when; `priority`: the highest of its requests."""
    always = {"tier": tier, "label": label, "timezone": timezone, "suspended": suspended}
    return always | given(tags=list(tags), contacts=list(contacts), archived=archived, priority=priority)


def _endpoints(names: Collection[str]) -> dict[str, State]:
    rows = Endpoint.objects.filter(name__in=names, retired=False)
    return {
        row.name: {"method": row.method, "path": row.path, "default_cost": row.default_cost, "hints": row.hints}
        | given_priority(row.priority)
        for row in rows
    }


def _policies(names: Collection[str]) -> dict[str, State]:
    limits: dict[int, dict[str, Any]] = defaultdict(dict)
    for limit in Limit.objects.filter(policy__name__in=names).select_related("name").order_by("name__name"):
        limits[limit.policy_id][limit.name.name] = row_state(limit)
    rows = Policy.objects.filter(name__in=names).select_related("tier", "tenant", "endpoint")
    return {
        row.name: {
            "tier": row.tier.name if row.tier else None,
            "tenant": row.tenant.name if row.tenant else None,
            "endpoint": row.scope,
            "limits": limits[row.pk],
        }
        for row in rows
    }


def _overrides(names: Collection[str]) -> dict[str, State]:
    rows = Override.objects.filter(pk__in=names, cancelled_at=None).select_related("tenant", "endpoint")
    return {str(row.pk): override_state(row) for row in rows}


def override_state(row: Override) -> dict[str, Any]:
    multiplier = [row.multiplier_numerator, row.multiplier_denominator] if row.multiplier_numerator else None
    return {
        "tenant": row.tenant.name,
        "endpoint": row.scope,
        "start": row.start.astimezone(UTC).isoformat(),
        "end": row.end.astimezone(UTC).isoformat() if row.end else None,
        "limits": row.limits,
        "multiplier": multiplier,
        "carry": row.carry,
        "reason": row.reason,
        "author": row.author,
    }


def _changes(names: Collection[str]) -> dict[str, State]:
    """Only those on trial; a change that is pending or over has no state here."""
    return {str(row.pk): change_state(row) for row in Change.objects.filter(holding(), pk__in=names)}


def change_state(row: Change) -> dict[str, Any]:
    if row.state != ChangeState.CANARY:
        return {"state": row.state}
    return {"state": row.state, "share": row.share, "tiers": row.tiers, "carry": row.carry, "policies": row.policies}


_READERS: dict[str, Callable[[Collection[str]], dict[str, State]]] = {
    TIER: _tiers,
    TENANT: _tenants,
    ENDPOINT: _endpoints,
    POLICY: _policies,
    OVERRIDE: _overrides,
    CHANGE: _changes,
}


def rewound(configuration: spec.Configuration, before: States) -> spec.Configuration:
    """The configuration as it was. History is dropped."""
    policies = (
        *(policy for policy in configuration.policies if key_of(POLICY, policy.name) not in before),
        *(policy for name, state in present_states(before, POLICY) if (policy := policy_of(name, state))),
    )
    return replace(
        configuration,
        policies=policies,
        overrides=(
            *(override for override in configuration.overrides if key_of(OVERRIDE, override.id) not in before),
            *(override_of(int(name), state) for name, state in present_states(before, OVERRIDE)),
        ),
        endpoints=_endpoints_before(configuration, before),
        tiers=_tiers_before(configuration, before),
        tenants=_tenants_before(configuration, before),
        canaries=(
            *(canary for canary in configuration.canaries if key_of(CHANGE, canary.change) not in before),
            *_canaries(policies, before),
        ),
    )


def override_of(number: int, state: Mapping[str, Any]) -> spec.Override:
    start, end = (to_us(datetime.fromisoformat(state[edge])) if state[edge] else None for edge in ("start", "end"))
    multiplier = tuple(state["multiplier"]) if state["multiplier"] else None
    return spec.Override(
        number, state["tenant"], state["endpoint"], start or 0, end, state["limits"], multiplier, state["carry"]
    )


def present_states(before: States, kind: str) -> list[tuple[str, dict[str, Any]]]:
    named = ((*split_key(key), state) for key, state in before.items())
    return [(name, state) for found, name, state in named if found == kind and state is not None]


def _canaries(live: Iterable[spec.Policy], before: States) -> Iterator[spec.Canary]:
    """The canaries as they were, without their history."""
    for name, state in present_states(before, CHANGE):
        if "share" in state:
            policies = policies_of(state["policies"])
            yield from canaries_of(CanaryChange(int(name), state["share"], policies, 0, state["carry"]), live)


def _endpoints_before(configuration: spec.Configuration, before: States) -> dict[str, spec.Endpoint]:
    """One that is retired now may have had limits of its own; nothing is counted here, so it needs no number."""
    states = dict(present_states(before, ENDPOINT))
    retired = {
        name: endpoint_of(0, name, state) for name, state in states.items() if name not in configuration.endpoints
    }
    return retired | {
        name: endpoint_of(endpoint.number, name, states[name]) if name in states else endpoint
        for name, endpoint in configuration.endpoints.items()
        if name in states or key_of(ENDPOINT, name) not in before
    }


def endpoint_of(number: int, name: str, state: Mapping[str, Any]) -> spec.Endpoint:
    return spec.Endpoint(number, name, state["default_cost"], state.get("priority", USUAL))


def _tiers_before(configuration: spec.Configuration, before: States) -> dict[str, spec.Tier]:
    priorities = {name: state.get("priority", "") for name, state in present_states(before, TIER)}
    return {
        name: replace(tier, priority=priorities.get(name, tier.priority)) for name, tier in configuration.tiers.items()
    }


def _tenants_before(configuration: spec.Configuration, before: States) -> dict[str, spec.Tenant]:
    states = dict(present_states(before, TENANT))
    return {
        name: replace(tenant, tier=states[name]["tier"], priority=states[name].get("priority", ""))
        if name in states
        else tenant
        for name, tenant in configuration.tenants.items()
    }
