"""Moves, suspends, resumes and tags tenants: one, or many in one revision."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, Unpack

from headroom_edge.keys import OWN_TENANT
from quotas.changes.draft import Permits, draft
from quotas.changes.snapshot import TENANT, Draft, key_of, tenant_state
from quotas.errors import refuse
from quotas.lookups import find_active_tenants, find_tier
from quotas.models import Revision
from quotas.policies.carry_over import hand_over_tier
from quotas.policies.spec import Carry
from quotas.tenants.fields import check_tier_fits, tags_of
from quotas.tenants.stranded import StrandedChoice, settle_stranded
from tenants.models import Tenant

MOST_AT_ONCE: Final = 20_000
_BATCH: Final = 2_000


def tenant_move(
    *,
    name: str,
    tier: str,
    author: str,
    reason: str,
    carry: Carry = "keep",
    stranded_overrides: StrandedChoice = "refuse",
    **permits: Unpack[Permits],
) -> Revision | None:
    """Moves a tenant to another tier. `carry` says what becomes of the quota it has used."""
    return tenants_move(
        names=[name],
        tier=tier,
        author=author,
        reason=reason,
        carry=carry,
        stranded_overrides=stranded_overrides,
        **permits,
    )


def tenants_move(
    *,
    names: Collection[str],
    tier: str,
    author: str,
    reason: str,
    carry: Carry = "keep",
    stranded_overrides: StrandedChoice = "refuse",
    **permits: Unpack[Permits],
) -> Revision | None:
    """Those that are on the tier already stay as they are.

    `stranded_overrides`: what to do about overrides that change a limit which the tier lacks.
    """
    with draft(action="tenant_move", author=author, reason=reason, carry=carry, **permits) as opened:
        target = find_tier(tier)
        rows = [row for row in tenants_to_change(opened, names) if row.tier_id != target.pk]
        for row in rows:
            check_tier_fits(row.name, tier)
        rows = settle_stranded(opened, rows, tier, stranded_overrides)
        if opened.is_rehearsal:
            _foresee(opened, rows, lambda _: {"tier": tier})
        else:
            hand_over_tier(opened, rows, target)
    return opened.revision


def tenant_suspend(*, name: str, author: str, reason: str) -> Revision | None:
    """Denies every request of the tenant, with the reason `suspended`, until it is resumed."""
    return tenants_suspend(names=[name], author=author, reason=reason)


def tenants_suspend(*, names: Collection[str], author: str, reason: str) -> Revision | None:
    """Those that are suspended already keep the reason they were suspended for."""
    if OWN_TENANT in names:
        message = (
            f"{OWN_TENANT} is Headroom's own tenant; suspending it would switch off the limits that protect "
            "these pages and the API, so leave it out"
        )
        raise refuse("name", "own", message)
    with draft(action="tenant_suspend", author=author, reason=reason) as opened:
        rows = [row for row in tenants_to_change(opened, names) if not row.suspended]
        _set_suspended(opened, rows, opened.reason)
    return opened.revision


def tenant_resume(*, name: str, author: str, reason: str) -> Revision | None:
    return tenants_resume(names=[name], author=author, reason=reason)


def tenants_resume(*, names: Collection[str], author: str, reason: str) -> Revision | None:
    with draft(action="tenant_resume", author=author, reason=reason) as opened:
        rows = [row for row in tenants_to_change(opened, names) if row.suspended]
        _set_suspended(opened, rows, "")
    return opened.revision


def tenants_tag(
    *, names: Collection[str], author: str, reason: str, add: Collection[str] = (), remove: Collection[str] = ()
) -> Revision | None:
    """Gives all of them the tags of `add`, and takes those of `remove` away."""
    added, removed = tags_of(add), tags_of(remove)
    if not added and not removed:
        raise refuse("add", "missing", "no tag is given; name one to add or to remove")
    if both := sorted({*added} & {*removed}):
        raise refuse("remove", "both", f"{', '.join(both)} would be added and removed; decide on one")
    with draft(action="tenant_update", author=author, reason=reason) as opened:
        rows = tenants_to_change(opened, names)
        for row in rows:
            row.tags = tags_of([*({*row.tags} - {*removed}), *added])
        if opened.is_rehearsal:
            _foresee(opened, rows, lambda row: {"tags": row.tags})
        else:
            Tenant.objects.bulk_update(rows, ["tags"], batch_size=_BATCH)
    return opened.revision


def tenants_to_change(opened: Draft, names: Collection[str]) -> list[Tenant]:
    """The rows in the order of their names; refused if one is unknown or archived, or if there are too many."""
    if not names:
        raise refuse("names", "missing", "no tenant is chosen; name at least one")
    if len(names) > MOST_AT_ONCE:
        message = f"more than {MOST_AT_ONCE:,} tenants are chosen, which are too many at once; narrow the choice"
        raise refuse("names", "too_many", message)
    rows = find_active_tenants(names)
    opened.touch(*(key_of(TENANT, row.name) for row in rows))
    return rows


def _set_suspended(opened: Draft, rows: Sequence[Tenant], reason: str) -> None:
    if opened.is_rehearsal:
        _foresee(opened, rows, lambda _: {"suspended": reason})
    else:
        numbers = [row.pk for row in rows]
        Tenant.objects.filter(pk__in=numbers).update(suspended=bool(reason), suspended_reason=reason)


def _foresee(opened: Draft, rows: Sequence[Tenant], change: Callable[[Tenant], dict[str, Any]]) -> None:
    """In a rehearsal, in place of writing, so that no row of many is locked."""
    states = ((key_of(TENANT, row.name), change(row)) for row in rows)
    opened.foresee({key: tenant_state(**{**(opened.before[key] or {}), **fields}) for key, fields in states})
