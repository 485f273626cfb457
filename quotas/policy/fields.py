"""A limit as the fields of a policy document, and back."""

from collections.abc import Mapping
from typing import Any, get_args

from quotas.algorithms import ALGORITHMS
from quotas.algorithms.base import ParameterError
from quotas.policy.spec import Limit, Mode, OnFailure, Unit
from quotas.policy.subject import Subject

CHOICES: dict[str, tuple[str, ...]] = {
    "unit": get_args(Unit),
    "mode": get_args(Mode),
    "on_failure": get_args(OnFailure),
}
DEFAULTS = {"unit": "requests", "mode": "enforce", "on_failure": "open"}


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
    rest = dict(fields)
    chosen: dict[str, Any] = {field: _choice(rest, field) for field in CHOICES}
    subject = _subject(rest.pop("subject", "tenant"))
    kind = rest.pop("algorithm", None)
    if not isinstance(kind, str) or kind not in ALGORITHMS:
        raise ParameterError("algorithm", f"algorithm must be one of {', '.join(ALGORITHMS)}, not {kind!r}")
    algorithm = ALGORITHMS[kind].parse(rest)
    if rest:
        unknown = sorted(rest)[0]
        raise ParameterError(unknown, f"{unknown} is not a field of {kind}; remove it or correct its name")
    return Limit(name, algorithm, subject, **chosen)


def _choice(rest: dict[str, Any], field: str) -> str:
    value = rest.pop(field, DEFAULTS[field])
    if value not in CHOICES[field]:
        raise ParameterError(field, f"{field} must be one of {', '.join(CHOICES[field])}, not {value!r}")
    return str(value)


def _subject(text: Any) -> Subject:
    try:
        return Subject.parse(text)
    except (ValueError, AttributeError) as error:
        raise ParameterError("subject", f"subject: {error}") from None
