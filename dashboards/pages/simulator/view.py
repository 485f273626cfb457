"""The simulator: the same traffic through every algorithm. It uses no real quota."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from dashboards.pages.simulator.answer import Templates, answered, asked_of
from dashboards.pages.simulator.figures import Painter, TimeAxis, multiples_of, output_of, span_words
from dashboards.pages.simulator.forms import CSV, EXAMPLE, PAINT, SimulatorForm
from headroom_edge.algorithms.bucket import rate_text
from quotas.simulation.algorithm_comparison import compare_algorithms
from quotas.simulation.presets import bars_of_arrivals, presets, scenarios, shapes

AT_FIRST = "idle"
NOT_SHARED = ("csv",)
TEMPLATES = Templates(
    "dashboards/simulator/page.html", "dashboards/simulator/body.html", "dashboards/simulator/answer.html"
)


@require_http_methods(["GET", "HEAD", "POST"])
def simulator(request: HttpRequest) -> HttpResponse:
    """The URL holds all parameters except a CSV. htmx posts the form and swaps only the results."""
    fields = _fields(asked_of(request))
    form = SimulatorForm(fields)
    return answered(request, form, _context(form), TEMPLATES, _address(fields))


def _fields(asked: QueryDict) -> QueryDict:
    """The form data, with the parameters of a preset and the initial values of missing fields."""
    fields = QueryDict(mutable=True)
    for name, field in SimulatorForm.base_fields.items():
        fields.setlist(
            name, list(field.initial) if name == "algorithms" else ["" if field.initial is None else field.initial]
        )
    for name in asked:
        if name in SimulatorForm.base_fields:
            fields.setlist(name, asked.getlist(name))
    if "algorithms" not in asked and "rate" in asked:
        fields.setlist("algorithms", [])
    chosen = asked.get("preset", "")
    if chosen in presets():
        first = {name: str(field.initial or "") for name, field in SimulatorForm.base_fields.items()}
        for name in ("rate", "per", "burst", "meter", "queue", "max_wait"):
            fields[name] = presets()[chosen].parameters.get(name, first[name])
    if chosen in presets() or chosen == CSV:
        fields["traffic"] = chosen
    if chosen == CSV and not str(fields["csv"]).strip():
        fields["csv"] = EXAMPLE
    return fields


def _context(form: SimulatorForm) -> dict[str, Any]:
    is_good = form.is_valid()
    traffic = str(form.data.get("traffic", AT_FIRST))
    context: dict[str, Any] = {
        "form": form,
        "traffic": traffic,
        "shapes": shapes(),
        "scenarios": scenarios(),
        "preset": presets().get(traffic),
        "is_csv": traffic == CSV,
    }
    if is_good:
        axis = TimeAxis(form.line)
        multiples = multiples_of(compare_algorithms(form.limits, form.arrivals, form.line), axis)
        context |= {
            "axis": axis,
            "painter": _painter(form, axis),
            "multiples": multiples,
            "output": output_of(multiples, axis),
            "table": sorted(multiples, key=lambda one: -one.seen.accepted_count),
            "total": len(form.arrivals),
        }
    return context


def _painter(form: SimulatorForm, axis: TimeAxis) -> Painter:
    rate = form.cleaned_data["rate"]
    each = rate * form.line.step_us / form.per_us
    return Painter(
        axis, bars_of_arrivals(form.arrivals, form.line), each, f"{rate_text(rate)} in {span_words(form.per_us)}"
    )


def _address(fields: QueryDict) -> str:
    """The URL that reproduces this page; empty with a CSV, which is too long for it."""
    if fields.get("traffic") == CSV:
        return ""
    left_out = NOT_SHARED if fields.get("traffic") == PAINT else (*NOT_SHARED, "bars", "step")
    pairs = [(name, value) for name, values in fields.lists() if name not in left_out for value in values if value]
    return f"{reverse('dashboards:simulator')}?{urlencode(pairs)}"
