"""Base forms and fields of the pages. Forms parse input; the service functions validate it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar, TypeVar
from zoneinfo import ZoneInfo

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from access.request_ids import wants_page
from headroom_edge.algorithms.bucket import RATE_TEXT
from headroom_edge.algorithms.calendar_quota import known_zones
from headroom_edge.plan.priority import PRIORITIES
from quotas.changes.commit import Outcome, Proposed, Written
from quotas.changes.freeze import Frozen
from quotas.errors import Refused
from quotas.policies.problems import WITHIN, is_within, sentence
from quotas.usage.queries.periods import Period, PeriodError, period_read

__all__ = ["PeriodError", "bad_request", "number_of", "period_of"]

T = TypeVar("T")

NOT_SAVED = "Draft not saved"

PRIORITY_CHOICES = [(priority, priority.capitalize()) for priority in PRIORITIES]
HIGHEST_PRIORITY_CHOICES = [("", "Not lowered"), *PRIORITY_CHOICES]  # of a tier or a tenant

# codes of problems
CUT, APPROVAL, FROZEN = "cut", "approval", "frozen"

_NUMBER = re.compile("[0-9]{1,18}")  # fits a bigint column


def period_of(request: HttpRequest, now: datetime, default: str = "") -> Period:
    asked = request.GET
    return period_read(asked.get("span", "") or default, asked.get("from", ""), asked.get("to", ""), now)


def number_of(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None


def sentences_of(refusal: Refused) -> list[str]:
    """Every page without a form shows a refusal in these words."""
    if isinstance(refusal, Frozen):
        # The banner of every page has the end of the freeze, in the viewer's zone.
        return [f"Changes are frozen. Wait, or ask somebody to do it for you. May pass: {refusal.may_pass}."]
    return [sentence(page_words(problem.message)) for problem in refusal.problems]


def told(request: HttpRequest, act: Callable[[], T], said: Callable[[T], str], refused: str = "No changes") -> bool:
    """Carries out a button's act and shows a toast: what was done, or why not. False: it was refused."""
    try:
        done = act()
    except Refused as refusal:
        messages.error(request, f"{refused}|{sentences_of(refusal)[0]}")
        return False
    messages.success(request, said(done))
    return True


def bad_request(request: HttpRequest, error: ValueError) -> HttpResponse:
    """For an address with a query that cannot be read."""
    if wants_page(request):
        return render(request, "dashboards/bad_address.html", {"sentence": str(error)}, status=400)
    return HttpResponse(str(error), status=400, content_type="text/plain")


def outcome_toast(outcome: Outcome[object]) -> str:
    """What happened, and what comes next."""
    if isinstance(outcome, Proposed):
        return f"Saved as {outcome.change}|It waits for approval"
    if isinstance(outcome, Written):
        return f"Saved as r{outcome.revision.number}|Enforced as soon as it is published"
    return "No changes|The values were the same before"


_CLASSES = {forms.Select: "select", forms.Textarea: "textarea", forms.CheckboxInput: "", forms.HiddenInput: ""}


_THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+(?![\d,])")


def amount_typed(text: str) -> int | float | str | None:
    """An amount as people type it: 100, 1,000, 4.2 or, with the time it is for, 4.2/10s, which stays text."""
    typed = text.replace("\N{NO-BREAK SPACE}", "").replace(" ", "")
    if "," in typed and not _THOUSANDS.match(typed):  # as in 4,2
        return None
    typed = typed.replace(",", "")
    found = RATE_TEXT.fullmatch(typed)
    if found is None:
        return None
    if found[3]:
        return typed
    return float(typed) if "." in typed else int(typed)


class RateField(forms.CharField):
    """Cleaned: see `amount_typed`."""

    def __init__(self, **kwargs: Any) -> None:
        widget = forms.TextInput({"class": "input num", "inputmode": "decimal", "autocomplete": "off"})
        super().__init__(max_length=40, widget=widget, **kwargs)

    def clean(self, value: Any) -> int | float | str | None:
        typed = str(super().clean(value))
        amount = amount_typed(typed)
        if amount is None and typed:
            raise forms.ValidationError("Enter a number such as 100, 4.2 or 4.2/10s.")
        return amount


class MomentField(forms.DateTimeField):
    """A date and time without a zone, as the browser sends it. `in_zone` adds the viewer's zone."""

    widget = forms.DateTimeInput({"type": "datetime-local"})

    def to_python(self, value: Any) -> datetime | None:
        typed: datetime | None = super().to_python(value)
        if typed is not None and not is_within(typed):
            raise forms.ValidationError(f"The year {typed.year} is out of range: {WITHIN}.")
        return typed


def in_zone(typed: datetime | None, zone: str) -> datetime | None:
    return typed.replace(tzinfo=ZoneInfo(zone if zone in known_zones() else "UTC")) if typed else None


def page_words(message: str) -> str:
    """What documents and the REST API call `assured` is guaranteed on the pages, and so on."""
    return _WORDS.sub(lambda found: _PAGE_WORDS[found[0]], message)


_PAGE_WORDS = {
    "an assured share": "a guaranteed share",
    "assured share": "guaranteed share",
    "assured": "the guaranteed share",
    "ceiling_burst": "the burst of the ceiling",
    "correct parent": "correct Borrows from",
}
_WORDS = re.compile(r"\b(an assured share|assured share|assured|ceiling_burst|correct parent)\b")


class PageForm(forms.Form):
    """Shows a refusal beside the field it concerns and keeps the input."""

    # path of a problem → name of the field, where they differ
    fields_of: ClassVar[dict[str, str]] = {}

    # codes of the problems that refused it
    codes: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            kind = next((name for widget, name in _CLASSES.items() if isinstance(field.widget, widget)), "input")
            field.widget.attrs.setdefault("class", kind)

    @property
    def needs_force(self) -> bool:
        """Force accepts cuts, and helps against nothing else."""
        return CUT in self.codes

    @property
    def needs_emergency(self) -> bool:
        return bool(self.codes & {APPROVAL, FROZEN})

    @property
    def is_frozen(self) -> bool:
        return FROZEN in self.codes

    def refused(self, refusal: Refused) -> None:
        self.codes = frozenset(problem.code for problem in refusal.problems)
        for problem in refusal.problems:
            field = self._field_of(problem.path)
            is_placed = field is not None or problem.path in problem.message
            told = replace(problem, message=self.said(problem.message))
            self.add_error(field, told.sentence if is_placed else sentence(str(told)))

    def said(self, message: str) -> str:
        """The message of a problem in the words of the page."""
        return page_words(message)

    def _field_of(self, path: str) -> str | None:
        last = path.rpartition(".")[2]
        candidates = (self.fields_of.get(path), self.fields_of.get(last), path, last)
        return next((name for name in candidates if name in self.fields), None)


class ReasonedForm(PageForm):
    reason = forms.CharField(
        label="Reason",
        max_length=500,
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text="Kept in the history",
        error_messages={"required": "Enter a reason. It is saved with the revision."},
    )
