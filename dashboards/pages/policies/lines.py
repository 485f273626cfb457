"""Policies and their limits for display."""

from __future__ import annotations

from dataclasses import dataclass

from quotas.matrix.queries import OF_TENANT
from quotas.models import Limit, Policy
from quotas.policies.limit_codec import row_limit
from quotas.policies.limit_words import Short, algorithm_words, lease_words, limit_short


@dataclass(frozen=True, slots=True)
class LimitLine:
    row: Limit

    @property
    def name(self) -> str:
        return self.row.name.name

    @property
    def short(self) -> Short:
        return limit_short(row_limit(self.name, self.row).algorithm)

    @property
    def algorithm(self) -> str:
        return algorithm_words(self.row.algorithm)

    @property
    def lease(self) -> str:
        return lease_words(self.row.lease_ms)


@dataclass(frozen=True, slots=True)
class PolicyLine:
    row: Policy

    @property
    def kind(self) -> str:
        return "tenant" if self.row.tenant else "tier" if self.row.tier else "everyone"

    @property
    def owner(self) -> str:
        owner = self.row.tenant or self.row.tier
        return owner.name if owner else "everyone"

    @property
    def key(self) -> str:
        """Of its cell in the editor."""
        owner = {"tenant": OF_TENANT + self.owner, "tier": self.owner}.get(self.kind, "")
        return f"{owner}/{self.row.scope}"

    @property
    def limits(self) -> list[LimitLine]:
        return [LimitLine(limit) for limit in self.row.limits.all()]
