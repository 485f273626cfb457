"""Whether what is in every plan can be enforced: endpoints and global policies."""

from dataclasses import replace

from quotas.policy.endpoints import MOST_COST
from quotas.policy.plans import ENDPOINT_NUMBER_MAX, CompileError, PlanWriter, Terms, uses_tenant_zone
from quotas.policy.resolve import Resolved
from quotas.policy.spec import Endpoint, Policy


def endpoint_problem(endpoint: Endpoint) -> str:
    """Empty: there is none."""
    if not 0 < endpoint.number <= ENDPOINT_NUMBER_MAX:
        return f"number {endpoint.number} is not from 1 to {ENDPOINT_NUMBER_MAX:,}; remove some endpoints"
    if not 0 < endpoint.default_cost <= MOST_COST:
        return f"default_cost {endpoint.default_cost} is not from 1 to {MOST_COST:,}; change it"
    return ""


def global_problem(policy: Policy, terms: Terms, *, is_clustered: bool) -> str:
    """Empty: there is none."""
    if policy.problem:
        return policy.problem
    if is_clustered:
        return "global limits cannot be counted across a cluster; remove the policy, or use one server"
    if uses_tenant_zone([policy]):
        return "timezone of a global calendar_quota cannot be tenant; name one, such as UTC"
    try:
        PlanWriter(replace(terms, globals={policy.endpoint: policy}), "UTC").write_set(Resolved((), {}))
    except CompileError as error:
        return str(error)
    return ""
