"""From effective limits to the texts that Lua reads: plans, sets of plans, calendars.

Every text is named after a hash of its content, so a cached text never becomes stale.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple, cast

from headroom_edge.algorithms.adapted import longest_ms
from headroom_edge.algorithms.adaptive_concurrency import DEFAULT_TARGET_US, AdaptiveConcurrency
from headroom_edge.algorithms.base import DAY_US, SECOND_US, Algorithm
from headroom_edge.algorithms.bucket import Gcra, TokenBucket
from headroom_edge.algorithms.calendar_quota import LONGEST_DAYS, TENANT_ZONE, CalendarQuota, calendar_text
from headroom_edge.algorithms.chain import Sharing
from headroom_edge.algorithms.sharing import Pool, window_of
from headroom_edge.keys import base36
from headroom_edge.observations import bucket_of
from headroom_edge.plan.priority import USUAL, Priority, lowest, number_of
from quotas.policies.adapt import problem_of, scope_problem
from quotas.policies.chains import Chain, chains_of
from quotas.policies.problems import CompileError
from quotas.policies.resolve import Effective, Resolved, globals_at
from quotas.policies.shard_image import canonical
from quotas.policies.spec import EVERYWHERE, TURNS, Endpoint, Generation, Limit, Policy, repeat_tags

LIMITS_MAX = 32  # in one plan: a check computes all of them
LIMIT_NUMBER_MAX = 2**16 - 1  # two bytes in a record's header
ENDPOINT_NUMBER_MAX = 36**3 - 1
CALENDAR_DAYS = 31 + 2 * 366  # 24 months from the last day of the month it is compiled in
CANDIDATE = "~candidate"  # suffix of the limit's name, under which a candidate has its number

_MODES = {"enforce": "e", "shadow": "s"}


def content_name(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def month_start_us(now_us: int) -> int:
    """The only way in which a plan depends on the time: every publisher compiles the same texts all month."""
    now = datetime.fromtimestamp(now_us // SECOND_US, UTC)
    return int(datetime(now.year, now.month, 1, tzinfo=UTC).timestamp()) * SECOND_US


@dataclass(frozen=True, slots=True)
class Terms:
    """What all plans of a configuration have in common."""

    endpoints: Mapping[str, Endpoint]
    limit_numbers: Mapping[str, int]
    globals: Mapping[str, Policy]
    month_us: int
    services: Mapping[str, tuple[str, ...]]  # `payments:*` → its endpoints
    global_endpoints: frozenset[str]  # those that a global policy names, by itself or by its service
    unusual: Mapping[Priority, frozenset[str]]  # priority → its endpoints, without those of the usual one
    are_globals_elsewhere: bool = False  # in a cluster they have plans of their own, at their home

    @classmethod
    def of(cls, endpoints: Mapping[str, Endpoint], limit_numbers: Mapping[str, int], month_us: int) -> "Terms":
        """Without global policies."""
        services: dict[str, list[str]] = defaultdict(list)
        unusual: dict[Priority, list[str]] = defaultdict(list)
        for endpoint in endpoints.values():
            services[f"{endpoint.service}:*"].append(endpoint.name)
            if endpoint.priority != USUAL:
                unusual[endpoint.priority].append(endpoint.name)
        members = {scope: tuple(names) for scope, names in services.items()}
        ranked = {priority: frozenset(names) for priority, names in unusual.items()}
        return cls(endpoints, limit_numbers, {}, month_us, members, frozenset(), ranked)

    def with_globals(self, policies: Mapping[str, Policy]) -> "Terms":
        """The cost depends on these policies and the endpoints they name, not on all endpoints."""
        named = {scope for scope in policies if not scope.endswith(EVERYWHERE)}
        named.update(*(self.services.get(scope, ()) for scope in policies))
        return replace(self, globals=policies, global_endpoints=frozenset(named))


class Member(NamedTuple):
    """A limit in a group. One that the endpoint replaces keeps its place in the record, but is not checked."""

    effective: Effective
    is_replaced: bool


@dataclass(slots=True)
class PlanWriter:
    """Collects the fields that a tier, or one tenant, needs in its shard."""

    terms: Terms
    zone: str  # the tenant's time zone
    highest: str = ""  # the highest priority that its tier and itself let a request have
    fields: dict[str, str] = field(default_factory=dict)
    _made: dict[tuple[int, bool], tuple[Member, list[dict[str, Any]]]] = field(default_factory=dict)

    def write_set(self, resolved: Resolved) -> str:
        """The set's name. `*` is for endpoints without limits of their own."""
        plans = {EVERYWHERE: self._write_plan(resolved, EVERYWHERE)}
        for endpoint in sorted(self._endpoints(resolved)):
            plan = self._write_plan(resolved, endpoint)
            if plan != plans[EVERYWHERE]:
                plans[endpoint] = plan
        return self._write("s", canonical(plans))

    def _endpoints(self, resolved: Resolved) -> frozenset[str]:
        return self.terms.global_endpoints | set(resolved.own) | self._ranked(resolved)

    def _ranked(self, resolved: Resolved) -> frozenset[str]:
        """Endpoints that share the limits of `*`, a pool among them, but not its priority."""
        if not _has_pool(self._here(self._applied(resolved, EVERYWHERE))):
            return frozenset()
        usual = self._priority(EVERYWHERE)
        ranked = (names for own, names in self.terms.unusual.items() if lowest(own, self.highest) != usual)
        return frozenset().union(*ranked)

    def _applied(self, resolved: Resolved, endpoint: str) -> list[Effective]:
        return _switched_on((*resolved.at(endpoint), *globals_at(self.terms.globals, endpoint)))

    def _here(self, applied: list[Effective]) -> list[Effective]:
        return [e for e in applied if not (e.is_global and self.terms.are_globals_elsewhere)]

    def _priority(self, endpoint: str) -> Priority:
        known = self.terms.endpoints.get(endpoint)
        return lowest(known.priority if known else USUAL, self.highest)

    def _write_plan(self, resolved: Resolved, endpoint: str) -> str:
        applied = self._applied(resolved, endpoint)
        _check_plan(applied, endpoint)
        chains = chains_of(applied, endpoint, is_cluster=self.terms.are_globals_elsewhere)
        own = {effective.limit.name for effective in resolved.own.get(endpoint, ())}
        replaced = [e for e in _switched_on(resolved.everywhere) if e.limit.name in own]
        here = self._here(applied)
        grouped = _grouped(here, replaced)
        groups = [self._group(members) for members in grouped]
        plan: dict[str, Any] = {"f": _failure_profile(here), "g": groups}
        if places := self._chain_places(chains, grouped, groups):
            plan["ch"] = places
        if len(here) < len(applied):
            plan["G"] = {e.limit.name: self._number(e.limit.name) for e in applied if e.is_global}
        if _has_pool(here) and (priority := self._priority(endpoint)) != USUAL:
            plan["pr"] = number_of(priority)
        return self._write("p", canonical(plan))

    def _group(self, members: list[Member]) -> dict[str, Any]:
        first = members[0].effective
        rows = [dict(row) for member in members for row in self._rows(member)]
        rows.sort(key=lambda row: int(row["i"]))
        places = {row["i"]: place for place, row in enumerate(rows, start=1)}
        for row in rows:
            if "r" in row:
                row["r"] = places[row["r"]]
        group: dict[str, Any] = {"c": self._scope_text(first.scope), "t": str(first.limit.subject), "l": rows}
        if first.is_global:
            group["a"] = 1
        if first.limit.subject.alternatives:
            group["d"] = first.limit.subject.alternatives
        limits = [member.effective.limit for member in members]
        group["ttl"] = max(_ttl_ms(limit, algorithm) for limit in limits for algorithm in _in_use(limit))
        return group

    def _chain_places(
        self, chains: Iterable[Chain], grouped: list[list[Member]], groups: list[dict[str, Any]]
    ) -> list[list[list[int]]]:
        """For each chain that is judged here, leaf first: the group and the place in it, both counted from 1."""
        numbers = {_group_key(members[0].effective): number for number, members in enumerate(grouped, start=1)}

        def place(effective: Effective) -> list[int]:
            group = numbers[_group_key(effective)]
            rows = [row["i"] for row in groups[group - 1]["l"]]
            return [group, rows.index(self._number(effective.limit.name)) + 1]

        places = []
        for chain in chains:
            if _group_key(chain.leaf) in numbers:
                places.append([place(effective) for effective in chain.path])
                _tell_windows(chain, [groups[group - 1]["l"][at - 1] for group, at in places[-1]])
        return sorted(places)

    def _rows(self, member: Member) -> list[dict[str, Any]]:
        """Cached: most plans of a set share most rows. The cache keeps the member, so that its id is not reused."""
        key = (id(member.effective), member.is_replaced)
        if key not in self._made:
            self._made[key] = (member, list(self._make_rows(member)))
        return self._made[key][1]

    def _make_rows(self, member: Member) -> Iterator[dict[str, Any]]:
        """The limit's own row, and its candidate's."""
        limit = member.effective.limit
        number = self._number(limit.name)
        turn, *past_turns = repeat_tags((Generation(limit.algorithm, limit.since_us, limit.carry), *limit.past))
        row = self._row(limit, limit.algorithm, number, turn) | self._adapting(member.effective, limit.algorithm)
        row |= {"m": _MODES[limit.mode], "name": limit.name, "T": limit.since_us, "cm": limit.carry}
        if limit.past:
            row["past"] = [self._past(*told) for told in zip(limit.past, past_turns, strict=True)]
        if member.is_replaced:
            row["x"] = 1
        if limit.adopts_candidate:
            row["ad"] = self._number(limit.name + CANDIDATE)
        yield self._with_target(row, member.effective)
        if limit.candidate is None:
            return
        candidate = self._row(limit, limit.candidate, self._number(limit.name + CANDIDATE))
        candidate |= self._adapting(member.effective, limit.candidate)
        candidate |= {"m": "c", "name": limit.name, "T": 0, "cm": "reset", "r": number}
        if member.is_replaced:
            candidate["x"] = 1
        yield self._with_target(candidate, member.effective)

    def _with_target(self, row: dict[str, Any], effective: Effective) -> dict[str, Any]:
        """A calibrated target is no parameter: it changes with the endpoint's latency, and its state stays."""
        if row["k"] != AdaptiveConcurrency.kind or "tg" in row:
            return row
        endpoint = self.terms.endpoints.get(effective.scope)
        if endpoint is None:
            raise CompileError(
                f"target of limit {effective.limit.name} ({effective.source}) cannot be calibrated, because only the "
                "latency of one endpoint is known; write a duration, or attach the policy to an endpoint"
            )
        return row | {"tg": endpoint.target_us or DEFAULT_TARGET_US}

    def _row(self, limit: Limit, algorithm: Algorithm, number: int, turn: int = 0) -> dict[str, Any]:
        window, rule = algorithm.window, self._rule(algorithm)
        row = {"i": number, "k": algorithm.kind, "h": rule.fingerprint + turn, **rule.parameters}
        row |= {"hq": window.quota, "hw": window.seconds or 0}
        if limit.lease_ms is not None:
            row["le"] = limit.lease_ms
        return row | {"u": 1} if limit.unit == "requests" else row

    def _adapting(self, effective: Effective, algorithm: Algorithm) -> dict[str, Any]:
        """A candidate adapts as its limit does, if it can. A pinned limit needs no loop."""
        adapt = effective.limit.adapt
        if adapt is None or problem_of(algorithm):
            return {}
        loop = self._write("a", canonical(loop_of(effective))) if adapt.pin is None else ""
        return {"fa": [loop, adapt.least, adapt.most]}

    def _past(self, generation: Generation, turn: int) -> list[Any]:
        algorithm = generation.algorithm
        rule = self._rule(algorithm)
        parameters = {"k": algorithm.kind, **rule.parameters}
        return [rule.fingerprint + turn, parameters, generation.since_us, generation.carry]

    def _rule(self, algorithm: Algorithm) -> "Rule":
        # All algorithms are frozen dataclasses, which the protocol cannot express.
        rule = _rule(cast("Hashable", algorithm), self.zone, self.terms.month_us)
        if rule.calendar:
            self.fields[f"k:{rule.parameters['K']}"] = rule.calendar
        return rule

    def _number(self, name: str) -> int:
        number = self.terms.limit_numbers.get(name)
        if number is None or not 0 < number <= LIMIT_NUMBER_MAX:
            raise CompileError(f"limit {name!r} has no number from 1 to {LIMIT_NUMBER_MAX:,}; reuse an existing name")
        return number

    def _scope_text(self, scope: str) -> str:
        if scope == EVERYWHERE:
            return "0"
        if scope.endswith(":*"):
            return f"@{scope.removesuffix(':*')}"
        endpoint = self.terms.endpoints.get(scope)
        if endpoint is None:
            raise CompileError(f"endpoint {scope!r} is not registered; register it, or attach the policy to *")
        return base36(endpoint.number, 3)

    def _write(self, kind: str, text: str) -> str:
        name = content_name(text)
        self.fields[f"{kind}:{name}"] = text
        return name


def uses_tenant_zone(policies: Iterable[Policy]) -> bool:
    limits = (limit for policy in policies for limit in policy.limits)
    algorithms = (a for limit in limits for a in (*_in_use(limit), *(past.algorithm for past in limit.past)))
    return any(isinstance(a, CalendarQuota) and a.timezone == TENANT_ZONE for a in algorithms)


def _tell_windows(chain: Chain, rows: list[dict[str, Any]]) -> None:
    """What a limit tells may depend on those above it."""
    path = [cast("Sharing", effective.limit.algorithm) for effective in chain.path]
    for at, row in enumerate(rows):
        window = window_of(path[at:])
        row |= {"hq": window.quota, "hw": window.seconds or 0}


def _in_use(limit: Limit) -> tuple[Algorithm, ...]:
    return (limit.algorithm, limit.candidate) if limit.candidate else (limit.algorithm,)


def _ttl_ms(limit: Limit, algorithm: Algorithm) -> int:
    if limit.adapt and isinstance(algorithm, TokenBucket | Gcra):
        return longest_ms(algorithm, limit.adapt.least)
    return algorithm.ttl_ms()


def loop_of(effective: Effective) -> list[Any]:
    """What hr_observe needs to compute the factor (lua/health.lua), after the endpoint. Equal ones share their factor.

    A rate only if all traffic of the endpoint shares one counter of requests: answers are then a share of it.
    """
    limit, adapt = effective.limit, effective.limit.adapt
    if adapt is None:
        raise ValueError(f"limit {limit.name} does not adapt")
    rate, algorithm = 0.0, limit.algorithm
    is_shared = effective.is_global and not limit.subject.alternatives and limit.unit == "requests"
    if is_shared and isinstance(algorithm, TokenBucket | Gcra):
        rate = round(algorithm.rate * SECOND_US / algorithm.per_us, 3)
    return [effective.scope, rate, bucket_of(adapt.slow_us), adapt.errors, adapt.floor, adapt.ceiling]


class Rule(NamedTuple):
    """An algorithm as Lua reads it."""

    fingerprint: int
    parameters: Mapping[str, Any]
    calendar: str  # the text of its calendar, if it has one


@lru_cache(maxsize=65_536)
def _rule(algorithm: Algorithm, zone: str, month_us: int) -> Rule:
    """The fingerprint covers the parameters alone: state stays valid when only the limit's source changes.

    A calendar counts by its rule, not by the boundaries that happen to be compiled.
    """
    if not isinstance(algorithm, CalendarQuota):
        parameters = algorithm.compiled()
        return Rule(_fingerprint([algorithm.kind, parameters]), parameters, "")
    starts = _starts(algorithm, _zone(algorithm, zone), month_us)
    return Rule(calendar_fingerprint(algorithm, zone), algorithm.on(starts).compiled(), calendar_text(starts))


def calendar_fingerprint(algorithm: CalendarQuota, tenant_zone: str) -> int:
    """Identifies its counters, as long as the same parameters do not return after a reset."""
    zone = _zone(algorithm, tenant_zone)
    return _fingerprint([algorithm.kind, algorithm.limit, algorithm.period, algorithm.anchor, zone])


def _zone(algorithm: CalendarQuota, tenant_zone: str) -> str:
    return tenant_zone if algorithm.timezone == TENANT_ZONE else algorithm.timezone


def _fingerprint(identity: list[Any]) -> int:
    """With room for the turn."""
    whole = int.from_bytes(sha256(canonical(identity).encode()).digest()[:4], "big")
    return whole - whole % TURNS


def _starts(algorithm: CalendarQuota, zone: str, month_us: int) -> tuple[int, ...]:
    """From the period before the first of the month to 24 months ahead, so it changes at most once a month."""
    month_s = month_us // SECOND_US
    day_s = DAY_US // SECOND_US
    first_s = month_s - LONGEST_DAYS[algorithm.period] * day_s
    return algorithm.boundaries(zone, first_s, month_s + CALENDAR_DAYS * day_s)


def _switched_on(limits: Iterable[Effective]) -> list[Effective]:
    return [effective for effective in limits if effective.limit.mode != "off"]


def _has_pool(limits: Iterable[Effective]) -> bool:
    return any(isinstance(effective.limit.algorithm, Pool) for effective in limits)


def _grouped(applied: list[Effective], replaced: list[Effective]) -> list[list[Member]]:
    """One group for each (global?, scope, subject), global ones last."""
    groups: dict[tuple[bool, str, str], list[Member]] = defaultdict(list)
    for effective in applied:
        groups[_group_key(effective)].append(Member(effective, is_replaced=False))
    for effective in replaced:
        if _group_key(effective) in groups:
            groups[_group_key(effective)].append(Member(effective, is_replaced=True))
    return [groups[key] for key in sorted(groups)]


def _group_key(effective: Effective) -> tuple[bool, str, str]:
    return effective.is_global, effective.scope, str(effective.limit.subject)


def _check_plan(applied: list[Effective], endpoint: str) -> None:
    count = len(applied) + sum(effective.limit.candidate is not None for effective in applied)
    if count > LIMITS_MAX:
        raise CompileError(
            f"{count} limits apply to endpoint {endpoint!r}; the maximum is {LIMITS_MAX}, so remove some"
        )
    if unfit := next((e for e in applied if e.limit.adapt and e.scope.endswith(EVERYWHERE)), None):
        raise CompileError(f"limit {unfit.limit.name} ({unfit.source}): {scope_problem(unfit.scope)}")
    enforced = [effective for effective in applied if effective.limit.mode == "enforce"]
    shapers = [f"{e.limit.name} ({e.source})" for e in enforced if e.limit.algorithm.kind == "l"]
    if len(shapers) > 1:
        raise CompileError(
            f"endpoint {endpoint!r} has more than one enforced leaky_bucket: {', '.join(sorted(shapers))}; "
            "two cannot both keep their spacing, so set the mode of all but one to shadow or off"
        )


def _failure_profile(applied: list[Effective]) -> str:
    declared = {effective.limit.on_failure for effective in applied if effective.limit.mode == "enforce"}
    return next((mode for mode in ("closed", "local") if mode in declared), "open")
