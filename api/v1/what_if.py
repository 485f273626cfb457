"""What-if replays, calibrations on request, and the parameters of calibration."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.shortcuts import get_object_or_404
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Action, changed, created, signed
from api.inputs import DocumentText, Number, Reasoned, body
from api.openapi.describe import AnythingField, changes, creates, lists, reads
from api.pagination import PageQuery, listed, order_field
from api.preconditions import shown
from quotas.calibration.parameters import DEFAULTS, FACTORS, MAY_BE_ZERO, SHARES, WORDS
from quotas.changes.affected import Effect
from quotas.models import Task
from quotas.policies.diff import differences
from quotas.recommendations.runs import calibration_ask
from quotas.recommendations.settings import calibration_settings_set, parameter_rows
from quotas.tasks import task_send
from quotas.what_if import DAYS, MOST_DAYS, whatif_ask

LONGEST_DOCUMENT = 1_000_000


class TaskOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    kind = serializers.ChoiceField(choices=Task.Kind.values)
    state = serializers.ChoiceField(choices=Task.State.values)
    author = serializers.CharField()
    percent = serializers.IntegerField()
    doing = serializers.CharField()
    problem = serializers.CharField(help_text="Why it failed, and what to change.")
    created = serializers.DateTimeField()
    changed = serializers.DateTimeField()


class WholeTaskOut(TaskOut):
    result = AnythingField(help_text="Complete when the task is done. Before that, null or the results so far.")


class TasksQuery(PageQuery):
    state = serializers.ChoiceField(choices=Task.State.values, required=False)
    order = order_field("created", default="-created")

    orders = {"created": "id"}
    lookups = {"state": "state"}


class NewWhatIf(Reasoned):
    document = DocumentText(max_length=LONGEST_DOCUMENT, help_text="A policy document, as YAML or JSON.")
    days = Number(min_value=0.01, max_value=MOST_DAYS, default=DAYS, help_text="How many past days to replay.")


class ParameterOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    value = serializers.FloatField()
    default = serializers.FloatField()
    words = serializers.CharField()


class ParametersOut(serializers.Serializer[Any]):
    items = ParameterOut(many=True)


def _bounds(name: str) -> dict[str, Any]:
    kind = "integer" if isinstance(getattr(DEFAULTS, name), int) else "number"
    least = {"minimum": 0} if name in MAY_BE_ZERO else {"minimum": 1} if name in FACTORS else {"exclusiveMinimum": 0}
    most = {"maximum": 1} if name in SHARES else {"exclusiveMaximum": 1_000_000}
    return {"type": [kind, "null"], **least, **most, "description": WORDS[name]}


class ParameterValues(serializers.DictField):
    stated = {"properties": {name: _bounds(name) for name in WORDS}, "additionalProperties": False}


class Settings(Reasoned):
    values = ParameterValues(child=Number(allow_null=True), help_text="New values by parameter. null: the default.")


class WhatIfList(APIView):
    @lists(TasksQuery, TaskOut)
    def get(self, request: Request) -> Response:
        """What-if replays, newest first."""
        rows = Task.objects.filter(kind=Task.Kind.WHAT_IF).defer("asked", "result")
        return listed(request, TasksQuery, rows, TaskOut)

    @creates(NewWhatIf, WholeTaskOut)
    def post(self, request: Request) -> Response:
        """Replays the recorded usage of all tenants against a document. `Location` has the address of the result."""
        fields = body(NewWhatIf, request)
        who = signed(request, fields)
        return _filed(request, "v1:whatif", partial(whatif_ask, **fields, **who))


class WhatIfDetail(APIView):
    @reads(WholeTaskOut)
    def get(self, request: Request, number: int) -> Response:
        """One replay: its progress or its result."""
        return shown(request, _task(get_object_or_404(Task, pk=number, kind=Task.Kind.WHAT_IF)))


class CalibrationList(APIView):
    @creates(Reasoned, WholeTaskOut)
    def post(self, request: Request) -> Response:
        """Calibrates all limits now. If a calibration is running already, the response is its task."""
        who = signed(request, body(Reasoned, request))
        return _filed(request, "v1:calibration", partial(calibration_ask, **who))


class CalibrationDetail(APIView):
    @reads(WholeTaskOut)
    def get(self, request: Request, number: int) -> Response:
        """One calibration: its progress or its result."""
        return shown(request, _task(get_object_or_404(Task, pk=number, kind=Task.Kind.CALIBRATE)))


class CalibrationSettings(APIView):
    @reads(ParametersOut)
    def get(self, request: Request) -> Response:
        """The parameters of calibration."""
        return shown(request, _parameters())

    @changes(Settings, ParametersOut, needs_match=True)
    def patch(self, request: Request) -> Response:
        """Changes parameters for future calibrations."""
        fields = body(Settings, request)
        who = signed(request, fields)
        before = _values()
        action = Action(
            lambda: calibration_settings_set(**fields, **who),
            lambda _: _parameters(),
            describe=lambda _: Effect(
                differences({"calibration:settings": before}, {"calibration:settings": _values()})
            ),
            present=_parameters,
        )
        return changed(request, action)


def _filed(request: Request, where: str, ask: Callable[[], Task]) -> Response:
    def call() -> Task:
        task = ask()
        task_send(task)
        return task

    action = Action(call, _task, describe=lambda _: Effect())
    return created(request, action, where=lambda task: reverse(where, args=[task.pk]))


def _task(task: Task) -> dict[str, Any]:
    return WholeTaskOut(task).data


def _parameters() -> dict[str, Any]:
    return ParametersOut({"items": parameter_rows()}).data


def _values() -> dict[str, float]:
    return {row.name: row.value for row in parameter_rows()}
