"""The limits of a tenant for display: values, use, and the source of each value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quotas.policies.allowance import Allowance, allowance_of, guaranteed_of
from quotas.policies.explain import ExplainedLimit
from quotas.policies.limit_words import (
    Short,
    algorithm_words,
    counted_words,
    lease_words,
    limit_short,
    most_short,
    subject_words,
)
from quotas.policies.resolve import Effective
from quotas.policies.spec import EVERYWHERE, Limit
from quotas.recommendations.suggestion import Suggestion, suggestion_for_tenant
from quotas.usage.queries.utilisation import LimitUse
from tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class TenantLimit:
    """One limit of a tenant."""

    explained: ExplainedLimit
    use: LimitUse
    denied_share: float | None = None  # share of its requests in 24 h that this limit denied; None: unknown
    other: Short | None = None  # the same limit of the compared tenant or tier
    other_use: LimitUse | None = None

    @property
    def effective(self) -> Effective:
        return self.explained.effective

    @property
    def limit(self) -> Limit:
        return self.effective.limit

    @property
    def scope(self) -> str:
        return self.effective.scope

    @property
    def endpoint(self) -> str:
        """Empty: all endpoints."""
        return "" if self.scope == EVERYWHERE else self.scope

    @property
    def subject(self) -> str:
        return subject_words(self.limit.subject)

    @property
    def counted(self) -> str:
        return counted_words(self.limit.subject, self.effective.is_global)

    @property
    def short(self) -> Short:
        return limit_short(self.limit.algorithm)

    @property
    def most(self) -> Short:
        return most_short(self.limit.algorithm)

    @property
    def algorithm(self) -> str:
        return algorithm_words(self.limit.algorithm.name)

    @property
    def lease(self) -> str:
        return lease_words(self.limit.lease_ms)

    @property
    def allowance(self) -> Allowance | None:
        return allowance_of(self.limit.algorithm)

    @property
    def guaranteed(self) -> Allowance | None:
        return guaranteed_of(self.limit.algorithm)

    @property
    def key(self) -> str:
        return f"{self.scope}|{self.limit.name}"

    @property
    def source(self) -> str:
        return self.effective.source.removeprefix("tier ").removeprefix("tenant ")

    @property
    def is_overridden(self) -> bool:
        return bool(self.explained.overrides)


def line_suggestion(line: TenantLimit, tenant: Tenant) -> Suggestion | None:
    """What to suggest instead of what the tenant has; None: nothing can be suggested for such a limit."""
    return suggestion_for_tenant(
        tenant=tenant.name,
        tier=tenant.tier.name,
        scope=line.scope,
        limit=line.limit.name,
        held=line.limit.algorithm,
        peak=line.use.share,
    )


@dataclass(frozen=True, slots=True)
class Rung:
    """One source of a limit in the list "why this value"."""

    kind: str  # wins, and (counts as well, or an override changes it), none, lost
    title: str
    note: str = ""
    value: str = ""
    href: str = ""
    link: str = ""


def sorted_lines(lines: Iterable[TenantLimit]) -> list[TenantLimit]:
    """Most used first; limits without data last."""
    return sorted(lines, key=lambda line: (line.use.share is None, -(line.use.share or 0), line.scope, line.limit.name))


def chosen_of(lines: Sequence[TenantLimit], scope: str, name: str) -> TenantLimit | None:
    """The limit named in the URL, else the most used one that can be charted."""
    fitting = [line for line in lines if scope in ("", line.scope) and name in ("", line.limit.name)]
    drawable = [line for line in fitting if (line.allowance or line.guaranteed) and not line.effective.is_global]
    return next(iter(drawable or fitting or lines), None)


def ladder_of(line: TenantLimit, lines: Sequence[TenantLimit]) -> list[Rung]:
    """Sources from most to least specific, then the other limits that count the same requests."""
    places = _places(line)
    held = {lost.source: limit_short(lost.limit.algorithm) for lost in line.explained.lost}
    rungs = [_override(line)]
    for source, title in places:
        if source == line.effective.source:
            changed = line.is_overridden
            rungs.append(
                Rung("and" if changed else "wins", title, _plain(source), "changed" if changed else str(line.short))
            )
        elif source in held:
            rungs.append(Rung("lost", title, _plain(source), str(held[source])))
        else:
            rungs.append(Rung("none", title, "none"))
    return [*rungs, *(_beside(other) for other in lines if _counts_too(other, line))]


def _override(line: TenantLimit) -> Rung:
    if not line.is_overridden:
        return Rung("none", "Tenant override", "none active")
    ids = ", ".join(str(override.id) for override in line.explained.overrides)
    return Rung("wins", "Tenant override", f"override {ids}", str(line.short), "#overrides", "view")


def _places(line: TenantLimit) -> list[tuple[str, str]]:
    """The possible sources, from most to least specific, in the order of quotas.policies.resolve."""
    if line.effective.is_global:
        return [(line.effective.source, "Global: counts all tenants together")]
    owners = _owners(line)
    scopes = (
        [(line.scope, "endpoint"), (EVERYWHERE, "all endpoints")]
        if line.scope != EVERYWHERE
        else [(EVERYWHERE, "all endpoints")]
    )
    return [(f"{owner} × {scope}", f"{word} × {what}") for owner, word in owners for scope, what in scopes]


def _owners(line: TenantLimit) -> list[tuple[str, str]]:
    sources = [line.effective.source, *(lost.source for lost in line.explained.lost)]
    tier = next((source.partition(" × ")[0] for source in sources if source.startswith("tier ")), "tier")
    tenant = next((source.partition(" × ")[0] for source in sources if source.startswith("tenant ")), "tenant")
    return [(tenant, "Tenant"), (tier, "Tier")]


def _counts_too(other: TenantLimit, line: TenantLimit) -> bool:
    """Whether a request counted by `line` is counted by `other` too."""
    if other is line or other.limit.mode == "off":
        return False
    if other.effective.is_global:
        service = line.scope.partition(":")[0]
        return other.scope in (line.scope, f"{service}:*", EVERYWHERE)
    return other.scope == line.scope or (other.scope == EVERYWHERE and other.limit.name != line.limit.name)


def _beside(other: TenantLimit) -> Rung:
    where = "over all tenants" if other.effective.is_global else _plain(other.effective.source)
    use = f", {100 * other.use.share:.0f} % used at the peak" if other.use.share is not None else ""
    return Rung("and", f"{other.limit.name}, also applies", f"{where}{use}", str(other.short))


def _plain(source: str) -> str:
    return source.removeprefix("tier ").removeprefix("tenant ").removeprefix("global × ")
