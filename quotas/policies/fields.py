"""A limit as the fields of a policy document, and back; and what an override does to them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from typing import Any, get_args

from headroom_edge.algorithms import ALGORITHMS
from headroom_edge.algorithms.base import Algorithm, ParameterError, duration, shown, whole
from headroom_edge.plan.subject import Subject
from quotas.policies.spec import Limit, Mode, OnFailure, Unit

CHOICES: dict[str, tuple[str, ...]] = {
    "unit": get_args(Unit),
    "mode": get_args(Mode),
    "on_failure": get_args(OnFailure),
}
DEFAULTS = {"unit": "requests", "mode": "enforce", "on_failure": "open"}
MOST_UNKNOWN = 10
LIMIT_FIELDS = ("name", "algorithm", "subject", *CHOICES)
READ_ALONE: dict[str, Callable[[dict[str, Any], str], int]] = {
    **dict.fromkeys(("rate", "burst", "limit", "queue"), whole),
    **dict.fromkeys(("per", "window", "hold", "max_wait"), duration),
}


def limit_fields(limit: Limit) -> dict[str, Any]:
    """All of them but the name and the history."""
    return {
        "algorithm": limit.algorithm.name,
        **limit.algorithm.describe(),
        "subject": str(limit.subject),
        "unit": limit.unit,
        "mode": limit.mode,
        "on_failure": limit.on_failure,
    }


def limit_parse(name: str, fields: Mapping[str, Any]) -> Limit:
    """Raises ParameterError for the first field that cannot work."""
    limit = limit_read(name, fields)
    if isinstance(limit, Limit):
        return limit
    raise limit[0]


def limit_read(name: str, fields: Mapping[str, Any]) -> Limit | list[ParameterError]:
    """The limit, or everything that is wrong with its fields."""
    rest, errors = dict(fields), list[ParameterError]()
    chosen: dict[str, Any] = {}
    for field in CHOICES:
        try:
            chosen[field] = _choice(rest, field)
        except ParameterError as error:
            errors.append(error)
    try:
        chosen["subject"] = _subject(rest.pop("subject", "tenant"))
    except ParameterError as error:
        errors.append(error)
    algorithm = _algorithm(rest)
    if isinstance(algorithm, list):
        return errors + algorithm
    try:
        _check_unit(algorithm, chosen.get("unit"))
    except ParameterError as error:
        errors.append(error)
    return errors or Limit(name, algorithm=algorithm, **chosen)


def unknown_fields(given: Iterable[object], known: Iterable[str], owner: str) -> Iterator[ParameterError]:
    """The first few: to look for what somebody may have meant takes a while."""
    names = tuple(known)
    unknown = (field for field in given if field not in names)
    yield from (unknown_field(field, names, owner) for field in islice(unknown, MOST_UNKNOWN))


def unknown_field(field: object, known: Iterable[str], owner: str) -> ParameterError:
    known = tuple(known)
    close = get_close_matches(str(field), known, n=1)
    way_out = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known) or 'none'}"
    text = str(field)[:64]
    shown_name = text if text.isprintable() else repr(text)
    return ParameterError(shown_name, f"{shown_name} is not a field of {owner}; {way_out}", "unknown_field")


def _choice(rest: dict[str, Any], field: str) -> str:
    value = rest.pop(field, DEFAULTS[field])
    if not isinstance(value, str) or value not in CHOICES[field]:
        raise ParameterError(field, f"{field} must be one of {', '.join(CHOICES[field])}, not {shown(value)}", field)
    return value


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
    kind = ALGORITHMS[name]
    known = (*kind.fields, *LIMIT_FIELDS)
    others = islice((field for field in rest if field not in kind.fields), MOST_UNKNOWN)
    unknown = [unknown_field(field, known, name) for field in others]
    sent = set(rest)
    try:
        algorithm = kind.parse(rest)
    except ParameterError as error:
        # What is missing may be what has an unknown name.
        told = [error] if error.field in sent or not unknown else []
        return [*unknown, *told, *_besides(error.field, rest)]
    return unknown or algorithm


def _besides(field: str, parameters: dict[str, Any]) -> Iterator[ParameterError]:
    """What is wrong with the parameters that were not read any more, each by itself."""
    for other, read in READ_ALONE.items():
        if other in parameters and other != field:
            try:
                read(parameters, other)
            except ParameterError as error:
                yield error


def _check_unit(algorithm: Algorithm, unit: str | None) -> None:
    if algorithm.kind == "c" and unit == "cost":
        raise ParameterError(
            "unit", "unit cannot be cost for concurrency, which counts requests in flight; use requests", "unit"
        )


class PatchError(ValueError):
    """The change does not fit the limit; the sentence says which field and what to do."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def merged(name: str, base: Limit | None, patch: Mapping[str, Any]) -> Limit:
    """The patch over the base's fields; another algorithm brings all of its own parameters."""
    fields: dict[str, Any] = {}
    if base is not None:
        fields = limit_fields(base)
        if patch.get("algorithm", base.algorithm.name) != base.algorithm.name:
            fields = {key: value for key, value in fields.items() if key not in base.algorithm.describe()}
    try:
        limit = limit_parse(name, {**fields, **patch})
    except ParameterError as error:
        between = "." if error.message.startswith(error.field) else ": "
        raise PatchError(error.field, f"limits.{name}{between}{error.message}") from None
    return replace(limit, candidate=base.candidate) if base is not None else limit


def scaled(limit: Limit, numerator: int, denominator: int) -> Limit:
    try:
        return replace(limit, algorithm=limit.algorithm.scaled(numerator, denominator))
    except ParameterError as error:
        raise PatchError("multiplier", f"{limit.name} × {numerator}/{denominator}: {error.message}") from None
