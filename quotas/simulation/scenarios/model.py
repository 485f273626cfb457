"""The parts of a scenario, and how to run a case on any engine: the reference limiter or the real Lua code."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from headroom_edge.algorithms import ALGORITHMS
from headroom_edge.algorithms.base import SECOND_US, Algorithm
from quotas.policies.limit_codec import limit_parse
from quotas.policies.spec import EVERYWHERE, Carry, Generation, Limit, Policy

BASE_US = 1_772_409_600 * SECOND_US  # Monday 2026-03-02, 00:00 UTC: the start of every aligned window
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US

TENANT = "acme"
TIER = "standard"
ENDPOINT = "orders:create"


@dataclass(frozen=True, slots=True)
class Expectation:
    """What the reply to the last request of an Ask must be; None: not checked."""

    accepted: int | None = None  # among all requests of the Ask
    reason: str | None = None
    limit: str | None = None
    remaining: int | None = None
    retry_us: int | None = None
    wait_us: int | None = None
    rows: Mapping[str, int] | None = None  # what each enforced limit has left


@dataclass(frozen=True, slots=True)
class Ask:
    """`count` requests in the same microsecond."""

    t_us: int
    count: int = 1
    cost: int = 1
    tenant: str = TENANT
    endpoint: str = ENDPOINT
    subject: Mapping[str, str] = field(default_factory=dict)
    expect: Expectation = Expectation()


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """Replaces the policies from here on."""

    policies: tuple[Policy, ...]


Event = Ask | PolicyChange


@dataclass(frozen=True, slots=True)
class ScenarioCase:
    name: str
    policies: tuple[Policy, ...]
    events: tuple[Event, ...]
    accepted: int
    denied: int
    timezone: str = "UTC"  # of the tenants


@dataclass(frozen=True, slots=True)
class Scenario:
    number: int
    title: str
    lesson: str
    cases: tuple[ScenarioCase, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    allowed: bool
    reason: str
    limit: str
    remaining: int
    retry_us: int
    wait_us: int
    rows: Mapping[str, int]


class Engine(Protocol):
    def configure(self, policies: tuple[Policy, ...], timezone: str) -> None: ...

    def ask(self, ask: Ask) -> list[Reply]:
        """Returns one reply per request."""


@dataclass(slots=True)
class CaseResult:
    accepted: int = 0
    denied: int = 0
    mismatches: list[str] = field(default_factory=list)


def run_case(case: ScenarioCase, engine: Engine) -> CaseResult:
    result = CaseResult()
    engine.configure(case.policies, case.timezone)
    for number, event in enumerate(case.events):
        if isinstance(event, PolicyChange):
            engine.configure(event.policies, case.timezone)
        else:
            _run_ask(event, engine, result, f"event {number} at {(event.t_us - BASE_US) / SECOND_US} s")
    for name in ("accepted", "denied"):
        _compare(name, getattr(case, name), getattr(result, name), "in all", result)
    return result


def _run_ask(ask: Ask, engine: Engine, result: CaseResult, where: str) -> None:
    replies = engine.ask(ask)
    accepted = sum(reply.allowed for reply in replies)
    result.accepted += accepted
    result.denied += ask.count - accepted
    _compare("accepted", ask.expect.accepted, accepted, where, result)
    for name in ("reason", "limit", "remaining", "retry_us", "wait_us", "rows"):
        _compare(name, getattr(ask.expect, name), getattr(replies[-1], name), where, result)


def _compare(name: str, expected: object, found: object, where: str, result: CaseResult) -> None:
    if expected is not None and found != expected:
        result.mismatches.append(f"{where}: {name} is {found}, not {expected}")


def limit(name: str, algorithm: str, **fields: Any) -> Limit:
    return limit_parse(name, {"algorithm": algorithm, **fields})


def algorithm(name: str, **fields: Any) -> Algorithm:
    return ALGORITHMS[name].parse(fields)


def changed_limit(old: Limit, new: Algorithm, at_us: int, carry: Carry) -> Limit:
    """The limit after an edit of its parameters."""
    before = Generation(old.algorithm, old.since_us, old.carry)
    return replace(old, algorithm=new, since_us=at_us, carry=carry, past=(before, *old.past))


def everywhere(*limits: Limit) -> tuple[Policy, ...]:
    return (Policy("everywhere", EVERYWHERE, limits, tier=TIER),)


def every(step_us: int, count: int, start_us: int = BASE_US) -> Iterator[Ask]:
    return (Ask(start_us + number * step_us) for number in range(count))


def limit_names(policies: tuple[Policy, ...]) -> list[str]:
    """The names in the order of their numbers, candidates last, so that Redis checks them in the reference's order."""
    names = sorted({limit.name for policy in policies for limit in policy.limits})
    return [*names, *(f"{name}~candidate" for name in names)]
