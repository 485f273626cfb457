"""Emergencies that nobody but their author has looked at: the banner, and the button that says that you have."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboards.forms import number_of, told
from dashboards.viewer import principal_of
from quotas.changes.emergency import author_of, emergencies_open, emergency_review
from quotas.models import Emergency
from tenants.identity import actor_of, person_of

MOST: Final = 20
LOOKED: Final = "looked at it"


@dataclass(frozen=True, slots=True)
class EmergencyRow:
    row: Emergency
    is_own: bool  # the viewer declared it, in person or by a token

    @property
    def place(self) -> str:
        """Where to look at it; empty: it is not on a page."""
        changes = reverse("dashboards:changes")
        kind, _, rest = self.row.what.partition(" ")
        if kind in ("revision", "change") and number_of(rest) is not None:
            return f"{changes}?{kind}={rest}#detail"
        return f"{changes}#bypass" if kind == "bypass" else ""


def emergencies_shown(request: HttpRequest, most: int = MOST) -> list[EmergencyRow]:
    viewer = person_of(actor_of(principal_of(request).actor))
    rows = list(emergencies_open()[:most])
    authors = [person_of(author_of(row)) for row in rows]
    return [
        EmergencyRow(row, bool(viewer and author and viewer.is_same(author)))
        for row, author in zip(rows, authors, strict=True)
    ]


@require_POST
def review(request: HttpRequest, number: int) -> HttpResponse:
    act = partial(emergency_review, emergency=number, author=principal_of(request).actor, reason=LOOKED)
    told(request, act, lambda row: f"You have looked at {row}|{row.what}")
    return redirect("dashboards:changes")
