"""What an override does to a limit: some of its fields get other values, or its size is multiplied."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headroom_edge.algorithms.base import ParameterError
from quotas.policies.limit_codec import limit_fields, limit_parse
from quotas.policies.spec import Limit


class PatchError(ValueError):
    """The override does not fit the limit. The message names the field and says what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


def merged(name: str, base: Limit | None, patch: Mapping[str, Any]) -> Limit:
    """The patch over the base's fields. A patch with another algorithm must bring all of its parameters."""
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
