"""Parameters of calibration: editable, checked, back to their defaults, with their history."""

from __future__ import annotations

from dataclasses import fields

import pytest

from quotas.calibration.parameters import DEFAULTS, WORDS, Parameters
from quotas.errors import Refused
from quotas.models import CalibrationSetting
from quotas.recommendations.settings import calibration_parameters, calibration_settings_set, parameter_rows
from tests.quotas.world import SAID

pytestmark = pytest.mark.django_db


def test_every_parameter_has_words() -> None:
    assert list(WORDS) == [field.name for field in fields(Parameters)]


def test_what_is_set_holds_and_goes_back(db: None) -> None:
    assert calibration_parameters() == DEFAULTS
    calibration_settings_set(values={"margin": 1.3, "history_days": 14}, **SAID)
    held = calibration_parameters()
    assert (held.margin, held.history_days, type(held.history_days)) == (1.3, 14, int)
    assert [row.name for row in parameter_rows() if not row.is_default] == ["history_days", "margin"]
    calibration_settings_set(values={"margin": None, "history_days": 28}, **SAID)
    assert calibration_parameters() == DEFAULTS
    assert CalibrationSetting.objects.count() == 0


@pytest.mark.parametrize(
    "values",
    [{"nonsense": 1}, {"margin": 0.5}, {"margin": "1"}, {"history_days": 1.5}, {"rate_quantile": 2}, {"margin": True}],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_kept(values: dict[str, float | None]) -> None:
    with pytest.raises(Refused):
        calibration_settings_set(values={"unrest": 2.0, **values}, **SAID)
    assert CalibrationSetting.objects.count() == 0


def test_its_history_says_who() -> None:
    calibration_settings_set(values={"margin": 1.3}, **SAID)
    event = CalibrationSetting.objects.get().events.get()  # type: ignore[attr-defined]
    assert (event.value, event.pgh_context["author"], event.pgh_context["reason"]) == (1.3, "ann", "because")
