"""Runs scenarios on the reference limiter."""

from dataclasses import replace

from quotas.policies.spec import Policy
from quotas.simulation.reference_decision import ReferenceDecision
from quotas.simulation.reference_limiter import ReferenceLimiter, Request
from quotas.simulation.reference_plan import ReferencePlan, applied_at, on_calendar
from quotas.simulation.scenarios.model import TIER, Ask, Reply


class ReferenceEngine:
    def __init__(self) -> None:
        self._limiter = ReferenceLimiter()
        self._policies: tuple[Policy, ...] = ()
        self._timezone = "UTC"
        self._plans: dict[tuple[str, str], ReferencePlan] = {}

    def configure(self, policies: tuple[Policy, ...], timezone: str = "UTC") -> None:
        self._policies, self._timezone = policies, timezone
        self._plans = {}

    def ask(self, ask: Ask) -> list[Reply]:
        plan, request = self._plan(ask.tenant, ask.endpoint), Request(ask.tenant, ask.subject, ask.cost)
        return [self._reply(self._limiter.check(plan, ask.t_us, request)) for _ in range(ask.count)]

    def _reply(self, answer: ReferenceDecision) -> Reply:
        return Reply(
            answer.allowed,
            answer.reason,
            answer.limit,
            answer.remaining,
            answer.retry_us,
            answer.wait_us,
            {row.name: row.remaining for row in answer.rows},
        )

    def _plan(self, tenant: str, endpoint: str) -> ReferencePlan:
        plan = self._plans.get((tenant, endpoint))
        if plan is None:
            applied = applied_at(self._policies, tenant, TIER, endpoint)
            plan = ReferencePlan.of(replace(one, limit=on_calendar(one.limit, self._timezone)) for one in applied)
            self._plans[tenant, endpoint] = plan
        return plan
