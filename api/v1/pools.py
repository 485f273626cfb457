from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, get_args

from django.http import Http404
from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from api.edits import Edit, Guarded, changed, created, permitted
from api.inputs import Choice, Flag, Number, Query, Strict, Text, Whole, Word, body, query
from api.openapi.describe import changes, creates, lists, reads
from api.pagination import PageQuery, cursor_read, cursor_written, order_field, sequence_page
from api.preconditions import shown
from headroom_edge.algorithms.base import EXACT_MAX, SECOND_US
from headroom_edge.algorithms.bucket import RATE
from headroom_edge.algorithms.sharing import MOST_WEIGHT
from quotas.errors import refuse
from quotas.policies.chains import Promise
from quotas.policies.endpoint import LONGEST_NAME
from quotas.policies.spec import CARRIES, Mode
from quotas.policies.validate import POLICY_FIELDS
from quotas.pools.amounts import KEEP
from quotas.pools.members import Members, Share, members_read, tenant_members
from quotas.pools.queries import PoolRow, pool_read, pool_state, pools_found
from quotas.pools.shares import (
    MOST_SHARES,
    WantedShare,
    member_add,
    pool_create,
    pool_set,
    promise_with_member,
    promise_with_pool,
    shares_plan,
    shares_set,
)
from quotas.pools.use import Amount, PoolUse, use_read
from tenants.models import TENANT_NAME, WORD, Tenant

KINDS = ("shared", "tier", "tenant")  # in the order of the list
LONGEST_RATE = 40
CARRY = "What happens to current usage: keep it, scale it in proportion to the limit, or reset it."
IN_TIME = "In the time of the pool's rate (`per`)."
REMOVE = (
    "Removes the limit that gives this share. Of a tenant only its own can go, and that of its tier holds again; "
    "without `tenant` it is a limit of everyone, or of all tenants of the tier."
)
CEILING = "Above 0, in the time of the pool's rate. null: none."


class Units(Number):
    """Decimals are kept exactly."""

    def to_internal_value(self, data: Any) -> Any:
        return Fraction(repr(super().to_internal_value(data)))


class PoolOut(serializers.Serializer[Any]):
    policy = serializers.CharField()
    name = serializers.CharField(help_text="Of the limit. With `policy`, it is the pool's identity.")
    kind = serializers.ChoiceField(
        choices=KINDS,
        help_text="`shared`: one pool for all tenants. `tier`: each tenant of the tier has one. `tenant`: one has it.",
    )
    tier = serializers.CharField(allow_null=True)
    tenant = serializers.CharField(allow_null=True)
    endpoint = serializers.CharField(source="scope", help_text="`service:operation`, `service:*` or `*`.")
    rate = serializers.FloatField()
    per = serializers.CharField()
    burst = serializers.IntegerField(source="algorithm.burst")
    reserve = serializers.IntegerField(source="algorithm.reserve", help_text="Of the burst, never lent.")
    unit = serializers.CharField()
    mode = serializers.CharField()
    subject = serializers.CharField(source="row.subject")


class PoolDetailOut(PoolOut):
    members = serializers.IntegerField(help_text="Tenants, or limits of the tenant, that have a share.")
    guaranteed = serializers.FloatField(help_text=f"All guaranteed shares together. {IN_TIME}")
    kept_percent = serializers.IntegerField(help_text="How much of the shares it keeps while everybody uses theirs.")
    warnings = serializers.ListField(child=serializers.CharField())
    revision = serializers.IntegerField(help_text="The newest revision that gave the pool, or a share, its numbers.")
    version = serializers.CharField(help_text="Changes when a share is added, changed or removed.")


class AmountOut(serializers.Serializer[Any]):
    """Requests, or units if the pool counts costs."""

    used = serializers.IntegerField(help_text="Let through, with what was borrowed.")
    borrowed = serializers.IntegerField(source="lent")
    denied = serializers.IntegerField(help_text="Requests that a limit of the pool denied.")


class PoolUseOut(serializers.Serializer[Any]):
    measured_at = serializers.DateTimeField(allow_null=True, help_text="The end of the last minute. null: never.")
    minute = AmountOut(source="now", help_text="The last minute that is measured.")
    day = AmountOut(help_text="The current hour and the 23 before.")
    busiest_minute = serializers.IntegerField(source="busiest", help_text="The most used in one minute of 24 hours.")


class ShareOut(serializers.Serializer[Any]):
    tenant = serializers.CharField(help_text="Empty: a limit of everyone, or of each tenant of the tier.")
    limit = serializers.CharField()
    endpoint = serializers.CharField(source="scope")
    parent = serializers.CharField(help_text="The limit that it borrows from.")  # type: ignore[assignment]
    level = serializers.IntegerField(help_text="2: right under the pool.")
    subject = serializers.CharField()
    guaranteed = serializers.FloatField(help_text=IN_TIME)
    ceiling = serializers.FloatField(allow_null=True, help_text=f"{IN_TIME} null: as much as the pool lends.")
    weight = serializers.IntegerField()
    source = serializers.CharField(help_text="Where it comes from, such as `tier pro × *`.")  # type: ignore[assignment]
    own = serializers.BooleanField(help_text="Whether it is from a policy of the tenant's own.")
    priority = serializers.CharField(
        help_text="The lowest of the endpoint's, the tier's and the tenant's. Empty: each endpoint's own."
    )
    minute = AmountOut()
    day = AmountOut()


class PoolsQuery(PageQuery):
    tenant = serializers.CharField(required=False, max_length=63, help_text="Pools that hold for this tenant.")
    endpoint = serializers.CharField(required=False, max_length=128, help_text="Pools that count this endpoint.")


class TenantQuery(Query):
    tenant = serializers.CharField(
        required=False, max_length=63, help_text="For a tier's pool: the tenant whose pool is meant."
    )


class MembersQuery(PageQuery):
    tenant = TenantQuery().fields["tenant"]
    order = order_field("name", "asked")


class EndpointOrService(Text):
    stated = {"pattern": POLICY_FIELDS["endpoint"]["pattern"]}


@extend_schema_field(RATE.schema())
class TypedRate(Number):
    """A number, or text that names its time: `4.2/10s`."""

    def to_internal_value(self, data: Any) -> Any:
        return data if isinstance(data, str) and len(data) <= LONGEST_RATE else super().to_internal_value(data)


class PoolChange(Guarded):
    """Fields that are left out stay as they are."""

    rate = TypedRate(required=False, help_text="Units per `per`; `4.2/10s` has its own `per`.")
    burst = Whole(required=False, min_value=1, max_value=EXACT_MAX)
    reserve = Whole(required=False, min_value=0, max_value=EXACT_MAX)
    carry = Choice(choices=CARRIES, default="keep", help_text=CARRY)


class NewPool(Guarded):
    name = Word(WORD, help_text="Of the limit.")
    tier = Word(WORD, required=False, allow_null=True)
    tenant = Word(TENANT_NAME, required=False, allow_null=True)
    endpoint = EndpointOrService(max_length=LONGEST_NAME, default="*")
    rate = Number(min_value=0, help_text="Units per `per`.")
    per = Text(default="1s", max_length=20)
    burst = Whole(required=False, min_value=1, max_value=EXACT_MAX)
    reserve = Whole(required=False, min_value=0, max_value=EXACT_MAX)
    mode = Choice(choices=get_args(Mode), default="enforce", help_text="`shadow`: it counts, and denies nobody.")

    # Not for both.
    rules = {"anyOf": [{"properties": {"tier": {"type": "null"}}}, {"properties": {"tenant": {"type": "null"}}}]}


class ShareChange(Strict):
    tenant = Word(f"({TENANT_NAME})?", default="", help_text="Empty: a limit of everyone or of the tier.")
    limit = Word(f"({WORD})?", default="", help_text="Needed if the tenant has several shares.")
    endpoint = EndpointOrService(required=False, max_length=LONGEST_NAME, help_text="Likewise.")
    guaranteed = Units(required=False, min_value=0, max_value=EXACT_MAX, help_text=IN_TIME)
    ceiling = Units(required=False, allow_null=True, min_value=0, max_value=EXACT_MAX, help_text=CEILING)
    weight = Whole(required=False, allow_null=True, min_value=1, max_value=MOST_WEIGHT, help_text="null: the share.")
    remove = Flag(default=False, help_text=REMOVE)


class SharesChange(Guarded):
    shares = serializers.ListField(child=ShareChange(), min_length=1, max_length=MOST_SHARES)
    carry = Choice(choices=CARRIES, default="keep", help_text=CARRY)


class NewMember(Guarded):
    tier = Word(WORD, required=False, allow_null=True, help_text="Each tenant of this tier gets the share.")
    tenant = Word(TENANT_NAME, required=False, allow_null=True)
    limit = Word(f"({WORD})?", default="", help_text="The name of its limit; empty: as the other members have it.")
    endpoint = EndpointOrService(required=False, max_length=LONGEST_NAME, help_text="Where, if not where the pool is.")
    guaranteed = Units(min_value=0, max_value=EXACT_MAX, help_text=IN_TIME)
    ceiling = Units(required=False, allow_null=True, min_value=0, max_value=EXACT_MAX, help_text=CEILING)
    weight = Whole(required=False, allow_null=True, min_value=1, max_value=MOST_WEIGHT)

    # Not for both.
    rules = {"anyOf": [{"properties": {"tier": {"type": "null"}}}, {"properties": {"tenant": {"type": "null"}}}]}


class PoolList(APIView):
    @lists(PoolsQuery, PoolOut)
    def get(self, request: Request) -> Response:
        """Pools, the shared ones first."""
        asked = query(PoolsQuery, request)
        tenant = _tenant(asked["tenant"]) if "tenant" in asked else None
        found = pools_found(tenant=tenant, scope=asked.get("endpoint"), most=None)
        return Response(sequence_page(sorted(found, key=_place), asked, PoolOut, key=_place))

    @creates(NewPool, PoolDetailOut)
    def post(self, request: Request) -> Response:
        """Creates a pool for everyone, a tier or a tenant. It joins the policy of that place, or makes one."""
        fields = body(NewPool, request)
        who = permitted(request, fields)
        place = {name: fields.pop(name, None) for name in ("name", "tier", "tenant", "endpoint")}
        edit = Edit(partial(pool_create, fields=_rated(fields), **place), who, _detail)
        return created(request, edit, where=_address)


class PoolDetail(APIView):
    @reads(PoolDetailOut)
    def get(self, request: Request, name: str, limit: str) -> Response:
        """One pool, with what it has promised to its members."""
        return shown(request, _detail(_found(name, limit)))

    @changes(PoolChange, PoolDetailOut, needs_match=True)
    def patch(self, request: Request, name: str, limit: str) -> Response:
        """Changes the rate, the burst or the reserve of a pool."""
        pool = _found(name, limit)
        fields = body(PoolChange, request)
        who, carry = permitted(request, fields), fields.pop("carry")
        write = partial(pool_set, policy=name, limit=limit, fields=_rated(fields), carry=carry)
        more = _warned(partial(promise_with_pool, pool, _rated(fields)))
        return changed(request, Edit(write, who, lambda _: _now(name, limit), lambda: _now(name, limit), more=more))


class PoolUsed(APIView):
    @reads(PoolUseOut, TenantQuery)
    def get(self, request: Request, name: str, limit: str) -> Response:
        """How much of a pool is used and borrowed: in the last minute, and in 24 hours."""
        pool = _found(name, limit)
        whose = _whose(pool, query(TenantQuery, request).get("tenant"))
        members = tenant_members(pool, whose.name) if whose else members_read(pool)
        return shown(request, PoolUseOut(use_read(pool, members, tenant=whose.number if whose else None)).data)


class PoolMembers(APIView):
    @lists(MembersQuery, ShareOut)
    def get(self, request: Request, name: str, limit: str) -> Response:
        """The shares of a pool, with what each member uses. The limits below a share follow it."""
        asked = query(MembersQuery, request)
        pool = _found(name, limit)
        whose = _whose(pool, asked.get("tenant"))
        after = cursor_read(asked)
        if whose:
            members = tenant_members(pool, whose.name)
        else:
            members = members_read(pool, order=asked["order"], after=after, size=asked["limit"])
        use = use_read(pool, members, tenant=whose.number if whose else None)
        nodes = [] if after else members.nodes
        items = [_share(pool, share, use) for each in (*nodes, *members.shares) for share in (each, *each.children)]
        return Response({"items": items, "next": cursor_written(asked, members.next)})

    @creates(NewMember, PoolDetailOut)
    def post(self, request: Request, name: str, limit: str) -> Response:
        """Adds a member: a tenant, or each tenant of a tier.

        A shared pool needs one of the two; other pools belong to a tier or a tenant already.
        """
        pool = _found(name, limit)
        fields = body(NewMember, request)
        if pool.kind == "shared" and not (fields.get("tier") or fields.get("tenant")):
            raise refuse("tenant", "missing", "name a tenant or a tier")
        who = permitted(request, fields)
        renamed = {"assured": fields["guaranteed"], "ceiling": fields.get("ceiling"), "weight": fields.get("weight")}
        member: dict[str, Any] = {
            "tier": fields.get("tier"),
            "tenant": fields.get("tenant"),
            "name": fields["limit"],
            "scope": fields.get("endpoint", ""),
            "fields": {field: value for field, value in renamed.items() if value is not None},
        }
        add = partial(member_add, policy=name, limit=limit, **member)
        more = _warned(partial(promise_with_member, pool, **member))
        edit = Edit(add, who, lambda _: _now(name, limit), more=more)
        return created(request, edit, where=lambda _: reverse("v1:pool-members", args=[name, limit]))

    @changes(SharesChange, PoolDetailOut, needs_match=True)
    def patch(self, request: Request, name: str, limit: str) -> Response:
        """Changes shares in one revision. Members that are not named keep theirs. If-Match takes the pool's ETag."""
        pool = _found(name, limit)
        fields = body(SharesChange, request)
        who = permitted(request, fields)
        wanted = [_wanted(each) for each in fields["shares"]]
        write = partial(shares_set, policy=name, limit=limit, shares=wanted, carry=fields["carry"])
        more = _warned(lambda: shares_plan(pool, wanted).promise)
        return changed(request, Edit(write, who, lambda _: _now(name, limit), lambda: _now(name, limit), more=more))


def _warned(promised: Callable[[], Promise]) -> Callable[[], dict[str, Any]]:
    """For a dry run: what the pool could not keep."""
    return lambda: {"warnings": list(promised().warnings)}


def _wanted(fields: dict[str, Any]) -> WantedShare:
    return WantedShare(
        tenant=fields["tenant"],
        limit=fields["limit"],
        scope=fields.get("endpoint", ""),
        assured=fields.get("guaranteed", KEEP),
        ceiling=fields.get("ceiling", KEEP),
        weight=fields.get("weight", KEEP),
        is_removed=fields["remove"],
    )


def _rated(fields: dict[str, Any]) -> dict[str, Any]:
    """A whole rate as a whole number."""
    rate = fields.get("rate")
    return fields if not isinstance(rate, float) or rate != int(rate) else {**fields, "rate": int(rate)}


def _found(policy: str, limit: str) -> PoolRow:
    pool = pool_read(policy, limit)
    if pool is None:
        raise Http404
    return pool


def _address(pool: PoolRow | None) -> str:
    return reverse("v1:pool", args=[pool.policy, pool.name]) if pool else ""


def _tenant(name: str) -> Tenant:
    row = Tenant.objects.filter(name=name).first()
    if row is None:
        raise refuse("tenant", "unknown", f"there is no tenant {name}; correct the name")
    return row


def _whose(pool: PoolRow, name: str | None) -> Tenant | None:
    """Whose pool is asked about; None: it is shared."""
    if pool.kind == "shared":
        if name is not None:
            raise refuse("tenant", "shared", f"{pool.name} is shared by all tenants; leave tenant out")
        return None
    wanted = name or pool.tenant
    if wanted is None:
        raise refuse("tenant", "missing", f"each tenant of {pool.tier} has such a pool; say whose with tenant")
    row = _tenant(wanted)
    if pool.tenant not in (None, row.name) or (pool.tier and row.tier.name != pool.tier):
        raise refuse(
            "tenant", "unknown", f"{row.name} has no pool {pool.name} of {pool.policy}; name a tenant that has"
        )
    return row


def _place(pool: PoolRow) -> tuple[int, str, str]:
    return KINDS.index(pool.kind), pool.policy, pool.name


def _fields(pool: PoolRow) -> dict[str, Any]:
    names = ("policy", "name", "kind", "tier", "tenant", "scope", "rate", "per", "algorithm", "unit", "mode", "row")
    return {name: getattr(pool, name) for name in names}


def _now(policy: str, limit: str) -> dict[str, Any]:
    return _detail(_found(policy, limit))


def _detail(pool: PoolRow | None) -> dict[str, Any]:
    if pool is None:
        raise Http404
    members = members_read(pool)
    told, state = members.promise, pool_state(pool, _lenders(pool, members))
    more = {
        "members": members.count,
        "guaranteed": float(told.assured * pool.per_us / SECOND_US),
        "kept_percent": told.percent,
        "warnings": told.warnings,
        "revision": state.revision,
        "version": state.version,
    }
    return {**PoolDetailOut({**_fields(pool), **more}).data}


def _lenders(pool: PoolRow, members: Members) -> list[str]:
    return [pool.name, *(node.limit for node in members.nodes)]


def _share(pool: PoolRow, share: Share, use: PoolUse) -> dict[str, Any]:
    ceiling = share.ceiling(pool.algorithm)
    names = ("tenant", "limit", "scope", "parent", "level", "subject", "source", "priority")
    fields: dict[str, Any] = {name: getattr(share, name) for name in names}
    fields |= {
        "guaranteed": float(share.assured(pool.algorithm)),
        "ceiling": None if ceiling is None else float(ceiling),
        "weight": share.algorithm.counts_as,
        "own": share.is_own,
        "minute": _amount(use.member(share)),
        "day": _amount(use.member_day(share)),
    }
    return {**ShareOut(fields).data}


def _amount(amount: Amount) -> dict[str, int]:
    return {"used": amount.used, "lent": amount.lent, "denied": amount.denied}
