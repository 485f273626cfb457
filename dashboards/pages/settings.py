"""Settings: the recommender's parameters, alert thresholds, and the condition of what runs."""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from dashboards.alert_forms import alerts_shown
from dashboards.viewer import principal_of
from quotas.errors import Refused
from quotas.recommendations.settings import ParameterRow, calibration_settings_set, parameter_rows
from quotas.status.system import enforcement_read, freshness_read, late_of, shards_read


@require_safe
def settings(request: HttpRequest) -> HttpResponse:
    return settings_page(request)


@require_POST
def settings_recommender(request: HttpRequest) -> HttpResponse:
    """Every parameter that was typed otherwise than it stands; all of them, or none."""
    rows = parameter_rows()
    typed = {row.name: request.POST.get(row.name, "").strip() for row in rows}
    errors: dict[str, str] = {}
    values = {row.name: value for row in rows if (value := _changed(row, typed[row.name], errors)) is not _SAME}
    reason = request.POST.get("reason", "")
    if not errors and values:
        try:
            calibration_settings_set(values=values, author=principal_of(request).actor, reason=reason)
        except Refused as refusal:
            errors = {problem.path: problem.message for problem in refusal.problems}
        else:
            messages.success(request, f"{len(values)} changed|The next run goes by it")
            return redirect("dashboards:settings")
    if not errors:
        messages.info(request, "Nothing changed|Every value was so already")
        return redirect("dashboards:settings")
    return settings_page(request, typed=typed, errors=errors, reason=reason)


_SAME: Any = object()


def _changed(row: ParameterRow, text: str, errors: dict[str, str]) -> Any:
    """Empty: back to the default."""
    if not text:
        return _SAME if row.is_default else None
    try:
        value = float(text)
    except ValueError:
        value = inf
    if not isfinite(value):
        errors[row.name] = f"{row.name} must be a number."
        return _SAME
    return _SAME if value == row.value else int(value) if value == int(value) else value


def settings_page(
    request: HttpRequest,
    typed: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
    reason: str = "",
    **refused: Any,
) -> HttpResponse:
    """What was refused comes back as it was typed; `refused`: forms of alerts."""
    now, fresh = timezone.now(), freshness_read()
    context = {
        "parameters": [_shown(row, typed or {}, errors or {}) for row in parameter_rows()],
        "errors": errors or {},
        "reason": reason,
        "freshness": [(row, row.is_late(now)) for row in fresh],
        "late": late_of(fresh, now),
        "shards": shards_read(),
        "enforcement": enforcement_read(),
        **alerts_shown(**refused),
    }
    return render(request, "dashboards/settings.html", context, status=422 if errors or refused else 200)


def _shown(row: ParameterRow, typed: dict[str, str], errors: dict[str, str]) -> dict[str, Any]:
    return {"row": row, "text": typed.get(row.name, f"{row.value:g}"), "error": errors.get(row.name, "")}
