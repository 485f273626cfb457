"""From a change that is tried out to the canaries of its tiers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from quotas.policies.spec import PAST_GENERATIONS, Canary, Carry, Generation, Limit, Policy


@dataclass(frozen=True, slots=True)
class CanaryChange:
    """A change that a share of the tenants has."""

    number: int
    share: int
    policies: Mapping[str, Policy | None]  # by name, as the change would have them; None: it removes the policy
    since_us: int
    carry: Carry


def canaries_of(change: CanaryChange, live: Iterable[Policy]) -> Iterator[Canary]:
    """One for each tier. `live` must hold the tiers' present policies, whose state is carried over."""
    present = {policy.name: policy for policy in live}
    by_tier: dict[str, dict[str, Policy]] = defaultdict(dict)
    for name, wanted in change.policies.items():
        policy = _tried(change, wanted, present.get(name))
        if policy is not None and policy.tier is not None:
            by_tier[policy.tier][policy.endpoint] = policy
    return (Canary(change.number, tier, change.share, policies) for tier, policies in by_tier.items())


def _tried(change: CanaryChange, wanted: Policy | None, live: Policy | None) -> Policy | None:
    """The wanted policy with the history of the live one. A policy that is to go stays, without limits."""
    if wanted is None:
        return replace(live, limits=(), canary=change.number) if live else None
    limits = (_with_history(change, limit, live.limit(limit.name) if live else None) for limit in wanted.limits)
    return replace(wanted, limits=tuple(limits), canary=change.number)


def _with_history(change: CanaryChange, limit: Limit, live: Limit | None) -> Limit:
    if live is None:
        return replace(limit, since_us=change.since_us, carry=change.carry)
    if live.algorithm == limit.algorithm:
        same = replace(limit, since_us=live.since_us, carry=live.carry, past=live.past)
        return replace(same, adopts_candidate=live.adopts_candidate)
    past = (Generation(live.algorithm, live.since_us, live.carry), *live.past)[:PAST_GENERATIONS]
    return replace(limit, since_us=change.since_us, carry=change.carry, past=past)
