"""Policy as code: a document of tiers, endpoints and policies, planned, and applied as one revision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Unpack

from django.db.models import Max

from headroom_edge.algorithms.base import counted
from quotas.models import Endpoint, Policy, Revision
from quotas.policy.diff import ObjectDiff, differences
from quotas.policy.document import Document
from quotas.policy.export import document_text
from quotas.policy.plan_text import plan_lines
from quotas.policy.references import Names, unresolved
from quotas.policy.spec import Carry
from quotas.policy.states import states_of, without_candidates
from quotas.selectors.configuration import one_moment
from quotas.selectors.drift import Drift, drift_of
from quotas.services.drafts import draft
from quotas.services.effects import TouchedTenants, touched_tenants
from quotas.services.endpoints import write_endpoint
from quotas.services.errors import Refused
from quotas.services.guard import Impact
from quotas.services.permits import Permits, Waiting
from quotas.services.policy_bulk import write_policies
from quotas.services.snapshots import ENDPOINT, POLICY, TIER, key_of, snapshots
from quotas.services.targets import Targets
from quotas.services.tenants import write_tier
from tenants.models import Tenant, Tier


@dataclass(frozen=True, slots=True)
class Plan:
    revision: int  # the newest when it was made
    changes: tuple[ObjectDiff, ...]
    drift: Mapping[str, Drift]  # of what would change
    others: tuple[str, ...]  # live, but not in the document: they stay as they are
    tenants: TouchedTenants
    impact: Impact

    def lines(self) -> Iterator[str]:
        yield from plan_lines(self.changes, {key: str(drift) for key, drift in self.drift.items()})
        if self.changes:
            touched = counted(self.tenants.count, "tenant is", "tenants are")
            yield f"{touched} touched; {self.impact.hurt_count:,} of them would lose more than a tenth."
        for cut in self.impact.cuts:
            yield f"  # {cut.owner}: {cut}; applying it takes --force"
        for key in self.others:
            yield f"  # {key} is live, but not in the document; it stays as it is"


def document_check(document: Document) -> None:
    """Refuses names that are neither in the document nor live; what is wrong by itself was refused when it was read."""
    tenants = {policy.tenant for policy in document.policies if policy.tenant is not None}
    live = Names(
        tiers=Tier.objects.values_list("name", flat=True),
        tenants=Tenant.objects.filter(name__in=tenants).values_list("name", flat=True),
        endpoints=Endpoint.objects.filter(retired=False).values_list("name", flat=True),
    )
    if problems := unresolved(document, live):
        raise Refused(problems)


def document_apply(
    *, document: Document, author: str, reason: str, carry: Carry = "keep", **permits: Unpack[Permits]
) -> Revision | None:
    """Makes everything in the document what it says; what the document does not name stays as it is."""
    with draft(action="document_apply", author=author, reason=reason, carry=carry, **permits) as opened:
        wanted = states_of(document)
        live = snapshots(wanted)
        changed = {key for key, state in wanted.items() if without_candidates(live[key]) != state}
        opened.touch(*changed)
        for name in document.tiers:
            if key_of(TIER, name) in changed:
                write_tier(opened, name)
        for endpoint in document.endpoints:
            if key_of(ENDPOINT, endpoint.name) in changed:
                write_endpoint(opened, endpoint)
        write_policies(opened, [policy for policy in document.policies if key_of(POLICY, policy.name) in changed])
    return opened.revision


def document_plan(*, document: Document, author: str, carry: Carry = "keep") -> Plan:
    """What applying it would do, found out by doing it and taking it back; refused as applying it would be."""
    newest = Revision.objects.aggregate(newest=Max("number"))["newest"] or 0
    others = tuple(sorted(set(_live_keys()) - set(states_of(document))))
    try:
        document_apply(document=document, author=author, reason="plan", carry=carry, force=True, propose=True)
    except Waiting as waiting:
        proposal = waiting.proposal
        changes = differences(proposal.before, proposal.after)
        targets = Targets.of(proposal.touched, proposal.before, proposal.after)
        return Plan(newest, changes, drift_of(proposal.touched), others, touched_tenants(targets), proposal.impact)
    return Plan(newest, (), {}, others, TouchedTenants(0), Impact())


def document_export() -> str:
    """Everything that a document can say, as it is now; applying it changes nothing."""
    with one_moment():
        newest = Revision.objects.aggregate(newest=Max("number"))["newest"] or 0
        states = {key: without_candidates(state) or {} for key, state in snapshots(_live_keys()).items()}
        notes = {key: str(drift) for key, drift in drift_of(states).items()}
    return document_text(states, f"The configuration of Headroom at revision {newest}.", notes)


def _live_keys() -> Iterator[str]:
    yield from (key_of(TIER, name) for name in Tier.objects.values_list("name", flat=True))
    yield from (
        key_of(ENDPOINT, name) for name in Endpoint.objects.filter(retired=False).values_list("name", flat=True)
    )
    yield from (key_of(POLICY, name) for name in Policy.objects.values_list("name", flat=True))
