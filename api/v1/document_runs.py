"""How a worker answers a large document: with the code of the views, as whoever sent it."""

from __future__ import annotations

import json
from typing import Any, Final

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from access.authentication import principal_set
from access.roles import may
from api.edits import changed, judged, kept
from api.errors import problem_of
from api.v1 import documents, tenant_imports
from headroom_edge.problems import Problem, forbidden
from quotas.caller import CallerGoneError
from quotas.errors import accepted
from quotas.policies.document import read_document
from quotas.whole_tasks import IDENTITY, TEXT, Run, TaskOverError
from tenants.history import acting
from tenants.identity import acting_as
from tenants.scope import Principal, principal_of_identity

IMPORT: Final = "import"
WAIT_S: Final = 60.0  # for the turn to write; nobody waits for the response


def answer(run: Run) -> None:
    """Ends the run with a response or a refusal. A fault is raised."""
    principal = principal_of_identity(run.asked[IDENTITY])
    if principal is None or not may(principal, _route(run), "POST"):
        _refuse(run, forbidden("forbidden", "You may not do this any more; ask an owner for the role it needs."))
        return
    with acting_as(principal), acting(actor=principal.actor, request=run.asked["request"]):
        try:
            _answer(run, _request(run, principal))
        except (CallerGoneError, TaskOverError, OperationalError, InterfaceError):
            raise
        except Exception as error:
            problem = problem_of(error)
            if problem is None:
                raise
            _refuse(run, problem)


def _route(run: Run) -> str:
    return "v1:tenants-import" if run.asked["action"] == IMPORT else f"v1:document-{run.asked['action']}"


def _import(run: Run, request: Request) -> None:
    run.step("checking", 0)
    edit = tenant_imports.edit_of(request, {"csv": run.asked[TEXT], **run.asked["fields"]})
    proposal = judged(request, edit)
    run.step("writing", 40)
    kept(request, edit, proposal, lambda response: _keep(run, response), WAIT_S)


def _answer(run: Run, request: Request) -> None:
    action, fields = run.asked["action"], dict(run.asked["fields"])
    if action == IMPORT:
        _import(run, request)
        return
    run.step("reading", 0)
    document = accepted(read_document(run.asked[TEXT]))
    if action == "validate":
        run.step("validating", 40)
        _keep(run, documents.validated(document))
    elif action == "plan":
        run.step("planning", 40)
        _keep(run, documents.planned(request, document, fields))
    else:
        run.step("planning", 30)
        edit = documents.edit_of(request, document, fields)
        if run.asked["dry_run"]:
            _keep(run, changed(request, edit, {"dry_run": True}))
            return
        proposal = judged(request, edit)
        run.step("writing", 70)
        kept(request, edit, proposal, lambda response: _keep(run, response), WAIT_S)


def _request(run: Run, principal: Principal) -> Request:
    """As much of the request as the views read."""
    plain = HttpRequest()
    plain.method = "POST"
    if (etag := run.asked["if_match"]) is not None:
        plain.META["HTTP_IF_MATCH"] = etag
    principal_set(plain, principal)
    return Request(plain)


def _keep(run: Run, response: Response) -> None:
    run.end({"status": response.status_code, "body": _plain(response.data)})


def _refuse(run: Run, problem: Problem) -> None:
    result = {"status": int(problem.status), "body": json.loads(problem.body())}
    run.end(result, problem.detail)


def _plain(data: Any) -> Any:
    """As it will be in JSON: times as text."""
    return json.loads(JSONRenderer().render(data))
