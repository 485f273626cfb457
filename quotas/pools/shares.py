"""Writes the shares of a pool, and pools.

A member's own share of a shared pool is a policy of that tenant, with a limit of the same name on the same scope as its
tier's. All shares that are saved together are one revision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Unpack

from django.db.models import Exists, OuterRef, Q

from headroom_edge.algorithms import FIELDS
from headroom_edge.algorithms.base import SECOND_US, ParameterError
from headroom_edge.algorithms.sharing import Borrowing, Pool
from quotas.changes.draft import Permits
from quotas.errors import refuse
from quotas.matrix.edit import Edit, limits_set
from quotas.models import Limit, Revision
from quotas.policies.chains import Promise
from quotas.policies.edit import find_limit, find_policy
from quotas.policies.limit_codec import row_fields
from quotas.policies.spec import EVERYWHERE, Carry
from quotas.pools.amounts import (
    KEEP,
    Amounts,
    Units,
    amount_words,
    amounts_after,
    amounts_of,
    proposed_fields,
    share_fields,
)
from quotas.pools.members import Share, every_share, members_read, shares_of, tenant_members
from quotas.pools.queries import PoolRow, covers, pool_read, sharing_limits
from quotas.pools.use import ShareKey, key_of
from tenants.models import Tenant

Fields = Mapping[str, Any]

MOST_SHARES: Final = 200  # in one edit
# Bursts follow the amounts, so what is wrong with one is to be mended there.
USUAL_OF: Final = {"burst": "assured", "ceiling_burst": "ceiling"}


@dataclass(frozen=True, slots=True)
class WantedShare:
    """What one member shall have. Rates are in the time of the pool's rate."""

    tenant: str = ""  # empty: a limit of everyone, of the tier, or of the tenant whose pool it is
    limit: str = ""  # empty: the one that the tenant has
    scope: str = ""  # empty: as above
    assured: Units = KEEP
    ceiling: Units | None = KEEP  # None: none
    weight: int | None = KEEP  # None: as its share
    exactly: Borrowing | None = None  # instead of the amounts: all of its parameters
    is_removed: bool = False  # its own share goes; that of its tier holds again, if there is one


def find_pool(policy: str, limit: str) -> PoolRow:
    found = pool_read(policy, limit)
    if found is None:
        find_limit(find_policy(policy), limit)  # says which of the two does not exist
        raise refuse("limit", "algorithm", f"limit {limit} of policy {policy} is no pool; name a pool")
    return found


def shares_set(
    *,
    policy: str,
    limit: str,
    shares: Sequence[WantedShare],
    author: str,
    reason: str,
    carry: Carry = "keep",
    **permits: Unpack[Permits],
) -> Revision | None:
    """Members that are not named stay as they are."""
    pool = find_pool(policy, limit)
    edits = [each.edit for each in share_edits(pool, shares)]
    return limits_set(edits=edits, author=author, reason=reason, carry=carry, **permits)


@dataclass(frozen=True, slots=True)
class ShareEdit:
    share: Share  # as it is now
    edit: Edit


def share_edits(pool: PoolRow, wanted: Sequence[WantedShare]) -> list[ShareEdit]:
    if not wanted or len(wanted) > MOST_SHARES:
        raise refuse("shares", "count", f"name from 1 to {MOST_SHARES} members; split a larger edit")
    present = shares_of(pool, sorted({each.tenant for each in wanted if each.tenant}))
    chosen = [(each, _present(pool, each, present)) for each in wanted]
    rows = _rows([share for _, share in chosen])
    edits = [ShareEdit(share, _edit(pool, each, share, rows[share.policy, share.limit])) for each, share in chosen]
    places = [(each.edit.place, each.edit.name) for each in edits]
    if len(set(places)) < len(places):
        raise refuse("shares", "twice", "a member is named twice; name each member once")
    return edits


def _present(pool: PoolRow, wanted: WantedShare, shares: Sequence[Share]) -> Share:
    owner = wanted.tenant or (pool.tenant or "")
    fits = [
        share
        for share in shares
        if share.tenant == owner and wanted.limit in ("", share.limit) and wanted.scope in ("", share.scope)
    ]
    if len(fits) != 1 and not (wanted.tenant or wanted.limit):
        message = "a share has neither tenant nor limit; name its tenant, or its limit if it is of no single tenant"
        raise refuse("shares", "missing", message)
    told = f"tenant {wanted.tenant}" if wanted.tenant else f"limit {wanted.limit}"
    if not fits:
        raise refuse("shares", "unknown", f"{told} has no share of {pool.name}; add it as a member first")
    if len(fits) > 1:
        choices = ", ".join(f"{share.limit} on {share.scope}" for share in fits)
        raise refuse(
            "shares", "ambiguous", f"{told} has several shares of {pool.name} ({choices}); name limit and scope"
        )
    return fits[0]


def _rows(shares: Sequence[Share]) -> dict[tuple[str, str], Limit]:
    """The limits that give these shares, by policy and name."""
    limits = Limit.objects.select_related("name", "policy__tier")
    rows = limits.filter(policy__name__in={share.policy for share in shares})
    return {(row.policy.name, row.name.name): row for row in rows}


def _edit(pool: PoolRow, wanted: WantedShare, share: Share, row: Limit) -> Edit:
    if share.overrides:
        message = f"an override changes the share of {share.tenant} now; end it first, so that the new share holds"
        raise refuse("shares", "overridden", message)
    tenant = share.tenant or None
    # A tier's pool, and what is everyone's, is edited where it is written.
    tier = None if tenant else row.policy.tier
    edit = Edit(tier.name if tier else None, share.scope, share.limit, None, tenant=tenant)
    if wanted.is_removed:
        if tenant and not share.is_own:
            message = f"the share of {tenant} comes from {share.source}; change it there, or give it a share of its own"
            raise refuse("shares", "not_own", message)
        return edit
    fields = _fields(pool.algorithm, share, row, wanted)
    try:
        _borrowing(fields)
    except ParameterError as error:
        field = USUAL_OF.get(error.field, error.field)
        message = error.message.replace(error.field, field)
        raise refuse(field, error.code, f"the share of {_whose(share)}: {message}") from None
    return replace(edit, fields=fields)


def _whose(share: Share) -> str:
    return share.tenant or f"limit {share.limit}"


def _fields(pool: Pool, share: Share, row: Limit, wanted: WantedShare) -> dict[str, Any]:
    """The limit as it is, with the new share."""
    old = Borrowing.parse(dict(row.parameters))
    amounts = amounts_after(amounts_of(pool, old), wanted.assured, wanted.ceiling)
    _check_ceiling(share, amounts)
    others = {name: value for name, value in row_fields(row).items() if name not in FIELDS[Borrowing.name]}
    if wanted.exactly:
        return {**others, **proposed_fields(pool, old, wanted.exactly)}
    return {**others, **share_fields(pool, old, amounts, wanted.weight)}


def _check_ceiling(share: Share, amounts: Amounts) -> None:
    """The algorithm refuses it too, but does not know whose it is."""
    if amounts.ceiling is not None and amounts.ceiling < amounts.assured:
        raise refuse(
            "ceiling",
            "parameter",
            f"the ceiling of {_whose(share)}, {amount_words(amounts.ceiling)}, is below its guaranteed share of "
            f"{amount_words(amounts.assured)}; raise the ceiling, or lower the share",
        )


@dataclass(frozen=True, slots=True)
class SharesPlan:
    """An edit of shares that is not written yet."""

    edits: list[Edit]
    promise: Promise  # what the pool will have promised


def shares_plan(pool: PoolRow, wanted: Sequence[WantedShare]) -> SharesPlan:
    members = members_read(pool)
    edits = share_edits(pool, wanted)
    near = [each for each in edits if each.share.parent == pool.name]
    inherited = _inherited(pool, [each.share for each in near if each.edit.fields is None and each.share.is_own])
    told = members.promise
    for each in near:
        told = _with(told, each.share.algorithm, -1)
        after = inherited.get(key_of(each.share)) if each.edit.fields is None else _borrowing(each.edit.fields)
        told = _with(told, after) if after else told
    return SharesPlan([each.edit for each in edits], told)


def _inherited(pool: PoolRow, shares: Sequence[Share]) -> dict[ShareKey, Borrowing]:
    """What their tiers give the tenants once these shares of their own are gone."""
    if not shares:
        return {}
    tenants = Tenant.objects.filter(name__in={share.tenant for share in shares})
    tiers = dict(tenants.values_list("name", "tier"))
    rows = sharing_limits().exclude(mode="off").filter(algorithm=Borrowing.name, parameters__parent=pool.name)
    found = {
        (row.policy.tier_id, row.policy.scope, row.name.name): Borrowing.parse(dict(row.parameters))
        for row in rows.filter(policy__tier__in=tiers.values(), name__name__in={share.limit for share in shares})
    }
    keys = {key_of(share): (tiers[share.tenant], share.scope, share.limit) for share in shares}
    return {key: found[place] for key, place in keys.items() if place in found}


def promise_with_pool(pool: PoolRow, fields: Fields) -> Promise:
    """What the pool will have promised with these parameters."""
    wanted = _pool_fields(pool, fields)
    new = Pool.parse({name: wanted[name] for name in FIELDS[Pool.name] if name in wanted})
    rate = Fraction(new.rate * SECOND_US, new.per_us)
    return replace(members_read(pool).promise, rate=rate, reserve=new.reserve)


def promise_with_member(
    pool: PoolRow, *, fields: Fields, tier: str | None, tenant: str | None, name: str = "", scope: str = ""
) -> Promise:
    """What the pool will have promised with this member, as `member_add` takes it."""
    is_inside = tenant is not None and pool.kind != "shared"
    members = tenant_members(pool, str(tenant)) if is_inside else members_read(pool)
    new = _borrowing(_new_fields(pool, pool.name, fields))
    limit, place = name or usual_name(pool), scope or pool.scope
    if tier and pool.kind == "shared":
        return _with(members.promise, new, _without_own(tier, limit, place))
    told = members.promise
    present = shares_of(pool, [tenant]) if tenant and not is_inside else every_share(members.shares)
    for share in present if tenant else []:
        if (share.tenant, share.limit, share.scope, share.parent) == (tenant, limit, place, pool.name):
            told = _with(told, share.algorithm, -1)  # it replaces that of its tier
    return _with(told, new)


def _with(told: Promise, share: Borrowing, count: int = 1) -> Promise:
    more = Fraction(share.assured * SECOND_US, share.per_us)
    return replace(told, assured=told.assured + count * more, bursts=told.bursts + count * share.burst)


def _borrowing(fields: Fields) -> Borrowing:
    return Borrowing.parse({name: fields[name] for name in FIELDS[Borrowing.name] if name in fields})


def _without_own(tier: str, limit: str, scope: str) -> int:
    """How many tenants of the tier would have its share: those without such a limit of their own."""
    endpoint = None if scope == EVERYWHERE else scope
    own = Limit.objects.filter(policy__tenant=OuterRef("pk"), name__name=limit, policy__endpoint__name=endpoint)
    return Tenant.objects.filter(archived_at=None, tier__name=tier).exclude(Exists(own)).count()


def pool_set(
    *,
    policy: str,
    limit: str,
    fields: Fields,
    author: str,
    reason: str,
    carry: Carry = "keep",
    **permits: Unpack[Permits],
) -> Revision | None:
    """`fields`: any of rate, per, burst and reserve."""
    pool = find_pool(policy, limit)
    wanted = _pool_fields(pool, fields)
    edit = Edit(pool.tier, pool.scope, pool.name, wanted, tenant=pool.tenant)
    return limits_set(edits=[edit], author=author, reason=reason, carry=carry, **permits)


def _pool_fields(pool: PoolRow, fields: Fields) -> dict[str, Any]:
    """The pool as it is, with these fields. A rate such as `4.2/10s` has its own time."""
    wanted = {**row_fields(pool.row), **fields}
    if "/" in str(fields.get("rate")):
        wanted.pop("per", None)
    return wanted


def pool_create(
    *,
    name: str,
    fields: Fields,
    author: str,
    reason: str,
    endpoint: str = EVERYWHERE,
    tier: str | None = None,
    tenant: str | None = None,
    **permits: Unpack[Permits],
) -> PoolRow | None:
    """For everyone, or for a tier or a tenant. It joins the policy that is there, or makes one. None: a dry run."""
    taken = _at(tier, tenant, endpoint, name)
    if taken is not None:
        raise refuse("name", "taken", f"{taken.policy.name} already has a limit {name}; choose another name")
    wanted = {"algorithm": Pool.name, **fields}
    edit = Edit(tier, endpoint, name, wanted, tenant=tenant)
    limits_set(edits=[edit], author=author, reason=reason, **permits)
    row = _at(tier, tenant, endpoint, name)
    return None if row is None else pool_read(row.policy.name, name)


def member_add(
    *,
    policy: str,
    limit: str,
    fields: Fields,
    author: str,
    reason: str,
    tier: str | None = None,
    tenant: str | None = None,
    name: str = "",
    scope: str = "",
    parent: str = "",
    **permits: Unpack[Permits],
) -> Revision | None:
    """Gives each tenant of a tier, one tenant, or (neither) everyone a share of the pool.

    `fields`: assured and ceiling in the time of the pool's rate, weight and so on. `name`: of its limit; that of the
    other members if empty. `scope`: where it holds, if not where the pool does. `parent`: the node that it borrows
    from, if not from the pool itself.
    """
    pool = find_pool(policy, limit)
    owner = (tier, tenant) if tier or tenant else (pool.tier, pool.tenant)
    place = scope or pool.scope
    if place.endswith(f":{EVERYWHERE}") and any(owner):
        message = f"a tier or tenant cannot have a limit on the whole service {place}; name an endpoint of it"
        raise refuse("scope", "endpoint", message)
    if not covers(pool.scope, place):
        raise refuse("scope", "endpoint", f"{place} does not count on {pool.name}, which is on {pool.scope}")
    inherited = {"subject": pool.row.subject, "unit": pool.unit, "mode": pool.mode}
    wanted = {**inherited, "algorithm": Borrowing.name, **_new_fields(pool, parent or pool.name, fields)}
    edit = Edit(owner[0], place, name or usual_name(pool), wanted, tenant=owner[1])
    _check_owner(pool, *owner)
    _check_free(edit, parent or pool.name)
    return limits_set(edits=[edit], author=author, reason=reason, **permits)


def _check_owner(pool: PoolRow, tier: str | None, tenant: str | None) -> None:
    """Only those who have the pool can have a share of it."""
    if pool.tenant and (tier, tenant) != (None, pool.tenant):
        field = "tenant" if tenant else "tier"
        raise refuse(field, "other", f"{pool.name} is a pool of tenant {pool.tenant}; choose this tenant")
    if pool.tier and tenant and not Tenant.objects.filter(name=tenant, tier__name=pool.tier).exists():
        raise refuse("tenant", "other", f"{pool.name} is a pool of tier {pool.tier}; choose a tenant of this tier")
    if pool.tier and tier not in (None, pool.tier):
        raise refuse("tier", "other", f"{pool.name} is a pool of tier {pool.tier}; choose this tier")


def _check_free(edit: Edit, parent: str) -> None:
    """The compiler refuses a second share on one place, too, but says what to change in a document."""
    owned = Q(policy__tier__name=edit.tier, policy__tenant__name=edit.tenant)
    is_share = Q(algorithm=Borrowing.name, parameters__parent=parent) & ~Q(mode="off")
    rows = Limit.objects.select_related("name", "policy__endpoint").filter(owned, is_share | Q(name__name=edit.name))
    for row in rows:
        if row.policy.scope == edit.endpoint:
            what = f"limit {row.name.name} of {row.policy.name}"
            raise refuse("limit", "taken", f"{what} is there already; change that limit instead of adding one")


def _new_fields(pool: PoolRow, parent: str, fields: Fields) -> dict[str, Any]:
    amounts = amounts_after(Amounts(Fraction(0)), fields.get("assured", 0), fields.get("ceiling"))
    if amounts.ceiling is not None and amounts.ceiling < amounts.assured:
        least = amount_words(amounts.assured)
        raise refuse("ceiling", "parameter", f"ceiling cannot be below assured, which is {least}; raise it")
    nothing = Borrowing(0, pool.per_us, 0, None, None, 0, parent)
    others = {name: value for name, value in fields.items() if name not in ("assured", "ceiling", "weight")}
    return {**share_fields(pool.algorithm, nothing, amounts, fields.get("weight") or KEEP), **others}


def usual_name(pool: PoolRow) -> str:
    """The name that most members use for their limit."""
    rows = sharing_limits().filter(algorithm=Borrowing.name, parameters__parent=pool.name)[:MOST_SHARES]
    names = [row.name.name for row in rows]
    return max(names, key=names.count) if names else f"{pool.name}-share"


def _at(tier: str | None, tenant: str | None, scope: str, name: str) -> Limit | None:
    rows = Limit.objects.select_related("name", "policy__tier", "policy__tenant", "policy__endpoint")
    found = rows.filter(policy__tier__name=tier, policy__tenant__name=tenant, name__name=name)
    return next((row for row in found if row.policy.scope == scope), None)


def evenly(pool: PoolRow, shares: Sequence[Share]) -> list[WantedShare]:
    """The pool's rate in equal whole parts; the first ones get what is left over. A share with an override stays."""
    free = [share for share in shares if not share.overrides]
    kept = sum((share.assured(pool.algorithm) for share in shares if share.overrides), Fraction(0))
    whole, left = divmod(max(0, int(pool.rate - kept)), len(free)) if free else (0, 0)
    return [
        replace(_wanted(share), assured=whole + (index < left), ceiling=_raised(pool, share, whole + (index < left)))
        for index, share in enumerate(free)
    ]


def _wanted(share: Share) -> WantedShare:
    return WantedShare(share.tenant, share.limit, share.scope)


def _raised(pool: PoolRow, share: Share, assured: int) -> int | None:
    """A ceiling below the new share would be refused."""
    most = share.ceiling(pool.algorithm)
    return assured if most is not None and most < assured else KEEP
