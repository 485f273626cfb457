"""The simulator's page about sharing: who gets what of a pool. It uses no real quota."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboards.pages.simulator.answer import Templates, answered, asked_of
from dashboards.pages.simulator.sharing_figure import figure_of, sentences_of, table_of
from dashboards.pages.simulator.sharing_form import BLANK, SharingForm
from quotas.simulation.sharing_presets import PRESETS, sharing_presets
from quotas.simulation.sharing_run import run_sharing

AT_FIRST: Final = PRESETS[1].key
TEMPLATES: Final = Templates(
    "dashboards/simulator/sharing.html",
    "dashboards/simulator/sharing_body.html",
    "dashboards/simulator/sharing_answer.html",
)


@require_http_methods(["GET", "HEAD", "POST"])
def simulator_sharing(request: HttpRequest) -> HttpResponse:
    """The URL holds all numbers. htmx posts the form and swaps only the results."""
    fields = _fields(asked_of(request))
    form = SharingForm(fields)
    return answered(request, form, _context(form), TEMPLATES, _address(fields))


def _fields(asked: QueryDict) -> QueryDict:
    """The form data: a preset's numbers, or those that were typed."""
    presets = sharing_presets()
    key = asked.get("preset", "") if "preset" in asked or "rate" in asked else AT_FIRST
    fields = QueryDict(mutable=True)
    fields.update(BLANK)
    if key in presets:
        fields.update({"kind": presets[key].kind, "chosen": key})
        for name, value in presets[key].values.items():
            fields[name] = value
        return fields
    for name in ("kind", "chosen", *BLANK):
        if name in asked:
            fields[name] = str(asked[name])
    return fields


def _context(form: SharingForm) -> dict[str, Any]:
    is_good = form.is_valid()
    chosen = str(form.data.get("chosen", ""))
    context: dict[str, Any] = {
        "form": form,
        "presets": PRESETS,
        "chosen": chosen,
        "preset": sharing_presets().get(chosen),
    }
    if is_good:
        run = run_sharing(form.setup)
        context |= {"run": run, "figure": figure_of(run), "rows": table_of(run), "sentences": sentences_of(run)}
    return context


def _address(fields: QueryDict) -> str:
    """The URL that reproduces this page."""
    pairs = [(name, value) for name, value in fields.items() if name == "rate" or value not in ("", BLANK.get(name))]
    return f"{reverse('dashboards:simulator-sharing')}?{urlencode(pairs)}"
