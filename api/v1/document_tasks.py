"""Large policy documents, and tables of many tenants: filed as a task, done by a worker.

A task is shown as the response that a smaller one would have had.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.authentication import author_of, principal_of
from access.request_ids import request_id_of
from api import idempotency
from api.edits import Action, ChangeQuery, changed
from api.errors import TooManyTasks
from api.inputs import Fields, Reasoned, body, query
from api.openapi.describe import AnythingField, changes, reads
from api.preconditions import shown
from api.tasks import run_document
from quotas.changes.affected import Effect
from quotas.models import Task
from quotas.whole_tasks import IDENTITY, TEXT, TooManyOpenError, whole_task_cancel, whole_task_file


class DocumentTaskOut(serializers.Serializer[Any]):
    """A large document that a worker reads, plans or applies, or a table of tenants that it imports.

    Poll its address until it is `done` or `failed`.
    """

    id = serializers.IntegerField()
    action = serializers.ChoiceField(choices=["validate", "plan", "apply", "import"])
    state = serializers.ChoiceField(choices=Task.State.values)
    author = serializers.CharField()
    percent = serializers.IntegerField()
    doing = serializers.CharField(help_text="Such as `planning`.")
    problem = serializers.CharField(help_text="Why it failed, and what to change.")
    created = serializers.DateTimeField()
    changed = serializers.DateTimeField()
    status = serializers.IntegerField(
        allow_null=True, help_text="The status that a smaller document would have been answered with, such as 412."
    )
    result = AnythingField(help_text="The body that a smaller document would have been answered with.")


class DocumentTask(APIView):
    @reads(DocumentTaskOut)
    def get(self, request: Request, number: int) -> Response:
        """The progress and the result of a large document. Only for whoever sent it; kept for two days."""
        return shown(request, _task(get_object_or_404(_mine(request), pk=number)))


class TaskCancel(APIView):
    @changes(Reasoned, DocumentTaskOut)
    def post(self, request: Request, number: int) -> Response:
        """Stops the task; nothing of its document is written. Refused with 409 if it is over."""
        fields = body(Reasoned, request)
        action = Action(
            lambda: whole_task_cancel(number=get_object_or_404(_mine(request), pk=number).pk, reason=fields["reason"]),
            _task,
            describe=lambda _: Effect(),
            present=lambda: _task(get_object_or_404(_mine(request), pk=number)),
        )
        return changed(request, action)


def filed(request: Request, action: str, fields: Fields) -> Response:
    """202 with the address of the task. A repetition with the same Idempotency-Key gets the same task."""
    key = idempotency.key_of(request)
    with transaction.atomic():
        claim = idempotency.claim(request, key) if key else None
        if isinstance(claim, Response):
            return claim
        task = _file(request, action, fields)
        response = Response(_task(task), status=202, headers={"Location": reverse("v1:document-task", args=[task.pk])})
        if claim:
            claim.keep(response, ())
        transaction.on_commit(lambda: _send(task))
    return response


def _file(request: Request, action: str, fields: Fields) -> Task:
    text = fields.pop("csv" if action == "import" else "document")
    asked = {
        "action": action,
        TEXT: text,
        "fields": fields,
        "dry_run": query(ChangeQuery, request)["dry_run"] if action == "apply" else False,
        "if_match": request.headers.get("If-Match"),
        "request": request_id_of(request._request),
    }
    try:
        return whole_task_file(
            kind=Task.Kind.DOCUMENT, author=author_of(request), identity=principal_of(request).identity, asked=asked
        )
    except TooManyOpenError:
        raise TooManyTasks from None


def _send(task: Task) -> None:
    """If the broker is down, beat sends the task later."""
    try:
        run_document.delay(task.pk)
    except run_document.OperationalError:
        return


def _mine(request: Request) -> QuerySet[Task]:
    identity = principal_of(request).identity
    return Task.objects.filter(kind=Task.Kind.DOCUMENT, **{f"asked__{IDENTITY}": identity})


def _task(task: Task) -> dict[str, Any]:
    kept = task.result or {}
    facts = {name: getattr(task, name) for name in ("id", "state", "author", "percent", "doing", "problem")}
    times = {"created": task.created, "changed": task.changed}
    told = {"action": task.asked["action"], "status": kept.get("status"), "result": kept.get("body")}
    return DocumentTaskOut({**facts, **times, **told}).data
