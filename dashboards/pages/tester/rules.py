"""The limits that match a request: their values, decisions and sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.pages.tenant.limits import Rung
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.sharing import MOST_LEVELS, Borrowing
from headroom_edge.decision import NEVER, Decision, LimitRow
from quotas.policies.explain import ExplainedLimit, Verdict
from quotas.policies.limit_words import counted_words, lease_words, limit_short, override_words
from quotas.policies.spec import Override
from quotas.usage.queries.denial_log import cause_words, share_of, wait_words


@dataclass(frozen=True, slots=True)
class Rule:
    explained: ExplainedLimit
    row: LimitRow | None  # None: not enforced in Redis
    rungs: tuple[Rung, ...]

    @property
    def name(self) -> str:
        return self.explained.effective.limit.name

    @property
    def words(self) -> str:
        return self.explained.effective.limit.algorithm.words()

    @property
    def counted(self) -> str:
        """What is counted together."""
        effective = self.explained.effective
        who = counted_words(effective.limit.subject, effective.is_global)
        where = "all endpoints" if effective.scope == "*" else effective.scope
        lease = lease_words(effective.limit.lease_ms)
        return f"{who}, {where}, in {effective.limit.unit}" + (f"; {lease}" if lease else "")

    @property
    def state(self) -> str:
        if self.row is not None:
            return "passes" if self.row.allowed else "denies"
        return {"shadow": "shadow", "off": "off"}.get(self.explained.effective.limit.mode, "waiting")

    @property
    def used(self) -> float | None:
        return None if self.row is None or not self.row.quota else 1 - self.row.remaining / self.row.quota

    @property
    def again(self) -> str:
        """When more is available, or enough for a retry."""
        if self.row is None:
            return ""
        if not self.row.allowed:
            return "never" if self.row.retry_us == NEVER else wait_words(self.row.retry_us)
        return wait_words(self.row.reset_us) if self.row.reset_us else "full"


def rule_of(verdict: Verdict) -> Rule:
    return Rule(verdict.explained, verdict.row, rungs_of(verdict.explained))


def rungs_of(explained: ExplainedLimit) -> tuple[Rung, ...]:
    """From most to least specific."""
    effective, overrides = explained.effective, explained.overrides
    base = Rung("and" if overrides else "wins", effective.source, "policy", str(limit_short(effective.limit.algorithm)))
    lost = (Rung("lost", one.source, "less specific", str(limit_short(one.limit.algorithm))) for one in explained.lost)
    if not overrides:
        return (base, *lost)
    changed = (_override(override) for override in overrides)
    return (*changed, Rung("and", effective.source, "policy, changed by the override"), *lost)


def _override(override: Override) -> Rung:
    return Rung("wins", f"override {override.id}", override_words(override))


@dataclass(frozen=True, slots=True)
class Headline:
    meaning: str  # allowed, denied or degraded
    text: str
    detail: str


def headline_of(decision: Decision, rules: Sequence[Rule] = ()) -> Headline:
    if decision.allowed:
        return _passes(decision)
    why = f"{cause}. " if (cause := _cause(decision, rules)) else ""
    texts = {
        "limit": (f"Denied by {decision.limit}", why + _again(decision)),
        "cost_too_big": (
            f"Denied by {decision.limit}",
            "The cost is higher than this limit can ever allow. Reduce the cost or raise the limit.",
        ),
        "suspended": ("Denied: the tenant is suspended", "All requests are denied until it is resumed."),
        "overflow": (
            "Denied: too many new subjects in an hour",
            "New subjects over the cap share one bucket, which is used up.",
        ),
    }
    text, detail = texts.get(decision.reason, (f"Denied: {decision.reason}", _again(decision)))
    return Headline("denied", text, detail)


def _cause(decision: Decision, rules: Sequence[Rule]) -> str:
    """Why a limit that borrows denies. Empty for others."""
    denying = next((rule for rule in rules if rule.name == decision.limit and rule.row and rule.row.cause), None)
    if denying is None or denying.row is None:
        return ""
    algorithm = denying.explained.effective.limit.algorithm
    share = share_of(algorithm, _pool_of(algorithm, rules)) if isinstance(algorithm, Borrowing) else None
    return cause_words(denying.name, denying.row.cause, share, is_now=True)


def _pool_of(algorithm: Borrowing, rules: Sequence[Rule]) -> str:
    """The pool at the end of the chain; empty: it is not among the rules."""
    limits = {rule.name: rule.explained.effective.limit.algorithm for rule in rules}
    parent = algorithm.parent
    for _ in range(MOST_LEVELS):
        above = limits.get(parent)
        if not isinstance(above, Borrowing):
            return parent if above else ""
        parent = above.parent
    return ""


def _passes(decision: Decision) -> Headline:
    if decision.reason == "bypass":
        return Headline("degraded", "Allowed: a bypass is active", "Limits count but deny no requests until it ends.")
    if decision.wait_us:
        return Headline("allowed", "Allowed after a wait", f"It may proceed in {wait_words(decision.wait_us)}.")
    if not decision.limit:
        return Headline("allowed", "Allowed", "No limit applies.")
    left = f"{decision.remaining:,} of {decision.quota:,} would be left of {decision.limit}, the tightest limit."
    return Headline("allowed", "Allowed", left)


def _again(decision: Decision) -> str:
    if decision.retry_us == NEVER:
        return "Retrying does not help."
    if decision.retry_us < SECOND_US:
        return f"Retry in {wait_words(decision.retry_us)}. Retry-After would be 1 s."
    return f"Retry in {wait_words(decision.retry_us)}."
