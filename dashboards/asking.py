"""What an address asks for: the time that a page shows."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpRequest, HttpResponse

from quotas.selectors.periods import Period, PeriodError, period_read

__all__ = ["PeriodError", "bad_request", "period_of"]


def period_of(request: HttpRequest, now: datetime, default: str = "") -> Period:
    asked = request.GET
    return period_read(asked.get("span", "") or default, asked.get("from", ""), asked.get("to", ""), now)


def bad_request(error: ValueError) -> HttpResponse:
    return HttpResponse(str(error), status=400, content_type="text/plain")
