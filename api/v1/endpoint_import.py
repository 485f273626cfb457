from __future__ import annotations

from functools import partial
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Edit, Guarded, changed, permitted
from api.inputs import DocumentText, Text, body
from api.openapi import patterns
from api.openapi.describe import changes
from quotas.endpoint_import.operations import MOST_OPERATIONS, read_api
from quotas.endpoint_import.plan import ImportPlan, ImportRow, document_import
from quotas.endpoint_import.tree import MOST_BYTES
from quotas.errors import accepted
from quotas.policies.document import LARGE
from quotas.policies.endpoint import ENDPOINT_FIELDS, LONGEST_NAME, LONGEST_PATH

LONGEST_KEY = 1_000


class BasePath(Text):
    stated = {"pattern": ENDPOINT_FIELDS["path"]["pattern"]}


@extend_schema_field(
    {
        "type": "object",
        "additionalProperties": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_NAME,
            "pattern": patterns.TEXT,
        },
        "maxProperties": 2_000,
    }
)
class NamesField(serializers.DictField):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(child=Text(max_length=LONGEST_NAME), **kwargs)


class ImportIn(Guarded):
    document = DocumentText(
        max_length=MOST_BYTES, help_text="An OpenAPI 3.0, 3.1 or Swagger 2.0 document; JSON or YAML."
    )
    base_path = BasePath(
        max_length=LONGEST_PATH, allow_blank=True, required=False, help_text="Default: the path of the first server."
    )
    service = Text(
        max_length=LONGEST_NAME,
        allow_blank=True,
        default="",
        help_text="Before the colon of new names. Empty: the tag.",
    )
    operations = serializers.ListField(
        child=Text(max_length=LONGEST_KEY),
        max_length=MOST_OPERATIONS,
        required=False,
        help_text="Such as `GET /rides`. Default: every operation that is new.",
    )
    names = NamesField(required=False, help_text="Names by operation, where the suggested one does not fit.")


class ImportedOut(serializers.Serializer[Any]):
    method = serializers.CharField()
    path = serializers.CharField(help_text="As in the document.")
    name = serializers.CharField(help_text="The endpoint's name, or the suggested one. Empty: it cannot be registered.")
    state = serializers.ChoiceField(
        choices=["new", "different", "same", "cannot"], help_text="Compared with what was registered before."
    )
    problem = serializers.CharField(help_text="Why it cannot be registered. Empty: it can.")


class ImportOut(serializers.Serializer[Any]):
    base_path = serializers.CharField()
    operations = ImportedOut(many=True)


class EndpointImport(APIView):
    @changes(ImportIn, ImportOut)
    def post(self, request: Request) -> Response:
        """Registers endpoints from an OpenAPI document, in one revision. Endpoints not in it stay as they are."""
        fields = body(ImportIn, request)
        who = permitted(request, fields)
        document = accepted(read_api(fields.pop("document"), fields.pop("base_path", None)))
        is_large = len(document.operations) > LARGE
        return changed(
            request, Edit(partial(document_import, document=document, **fields), who, _shown, is_large=is_large)
        )


def _shown(plan: ImportPlan) -> dict[str, Any]:
    operations = [_imported(row) for row in plan.rows]
    return ImportOut({"base_path": plan.document.base, "operations": operations}).data


def _imported(row: ImportRow) -> dict[str, Any]:
    one = row.operation
    return {"method": one.method, "path": one.path, "name": row.name, "state": row.state, "problem": one.problem}
