from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from access.authentication import narrowed
from api.edits import Edit, Guarded, GuardedRemovalQuery, Permitted, changed, created, permitted
from api.inputs import LIMITS, Choice, LimitField, Text, Word, body, query
from api.openapi.describe import changes, creates, lists, reads, removes
from api.pagination import PageQuery, listed, order_field, search_field
from api.preconditions import shown
from quotas.errors import refuse
from quotas.models import Limit, Policy
from quotas.policies import edit as services
from quotas.policies.endpoint import LONGEST_NAME
from quotas.policies.limit_codec import limit_list, row_fields
from quotas.policies.rename import limit_rename, policy_rename
from quotas.policies.spec import CARRIES
from quotas.policies.validate import MOST_LIMITS, POLICY_FIELDS
from tenants.models import TENANT_NAME, WORD

FIXED = ("name", "tier", "tenant", "endpoint", "candidates")  # of a policy that exists
CARRY = "What happens to current usage: keep it, scale it in proportion to the limit, or reset it."


class PolicyOut(serializers.Serializer[Any]):
    name = serializers.CharField()
    tier = serializers.CharField(allow_null=True, source="tier.name", default=None)
    tenant = serializers.CharField(allow_null=True, source="tenant.name", default=None)
    endpoint = serializers.CharField(source="scope", help_text="`service:operation`, `service:*` or `*`.")
    limits = serializers.SerializerMethodField()
    candidates = serializers.SerializerMethodField(help_text="By limit: parameters that are tried out in shadow.")

    @extend_schema_field(LIMITS)
    def get_limits(self, row: Policy) -> list[dict[str, Any]]:
        return limit_list({limit.name.name: row_fields(limit) for limit in _limits(row)})

    def get_candidates(self, row: Policy) -> dict[str, Any]:
        return {limit.name.name: limit.candidate for limit in _limits(row) if limit.candidate}


class LimitsChange(Guarded):
    limits = serializers.ListField(
        child=LimitField(),
        min_length=1,
        max_length=MOST_LIMITS,
        help_text="All limits of the policy. Limits that are not listed are removed.",
    )
    carry = Choice(choices=CARRIES, default="keep", help_text=CARRY)


class EndpointOrService(Text):
    stated = {"pattern": POLICY_FIELDS["endpoint"]["pattern"]}


class WholePolicy(LimitsChange):
    """Takes what GET gave. Only the limits can be changed; the other fields may be left out."""

    name = Word(WORD, required=False)
    tier = Word(WORD, required=False, allow_null=True)
    tenant = Word(TENANT_NAME, required=False, allow_null=True)
    endpoint = EndpointOrService(required=False, max_length=LONGEST_NAME)
    candidates = serializers.DictField(required=False, child=serializers.DictField())


class NewPolicy(LimitsChange):
    name = Word(WORD)
    tier = Word(WORD, required=False, allow_null=True)
    tenant = Word(TENANT_NAME, required=False, allow_null=True)
    endpoint = EndpointOrService(
        max_length=LONGEST_NAME, default="*", help_text="`service:operation`, `service:*` or `*`."
    )

    # Not for both.
    rules = {"anyOf": [{"properties": {"tier": {"type": "null"}}}, {"properties": {"tenant": {"type": "null"}}}]}


class LimitChange(Guarded):
    limit = LimitField(help_text="The limit. Its name is the one in the path.")
    carry = Choice(choices=CARRIES, default="keep", help_text=CARRY)


class CarryQuery(GuardedRemovalQuery):
    carry = serializers.ChoiceField(choices=CARRIES, default="keep", help_text=CARRY)


class Renaming(Guarded):
    to = Word(WORD, help_text="The new name.")


class LimitRenaming(Renaming):
    carry = Choice(choices=CARRIES, default="keep", help_text=CARRY)


class PolicyQuery(PageQuery):
    tier = serializers.CharField(required=False, max_length=63)
    tenant = serializers.CharField(required=False, max_length=63)
    endpoint = serializers.CharField(required=False, max_length=128)
    order = order_field("name", "created")
    search = search_field("the name")

    orders = {"name": "name", "created": "id"}
    lookups = {"tier": "tier__name", "tenant": "tenant__name", "endpoint": "endpoint__name"}
    searched = ("name",)


class PolicyList(APIView):
    @lists(PolicyQuery, PolicyOut)
    def get(self, request: Request) -> Response:
        """Policies, with their limits and what they are attached to."""
        return listed(request, PolicyQuery, _rows(request), PolicyOut)

    @creates(NewPolicy, PolicyOut)
    def post(self, request: Request) -> Response:
        """Creates a policy for a tier or a tenant, or for everyone if neither is given."""
        fields = body(NewPolicy, request)
        who = permitted(request, fields)
        create = partial(services.policy_create, **fields)
        edit = Edit(create, who, lambda row: _policy(request, row.name), warns=True)
        return created(request, edit, where=lambda row: reverse("v1:policy", args=[row.name]))


class PolicyDetail(APIView):
    @reads(PolicyOut)
    def get(self, request: Request, name: str) -> Response:
        """One policy with its limits."""
        return shown(request, _policy(request, name))

    @changes(WholePolicy, PolicyOut, needs_match=True)
    def put(self, request: Request, name: str) -> Response:
        """Replaces a policy's limits. `carry` decides about the usage of limits that keep their name."""
        fields = body(WholePolicy, request)
        who = permitted(request, fields)
        given = {field: fields.pop(field) for field in FIXED if field in fields}

        def write(**signed: Any) -> object:
            _check_same(given, _policy(request, name) if given else {})
            return services.policy_update(name=name, **fields, **signed)

        return changed(request, edit_of(request, name, write, who))

    @removes(CarryQuery)
    def delete(self, request: Request, name: str) -> Response:
        """Deletes a policy and its limits."""
        asked = query(CarryQuery, request)
        who = permitted(request, asked)
        delete = partial(services.policy_delete, name=name, carry=asked["carry"])
        return changed(request, edit_of(request, name, delete, who), asked)


class PolicyLimit(APIView):
    @changes(LimitChange, PolicyOut, needs_match=True)
    def put(self, request: Request, name: str, limit: str) -> Response:
        """Adds a limit, or replaces the one with that name. If-Match takes the policy's ETag."""
        fields = body(LimitChange, request)
        who = permitted(request, fields)
        wanted = {**fields["limit"], "name": limit}
        write = partial(services.limit_set, policy=name, limit=wanted, carry=fields["carry"])
        return changed(request, edit_of(request, name, write, who))

    @removes(CarryQuery)
    def delete(self, request: Request, name: str, limit: str) -> Response:
        """Removes a limit. The last one cannot be removed; delete the policy instead."""
        asked = query(CarryQuery, request)
        who = permitted(request, asked)
        remove = partial(services.limit_remove, policy=name, limit=limit, carry=asked["carry"])
        return changed(request, edit_of(request, name, remove, who), asked)


class PolicyRename(APIView):
    @changes(Renaming, PolicyOut)
    def post(self, request: Request, name: str) -> Response:
        """Renames a policy. Nothing that is enforced or counted changes."""
        fields = body(Renaming, request)
        who = permitted(request, fields)
        rename = partial(policy_rename, name=name, to=fields["to"])
        return changed(
            request, Edit(rename, who, lambda row: _policy(request, row.name), lambda: _policy(request, name))
        )


class PolicyLimitRename(APIView):
    @changes(LimitRenaming, PolicyOut)
    def post(self, request: Request, name: str, limit: str) -> Response:
        """Renames a limit of a policy.

        Its counts go along if no other policy has a limit with the old name and the new name was never used. Otherwise
        it starts anew under the new name. If-Match takes the policy's ETag.
        """
        fields = body(LimitRenaming, request)
        who = permitted(request, fields)
        rename = partial(limit_rename, policy=name, limit=limit, **fields)
        return changed(request, edit_of(request, name, rename, who))


def edit_of(request: Request, name: str, call: Callable[..., object], who: Permitted) -> Edit[object]:
    return Edit(call, who, lambda _: _policy(request, name), lambda: _policy(request, name), warns=True)


def _check_same(given: Mapping[str, Any], policy: Mapping[str, Any]) -> None:
    for field, value in given.items():
        if value != policy[field]:
            message = f"{field} cannot be changed here; leave it out, or send what GET gave"
            raise refuse(field, "fixed", message)


def _rows(request: Request) -> QuerySet[Policy]:
    limits = Limit.objects.select_related("name").order_by("name__name")
    rows = Policy.objects.select_related("tier", "tenant", "endpoint").prefetch_related(Prefetch("limits", limits))
    return narrowed(request, rows, "tenant")


def _policy(request: Request, name: str) -> dict[str, Any]:
    return PolicyOut(get_object_or_404(_rows(request), name=name)).data


def _limits(row: Policy) -> list[Limit]:
    return list(row.limits.all())
