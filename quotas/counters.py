"""Resets used quota. That is not configuration, so it leaves an audit event and no revision."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from headroom_edge import Check, Limiter
from quotas.errors import author_and_reason, refuse
from quotas.lookups import find_tenant
from quotas.models import AuditEvent

BUDGET_MS = 2_000
EVERY = "*"


def counter_reset(
    *,
    limiter: Limiter,
    tenant: str,
    endpoint: str,
    limit: str,
    subject: Mapping[str, str],
    author: str,
    reason: str,
) -> int:
    """Returns how many limits were reset. Global limits stay, because all tenants share them.

    The audit does not record the values of subjects.
    """
    author, reason = author_and_reason(author, reason)
    try:
        Check(tenant, endpoint, subject)
    except ValueError as error:
        raise refuse("subject", "subject", str(error)) from None
    detail = {"tenant": find_tenant(tenant).name, "endpoint": endpoint, "limit": limit, "subject": sorted(subject)}
    with transaction.atomic():
        AuditEvent.objects.create(kind="counter_reset", detail=detail | {"author": author, "reason": reason})
        return limiter.reset(tenant=tenant, endpoint=endpoint, subject=subject, limit=limit, budget_ms=BUDGET_MS)
