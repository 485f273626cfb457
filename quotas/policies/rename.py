"""Renames policies and limits.

What was counted belongs to a place, the number of a limit's name, and a subject. A policy's name is not part of it, so
renaming a policy resets nothing. A limit keeps its counts if its name is used nowhere else: then the number stays.
"""

from __future__ import annotations

from functools import partial
from typing import Unpack

from django.utils import timezone

from quotas.changes.draft import Permits, draft
from quotas.changes.snapshot import POLICY, key_of
from quotas.errors import read, refuse
from quotas.models import Limit, Override, Policy, Recommendation, Revision
from quotas.models.recommendation import OPEN
from quotas.overrides import ENDED, overrides_in
from quotas.policies.edit import find_limit, find_policy, policy_limits, write_policy_limits
from quotas.policies.limit_names import rename_number, why_it_resets
from quotas.policies.spec import Carry
from quotas.policies.validate import read_name


def policy_rename(*, name: str, to: str, author: str, reason: str, **permits: Unpack[Permits]) -> Policy:
    """Nothing that is enforced or counted changes."""
    with draft(action="policy_rename", author=author, reason=reason, **permits) as opened:
        row = find_policy(name)
        read(partial(_name, owner="policy"), to)
        if to == name:
            return row
        if Policy.objects.filter(name=to).exists():
            raise refuse("to", "taken", f"policy {to} already exists; choose another name")
        opened.touch(key_of(POLICY, name), key_of(POLICY, to))
        row.name = to
        row.save(update_fields=["name"])
        Recommendation.objects.filter(stage__in=OPEN, policy=name).update(policy=to)
        return row


def limit_rename(
    *, policy: str, limit: str, to: str, author: str, reason: str, carry: Carry = "keep", **permits: Unpack[Permits]
) -> Revision | None:
    """Where `why_it_resets` gives a reason, the limit starts anew under its new name."""
    with draft(action="limit_rename", author=author, reason=reason, carry=carry, **permits) as opened:
        row = find_policy(policy)
        held = find_limit(row, limit)
        read(partial(_name, owner="limit"), to)
        if to != limit:
            _check_free(row, held, to)
            opened.touch(key_of(POLICY, policy))
            if why_it_resets(held, to):
                Recommendation.objects.filter(stage__in=OPEN, policy=policy, limit=limit).update(limit=to)
                fields = [{**one, "name": to if one["name"] == limit else one["name"]} for one in policy_limits(row)]
                write_policy_limits(opened, row, fields)
            else:
                rename_number(opened, held.name, to)
    return opened.revision


def _check_free(row: Policy, held: Limit, to: str) -> None:
    name = held.name.name
    if row.limits.filter(name__name=to).exists():
        raise refuse("to", "taken", f"policy {row.name} already has a limit {to}; choose another name")
    rows = Override.objects.filter(~overrides_in(ENDED, timezone.now()), limits__has_key=name)
    override = (rows if row.tenant_id is None else rows.filter(tenant=row.tenant_id)).order_by("pk").first()
    if override is not None:
        what = f"override {override.pk} of {override.tenant} changes limit {name} by its name"
        raise refuse("to", "in_use", f"{what}; end it first, and give it again afterwards")


def _name(value: object, owner: str) -> str:
    return read_name({"name": value}, owner)
