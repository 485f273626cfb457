"""The form of the simulator: painted, preset or CSV traffic, and limit parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django import forms

from dashboards.forms import PageForm, RateField
from headroom_edge.algorithms.base import ParameterError, parse_duration_us
from headroom_edge.algorithms.bucket import RATE
from quotas.policies.limit_codec import limit_parse
from quotas.policies.limit_words import algorithm_words
from quotas.policies.problems import sentence
from quotas.policies.spec import Limit
from quotas.simulation.algorithm_comparison import Timeline, with_durations
from quotas.simulation.arrivals_csv import Arrival, ArrivalsError, read_arrivals
from quotas.simulation.presets import arrivals_of_bars, presets
from quotas.simulation.reference_plan import on_calendar
from quotas.simulation.scenarios.model import BASE_US

MOST_ARRIVALS: Final = 20_000
MOST_CSV: Final = 1_000_000  # characters
MOST_BARS: Final = 120
MOST_STEPS: Final = 60  # of the timeline of a CSV
STEPS_US: Final = tuple(
    number * unit
    for unit in (1_000, 10_000, 100_000, 1_000_000, 60_000_000, 3_600_000_000)
    for number in (1, 2, 5, 10, 30)
)
CSV: Final = "csv"
PAINT: Final = "paint"
HOLD: Final = "1m"
EXAMPLE: Final = "t_us,subject,cost\n0,alice,1\n200000,alice,1\n250000,bob,1\n"

# Algorithm → parameter → form field. All algorithms share the same rate.
PARAMETERS: Final[Mapping[str, Mapping[str, str]]] = {
    "token_bucket": {"rate": "rate", "per": "per", "burst": "burst", "max_wait": "max_wait"},
    "leaky_bucket": {"rate": "rate", "per": "per", "queue": "queue"},
    "fixed_window": {"limit": "rate", "window": "per"},
    "sliding_counter": {"limit": "rate", "window": "per"},
    "sliding_log": {"limit": "rate", "window": "per"},
    "gcra": {"rate": "rate", "per": "per", "burst": "meter"},
    "concurrency": {"limit": "in_flight"},
    "calendar_quota": {"limit": "quota"},
}
FIXED: Final[Mapping[str, Mapping[str, str]]] = {
    "concurrency": {"hold": HOLD, "unit": "requests"},
    "calendar_quota": {"period": "day"},
}
WINDOWS: Final = tuple(name for name, fields in PARAMETERS.items() if fields.get("limit") == "rate")
AT_FIRST: Final = tuple(PARAMETERS)[:6]


def _whole(label: str, initial: int, **more: Any) -> forms.IntegerField:
    messages = {
        "required": f"{label} is missing. Enter a whole number.",
        "invalid": f"{label} must be a whole number.",
    }
    return forms.IntegerField(
        label=label,
        initial=initial,
        min_value=1,
        error_messages=messages,
        localize=False,
        **more,
        widget=forms.TextInput(attrs={"class": "input num", "inputmode": "numeric", "autocomplete": "off"}),
    )


def _duration(label: str, initial: str, **more: Any) -> forms.CharField:
    return forms.CharField(
        label=label,
        initial=initial,
        max_length=20,
        **more,
        error_messages={"required": f"{label} is missing. Enter a duration such as 1s or 1m."},
        widget=forms.TextInput(attrs={"class": "input num", "autocomplete": "off", "spellcheck": "false"}),
    )


class SimulatorForm(PageForm):
    rate = RateField(label="Rate", initial=100, error_messages={"required": "Rate is missing. Enter a number."})
    per = _duration("Per", "1s")
    burst = _whole("Burst", 200)
    meter = _whole("GCRA burst", 10)
    queue = _whole("Queue", 100)
    max_wait = _duration("Maximum wait", "", required=False)
    in_flight = _whole("In flight", 20)
    takes = _duration("Request takes", "200ms")
    quota = _whole("Daily quota", 500)
    algorithms = forms.MultipleChoiceField(
        choices=[(name, algorithm_words(name)) for name in PARAMETERS],
        initial=AT_FIRST,
        error_messages={"required": "Choose at least one algorithm."},
    )
    traffic = forms.CharField(initial="idle", widget=forms.HiddenInput)
    bars = forms.CharField(required=False, max_length=2_000, widget=forms.HiddenInput)
    step = forms.IntegerField(required=False, min_value=1_000, max_value=STEPS_US[-1], widget=forms.HiddenInput)
    csv = forms.CharField(
        label="Requests",
        required=False,
        max_length=MOST_CSV,
        strip=False,
        error_messages={"max_length": f"The text is too long. The maximum is {MOST_CSV:,} characters."},
        widget=forms.Textarea(attrs={"rows": 7, "spellcheck": "false", "class": "textarea mono"}),
    )

    arrivals: list[Arrival]
    line: Timeline
    limits: list[Limit]
    per_us: int

    def clean(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().clean() or {}
        self._clean_traffic(fields)
        if isinstance(fields.get("rate"), str):
            RATE.split(given := {"rate": fields["rate"]})  # 4.2/10s names its own time
            fields |= given
        self.per_us, takes_us = (self._span_us(name, fields) for name in ("per", "takes"))
        if not self.errors:
            self.arrivals = with_durations(self.arrivals, takes_us)
            self._check_whole(fields)
        if not self.errors:
            self.limits = [limit for name in PARAMETERS if name in fields["algorithms"] for limit in self._limit(name)]
        return fields

    def _check_whole(self, fields: Mapping[str, Any]) -> None:
        windows = [name for name in WINDOWS if name in fields["algorithms"]]
        if windows and not float(fields["rate"]).is_integer():
            words = ", ".join(algorithm_words(name) for name in windows).capitalize()
            count = "counts" if len(windows) == 1 else "count"
            self.add_error("rate", f"{words} {count} whole units. Untick such algorithms, or enter a whole rate.")

    def _clean_traffic(self, fields: Mapping[str, Any]) -> None:
        traffic = fields.get("traffic")
        if traffic == CSV:
            self._clean_csv(fields.get("csv", ""))
        elif traffic == PAINT:
            self._clean_bars(fields)
        elif preset := presets().get(str(traffic)):
            self.arrivals, self.line = list(preset.arrivals), preset.line
        else:
            self.add_error("bars", "Unknown traffic. Choose a preset.")

    def _clean_csv(self, text: str) -> None:
        try:
            found: list[Arrival] = []
            for arrival in read_arrivals(text.strip().splitlines(keepends=True)):
                found.append(arrival)
                if len(found) > MOST_ARRIVALS:
                    self.add_error("csv", f"Too many requests. The maximum is {MOST_ARRIVALS:,}.")
                    return
        except ArrivalsError as error:
            self.add_error("csv", sentence(str(error)))
            return
        self.arrivals, self.line = found, timeline_of(found)

    def _clean_bars(self, fields: Mapping[str, Any]) -> None:
        words = fields.get("bars", "").split(",")
        step_us = fields.get("step")
        if step_us is None or len(words) > MOST_BARS or not all(word.isdecimal() and len(word) < 7 for word in words):
            self.add_error("bars", f"Bars must be at most {MOST_BARS} whole numbers, separated by commas. Paint again.")
            return
        bars = [int(word) for word in words]
        if sum(bars) > MOST_ARRIVALS:
            self.add_error("bars", f"Too many requests: {sum(bars):,} of at most {MOST_ARRIVALS:,}. Paint lower bars.")
            return
        self.line = Timeline(BASE_US, step_us, len(bars))
        self.arrivals = arrivals_of_bars(bars, self.line)

    def _span_us(self, name: str, fields: Mapping[str, Any]) -> int:
        try:
            return parse_duration_us(fields.get(name) or "1s")
        except ValueError as error:
            self.add_error(name, sentence(str(error)))
            return 1

    def _limit(self, name: str) -> list[Limit]:
        values = {parameter: self.cleaned_data.get(field) for parameter, field in PARAMETERS[name].items()}
        given = {parameter: value for parameter, value in values.items() if value not in (None, "")}
        document = {"algorithm": name, "subject": "key", "unit": "cost", **given, **FIXED.get(name, {})}
        try:
            return [on_calendar(limit_parse(name, document), "UTC")]
        except ParameterError as error:
            field = PARAMETERS[name].get(error.field, "algorithms")
            self.add_error(field, f"{algorithm_words(name).capitalize()}: {error.message}.")
            return []


def timeline_of(arrivals: list[Arrival]) -> Timeline:
    """A timeline with steps of a round length that covers all requests and a short time after them."""
    if not arrivals:
        return Timeline(BASE_US, 250_000, 48)
    first_us, last_us = arrivals[0].t_us, arrivals[-1].t_us
    span_us = max(1_000, (last_us - first_us) * 11 // 10)
    step_us = next((step for step in STEPS_US if span_us <= step * (MOST_STEPS - 1)), None)
    step_us = step_us or -(-span_us // (MOST_STEPS - 1))
    begin_us = first_us // step_us * step_us
    return Timeline(begin_us, step_us, (last_us - begin_us) // step_us + 1 + MOST_STEPS // 12)
