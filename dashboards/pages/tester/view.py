"""The request tester: explains how a request would be decided, without using quota."""

from __future__ import annotations

from functools import cache
from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from dashboards.forms import PageForm
from dashboards.pages.tester.rules import headline_of, rule_of
from headroom_edge import Limiter
from headroom_edge.check import COST_MAX, ENDPOINT_CHARACTERS
from headroom_edge.errors import StoreRefusedError
from headroom_edge.plan.paths import LONGEST_PATH
from quotas.errors import Refused
from quotas.models import Endpoint
from quotas.policies.explain import Answer, UnknownTenantError, endpoint_of, request_explain
from quotas.policies.problems import sentence
from quotas.policies.spec import METHODS

MOST_SUGGESTED = 200
LONGEST_VALUE = 1_000


@cache
def limiter() -> Limiter:
    return Limiter.from_url(settings.REDIS_URL, shards=settings.HEADROOM_SHARDS)


class RequestForm(PageForm):
    tenant = forms.CharField(max_length=63, error_messages={"required": "Enter a tenant."})
    endpoint = forms.CharField(max_length=ENDPOINT_CHARACTERS, required=False)
    method = forms.ChoiceField(choices=[(method, method) for method in METHODS[:-1]], required=False)
    path = forms.CharField(max_length=LONGEST_PATH, required=False)
    cost = forms.IntegerField(min_value=1, max_value=COST_MAX, required=False)
    ip = forms.CharField(label="IP address", max_length=LONGEST_VALUE, required=False)
    key = forms.CharField(label="API key id", max_length=LONGEST_VALUE, required=False)
    user = forms.CharField(max_length=LONGEST_VALUE, required=False)
    more = forms.CharField(
        label="More dimensions",
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "placeholder": "region eu-west"}),
        help_text="One per line: name, space, value",
    )

    fields_of = {"subject": "more"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["tenant"].widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}
        self.fields["endpoint"].widget.attrs |= {"list": "endpoints", "autocomplete": "off", "spellcheck": "false"}
        self.fields["path"].widget.attrs |= {"placeholder": "/v1/rides/7", "spellcheck": "false"}
        self.fields["cost"].widget.attrs |= {"placeholder": "default"}

    def clean(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().clean() or {}
        if bool(fields.get("endpoint")) == bool(fields.get("path")) and not self.errors:
            self.add_error("endpoint", "Enter either an endpoint or a path.")
        return fields

    @property
    def subject(self) -> dict[str, str]:
        fields = self.cleaned_data
        given = {name: fields[name] for name in ("ip", "key", "user") if fields[name]}
        pairs = (line.strip().partition(" ") for line in fields["more"].splitlines() if line.strip())
        return given | {name: value.strip() for name, _, value in pairs}


@require_http_methods(["GET", "HEAD", "POST"])
def tester(request: HttpRequest) -> HttpResponse:
    """The URL may prefill the form. Tests are posted, because servers log URLs and they may contain keys."""
    form = RequestForm(request.POST) if request.method == "POST" else RequestForm(initial=request.GET.dict())
    answer, unreachable = None, ""
    if form.is_bound and form.is_valid():
        try:
            answer = _answer(form)
        except Refused as refusal:
            form.refused(refusal)
        except UnknownTenantError as error:
            form.add_error("tenant", sentence(str(error)))
        except StoreRefusedError as error:
            unreachable = str(error)
    return render(request, "dashboards/tester/page.html", _context(form, answer, unreachable))


def _answer(form: RequestForm) -> Answer:
    fields = form.cleaned_data
    endpoint = fields["endpoint"] or endpoint_of(method=fields["method"] or "GET", path=fields["path"])
    return request_explain(
        limiter=limiter(), tenant=fields["tenant"], endpoint=endpoint, subject=form.subject, cost=fields["cost"]
    )


def _context(form: RequestForm, answer: Answer | None, unreachable: str) -> dict[str, Any]:
    names = Endpoint.objects.filter(retired=False).order_by("name").values_list("name", flat=True)
    context: dict[str, Any] = {"form": form, "endpoints": names[:MOST_SUGGESTED], "unreachable": unreachable}
    if answer is not None:
        rules = [rule_of(verdict) for verdict in answer.verdicts]
        context |= {
            "answer": answer,
            "headline": headline_of(answer.decision, rules),
            "rules": rules,
            "headers": answer.decision.headers().items(),
        }
    return context
