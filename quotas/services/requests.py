"""What would happen to a request, and why. Asks the store as a check does, and is charged nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headroom_edge import Check, Decision, Limiter
from headroom_edge.errors import StoreRefusedError
from headroom_edge.plan.paths import LONGEST_PATH, USUAL, Finder, target_path
from headroom_edge.plan.routes import Route
from quotas.models import Endpoint
from quotas.policy.spec import EVERYWHERE
from quotas.selectors.explanation import Explanation, explain
from quotas.selectors.verdicts import Verdict, verdicts
from quotas.services.errors import refuse

BUDGET_MS = 1_000
UNREGISTERED = "-"  # no endpoint has this name, so only the limits on * apply


@dataclass(frozen=True, slots=True)
class Answer:
    explanation: Explanation  # of the configuration
    decision: Decision  # of the store
    verdicts: tuple[Verdict, ...]  # each limit, as both have it


def request_explain(
    *, limiter: Limiter, tenant: str, endpoint: str, subject: Mapping[str, str], cost: int | None = None
) -> Answer:
    """UnknownTenantError, or StoreRefusedError where the store cannot say."""
    called = UNREGISTERED if endpoint == EVERYWHERE else endpoint
    try:
        Check(tenant, called, subject, cost)
    except ValueError as error:
        field = next((name for name in ("tenant", "endpoint", "cost") if str(error).startswith(name)), "subject")
        raise refuse(field, field, str(error)) from None
    explanation = explain(tenant=tenant, endpoint=endpoint)
    decision = limiter.peek(tenant=tenant, endpoint=called, subject=subject, cost=cost, rows=True, budget_ms=BUDGET_MS)
    if decision.degraded:
        raise StoreRefusedError(decision.reason)
    return Answer(explanation, decision, tuple(verdicts(explanation, decision.rows)))


def endpoint_of(*, method: str, path: str) -> str:
    """The endpoint that serves the path, as the gateway finds it; `*`: none that is registered."""
    if len(path) > LONGEST_PATH:
        raise refuse("path", "too_long", f"the path has {len(path):,} characters; {LONGEST_PATH:,} are the most")
    rows = Endpoint.objects.filter(retired=False).exclude(path="").values_list("name", "method", "path")
    found = Finder([Route(*row) for row in rows]).find(method, target_path(path), USUAL)
    return found or EVERYWHERE
