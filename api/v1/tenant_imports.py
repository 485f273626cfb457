"""Many new tenants from one table in CSV."""

from __future__ import annotations

from functools import partial
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import ChangeQuery, Edit, changed, signed
from api.inputs import DocumentText, Fields, Reasoned, Word, body, query
from api.openapi.describe import changes
from api.v1.document_tasks import DocumentTaskOut, filed
from quotas.tenants import tenants_create
from quotas.tenants.sheet import COLUMNS, LARGE, MOST_BYTES, MOST_ROWS, sheet_tenants
from tenants.models import WORD, Tenant

CSV_HELP = (
    f"A table in CSV with the columns {', '.join(COLUMNS)}, of which only `name` is needed. Several tags or contacts "
    f"are separated by spaces. At most {MOST_ROWS:,} rows; over {LARGE:,}, a worker does it."
)


class TenantTableIn(Reasoned):
    csv = DocumentText(max_length=MOST_BYTES, help_text=CSV_HELP)
    tier = Word(WORD, required=False, help_text="For rows without a tier.")


class TenantsImportedOut(serializers.Serializer[Any]):
    created = serializers.IntegerField(help_text="The number of new tenants.")


class TenantsImport(APIView):
    @changes(TenantTableIn, TenantsImportedOut, large=DocumentTaskOut)
    def post(self, request: Request) -> Response:
        """Creates all tenants of a table in one revision, or none. Problems are listed with their lines."""
        fields = body(TenantTableIn, request)
        rows = sheet_tenants(fields["csv"], tier=fields.get("tier", ""))
        if len(rows) > LARGE and not query(ChangeQuery, request)["dry_run"]:
            return filed(request, "import", fields)
        return changed(request, edit_of(request, fields))


def edit_of(request: Request, fields: Fields) -> Edit[list[Tenant]]:
    """Read again by whoever writes it, because names may have been taken since."""
    fields = dict(fields)
    who = signed(request, fields)
    rows = sheet_tenants(fields["csv"], tier=fields.get("tier", ""))
    call = partial(tenants_create, tenants=rows)
    return Edit(call, who, lambda created: {"created": len(created)}, is_large=len(rows) > LARGE)
