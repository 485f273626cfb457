"""Policy as code: a document of tiers, endpoints and policies, planned, and applied as one revision."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import islice
from typing import Any, Unpack

from django.db import OperationalError

from headroom_edge.algorithms.base import counted
from quotas.changes.affected import TouchedTenants
from quotas.changes.commit import commit
from quotas.changes.draft import Permits, draft
from quotas.changes.dry_run import dry_run
from quotas.changes.foresight import with_candidates_of
from quotas.changes.impact import Impact
from quotas.changes.rehearsal import foresee
from quotas.changes.snapshot import ENDPOINT, POLICY, TIER, State, key_of, snapshots, split_key
from quotas.endpoints import write_endpoints
from quotas.errors import Refused
from quotas.models import Endpoint, Policy, Revision
from quotas.models.revision import newest_revision_number
from quotas.policies.bulk import write_policies
from quotas.policies.configuration import one_moment
from quotas.policies.diff import ObjectDiff, plan_lines
from quotas.policies.document import MOST_PROBLEMS, Document
from quotas.policies.document_chains import unworkable
from quotas.policies.export import document_text, states_of, tier_after, without_candidates
from quotas.policies.problems import Problem
from quotas.policies.spec import EVERYWHERE, Carry
from quotas.pools.promises import warnings_of
from quotas.tenants import write_tiers
from tenants.models import Tenant, Tier

APPLIED = "document_apply"
MOST_SIMILAR = 10  # unknown names for which a similar one is looked up


@dataclass(frozen=True, slots=True)
class Names:
    """The names in the live configuration."""

    tiers: Collection[str] = ()
    tenants: Collection[str] = ()
    endpoints: Collection[str] = ()


def unresolved(document: Document, live: Names) -> list[Problem]:
    """Problems for names that are neither in the document nor live: the first of them, as for other problems."""
    unknown = (reference for reference in _references(document, live) if reference[2] not in reference[3])
    return [
        # The search for a similar name is slow, so only the first few get one.
        Problem(path, f"unknown_{kind}", _sentence(kind, name, known if n < MOST_SIMILAR else ()), document.line(path))
        for n, (path, kind, name, known) in enumerate(islice(unknown, MOST_PROBLEMS))
    ]


def _references(document: Document, live: Names) -> Iterator[tuple[str, str, str, frozenset[str]]]:
    tiers, tenants = frozenset((*(tier.name for tier in document.tiers), *live.tiers)), frozenset(live.tenants)
    endpoints = frozenset((*(endpoint.name for endpoint in document.endpoints), *live.endpoints))
    for index, policy in enumerate(document.policies):
        path = f"policies[{index}]"
        if policy.tier is not None:
            yield f"{path}.tier", "tier", policy.tier, tiers
        if policy.tenant is not None:
            yield f"{path}.tenant", "tenant", policy.tenant, tenants
        if not policy.endpoint.endswith(EVERYWHERE):  # a whole service may have no endpoint yet
            yield f"{path}.endpoint", "endpoint", policy.endpoint, endpoints


def _sentence(kind: str, name: str, known: Collection[str]) -> str:
    close = get_close_matches(name, known, n=1)
    if close:
        return f"there is no {kind} {name}; did you mean {close[0]}?"
    declared = "create it first" if kind == "tenant" else f"declare it under {kind}s"
    return f"there is no {kind} {name}, neither in the document nor live; {declared}, or correct the name"


@dataclass(frozen=True, slots=True)
class Drift:
    revision: int
    author: str
    reason: str
    applied: int  # the revision in which a document was last applied

    def __str__(self) -> str:
        return (
            f"drift: {self.author} changed this in revision {self.revision} ({self.reason}), "
            f"after the last apply in revision {self.applied}"
        )


def drift_of(keys: Collection[str]) -> dict[str, Drift]:
    """By object, the last change since the last apply that was not made by a document."""
    applied = Revision.objects.filter(action=APPLIED).order_by("-number").values_list("number", flat=True).first()
    if applied is None or not keys:
        return {}
    later = Revision.objects.filter(number__gt=applied, touched__overlap=list(keys)).order_by("number")
    wanted = frozenset(keys)
    return {
        key: Drift(number, author, reason, applied)
        for number, author, reason, touched in later.values_list("number", "author", "reason", "touched")
        for key in touched
        if key in wanted
    }


@dataclass(frozen=True, slots=True)
class DocumentPlan:
    revision: int  # the newest when it was made
    changes: tuple[ObjectDiff, ...]
    drift: Mapping[str, Drift]  # of what would change
    others: tuple[str, ...]  # live, but not in the document: they stay as they are
    tenants: TouchedTenants
    impact: Impact
    warnings: tuple[str, ...] = ()  # what pools could not keep

    def lines(self) -> Iterator[str]:
        yield from plan_lines(self.changes, {key: str(drift) for key, drift in self.drift.items()})
        if self.changes:
            touched = counted(self.tenants.count, "tenant is", "tenants are")
            yield f"{touched} affected; {counted(self.impact.hurt_count, 'loses', 'lose')} more than 10 %."
        for cut in self.impact.cuts:
            yield f"  # {cut.owner}: {cut}; applying it needs --force"
        for lowered in self.impact.lowered:
            yield f"  # {lowered.owner}: {lowered}"
        yield from (f"  # {warning}" for warning in self.warnings)
        if self.others:
            stay = counted(len(self.others), "other object is", "other objects are")
            they = "it stays as it is" if len(self.others) == 1 else "they stay as they are"
            yield f"{stay} not in the document; {they}."


def document_check(document: Document) -> None:
    """Refuses chains that cannot work, and names that are neither in the document nor live.

    Reading the document has checked the rest.
    """
    chained = unworkable(document)
    tenants = {policy.tenant for policy in document.policies if policy.tenant is not None}
    live = Names(
        tiers=Tier.objects.filter(retired=False).values_list("name", flat=True),
        tenants=Tenant.objects.filter(name__in=tenants).values_list("name", flat=True),
        endpoints=Endpoint.objects.filter(retired=False).values_list("name", flat=True),
    )
    try:
        problems = unresolved(document, live) + chained
    except OperationalError:
        if not chained:
            raise
        problems = chained
    if problems:
        raise Refused(problems)


def document_apply(
    *, document: Document, author: str, reason: str, carry: Carry = "keep", **permits: Unpack[Permits]
) -> Revision | None:
    """Applies the document; objects that it does not name stay as they are."""
    with draft(action="document_apply", author=author, reason=reason, carry=carry, **permits) as opened:
        said = states_of(document)
        live = snapshots(said)
        wanted = {key: tier_after(live[key], state) if _is_tier(key) else state for key, state in said.items()}
        changed = {key for key, state in wanted.items() if without_candidates(live[key]) != state}
        opened.before |= {key: live[key] for key in changed}
        if opened.is_rehearsal:
            foresee(opened, {key: _after(live[key], wanted[key]) for key in changed})
            return None
        write_tiers(opened, [tier for tier in document.tiers if key_of(TIER, tier.name) in changed])
        write_endpoints(opened, [one for one in document.endpoints if key_of(ENDPOINT, one.name) in changed])
        write_policies(opened, [policy for policy in document.policies if key_of(POLICY, policy.name) in changed])
    return opened.revision


def _is_tier(key: str) -> bool:
    return split_key(key)[0] == TIER


def _after(before: State, wanted: Mapping[str, Any]) -> State:
    return with_candidates_of(before, wanted) if "limits" in wanted else dict(wanted)


def document_plan(*, document: Document, author: str, carry: Carry = "keep") -> DocumentPlan:
    """What applying the document would do, found out by a dry run; refused as applying it would be."""
    apply = partial(document_apply, document=document, author=author, reason="plan", carry=carry, force=True)
    with dry_run():  # all of it from one snapshot
        newest = newest_revision_number()
        others = tuple(sorted(set(_live_keys()) - set(states_of(document))))
        outcome = commit(apply, "dry_run")
        drift = drift_of([change.object for change in outcome.effect.changes])
        warnings = tuple(warnings_of(outcome))
        effect = outcome.effect
        return DocumentPlan(newest, effect.changes, drift, others, effect.tenants, outcome.impact, warnings)


def document_export() -> str:
    """The live configuration as a document; applying it changes nothing."""
    with one_moment():
        newest = newest_revision_number()
        states = {key: without_candidates(state) or {} for key, state in snapshots(_live_keys()).items()}
        notes = {key: str(drift) for key, drift in drift_of(states).items()}
    return document_text(states, f"The configuration of Headroom at revision {newest}.", notes)


def _live_keys() -> Iterator[str]:
    yield from (key_of(TIER, name) for name in Tier.objects.filter(retired=False).values_list("name", flat=True))
    yield from (
        key_of(ENDPOINT, name) for name in Endpoint.objects.filter(retired=False).values_list("name", flat=True)
    )
    yield from (key_of(POLICY, name) for name in Policy.objects.values_list("name", flat=True))
