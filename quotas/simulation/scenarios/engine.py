"""The scenarios' engine on the reference limiter."""

from dataclasses import replace

from quotas.algorithms.base import Algorithm
from quotas.algorithms.units import DAY_US, SECOND_US
from quotas.algorithms.windows import CalendarQuota
from quotas.policy.spec import Generation, Limit, Policy
from quotas.simulation.plan import Plan, applied_at
from quotas.simulation.reference import ReferenceLimiter, Request
from quotas.simulation.scenarios.model import BASE_US, TIER, Ask, Reply

_SPAN_S = 800 * DAY_US // SECOND_US


class ReferenceEngine:
    def __init__(self, around_us: int = BASE_US) -> None:
        self._limiter = ReferenceLimiter()
        self._around_s = around_us // SECOND_US  # calendars are laid out this far from it on both sides
        self._policies: tuple[Policy, ...] = ()
        self._timezone = "UTC"
        self._plans: dict[tuple[str, str], Plan] = {}

    def configure(self, policies: tuple[Policy, ...], timezone: str = "UTC") -> None:
        self._policies, self._timezone = policies, timezone
        self._plans = {}

    def ask(self, ask: Ask) -> Reply:
        request = Request(ask.tenant, ask.subject, ask.cost)
        answer = self._limiter.check(self._plan(ask.tenant, ask.endpoint), ask.t_us, request)
        return Reply(
            answer.allowed,
            answer.reason,
            answer.limit,
            answer.remaining,
            answer.retry_us,
            answer.wait_us,
            {row.name: row.remaining for row in answer.rows},
        )

    def _plan(self, tenant: str, endpoint: str) -> Plan:
        plan = self._plans.get((tenant, endpoint))
        if plan is None:
            applied = applied_at(self._policies, tenant, TIER, endpoint)
            plan = Plan.of(replace(one, limit=self._on_calendar(one.limit)) for one in applied)
            self._plans[tenant, endpoint] = plan
        return plan

    def _on_calendar(self, limit: Limit) -> Limit:
        past = tuple(Generation(self._resolved(g.algorithm), g.since_us, g.carry) for g in limit.past)
        return replace(limit, algorithm=self._resolved(limit.algorithm), past=past)

    def _resolved(self, algorithm: Algorithm) -> Algorithm:
        if not isinstance(algorithm, CalendarQuota):
            return algorithm
        return algorithm.on(algorithm.boundaries(self._timezone, self._around_s - _SPAN_S, self._around_s + _SPAN_S))
