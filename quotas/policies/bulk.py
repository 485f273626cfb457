"""Writes many policies at once, inside an open draft, in as many queries as for one.

A policy of a tenant's own goes by itself all the same, because what the tenant has used is handed over to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from django.db.models import Prefetch

from quotas.changes.snapshot import POLICY, Draft, key_of
from quotas.lookups import find_endpoint, find_tier, next_number
from quotas.models import Endpoint, Limit, LimitName, Policy
from quotas.models.policy import LIMIT_NUMBERS
from quotas.policies import spec
from quotas.policies.carry_over import Formers, Place, former_limits
from quotas.policies.limit_rows import (
    Finders,
    check_place,
    delete_policy,
    fill_limit,
    new_limit,
    place_of,
    place_taken,
    write_policy,
)
from tenants.models import Tier

_FILLED = ["algorithm", "parameters", "subject", "unit", "mode", "on_failure", "lease_ms", "adapt"]
_HISTORY = ["changed_revision", "carry", "past", "adopts_candidate"]


def write_policies(opened: Draft, wanted: Collection[spec.Policy]) -> None:
    opened.touch(*(key_of(POLICY, policy.name) for policy in wanted))
    for policy in wanted:
        if policy.tenant is not None:
            write_policy(opened, policy)
    shared = [policy for policy in wanted if policy.tenant is None]
    if shared:
        _Writer.load(opened, shared).write(shared)


def delete_policies(opened: Draft, rows: Collection[Policy]) -> None:
    opened.touch(*(key_of(POLICY, row.name) for row in rows))
    for row in rows:
        if row.tenant_id is not None:
            delete_policy(opened, row)
    shared = [row.pk for row in rows if row.tenant_id is None]
    Limit.objects.filter(policy__in=shared).delete()
    Policy.objects.filter(pk__in=shared).delete()


@dataclass(frozen=True, slots=True)
class _Writer:
    opened: Draft
    find: Finders
    policies: dict[str, Policy]  # by name
    places: dict[tuple[object, ...], str]  # where something is attached → its policy
    names: dict[str, LimitName]
    limits: dict[str, list[Limit]]  # by the name of the policy, as they were

    @classmethod
    def load(cls, opened: Draft, wanted: Sequence[spec.Policy]) -> _Writer:
        tiers = {tier.name: tier for tier in Tier.objects.filter(retired=False)}
        endpoints = {endpoint.name: endpoint for endpoint in Endpoint.objects.filter(retired=False)}
        limits = Prefetch("limits", Limit.objects.select_related("name"))
        found = Policy.objects.filter(name__in=[policy.name for policy in wanted]).prefetch_related(limits)
        named = list(found.select_related("tier", "endpoint"))
        shared = Policy.objects.filter(tenant=None).values_list("tier", "endpoint", "service", "name")
        return cls(
            opened,
            # A name that is not at hand is refused by the one that looks it up.
            Finders(
                tier=lambda name: tiers.get(name) or find_tier(name),
                endpoint=lambda name: endpoints.get(name) or find_endpoint(name),
            ),
            {policy.name: policy for policy in named},
            {(tier, endpoint, service): name for tier, endpoint, service, name in shared},
            {row.name: row for row in LimitName.objects.all()},
            {policy.name: list(policy.limits.all()) for policy in named},
        )

    def write(self, wanted: Sequence[spec.Policy]) -> None:
        new = [self._new(policy) for policy in wanted if policy.name not in self.policies]
        for policy in wanted:
            if policy.name in self.policies:
                check_place(self.policies[policy.name], policy, place_of(policy, self.find))
        self._add_names({limit.name for policy in wanted for limit in policy.limits})
        self.policies.update({row.name: row for row in Policy.objects.bulk_create(new)})
        gone = [row.pk for policy in wanted for row in self._present(policy) if not policy.limit(row.name.name)]
        Limit.objects.filter(pk__in=gone).delete()
        formers = self._formers(wanted)
        self._write_limits([row for policy in wanted for row in self._filled(policy, formers)])

    def _new(self, wanted: spec.Policy) -> Policy:
        place = place_of(wanted, self.find)
        row = Policy(name=wanted.name, **place)
        where = (row.tier_id, row.endpoint_id, row.service)
        if where in self.places:
            raise place_taken(wanted, self.places[where])
        self.places[where] = wanted.name
        return row

    def _add_names(self, names: Collection[str]) -> None:
        """A name keeps its number for ever; numbers are given under the lock that orders revisions."""
        newest = max((row.number for row in self.names.values()), default=0)
        new = []
        for name in sorted(set(names) - self.names.keys()):
            newest = next_number(newest, LIMIT_NUMBERS, "limit name")
            new.append(LimitName(number=newest, name=name))
        self.names.update({row.name: row for row in LimitName.objects.bulk_create(new)})

    def _present(self, wanted: spec.Policy) -> list[Limit]:
        return self.limits.get(wanted.name, [])

    def _formers(self, wanted: Sequence[spec.Policy]) -> Formers:
        added = {
            (policy.name, limit.name)
            for policy in wanted
            for limit in policy.limits
            if limit.name not in {row.name.name for row in self._present(policy)}
        }
        places = {Place.of(self.policies[name]) for name, _ in added}
        return former_limits(places, {self.names[name].number for _, name in added})

    def _filled(self, wanted: spec.Policy, formers: Formers) -> Iterator[Limit]:
        present = {row.name.name: row for row in self._present(wanted)}
        policy = self.policies[wanted.name]
        for limit in wanted.limits:
            row = present.get(limit.name) or new_limit(self.opened, policy, self.names[limit.name], formers, [])
            fill_limit(self.opened, row, limit)
            yield row

    def _write_limits(self, rows: list[Limit]) -> None:
        Limit.objects.bulk_create([row for row in rows if row.pk is None])
        Limit.objects.bulk_create(
            [row for row in rows if row.pk is not None],
            update_conflicts=True,
            unique_fields=["id"],
            update_fields=[*_FILLED, *_HISTORY],
        )
