"""The parameters of calibration: defaults and the operator's settings. Triggers keep the history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from django.db import transaction

from headroom_edge.algorithms.base import shown
from quotas.calibration.parameters import DEFAULTS, WORDS, Parameters
from quotas.errors import author_and_reason, refuse
from quotas.models import CalibrationSetting
from tenants.history import acting

_KINDS = {field.name: type(getattr(DEFAULTS, field.name)) for field in fields(Parameters)}


@dataclass(frozen=True, slots=True)
class ParameterRow:
    name: str
    value: float
    default: float
    words: str

    @property
    def is_default(self) -> bool:
        return self.value == self.default


def calibration_parameters() -> Parameters:
    """Stored values were checked when they were written. Names that this version does not know are ignored."""
    stored = CalibrationSetting.objects.values_list("name", "value")
    return Parameters(**{name: _KINDS[name](value) for name, value in stored if name in _KINDS})


def parameter_rows() -> list[ParameterRow]:
    held = calibration_parameters()
    return [ParameterRow(name, getattr(held, name), getattr(DEFAULTS, name), WORDS[name]) for name in _KINDS]


def calibration_settings_set(*, values: Mapping[str, float | None], author: str, reason: str) -> Parameters:
    """Writes all values or none. None resets one to its default."""
    author, reason = author_and_reason(author, reason)
    for name, value in values.items():
        _check(name, value)
    with acting(author=author, action="calibration_settings_set", reason=reason), transaction.atomic():
        for name, value in values.items():
            if value is None or value == getattr(DEFAULTS, name):
                CalibrationSetting.objects.filter(name=name).delete()
            else:
                CalibrationSetting.objects.update_or_create(name=name, defaults={"value": value})
        try:
            return calibration_parameters()
        except ValueError as error:
            raise refuse("values", "range", str(error)) from None


def _check(name: str, value: float | None) -> None:
    if name not in _KINDS:
        raise refuse(f"values.{name}", "unknown", f"there is no parameter {shown(name)}; correct the name")
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(f"values.{name}", "type", f"{name} must be a number, not {shown(value)}")
    if _KINDS[name] is int and value != int(value):
        raise refuse(f"values.{name}", "whole", f"{name} must be a whole number, not {shown(value)}")
