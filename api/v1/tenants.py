from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.urls import reverse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.authentication import principal_of, tenants_of
from access.downloads import csv_download
from api.csv import CsvRenderer, exports
from api.edits import Edit, Guarded, Permitted, Signed, changed, created, permitted, signed
from api.inputs import Choice, Fields, HighestPriority, Line, Query, Reasoned, TimeZone, Word, body, query
from api.openapi.describe import changes, creates, lists, reads
from api.pagination import PageQuery, order_field, search_field, sorted_list
from api.preconditions import shown
from api.v1.shapes import ListedTenantOut, TenantOut, tenant_shown
from api.v1.tenant_moves import MoveDryRunOut, moves_shown, stranded_choice
from quotas import tenants as services
from quotas.keyset import every_row
from quotas.policies.spec import CARRIES
from quotas.policies.tier import LONGEST_LABEL
from quotas.tenant_list import ORDERS, STATES, TENANT_COLUMNS, TenantFilter, tenant_cells, tenants_found
from quotas.tenants.fields import LONGEST_CONTACT, MOST_CONTACTS, MOST_TAGS, TAG
from tenants.models import TENANT_NAME, WORD, Tenant


def tags_field(**more: Any) -> serializers.ListField:
    return serializers.ListField(child=Word(TAG), max_length=MOST_TAGS, help_text="For filters and bulk edits.", **more)


def contacts_field(**more: Any) -> serializers.ListField:
    child = Line(max_length=LONGEST_CONTACT)
    return serializers.ListField(child=child, max_length=MOST_CONTACTS, help_text="Mail addresses.", **more)


class NewTenant(Reasoned):
    name = Word(TENANT_NAME)
    tier = Word(WORD)
    label = Line(max_length=LONGEST_LABEL, allow_blank=True, default="")  # type: ignore[assignment]
    timezone = TimeZone(max_length=64, default="UTC", help_text="An IANA name such as Europe/Berlin.")
    tags = tags_field(default=list)
    contacts = contacts_field(default=list)
    priority = HighestPriority(default="")


class TenantChange(Reasoned):
    label = Line(max_length=LONGEST_LABEL, allow_blank=True, required=False)  # type: ignore[assignment]
    timezone = TimeZone(max_length=64, required=False)
    tags = tags_field(required=False)
    contacts = contacts_field(required=False)
    priority = HighestPriority(required=False)


class Move(Guarded):
    tier = Word(WORD)
    carry = Choice(choices=CARRIES, default="keep", help_text="What happens to current usage.")
    stranded_overrides = stranded_choice("leave_out")


CURRENT, ANY = "current", "any"


class TenantsAsked(Query):
    tier = serializers.RegexField(
        rf"^{WORD}(,{WORD})*$", required=False, max_length=1_000, help_text="One, or several separated by commas."
    )
    suspended = serializers.BooleanField(required=False)
    tag = serializers.CharField(required=False, max_length=40)
    state = serializers.ChoiceField(
        choices=[CURRENT, *STATES, ANY], default=CURRENT, help_text="By default all but archived ones; `any`: all."
    )
    order = order_field(*ORDERS)
    search = search_field("the name, the label, a tag or a contact")


class TenantQuery(PageQuery, TenantsAsked):
    pass


class TenantList(APIView):
    @lists(TenantQuery, ListedTenantOut)
    def get(self, request: Request) -> Response:
        """Tenants, with their figures of the last day. A tenant's own credentials only see that tenant."""
        found = _found(request, query(TenantQuery, request))
        return sorted_list(request, TenantQuery, found, ORDERS, ListedTenantOut)

    @creates(NewTenant, TenantOut)
    def post(self, request: Request) -> Response:
        """Creates a tenant on a tier. The tier's limits apply from its first request."""
        fields = body(NewTenant, request)
        who = signed(request, fields)
        edit = Edit(partial(services.tenant_create, **fields), who, lambda row: tenant_shown(request, row.name))
        return created(request, edit, where=lambda row: reverse("v1:tenant", args=[row.name]))


class TenantsCsv(APIView):
    renderer_classes = [JSONRenderer, CsvRenderer]

    @exports(TenantsAsked, TENANT_COLUMNS)
    def get(self, request: Request) -> StreamingHttpResponse:
        """The same list as CSV, as a whole. Cells that look like a formula begin with an apostrophe."""
        asked, now = query(TenantsAsked, request), timezone.now()
        rows = every_row(_found(request, asked), ORDERS, asked["order"])
        lines = (tenant_cells(row, now) for row in rows)
        return csv_download(request._request, "tenants.csv", TENANT_COLUMNS, lines)


def _found(request: Request, asked: Fields) -> QuerySet[Tenant]:
    tiers = asked["tier"].split(",") if "tier" in asked else ()
    wanted = TenantFilter(asked.get("search", ""), tiers, asked["state"], asked.get("tag", ""))
    by_staff = principal_of(request).tenant is None
    rows = tenants_found(tenants_of(request), wanted, timezone.now(), by_staff=by_staff)
    return rows.filter(suspended=asked["suspended"]) if "suspended" in asked else rows


class TenantDetail(APIView):
    @reads(TenantOut)
    def get(self, request: Request, name: str) -> Response:
        """One tenant, with its tier and whether it is suspended."""
        return shown(request, tenant_shown(request, name))

    @changes(TenantChange, TenantOut, needs_match=True)
    def patch(self, request: Request, name: str) -> Response:
        """Changes a tenant's label, time zone, tags, contacts or priority. Calendar quotas count days in that zone."""
        fields = body(TenantChange, request)
        who = signed(request, fields)
        return _change(request, name, partial(services.tenant_update, name=name, **fields), who)


class TenantMove(APIView):
    @changes(Move, TenantOut, dry=MoveDryRunOut)
    def post(self, request: Request, name: str) -> Response:
        """Moves a tenant to another tier. A dry run tells which limits change, and which get tighter."""
        fields = body(Move, request)
        who = permitted(request, fields)
        preview = partial(moves_shown, [name], fields["tier"], fields["stranded_overrides"])
        return _change(request, name, partial(services.tenant_move, name=name, **fields), who, preview)


class TenantSuspend(APIView):
    @changes(Reasoned, TenantOut)
    def post(self, request: Request, name: str) -> Response:
        """Suspends a tenant: all its requests are denied until it is resumed."""
        who = signed(request, body(Reasoned, request))
        return _change(request, name, partial(services.tenant_suspend, name=name), who)


class TenantResume(APIView):
    @changes(Reasoned, TenantOut)
    def post(self, request: Request, name: str) -> Response:
        """Ends a suspension. The tenant's limits apply again."""
        who = signed(request, body(Reasoned, request))
        return _change(request, name, partial(services.tenant_resume, name=name), who)


class TenantArchive(APIView):
    @changes(Reasoned, TenantOut)
    def post(self, request: Request, name: str) -> Response:
        """Archives a tenant that has left: its requests get a 403, its keys are revoked, its overrides end.

        Its name stays taken, and its usage is kept. Headroom's own tenant and the stand-in for unknown tenants stay.
        """
        who = signed(request, body(Reasoned, request))
        return _change(request, name, partial(services.tenant_archive, name=name), who)


class TenantRestore(APIView):
    @changes(Reasoned, TenantOut)
    def post(self, request: Request, name: str) -> Response:
        """Brings an archived tenant back. Its keys stay revoked: issue new ones."""
        who = signed(request, body(Reasoned, request))
        return _change(request, name, partial(services.tenant_restore, name=name), who)


def _change(
    request: Request,
    name: str,
    call: Callable[..., object],
    who: Signed | Permitted,
    more: Callable[[], dict[str, Any]] | None = None,
) -> Response:
    def present(_: object = None) -> dict[str, Any]:
        return tenant_shown(request, name)

    return changed(request, Edit(call, who, present, present, more=more))
