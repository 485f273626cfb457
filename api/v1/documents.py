"""Policy as code: the configuration as one YAML document."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.authentication import author_of
from api.edits import Edit, Guarded, changed, permitted
from api.inputs import Choice, DocumentText, Fields, Strict, body
from api.openapi.describe import (
    READING,
    ImpactOut,
    ObjectDiffOut,
    TouchedTenantsOut,
    asks,
    changes,
    described,
    problems,
)
from api.preconditions import etag_of
from api.v1.document_tasks import DocumentTaskOut, filed
from quotas.errors import accepted
from quotas.models import Revision
from quotas.models.revision import newest_revision_number
from quotas.policies import schema
from quotas.policies.apply import DocumentPlan as Plan
from quotas.policies.apply import document_apply, document_check, document_export, document_plan
from quotas.policies.document import MOST_BYTES, MOST_TEXT, Document, read_document
from quotas.policies.problems import is_fit
from quotas.policies.spec import CARRIES

YAML = "application/yaml"
# What is larger, or has more than MOST_TEXT, runs as a task, since all requests share one interpreter: this much takes
# it less than half a second.
MOST_ENTRIES = 500
DOCUMENT_HELP = "A policy document in YAML or JSON; its JSON Schema is at `/v1/document/schema`."


class YamlRenderer(BaseRenderer):
    media_type = YAML
    format = "yaml"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return str(data).encode()


class DocumentIn(Strict):
    document = DocumentText(max_length=MOST_BYTES, help_text=DOCUMENT_HELP)


class PlanIn(DocumentIn):
    carry = Choice(choices=CARRIES, default="keep")


class ApplyIn(Guarded):
    document = DocumentText(max_length=MOST_BYTES, help_text=DOCUMENT_HELP)
    carry = Choice(choices=CARRIES, default="keep")


class ValidOut(serializers.Serializer[Any]):
    tiers = serializers.IntegerField()
    endpoints = serializers.IntegerField()
    policies = serializers.IntegerField()


class DriftOut(serializers.Serializer[Any]):
    object = serializers.CharField()
    revision = serializers.IntegerField()
    author = serializers.CharField()
    reason = serializers.CharField()
    applied = serializers.IntegerField(help_text="The revision of the last apply.")


class PlanOut(serializers.Serializer[Any]):
    revision = serializers.IntegerField(help_text="The revision that the plan is based on.")
    etag = serializers.CharField(help_text="Send it as `If-Match` to apply exactly this plan.")
    changes = ObjectDiffOut(many=True)
    drift = DriftOut(many=True, help_text="Objects in the plan that were changed by other means since the last apply.")
    others = serializers.ListField(
        child=serializers.CharField(), help_text="Live objects that are not in the document. They stay as they are."
    )
    tenants = TouchedTenantsOut()
    impact = ImpactOut()
    needs_force = serializers.BooleanField()
    warnings = serializers.ListField(child=serializers.CharField(), help_text="What pools could not keep.")
    text = serializers.CharField(help_text="The plan in human-readable form.")


class AppliedOut(serializers.Serializer[Any]):
    revision = serializers.IntegerField(allow_null=True, help_text="null: no changes.")


class DocumentExport(APIView):
    renderer_classes = [YamlRenderer]

    @described(
        responses={
            (200, YAML): OpenApiResponse(dict, "The document. Applying it unmodified changes nothing."),
            **problems(READING),
        }
    )
    def get(self, request: Request) -> Response:
        """The live configuration. Comments mark objects that were changed by other means since the last apply."""
        return Response(document_export(), headers={"ETag": etag_of(_newest())})


class DocumentSchema(APIView):
    @described(responses={200: dict, **problems(READING)})
    def get(self, request: Request) -> Response:
        """The JSON Schema of policy documents."""
        return Response(schema.document())


class DocumentValidate(APIView):
    @asks(DocumentIn, ValidOut, large=DocumentTaskOut)
    def post(self, request: Request) -> Response:
        """Validates a document, and reports all errors with their lines, including names that do not exist."""
        fields = body(DocumentIn, request)
        document = _small(fields["document"])
        return filed(request, "validate", fields) if document is None else validated(document)


class DocumentPlan(APIView):
    @asks(PlanIn, PlanOut, large=DocumentTaskOut)
    def post(self, request: Request) -> Response:
        """What applying a document would change. Send the ETag as If-Match to apply exactly this plan."""
        fields = body(PlanIn, request)
        document = _small(fields["document"])
        return filed(request, "plan", fields) if document is None else planned(request, document, fields)


class DocumentApply(APIView):
    @changes(ApplyIn, AppliedOut, large=DocumentTaskOut)
    def post(self, request: Request) -> Response:
        """Applies a document as one revision. Objects that it does not name stay as they are."""
        fields = body(ApplyIn, request)
        document = _small(fields["document"])
        if document is None:
            return filed(request, "apply", fields)
        return changed(request, edit_of(request, document, fields))


def validated(document: Document) -> Response:
    document_check(document)
    return Response({name: len(getattr(document, name)) for name in ("tiers", "endpoints", "policies")})


def planned(request: Request, document: Document, fields: Fields) -> Response:
    shown = _shown(document_plan(document=document, author=author_of(request), carry=fields["carry"]))
    return Response(shown, headers={"ETag": shown["etag"]})


def edit_of(request: Request, document: Document, fields: Fields) -> Edit[Revision | None]:
    return Edit(
        partial(document_apply, document=document, carry=fields["carry"]),
        permitted(request, fields),
        lambda revision: {"revision": revision.number if revision else None},
        _newest,
        is_large=document.is_large,
    )


def _newest() -> dict[str, int]:
    return {"revision": newest_revision_number()}


def _small(text: str) -> Document | None:
    """None: it is large. A text that the database cannot store is refused here, however large it is."""
    if len(text) > MOST_TEXT and is_fit(text):
        return None
    document = accepted(read_document(text))
    return document if document.entries <= MOST_ENTRIES else None


def _shown(plan: Plan) -> dict[str, Any]:
    return {
        "revision": plan.revision,
        "etag": etag_of({"revision": plan.revision}),
        "changes": [asdict(change) for change in plan.changes],
        "drift": [{"object": key, **asdict(drift)} for key, drift in sorted(plan.drift.items())],
        "others": list(plan.others),
        "tenants": asdict(plan.tenants),
        "impact": asdict(plan.impact),
        "needs_force": bool(plan.impact.cut_count),
        "warnings": list(plan.warnings),
        "text": "\n".join(plan.lines()),
    }
