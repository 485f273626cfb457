"""One limit in its five forms, and every way between them. Pure: knows no database.

| form   | where                                  | what it looks like                                              |
| ------ | -------------------------------------- | --------------------------------------------------------------- |
| spec   | everything that computes               | `spec.Limit`                                                    |
| fields | documents, forms, the API, overrides   | `{"algorithm": "gcra", "rate": 5, "subject": "tenant", …}`      |
| state  | revisions and changes                  | the fields, and `candidate` (stored) if one is on trial         |
| row    | Postgres                               | the columns of `models.Limit`                                   |
| stored | JSON columns: candidates, history,     | `{"algorithm": "gcra", "parameters": {"rate": 5, …}}`           |
|        | recommendations                        |                                                                 |

A name is never part of a limit's fields; a list of limits puts it in front (`limit_list`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, Protocol, cast, get_args

from headroom_edge.algorithms import ALGORITHMS, FIELDS
from headroom_edge.algorithms.adaptive_concurrency import AdaptiveConcurrency
from headroom_edge.algorithms.base import (
    Algorithm,
    Duration,
    ParameterError,
    WholeNumber,
    format_duration,
    parse_duration_us,
    shown,
)
from headroom_edge.algorithms.bucket import Gcra, LeakyBucket, TokenBucket
from headroom_edge.algorithms.concurrency import Concurrency
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.plan.subject import DIMENSION, MOST_ALTERNATIVES, MOST_DIMENSIONS, Subject
from quotas.policies.adapt import ADAPTING, Adapt, problem_of
from quotas.policies.adapt import SCHEMA as ADAPT
from quotas.policies.problems import MOST_UNKNOWN, unknown_field
from quotas.policies.spec import (
    LEASE_MS,
    NAME_PATTERN,
    PAST_GENERATIONS,
    USUAL_LEASE_MS,
    Generation,
    Handover,
    Limit,
    Mode,
    OnFailure,
    Policy,
    Unit,
)

Fields = Mapping[str, Any]
State = Mapping[str, Any]
Stored = Mapping[str, Any]
# Turns the number of a revision, which is how history is stored, into a time.
Clock = Callable[[int], int]

CANDIDATE = "candidate"
DECIMALS = "decimals"  # in stored parameters only
RATED = (TokenBucket, Gcra, LeakyBucket, Pool)
IN_FLIGHT = (Concurrency, AdaptiveConcurrency)
CHOICES: dict[str, tuple[str, ...]] = {
    "unit": get_args(Unit),
    "mode": get_args(Mode),
    "on_failure": get_args(OnFailure),
}
DEFAULTS = {"unit": "requests", "mode": "enforce", "on_failure": "open"}
NAME = {"type": "string", "pattern": f"^{NAME_PATTERN}$"}

# A lease would break the spacing of departures, a block of requests in flight cannot be given back in time, and what
# is lent depends on what others ask for.
NEVER_LEASED = (LeakyBucket.name, Concurrency.name, AdaptiveConcurrency.name, Pool.name, Borrowing.name)
NEVER = "never"
MILLISECOND_US = 1_000
LEASE = {
    "type": "string",
    "pattern": "^(never|[1-9][0-9]{1,2}ms|1000ms|1s)$",
    "description": f"never, or the longest lease, from 10ms to 1s; unset: {USUAL_LEASE_MS}ms",
}

_COMBINATION = f"{DIMENSION.pattern}(\\+{DIMENSION.pattern}){{0,{MOST_DIMENSIONS - 1}}}"

# Field → its JSON Schema; the fields that a limit has with every algorithm.
COMMON_FIELDS: dict[str, dict[str, Any]] = {
    "subject": {
        "type": "string",
        "pattern": f"^{_COMBINATION}(\\|{_COMBINATION}){{0,{MOST_ALTERNATIVES - 1}}}$",
        "default": "tenant",
        "description": "tenant, or what the caller sends: ip, key, user+ip, key|ip",
    },
    **{field: {"enum": list(choices), "default": DEFAULTS[field]} for field, choices in CHOICES.items()},
    "lease": LEASE,
    "adapt": ADAPT,
}


class LimitColumns(Protocol):
    """The columns of `models.Limit` that say what the limit is."""

    @property
    def algorithm(self) -> str: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def subject(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def mode(self) -> str: ...
    @property
    def on_failure(self) -> str: ...
    @property
    def lease_ms(self) -> int | None: ...
    @property
    def adapt(self) -> Stored | None: ...
    @property
    def candidate(self) -> Stored | None: ...


# Algorithm ↔ stored ↔ fields


def algorithm_load(stored: Stored) -> Algorithm:
    return ALGORITHMS[stored["algorithm"]].parse(dict(stored["parameters"]))


def algorithm_dump(algorithm: Algorithm) -> dict[str, Any]:
    """A fractional rate is stored in whole numbers, which every release reads, with the decimals to show."""
    parameters = algorithm.describe()
    if isinstance(algorithm, RATED) and algorithm.decimals:
        whole = {"rate": algorithm.rate, "per": format_duration(algorithm.per_us), DECIMALS: algorithm.decimals}
        parameters |= whole
    return {"algorithm": algorithm.name, "parameters": parameters}


def stored_of_fields(fields: Fields) -> dict[str, Any]:
    parameters = {
        field: value for field, value in fields.items() if field not in ("algorithm", CANDIDATE, *COMMON_FIELDS)
    }
    stored = {"algorithm": fields["algorithm"], "parameters": parameters}
    return algorithm_dump(algorithm_load(stored)) if isinstance(parameters.get("rate"), float | str) else stored


def fields_of_stored(stored: Stored) -> dict[str, Any]:
    typed = algorithm_load(stored).describe() if DECIMALS in stored["parameters"] else stored["parameters"]
    return {"algorithm": stored["algorithm"], **typed}


# Row → stored, fields, state, spec


def row_stored(row: LimitColumns) -> dict[str, Any]:
    return {"algorithm": row.algorithm, "parameters": row.parameters}


def row_fields(row: LimitColumns, stored: Stored | None = None) -> dict[str, Any]:
    """`stored`: another algorithm in place of the row's own."""
    own = fields_of_stored(stored or row_stored(row))
    common = {"subject": row.subject, "unit": row.unit, "mode": row.mode, "on_failure": row.on_failure}
    adapt = {} if row.adapt is None else {"adapt": dict(row.adapt)}
    return fitting({**own, **common, **_lease_fields(row.lease_ms), **adapt})


def row_state(row: LimitColumns) -> dict[str, Any]:
    fields = row_fields(row)
    return fields | {CANDIDATE: row.candidate} if row.candidate else fields


def row_limit(name: str, row: LimitColumns) -> Limit:
    """Without its history, which `configuration` adds."""
    return Limit(
        name,
        algorithm_load(row_stored(row)),
        Subject.parse(row.subject),
        cast("Unit", row.unit),
        cast("Mode", row.mode),
        cast("OnFailure", row.on_failure),
        row.lease_ms,
        Adapt.parse(row.adapt) if row.adapt else None,
        candidate=algorithm_load(row.candidate) if row.candidate else None,
    )


# State → fields, spec


def fields_of(state: State) -> dict[str, Any]:
    """What documents, forms and the API show: a candidate is on trial, not part of the limit."""
    return {field: value for field, value in state.items() if field != CANDIDATE}


def limit_list(states: Mapping[str, State]) -> list[dict[str, Any]]:
    """Limits by name as a document lists them."""
    return [{"name": name, **fields_of(state)} for name, state in states.items()]


def policy_of(name: str, state: State) -> Policy | None:
    """Without history and candidates. None: a newer version no longer accepts the stored limits."""
    try:
        limits = tuple(limit_parse(limit, fields_of(fields)) for limit, fields in state["limits"].items())
    except ParameterError:
        return None
    return Policy(name, state["endpoint"], limits, state["tier"], state["tenant"])


def policies_of(states: Mapping[str, State | None]) -> dict[str, Policy | None]:
    """By name; None: the policy is not there. Policies that are no longer accepted are left out."""
    policies = {name: policy_of(name, state) if state else None for name, state in states.items()}
    return {name: policy for name, policy in policies.items() if policy is not None or states[name] is None}


# Fields ↔ spec


def limit_fields(limit: Limit) -> dict[str, Any]:
    return {
        "algorithm": limit.algorithm.name,
        **limit.algorithm.describe(),
        "subject": str(limit.subject),
        "unit": limit.unit,
        "mode": limit.mode,
        "on_failure": limit.on_failure,
        **_lease_fields(limit.lease_ms),
        **({} if limit.adapt is None else {"adapt": limit.adapt.describe()}),
    }


def _lease_fields(lease_ms: int | None) -> dict[str, str]:
    """Nothing if it is unset. Revisions from before leases lack the field, which means the same."""
    return {} if lease_ms is None else {"lease": lease_text(lease_ms)}


def lease_text(lease_ms: int) -> str:
    return format_duration(lease_ms * MILLISECOND_US) if lease_ms else NEVER


def fitting(fields: Fields) -> dict[str, Any]:
    """Drops what an algorithm in place of another does not allow: the length of a lease, or to adapt."""
    unfit = {"lease"} if fields["algorithm"] in NEVER_LEASED and fields.get("lease") != NEVER else set()
    if fields["algorithm"] not in ADAPTING:
        unfit.add("adapt")
    return {field: value for field, value in fields.items() if field not in unfit}


def limit_parse(name: str, fields: Fields) -> Limit:
    """Raises ParameterError for the first field that cannot work."""
    limit = limit_read(name, fields)
    if isinstance(limit, Limit):
        return limit
    raise limit[0]


def limit_read(name: str, fields: Fields) -> Limit | list[ParameterError]:
    """The limit, or everything that is wrong with its fields."""
    rest, errors = dict(fields), list[ParameterError]()
    chosen = dict(_common(rest, errors))
    algorithm = _algorithm(rest)
    if isinstance(algorithm, list):
        return errors + algorithm
    errors.extend(_unfit(name, algorithm, chosen))
    return errors or Limit(name, algorithm=algorithm, **chosen)


def _common(rest: dict[str, Any], errors: list[ParameterError]) -> Iterator[tuple[str, Any]]:
    """The fields that every algorithm has, by the names of `spec.Limit`; takes them out of `rest`."""
    readers: dict[str, Callable[[], Any]] = {
        **{field: partial(_choice, rest, field) for field in CHOICES},
        "subject": lambda: _subject(rest.pop("subject", "tenant")),
        "lease_ms": lambda: _lease_ms(rest.pop("lease")) if "lease" in rest else None,
        "adapt": lambda: _adapt(rest.pop("adapt", None)),
    }
    for name, reader in readers.items():
        try:
            yield name, reader()
        except ParameterError as error:
            errors.append(error)


def _unfit(name: str, algorithm: Algorithm, chosen: Fields) -> Iterator[ParameterError]:
    """What the algorithm does not allow."""
    if isinstance(algorithm, IN_FLIGHT) and chosen.get("unit") == "cost":
        message = f"unit cannot be cost for {algorithm.name}, which counts requests in flight; use requests"
        yield ParameterError("unit", message, "unit")
    if isinstance(algorithm, Borrowing) and algorithm.parent == name:
        message = "parent cannot be the limit itself; name the pool that it borrows from"
        yield ParameterError("parent", message)
    if algorithm.name in NEVER_LEASED and chosen.get("lease_ms"):
        message = f"lease cannot be a duration for {algorithm.name}, which is never leased; remove it or write never"
        yield ParameterError("lease", message, "lease")
    if chosen.get("adapt") and (unfit := problem_of(algorithm)):
        yield unfit


def _adapt(value: Any) -> Adapt | None:
    return None if value is None else Adapt.parse(value)


def _choice(rest: dict[str, Any], field: str) -> str:
    value = rest.pop(field, DEFAULTS[field])
    if not isinstance(value, str) or value not in CHOICES[field]:
        raise ParameterError(field, f"{field} must be one of {', '.join(CHOICES[field])}, not {shown(value)}", field)
    return value


def _lease_ms(value: Any) -> int:
    """0: never."""
    if value == NEVER:
        return 0
    try:
        lease_ms = parse_duration_us(value) // MILLISECOND_US if isinstance(value, str) else 0
    except ValueError:
        lease_ms = 0
    if not LEASE_MS[0] <= lease_ms <= LEASE_MS[1]:
        message = f"lease must be never or a duration from 10ms to 1s, not {shown(value)}"
        raise ParameterError("lease", message, "lease")
    return lease_ms


def _subject(text: Any) -> Subject:
    if not isinstance(text, str):
        raise ParameterError(
            "subject", f"subject must be text such as tenant, ip or key|ip, not {shown(text)}", "subject"
        )
    try:
        return Subject.parse(text)
    except ValueError as error:
        raise ParameterError("subject", f"subject: {error}", "subject") from None


def _algorithm(rest: dict[str, Any]) -> Algorithm | list[ParameterError]:
    name = rest.pop("algorithm", None)
    if not isinstance(name, str) or name not in ALGORITHMS:
        given = "is missing" if name is None else f"cannot be {shown(name)}"
        message = f"algorithm {given}; use one of {', '.join(ALGORITHMS)}"
        return [ParameterError("algorithm", message, "unknown_algorithm")]
    common = [field for field in COMMON_FIELDS if field != "adapt" or name in ADAPTING]
    kind, known = ALGORITHMS[name], (*FIELDS[name], "name", "algorithm", *common)
    others = islice((field for field in rest if field not in FIELDS[name]), MOST_UNKNOWN)
    unknown = [unknown_field(field, known, name) for field in others]
    sent = set(rest)
    try:
        algorithm = kind.parse(rest)
    except ParameterError as error:
        # A parameter that is missing was probably sent under the unknown name: report only that name.
        first = [error] if error.field in sent or not unknown else []
        return [*unknown, *first, *_unread(kind, error.field, rest)]
    return unknown or algorithm


def _unread(kind: type[Algorithm], failed: str, rest: dict[str, Any]) -> Iterator[ParameterError]:
    """What is wrong with the parameters after the one at which `parse` failed: numbers first, then durations."""
    readable = [parameter for parameter in kind.parameters if isinstance(parameter, WholeNumber | Duration)]
    for parameter in sorted(readable, key=lambda parameter: isinstance(parameter, Duration)):
        if parameter.name in rest and parameter.name != failed:
            try:
                parameter.read(rest)
            except ParameterError as error:
                yield error


# History: the parameters a limit had before. It is stored with revision numbers in place of times.


def by_number(revision: int) -> int:
    """The clock of a writer, which compares revisions before they are published."""
    return revision


def generations_load(stored: Iterable[Stored], clock: Clock) -> tuple[Generation, ...]:
    return tuple(Generation(algorithm_load(row), clock(row["revision"]), row["carry"]) for row in stored)


def generations_dump(generations: Iterable[Generation]) -> list[dict[str, Any]]:
    """Of generations that were loaded `by_number`; the newest ones."""
    kept = islice(generations, PAST_GENERATIONS)
    return [{**algorithm_dump(g.algorithm), "revision": g.since_us, "carry": g.carry} for g in kept]


def handovers_load(stored: Iterable[Stored], clock: Clock) -> tuple[Handover, ...]:
    return tuple(
        Handover(row["scope"], row["limit"], clock(row["revision"]), row["carry"], generations_load(row["past"], clock))
        for row in stored
    )


def handovers_dump(handovers: Iterable[Handover]) -> list[dict[str, Any]]:
    return [
        {
            "scope": handover.scope,
            "limit": handover.limit,
            "revision": handover.since_us,
            "carry": handover.carry,
            "past": generations_dump(handover.past),
        }
        for handover in handovers
    ]


def revisions_in(stored: Iterable[Stored]) -> set[int]:
    """Every revision that rows of `Limit.past` or `Tenant.handovers` mention."""
    numbers: set[int] = set()
    for row in stored:
        numbers.add(row["revision"])
        numbers |= {past["revision"] for past in row.get("past", ())}
    return numbers
