"""Notes that people put on charts."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Action, RemovalQuery, changed, created, signed
from api.inputs import Moment, Reasoned, Sentence, Word, body, query
from api.openapi.describe import creates, lists, reads, removes
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from quotas.changes.affected import Effect
from quotas.chart_notes import chart_note_add, chart_note_remove
from quotas.models import ChartNote
from quotas.models.chart_note import LONGEST_TEXT
from quotas.policies.diff import FieldDiff, ObjectDiff
from tenants.models import TENANT_NAME


class ChartNoteOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    text = serializers.CharField()
    tenant = serializers.CharField(source="tenant.name", default="", help_text="Empty: on every chart.")
    author = serializers.CharField()
    created = serializers.DateTimeField()


class NewChartNote(Reasoned):
    at = Moment(help_text="When it happened, or will.")
    text = Sentence(max_length=LONGEST_TEXT, help_text="What happened, in one line.")
    tenant = Word(TENANT_NAME, default="", allow_blank=True, help_text="Empty: on every chart.")


class ChartNotesQuery(PageQuery):
    order = order_field("created", default="-created")
    search = search_field("the text")

    orders = {"created": "id"}
    searched = ("text",)


class ChartNoteList(APIView):
    @lists(ChartNotesQuery, ChartNoteOut)
    def get(self, request: Request) -> Response:
        """Notes on charts, the newest first."""
        return listed(request, ChartNotesQuery, ChartNote.objects.select_related("tenant"), ChartNoteOut)

    @creates(NewChartNote, ChartNoteOut)
    def post(self, request: Request) -> Response:
        """Puts a note on the charts of one tenant, or on every chart, of that time. Tenants do not see notes."""
        fields = body(NewChartNote, request)
        action = Action(
            partial(chart_note_add, **signed(request, fields), **fields),
            lambda row: _row(row.pk),
            lambda row: Effect((ObjectDiff("note:new", "create", (FieldDiff("text", None, row.text),)),)),
        )
        return created(request, action, where=lambda row: reverse("v1:chart-note", args=[row.pk]))


class ChartNoteDetail(APIView):
    @reads(ChartNoteOut)
    def get(self, request: Request, number: int) -> Response:
        """One note."""
        return shown(request, _row(number))

    @removes()
    def delete(self, request: Request, number: int) -> Response:
        """Removes a note. The audit log keeps what it said."""
        asked = query(RemovalQuery, request)
        action = Action(
            partial(chart_note_remove, note=number, **signed(request, asked)),
            lambda _: {},
            lambda row: Effect((ObjectDiff(f"note:{number}", "delete", (FieldDiff("text", row.text, None),)),)),
            lambda: _row(number),
        )
        return changed(request, action, asked)


def _row(number: int) -> dict[str, Any]:
    return ChartNoteOut(get_object_or_404(ChartNote.objects.select_related("tenant"), pk=number)).data
