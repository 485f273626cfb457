"""The chains of a plan: limits that borrow, with the limits that lend to them. Pure.

A borrowing limit names its parent, a limit of the same plan: one of the tenant's or tier's own, else a global one.
What Lua could not judge as one unit is refused here, so an edit is refused before anything is written.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from headroom_edge.algorithms.base import SECOND_US, Algorithm, format_duration
from headroom_edge.algorithms.sharing import MOST_LEVELS, Borrowing, Pool
from headroom_edge.plan.subject import Subject
from quotas.policies.problems import CompileError
from quotas.policies.resolve import Effective
from quotas.policies.spec import EVERYWHERE

SHARING = (Pool, Borrowing)


class LimitKey(NamedTuple):
    """Tells apart the limits of one plan: global ones of several scopes may have the same name."""

    is_global: bool
    scope: str
    name: str


@dataclass(frozen=True, slots=True)
class Chain:
    path: tuple[Effective, ...]  # the leaf first, the pool last

    @property
    def leaf(self) -> Effective:
        return self.path[0]


def is_sharing(algorithm: Algorithm | None) -> bool:
    return isinstance(algorithm, SHARING)


def chains_of(applied: Sequence[Effective], endpoint: str, *, is_cluster: bool = False) -> tuple[Chain, ...]:
    """Of the limits that are switched on in the endpoint's plan. Raises CompileError."""
    for effective in applied:
        _check_candidate(effective)
    sharing = {limit_key(e): e for e in applied if is_sharing(e.limit.algorithm)}
    if not sharing:
        return ()
    parents = {limit_key(e): _parent(e, applied, endpoint) for e in sharing.values() if _borrowing(e)}
    for key, parent in parents.items():
        _check_link(sharing[key], parent, is_cluster=is_cluster)
    chains = {key: Chain(_path(effective, parents)) for key, effective in sharing.items()}
    for _, problem in _rivals(sharing, parents, endpoint):
        raise CompileError(problem)
    lenders = {limit_key(parent) for parent in parents.values()}
    return tuple(chain for key, chain in chains.items() if key not in lenders)


def chain_problems(applied: Sequence[Effective], endpoint: str) -> Iterator[tuple[Effective, str]]:
    """What is wrong with the chains among these limits, each with the limit to change.

    A parent that is not among them is none of it: it may be somewhere else.
    """
    sharing = {limit_key(e): e for e in applied if is_sharing(e.limit.algorithm)}
    parents: dict[LimitKey, Effective] = {}
    for key, effective in sharing.items():
        if not _lenders(effective, applied):
            continue
        try:
            parents[key] = _parent(effective, applied, endpoint)
            _check_link(effective, parents[key], is_cluster=False)
        except CompileError as error:
            parents.pop(key, None)
            yield effective, str(error)
    for effective in sharing.values():
        try:
            _path(effective, parents)
        except CompileError as error:
            yield effective, str(error)
    yield from _rivals(sharing, parents, endpoint)


def limit_key(effective: Effective) -> LimitKey:
    return LimitKey(effective.is_global, effective.scope, effective.limit.name)


def _borrowing(effective: Effective) -> Borrowing | None:
    algorithm = effective.limit.algorithm
    return algorithm if isinstance(algorithm, Borrowing) else None


def _parent(child: Effective, applied: Sequence[Effective], endpoint: str) -> Effective:
    borrowing = _borrowing(child)
    name = borrowing.parent if borrowing else ""
    if name == child.limit.name:
        raise CompileError(f"{_told(child)} names itself as its parent; name the pool that it borrows from")
    found = _lenders(child, applied)
    if not found:
        raise CompileError(_missing(child, name, endpoint))
    if len(found) > 1:
        sources = ", ".join(sorted(effective.source for effective in found))
        raise CompileError(
            f"{_told(child)} borrows from {name}, which several limits are called: {sources}; rename one"
        )
    return found[0]


def _lenders(child: Effective, applied: Sequence[Effective]) -> list[Effective]:
    """The limits of its parent's name: one of its own owner, else global ones."""
    borrowing = _borrowing(child)
    named = [effective for effective in applied if borrowing and effective.limit.name == borrowing.parent]
    own = [effective for effective in named if not effective.is_global]
    return own if own and not child.is_global else [effective for effective in named if effective.is_global]


def _missing(child: Effective, name: str, endpoint: str) -> str:
    where = "every endpoint (*)" if endpoint == EVERYWHERE else f"endpoint {endpoint!r}"
    wanted = f"global limit {name}" if child.is_global else f"limit {name}"
    return (
        f"{_told(child)} borrows from {name}, but no {wanted} is switched on for {where}; "
        f"add a pool {name} there, or correct parent"
    )


def _check_candidate(effective: Effective) -> None:
    limit = effective.limit
    if limit.candidate and (is_sharing(limit.algorithm) or is_sharing(limit.candidate)):
        raise CompileError(
            f"{_told(effective)} cannot be tried in shadow beside the live limit, because limits that share are "
            "judged together; dry-run the change, or roll it out to a share of tenants"
        )


def _check_link(child: Effective, parent: Effective, *, is_cluster: bool) -> None:
    for check in (_algorithm_problem, _scope_problem, _subject_problem, _mode_problem, _unit_problem):
        problem = check(child, parent)
        if problem:
            raise CompileError(f"{_told(child)} {problem}")
    if is_cluster and parent.is_global and not child.is_global:
        raise CompileError(
            f"{_told(child)} borrows from the global limit {parent.limit.name}, which a cluster cannot enforce: a "
            "global limit is exact because it has one home, and a tenant's limits live elsewhere; use a pool of the "
            "tier or the tenant"
        )


def _algorithm_problem(_: Effective, parent: Effective) -> str:
    if is_sharing(parent.limit.algorithm):
        return ""
    return (
        f"borrows from {parent.limit.name}, which is a {parent.limit.algorithm.name}; "
        "a parent must be a pool or a borrowing limit"
    )


def _scope_problem(child: Effective, parent: Effective) -> str:
    if parent.scope in (EVERYWHERE, child.scope) or parent.scope == child.scope.partition(":")[0] + ":*":
        return ""
    return (
        f"applies to {child.scope}, but its parent {parent.limit.name} only to {parent.scope}; "
        f"attach the parent to {child.scope} too, or the child to {parent.scope}"
    )


def _subject_problem(child: Effective, parent: Effective) -> str:
    if _covers(parent.limit.subject, child.limit.subject):
        return ""
    return (
        f"counts by {child.limit.subject}, but its parent {parent.limit.name} by {parent.limit.subject}; "
        "the parent's dimensions must be among the child's, so add them to the child's subject"
    )


def _covers(parent: Subject, child: Subject) -> bool:
    """Whether every subject of the child has one subject of the parent."""
    if not parent.alternatives or parent == child:
        return True
    if len(parent.alternatives) > 1 or not child.alternatives:
        return False
    return all(set(parent.alternatives[0]) <= set(alternative) for alternative in child.alternatives)


def _mode_problem(child: Effective, parent: Effective) -> str:
    if child.limit.mode == parent.limit.mode:
        return ""
    return (
        f"has mode {child.limit.mode}, but its parent {parent.limit.name} has {parent.limit.mode}; "
        "limits that share are judged together, so give both the same mode"
    )


def _unit_problem(child: Effective, parent: Effective) -> str:
    if child.limit.unit == parent.limit.unit:
        return ""
    return (
        f"counts {child.limit.unit}, but its parent {parent.limit.name} counts {parent.limit.unit}; "
        "give both the same unit"
    )


def _path(effective: Effective, parents: Mapping[LimitKey, Effective]) -> tuple[Effective, ...]:
    path = [effective]
    while (parent := parents.get(limit_key(path[-1]))) is not None:
        if parent in path:
            circle = [each.limit.name for each in path[path.index(parent) :]]
            names = " → ".join([*circle, parent.limit.name])
            raise CompileError(f"{_told(parent)} borrows from itself in a circle: {names}; let one borrow from a pool")
        path.append(parent)
    if len(path) > MOST_LEVELS:
        names = " → ".join(each.limit.name for each in path)
        raise CompileError(
            f"{_told(effective)} has {len(path)} levels: {names}; the maximum is {MOST_LEVELS}, so leave one out"
        )
    return tuple(path)


def _rivals(
    sharing: Mapping[LimitKey, Effective], parents: Mapping[LimitKey, Effective], endpoint: str
) -> Iterator[tuple[Effective, str]]:
    """Limits that borrow from the same one."""
    children: dict[LimitKey, list[Effective]] = defaultdict(list)
    for key, parent in parents.items():
        children[limit_key(parent)].append(sharing[key])
    for lender, borrowers in children.items():
        if len(borrowers) > 1:
            names = " and ".join(sorted(f"{each.limit.name} ({each.source})" for each in borrowers))
            message = (
                f"{names} both borrow from {lender.name} for endpoint {endpoint!r}; a request can borrow from a limit "
                "once only, so let one borrow from the other, or turn one off"
            )
            yield borrowers[-1], message


def _told(effective: Effective) -> str:
    return f"limit {effective.limit.name} ({effective.source})"


@dataclass(frozen=True, slots=True)
class Promise:
    """What a lender has guaranteed to its members, and what it can keep of it."""

    rate: Fraction  # units per second that the lender has of its own
    assured: Fraction  # units per second that its members are guaranteed, all together
    bursts: int
    reserve: int

    @property
    def percent(self) -> int:
        """Of the guaranteed shares that it can keep while all members use theirs."""
        return 100 if self.assured <= self.rate else int(100 * self.rate / self.assured)

    @property
    def delay_us(self) -> int:
        """How long a member may wait for its guaranteed share if all members wake at once and are served in turn."""
        return int(self._over * SECOND_US / self.rate) if self.rate else 0

    @property
    def longest_us(self) -> int | None:
        """The same if they are served in any order; None: there is no bound.

        Those who have used their bursts go on asking for their shares, and may always come first. Without a reserve,
        borrowers may come first as well: only room that is never lent waits for members.
        """
        if not self._over:
            return 0
        spare = self.rate - self.assured
        return ceil(self._over * SECOND_US / spare) if spare > 0 and self.reserve else None

    @property
    def _over(self) -> int:
        return max(0, self.bursts - self.reserve)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(sentence for sentence in (self._part, self._delay) if sentence)

    @property
    def _part(self) -> str:
        if self.percent == 100:
            return ""
        return (
            f"The pool can keep only {self.percent} % of the guaranteed shares: they add up to "
            f"{_per_second(self.assured)}, and it has {_per_second(self.rate)}."
        )

    @property
    def _delay(self) -> str:
        if not self.delay_us:
            return ""
        if not self.reserve:
            return (
                "Without a reserve, a guaranteed request may have to wait as long as others borrow: they compete for "
                "all that becomes free. Reserve at least the largest cost of a request."
            )
        longest = f", and {_time_words(self.longest_us)} at most" if self.longest_us else ""
        return (
            f"A guaranteed request may have to wait about {_time_words(self.delay_us)} when all members wake at once"
            f"{longest}: their bursts add up to {self.bursts:,}, and the reserve is {self.reserve:,}."
        )


def _time_words(us: int) -> str:
    seconds = us / SECOND_US
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    return f"{seconds:.3g} s" if seconds >= 1 else format_duration(max(1, round(us / 1_000)) * 1_000)


def promise(lender: Pool | Borrowing, members: Iterable[Borrowing]) -> Promise:
    """`members`: one for each subject that borrows from the lender."""
    shares = list(members)
    own = lender.rate if isinstance(lender, Pool) else lender.assured
    assured = sum((_rate(share.assured, share.per_us) for share in shares), Fraction(0))
    return Promise(_rate(own, lender.per_us), assured, sum(share.burst for share in shares), lender.reserve)


def fit_words(name: str, lender: Pool | Borrowing, share: Borrowing) -> tuple[str, ...]:
    """How many such shares the lender can guarantee, or the warnings if it cannot keep even one."""
    alone = promise(lender, [share])
    if not share.assured or alone.warnings:
        return alone.warnings
    count = int(alone.rate / alone.assured)
    shares = "one such share" if count == 1 else f"{count:,} such shares"
    return (f"{name} can guarantee {shares} at once.",)


def _rate(units: int, per_us: int) -> Fraction:
    return Fraction(units * SECOND_US, per_us)


def _per_second(rate: Fraction) -> str:
    return f"{int(rate):,}/s" if rate.denominator == 1 else f"{float(rate):,.2f}/s"
