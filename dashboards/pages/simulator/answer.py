"""How both pages of the simulator answer: as a whole page, or to htmx with what changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render


@dataclass(frozen=True, slots=True)
class Templates:
    page: str
    body: str  # form and results, for a preset
    answer: str  # the results alone, and errors beside their fields


def asked_of(request: HttpRequest) -> QueryDict:
    return request.POST if request.method == "POST" else request.GET


def answered(
    request: HttpRequest, form: forms.Form, context: Mapping[str, Any], templates: Templates, address: str
) -> HttpResponse:
    """`address` reproduces the page; empty: none can."""
    if not request.headers.get("HX-Request"):
        return render(request, templates.page, context)
    is_preset = "preset" in asked_of(request)
    template = templates.body if is_preset else templates.answer
    response = render(request, template, {**context, "swaps": not is_preset})
    if form.errors and not is_preset:
        response["HX-Reswap"] = "none"  # keep the results; show the error beside the field
    elif address:
        response["HX-Replace-Url"] = address
    return response
