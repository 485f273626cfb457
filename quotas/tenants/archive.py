"""Archives tenants that have left, and restores them.

An archived tenant is refused like a suspended one. It must not become unknown: where unknown tenants have a stand-in,
that would let it in. Its keys and tokens are revoked for good, so a restored tenant needs new ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from headroom_edge.keys import OWN_TENANT
from quotas.api_keys import api_key_revoke
from quotas.changes.draft import draft
from quotas.changes.restore import end_change
from quotas.changes.snapshot import POLICY, TENANT, key_of
from quotas.changes.trial_policies import unstage
from quotas.errors import Refused, refuse
from quotas.lookups import find_tenant
from quotas.models import Change, Override, Policy, Revision
from quotas.models.change import ChangeState, holding
from quotas.overrides import ENDED, cancel_override, overrides_in
from quotas.tokens import token_revoke
from tenants.models import ApiKey, ApiToken, Tenant

ARCHIVED = "tenant_archive"


@dataclass(frozen=True, slots=True)
class Archiving:
    """What stops working when a tenant is archived."""

    keys: int
    tokens: int
    overrides: int
    trials: int  # of its own limits


def archiving_of(tenant: Tenant) -> Archiving:
    keys, tokens, overrides = _keys(tenant), _tokens(tenant), _overrides(tenant, timezone.now())
    return Archiving(keys.count(), tokens.count(), overrides.count(), len(_trials(tenant)))


def tenant_archive(*, name: str, author: str, reason: str) -> Revision | None:
    """Refuses the tenant's requests, revokes its keys and tokens, ends its overrides and the trials of its own limits.

    Its name stays taken.
    """
    with draft(action=ARCHIVED, author=author, reason=reason) as opened:
        tenant = find_tenant(name)
        if problem := archive_objection(tenant):
            raise problem
        opened.touch(key_of(TENANT, name))
        if tenant.archived_at is None:
            tenant.archived_at = timezone.now()
            tenant.save(update_fields=["archived_at"])
            for override in _overrides(tenant, tenant.archived_at):
                cancel_override(opened, override)
            for trial in _trials(tenant):
                unstage(opened, trial)
                end_change(opened, trial, ChangeState.DROPPED)
            for key_id in _keys(tenant).values_list("key_id", flat=True):
                api_key_revoke(key_id=key_id, author=author, reason=reason)
            for key_id in _tokens(tenant).values_list("key_id", flat=True):
                token_revoke(key_id=key_id, author=author, reason=reason)
    return opened.revision


def tenant_restore(*, name: str, author: str, reason: str) -> Revision | None:
    """Its limits apply again, or its suspension if it had one. Keys stay revoked and overrides ended."""
    with draft(action="tenant_restore", author=author, reason=reason) as opened:
        tenant = find_tenant(name)
        opened.touch(key_of(TENANT, name))
        if tenant.archived_at is not None:
            tenant.archived_at = None
            tenant.save(update_fields=["archived_at"])
    return opened.revision


def archive_objection(tenant: Tenant) -> Refused | None:
    """Why the tenant cannot be archived; None: it can."""
    if tenant.name == OWN_TENANT:
        message = f"{tenant.name} is Headroom's own tenant; its limits protect these pages and the API, so it stays"
        return refuse("name", "own", message)
    if tenant.name == settings.HEADROOM_UNKNOWN_TENANT:
        message = (
            f"{tenant.name} stands in for unknown tenants, who would all be refused; "
            "set HEADROOM_UNKNOWN_TENANT to another tenant first"
        )
        return refuse("name", "stand_in", message)
    return None


def archive_revision(tenant: Tenant) -> Revision | None:
    """The revision that archived it last: who, when and why."""
    rows = Revision.objects.filter(action=ARCHIVED, touched__contains=[key_of(TENANT, tenant.name)])
    return rows.order_by("-number").first()


def _keys(tenant: Tenant) -> QuerySet[ApiKey]:
    return ApiKey.objects.filter(tenant=tenant, revoked_at=None)


def _tokens(tenant: Tenant) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(tenant=tenant, revoked_at=None)


def _trials(tenant: Tenant) -> list[Change]:
    """Those that try nothing but its own limits: without requests they would show nothing, and wait for ever."""
    own = {key_of(POLICY, name) for name in Policy.objects.filter(tenant=tenant).values_list("name", flat=True)}
    return [row for row in Change.objects.filter(holding(), touched__overlap=list(own)) if {*row.touched} <= own]


def _overrides(tenant: Tenant, now: datetime) -> QuerySet[Override]:
    ended: Q = overrides_in(ENDED, now)
    return Override.objects.filter(~ended, tenant=tenant)
