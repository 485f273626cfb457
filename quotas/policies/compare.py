"""What a tenant loses between two plans: rate, burst, waiting time, or freedom from a limit that is new.

Of a limit that borrows, what is guaranteed and its ceiling are compared one by one: losing either is a cut.

Limits that apply to an endpoint are compared by name. With a limit that counts cost, a request weighs the
endpoint's default cost, so a higher cost is a cut like any other. A limit under a new name is no cut if one
as tight applied before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import inf

from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from headroom_edge.algorithms.base import DAY_US, EXACT_MAX, SECOND_US, Algorithm, ceil_div
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.calendar_quota import LONGEST_DAYS, CalendarQuota
from headroom_edge.algorithms.fixed_window import FixedWindow
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.algorithms.sliding_counter import SlidingCounter
from headroom_edge.algorithms.sliding_log import SlidingLog
from headroom_edge.plan.subject import Subject
from quotas.policies.adapt import WHOLE
from quotas.policies.layers import Layers
from quotas.policies.resolve import Effective, Resolved, globals_at, limit_at
from quotas.policies.spec import EVERYWHERE, Endpoint, Limit, Policy, Unit

TOLERATED = Fraction(1, 10)
NOT_ENFORCED = "not enforced"


@dataclass(frozen=True, slots=True)
class Cut:
    endpoint: str  # `*`: every endpoint without a limit of its own that replaces it
    limit: str
    before: str  # in words
    after: str
    percent: float  # of what was allowed before; 100 for a new limit

    def __str__(self) -> str:
        return f"limit {self.limit} on {self.endpoint}: {self.before} → {self.after}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What applies at one time to one tenant, to the plain tenants of a tier, or (global limits) to everyone."""

    at: Callable[[str], tuple[Effective, ...]]
    named: frozenset[str]  # endpoints that a policy or an override names
    endpoints: Mapping[str, Endpoint]

    @classmethod
    def of_layers(cls, layers: Layers, at_us: int, endpoints: Mapping[str, Endpoint]) -> Plan:
        """As `resolve` has it, but without the history, which takes most of its time."""
        scopes = {scope: tuple(_holding(layers, scope, at_us)) for scope in layers.endpoints()}
        resolved = Resolved(scopes.pop(EVERYWHERE), {scope: limits for scope, limits in scopes.items() if limits})
        return cls(resolved.at, frozenset(resolved.own), endpoints)

    @classmethod
    def of_globals(cls, policies: Mapping[str, Policy], endpoints: Mapping[str, Endpoint]) -> Plan:
        services = {name for name, endpoint in endpoints.items() if f"{endpoint.service}:*" in policies}
        return cls(lambda endpoint: globals_at(policies, endpoint), frozenset({*policies, *services}), endpoints)

    def enforced(self, endpoint: str) -> dict[str, Effective]:
        """Global limits by scope and name, because they replace nothing; the others by name."""
        found = (effective for effective in self.at(endpoint) if effective.limit.mode == "enforce")
        return {f"{e.scope} {e.limit.name}" if e.is_global else e.limit.name: e for e in found}

    def cost(self, endpoint: str) -> int:
        return self.endpoints[endpoint].default_cost if endpoint in self.endpoints else 1


def _holding(layers: Layers, scope: str, at_us: int) -> Iterator[Effective]:
    for name in layers.names(scope):
        limit, source, overrides = limit_at(layers, scope, name, at_us)
        if limit is not None:
            yield Effective(limit, scope, source, overrides)


def cuts(before: Plan, after: Plan, above: Fraction = TOLERATED) -> list[Cut]:
    """Cuts above the tolerance, worst first. A cut on `*` is not repeated for each endpoint."""
    found: dict[tuple[str, str, str, str], Cut] = {}
    for endpoint in compared(before, after):
        for scope, cut in _cuts_at(endpoint, before, after, above):
            found.setdefault((scope, cut.limit, cut.before, cut.after), cut)
    return sorted(found.values(), key=lambda cut: (-cut.percent, cut.endpoint, cut.limit))


@dataclass(frozen=True, slots=True)
class Unenforced:
    """A limit that was enforced and is still there, but only counts, or is off."""

    endpoint: str
    limit: str
    before: str  # in words
    mode: str  # shadow or off


def unenforced(before: Plan, after: Plan) -> list[Unenforced]:
    """A limit that is removed is not among them: nobody takes that for a limit."""
    found: dict[tuple[str, str], Unenforced] = {}
    for endpoint in compared(before, after):
        now = {(e.scope, e.limit.name): e.limit.mode for e in after.at(endpoint) if e.limit.mode != "enforce"}
        kept = after.enforced(endpoint)
        for key, was in before.enforced(endpoint).items():
            mode = now.get((was.scope, was.limit.name))
            if mode is not None and key not in kept:
                one = Unenforced(was.scope, was.limit.name, was.limit.algorithm.words(), mode)
                found.setdefault((was.scope, was.limit.name), one)
    return list(found.values())


def same_enforced(before: Plan, after: Plan) -> bool:
    """Whether both deny exactly the same requests."""
    return all(_enforced_values(before, name) == _enforced_values(after, name) for name in compared(before, after))


def compared(before: Plan, after: Plan) -> Iterator[str]:
    """`*`, every named endpoint that was there before, and one of the others for each pair of costs."""
    yield EVERYWHERE
    named = {name for name in before.named | after.named if name in before.endpoints}
    yield from sorted(named)
    alike = (next((name for name in names if name not in named), None) for names in _by_costs(before, after))
    yield from sorted(name for name in alike if name is not None)


@dataclass(frozen=True, slots=True)
class _Alike:
    """Endpoints that cost the same before and the same after, by name; without those that always cost 1."""

    before: Mapping[str, Endpoint]
    after: Mapping[str, Endpoint]
    groups: tuple[tuple[str, ...], ...]


_recent: tuple[_Alike, ...] = ()


def _by_costs(before: Plan, after: Plan) -> tuple[tuple[str, ...], ...]:
    """Remembered for the last few pairs: all plans of a configuration share its endpoints, and there may be many."""
    global _recent  # noqa: PLW0603 - replaced as a whole, so threads need no lock
    for one in _recent:
        if one.before is before.endpoints and one.after is after.endpoints:
            return one.groups
    groups: dict[tuple[int, int], list[str]] = {}
    for name in sorted(before.endpoints.keys() & after.endpoints.keys()):
        groups.setdefault((before.cost(name), after.cost(name)), []).append(name)
    groups.pop((1, 1), None)
    found = _Alike(before.endpoints, after.endpoints, tuple(map(tuple, groups.values())))
    _recent = (found, *_recent[:3])
    return found.groups


def _cuts_at(endpoint: str, before: Plan, after: Plan, above: Fraction) -> Iterator[tuple[str, Cut]]:
    """Limits, each with the scope it counts over."""
    were, costs = before.enforced(endpoint), (before.cost(endpoint), after.cost(endpoint))
    for key, now in after.enforced(endpoint).items():
        same = were.get(key)
        if same and same.limit == now.limit and costs[0] == costs[1]:
            continue
        if same and is_comparable(same.limit, now.limit):
            loss = _loss(same.limit, now.limit, costs)
        else:
            loss = Fraction(0 if is_implied(now, were.values(), costs) else 1)
        if loss > above:
            words = _words(same.limit, costs[0], costs) if same else NOT_ENFORCED
            after_words, percent = _words(now.limit, costs[1], costs), round(float(100 * loss), 1)
            yield now.scope, Cut(endpoint, now.limit.name, words, after_words, percent)


def is_implied(now: Effective, were: Iterable[Effective], costs: tuple[int, int]) -> bool:
    """Whether a limit applied before that counted at least as much and was about as tight."""
    return next(_implying(now, were, costs), None) is not None


def _implying(now: Effective, were: Iterable[Effective], costs: tuple[int, int]) -> Iterator[Effective]:
    for was in were:
        is_broader = was.scope in (now.scope, EVERYWHERE) and was.is_global == now.is_global
        if is_broader and is_comparable(was.limit, now.limit) and _loss(was.limit, now.limit, costs) <= TOLERATED:
            yield was


def is_comparable(was: Limit, now: Limit) -> bool:
    """Whether the old limit and the new one count comparable things."""
    return (long_run_rate(was.algorithm) is None) == (long_run_rate(now.algorithm) is None) and _is_finer(
        now.subject, was.subject
    )


def _is_finer(subject: Subject, than: Subject) -> bool:
    """Whether each of its counters sees no more than one counter of the other."""
    if subject == than or not than.alternatives:
        return True
    (mine, *others), (theirs, *more) = subject.alternatives or ((),), than.alternatives
    return not others and not more and set(theirs) <= set(mine)


def _loss(was: Limit, now: Limit, costs: tuple[int, int]) -> Fraction:
    """The largest share that one of its measures loses."""
    pairs = zip(measures_of(was, costs[0]), measures_of(now, costs[1]), strict=True)
    return max(1 - after / before if before else Fraction(0) for before, after in pairs)


def measures_of(limit: Limit, cost: int) -> tuple[Fraction, ...]:
    """Requests per second and requests at once that are guaranteed; the same at most; and how long one may wait.

    Only a limit that shares or adapts guarantees less than it lets through at most. A pin is not looked at: it lies
    within the bounds that were agreed on.
    """
    algorithm = limit.algorithm
    weight = cost if limit.unit == "cost" else 1
    wait_us = algorithm.max_wait_us if isinstance(algorithm, TokenBucket) else 0
    floor, ceiling = (limit.adapt.floor, limit.adapt.ceiling) if limit.adapt else (WHOLE, WHOLE)
    own = [Fraction(size or 0) * floor / WHOLE for size in (guaranteed_rate(algorithm), _own_size(algorithm))]
    most = [Fraction(size or 0) * ceiling / WHOLE for size in (long_run_rate(algorithm), algorithm.capacity)]
    return (*(size / weight for size in (*own, *most)), Fraction(wait_us))


def guaranteed_rate(algorithm: Algorithm) -> Fraction | None:
    """Units per second whatever others ask for."""
    if isinstance(algorithm, Borrowing):
        return Fraction(algorithm.assured * SECOND_US, algorithm.per_us)
    return long_run_rate(algorithm)


def _own_size(algorithm: Algorithm) -> int:
    """Units at once whatever others ask for. What a pool lends is less than its burst, by the reserve."""
    if isinstance(algorithm, Borrowing):
        return algorithm.burst
    if isinstance(algorithm, AdaptiveConcurrency):
        return algorithm.least
    return algorithm.lendable if isinstance(algorithm, Pool) else algorithm.capacity


def long_run_rate(algorithm: Algorithm) -> Fraction | None:
    """Units per second in the long run, at most. None: it limits requests in flight."""
    if isinstance(algorithm, TokenBucket | Gcra | LeakyBucket | Pool):
        return Fraction(algorithm.rate * SECOND_US, algorithm.per_us)
    if isinstance(algorithm, Borrowing):
        return Fraction((algorithm.ceiling or EXACT_MAX) * SECOND_US, algorithm.per_us)
    if isinstance(algorithm, FixedWindow | SlidingLog | SlidingCounter):
        return Fraction(algorithm.limit * SECOND_US, algorithm.window_us)
    if isinstance(algorithm, CalendarQuota):
        return Fraction(algorithm.limit * SECOND_US, LONGEST_DAYS[algorithm.period] * DAY_US)
    return None


def _words(limit: Limit, cost: int, costs: tuple[int, int]) -> str:
    words = limit.algorithm.words()
    if limit.subject.alternatives:
        words += f" for each {limit.subject}"
    if limit.unit == "cost" and max(costs) > 1:
        words += f", where a request costs {cost:,}"
    return f"{words}, {limit.adapt.words()}" if limit.adapt else words


def _enforced_values(plan: Plan, endpoint: str) -> tuple[dict[str, object], int]:
    limits: dict[str, object] = {
        key: (
            e.scope,
            e.limit.algorithm,
            e.limit.subject,
            e.limit.unit,
            e.limit.on_failure,
            e.limit.lease_ms,
            e.limit.adapt,
        )
        for key, e in plan.enforced(endpoint).items()
    }
    return limits, plan.cost(endpoint)


WINDOWS_S = (1, 10, 60)


@dataclass(frozen=True, slots=True)
class Tightened:
    scope: str  # what it counts over: `*` or an endpoint
    limit: str
    unit: Unit
    before: str  # in words
    after: str
    percent: float  # of what could pass, in the window that loses most
    most: Mapping[int, float]  # window in seconds → what can pass now, for the windows in which that is less


def tightened(before: Plan, after: Plan) -> list[Tightened]:
    found: dict[tuple[str, str], Tightened] = {}
    for endpoint in compared(before, after):
        were, costs = before.enforced(endpoint), (before.cost(endpoint), after.cost(endpoint))
        are = after.enforced(endpoint)
        gone = [was for key, was in were.items() if key not in are]
        for key, now in are.items():
            was = were.get(key) or _under_another_name(now, gone, costs)
            for one in tightened_limit(was, now, costs[1] / costs[0]):
                found.setdefault((one.scope, one.limit), one)
    return list(found.values())


def _under_another_name(now: Effective, gone: Iterable[Effective], costs: tuple[int, int]) -> Effective | None:
    """The limit that a new one takes the place of: one as tight, of the same scope and unit. A rename cuts nobody."""
    alike = (was for was in gone if (was.scope, was.limit.unit) == (now.scope, now.limit.unit))
    found = _implying(now, alike, costs)
    return min(found, key=lambda was: most_within(was.limit.algorithm, max(WINDOWS_S)), default=None)


def tightened_limit(was: Effective | None, now: Effective, factor: float = 1.0) -> Iterator[Tightened]:
    if now.is_global or now.limit.subject.alternatives:
        return
    # Demand in units of cost was measured at the old cost.
    weight = factor if now.limit.unit == "cost" else 1.0
    most = {window: most_within(now.limit.algorithm, window) / weight for window in WINDOWS_S}
    could = {window: most_within(was.limit.algorithm, window) if was else inf for window in WINDOWS_S}
    less = {window: allowed for window, allowed in most.items() if allowed < could[window]}
    if less:
        percent = max(100.0 if could[window] == inf else 100 * (1 - less[window] / could[window]) for window in less)
        words = was.limit.algorithm.words() if was else NOT_ENFORCED
        after = now.limit.algorithm.words()
        yield Tightened(now.scope, now.limit.name, now.limit.unit, words, after, round(percent, 1), less)


def most_within(algorithm: Algorithm, window_s: int) -> float:
    """The most that can pass in a window of that length. For aligned windows: in one that is aligned too."""
    if isinstance(algorithm, Borrowing):
        return most_within(algorithm.most, window_s) if algorithm.most else inf
    if isinstance(algorithm, TokenBucket | Gcra | LeakyBucket | Pool):
        return algorithm.capacity + algorithm.rate * window_s * SECOND_US / algorithm.per_us
    if isinstance(algorithm, FixedWindow | SlidingLog | SlidingCounter):
        return algorithm.limit * ceil_div(window_s * SECOND_US, algorithm.window_us)
    if isinstance(algorithm, CalendarQuota):
        return algorithm.limit
    return inf
