"""From a change that is tried out to the canaries of the tiers it concerns."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from quotas.policies.limit_codec import policy_of
from quotas.policies.spec import PAST_GENERATIONS, Canary, Carry, Generation, Limit, Policy

PolicyState = Mapping[str, Any] | None  # as a revision has it; None: it is not there


@dataclass(frozen=True, slots=True)
class Trial:
    """A change on trial: what becomes of policies, by name, for which share and since when."""

    change: int
    share: int
    policies: Mapping[str, PolicyState]
    since_us: int
    carry: Carry


def canaries_of(trial: Trial, live: Iterable[Policy]) -> Iterator[Canary]:
    """`live` needs to hold the policies of the tiers that the reader asks for, so that state carries over."""
    present = {policy.name: policy for policy in live}
    by_tier: dict[str, dict[str, Policy]] = defaultdict(dict)
    for name, state in trial.policies.items():
        policy = _tried(trial, name, state, present.get(name))
        if policy is not None and policy.tier is not None:
            by_tier[policy.tier][policy.endpoint] = policy
    return (Canary(trial.change, tier, trial.share, policies) for tier, policies in by_tier.items())


def _tried(trial: Trial, name: str, state: PolicyState, live: Policy | None) -> Policy | None:
    """With the history that its limits have from the live policy; without limits, if it is to go."""
    if state is None:
        return replace(live, limits=(), canary=trial.change) if live else None
    wanted = policy_of(name, state)
    if wanted is None:
        return None
    limits = (_with_history(trial, limit, live.limit(limit.name) if live else None) for limit in wanted.limits)
    return replace(wanted, limits=tuple(limits), canary=trial.change)


def _with_history(trial: Trial, limit: Limit, live: Limit | None) -> Limit:
    if live is None:
        return replace(limit, since_us=trial.since_us, carry=trial.carry)
    if live.algorithm == limit.algorithm:
        same = replace(limit, since_us=live.since_us, carry=live.carry, past=live.past)
        return replace(same, adopts_candidate=live.adopts_candidate)
    past = (Generation(live.algorithm, live.since_us, live.carry), *live.past)[:PAST_GENERATIONS]
    return replace(limit, since_us=trial.since_us, carry=trial.carry, past=past)
