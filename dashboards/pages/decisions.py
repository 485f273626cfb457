"""The decision log: recent denials, newest first, with their reasons."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboards.forms import PageForm
from quotas.models import Endpoint, LimitName
from quotas.models.policy import CANDIDATE_SUFFIX
from quotas.models.usage import Denial
from quotas.policies.problems import is_within
from quotas.usage.queries.denial_counts import denials_counted
from quotas.usage.queries.denial_log import (
    CAUSES,
    MOST_SEARCHED,
    REASONS,
    DenialFilter,
    denials_count,
    denials_read,
    limits_set_by,
    turned_away_read,
)

MOST_SUGGESTED = 200
MOMENTS = ("since", "until")


class FilterForm(PageForm):
    tenant = forms.CharField(max_length=63, required=False)
    endpoint = forms.CharField(max_length=128, required=False)
    limit = forms.CharField(max_length=80, required=False)
    reason = forms.ChoiceField(choices=[("", "any reason"), *REASONS.items()], required=False)
    cause = forms.ChoiceField(choices=[("", "any cause"), *CAUSES.items()], required=False)
    tier = forms.CharField(max_length=63, required=False, widget=forms.HiddenInput)
    since = forms.CharField(max_length=40, required=False, widget=forms.HiddenInput)
    until = forms.CharField(max_length=40, required=False, widget=forms.HiddenInput)

    def wanted(self) -> DenialFilter:
        fields = self.cleaned_data if self.is_valid() else {}
        named: dict[str, Any] = {name: fields.get(name, "") for name in self.fields}
        return DenialFilter(**named | {name: _moment(named[name]) for name in MOMENTS})

    def asked(self) -> dict[str, str]:
        """What was filtered by, for addresses."""
        wanted = self.wanted()
        found = {name: getattr(wanted, name) for name in self.fields}
        return {name: value.isoformat() if name in MOMENTS else value for name, value in found.items() if value}


@require_safe
def decisions(request: HttpRequest) -> HttpResponse:
    form = FilterForm(request.GET)
    wanted = form.wanted()
    before = _moment(request.GET.get("before", ""))
    page = denials_read(wanted, before=before)
    asked = form.asked()
    now = datetime.now(UTC)
    newest = page.denials[0].at if page.denials else now
    context = {
        "form": form,
        "page": page,
        "rows": list(zip(page.denials, limits_set_by(page.denials), strict=True)),
        "wanted": wanted,
        "counted": denials_counted(wanted, now),
        "away": turned_away_read(now),
        "is_narrow": bool(set(asked) - set(MOMENTS)),
        "keep_days": settings.HEADROOM_KEEP_DAYS[Denial.keep],
        "asked": asked,
        "searched": MOST_SEARCHED,
        "is_first": before is None,
        "address": urlencode(asked),
        "fresh": urlencode({**asked, "after": newest.isoformat()}),
        "older": "" if page.is_whole else urlencode({**asked, "before": page.denials[-1].at.isoformat()}),
        "endpoints": Endpoint.objects.filter(retired=False).values_list("name", flat=True)[:MOST_SUGGESTED],
        "limits": LimitName.objects.exclude(name__endswith=CANDIDATE_SUFFIX).values_list("name", flat=True)[
            :MOST_SUGGESTED
        ],
    }
    return render(request, "dashboards/decisions/page.html", context)


@require_safe
def decisions_new(request: HttpRequest) -> HttpResponse:
    """The number of denials since the page was loaded. A link shows them, so rows do not move under the pointer."""
    form, after = FilterForm(request.GET), _moment(request.GET.get("after", ""))
    if after is None:
        return HttpResponseBadRequest(
            "after must be a time, such as 2030-05-07T12:00:00+00:00.", content_type="text/plain"
        )
    wanted = form.wanted()
    count = denials_count(wanted, after=after)
    asked = form.asked()
    return render(request, "dashboards/decisions/new_count.html", {"count": count, "address": urlencode(asked)})


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo and is_within(found) else None
