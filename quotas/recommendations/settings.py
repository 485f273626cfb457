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
from tenants.identity import Actor, actor_of

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


@dataclass(frozen=True, slots=True)
class ChosenParameters:
    parameters: Parameters
    authors: tuple[Actor, ...]  # who chose values other than the defaults


def calibration_parameters() -> Parameters:
    return calibration_chosen().parameters


def calibration_chosen() -> ChosenParameters:
    """Stored values were checked when they were written. Names that this version does not know are ignored.

    One query, so that the authors are those of the values.
    """
    stored = list(CalibrationSetting.objects.filter(name__in=list(_KINDS)))
    parameters = Parameters(**{row.name: _KINDS[row.name](row.value) for row in stored})
    authors = dict.fromkeys(Actor(row.author, row.author_identity) for row in stored if row.author)
    return ChosenParameters(parameters, tuple(authors))


def parameter_rows() -> list[ParameterRow]:
    held = calibration_parameters()
    return [ParameterRow(name, getattr(held, name), getattr(DEFAULTS, name), WORDS[name]) for name in _KINDS]


def calibration_settings_set(*, values: Mapping[str, float | None], author: str, reason: str) -> Parameters:
    """Writes all values or none. None resets one to its default.

    A value that is sent again stays its author's: clients may send all of them.
    """
    author, reason = author_and_reason(author, reason)
    chosen_by = {"author": author, "author_identity": actor_of(author).identity}
    for name, value in values.items():
        _check(name, value)
    with acting(author=author, action="calibration_settings_set", reason=reason), transaction.atomic():
        held = dict(CalibrationSetting.objects.values_list("name", "value"))
        for name, value in values.items():
            if value is None or value == getattr(DEFAULTS, name):
                CalibrationSetting.objects.filter(name=name).delete()
            elif value != held.get(name):
                CalibrationSetting.objects.update_or_create(name=name, defaults={"value": value, **chosen_by})
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
