"""What an address asks for: the time that a page shows, the number of something."""

from __future__ import annotations

import re
from datetime import datetime

from django.http import HttpRequest, HttpResponse

from quotas.usage.queries.periods import Period, PeriodError, period_read

__all__ = ["PeriodError", "bad_request", "number_of", "period_of"]

_NUMBER = re.compile("[0-9]{1,18}")  # what a column of numbers can hold


def period_of(request: HttpRequest, now: datetime, default: str = "") -> Period:
    asked = request.GET
    return period_read(asked.get("span", "") or default, asked.get("from", ""), asked.get("to", ""), now)


def number_of(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None


def bad_request(error: ValueError) -> HttpResponse:
    return HttpResponse(str(error), status=400, content_type="text/plain")
