"""Who has used how much of a calendar quota, in the periods that run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from headroom_edge import keys
from headroom_edge.algorithms import CalendarQuota
from quotas.models import Endpoint
from quotas.policies.explain import explain

MOST: Final = 200

# A tenant's own policy goes before its tier's.
_QUERY: Final = """
    SELECT tenant, scope, quota, used FROM (
        SELECT DISTINCT ON (c.tenant_number, c.scope, c.limit_number)
            t.name AS tenant, coalesce(e.name, '*') AS scope, n.name AS quota, c.used,
            c.used / (l.parameters ->> 'limit')::float8 AS share
        FROM quotas_calendar AS c
        JOIN tenants_tenant AS t ON t.number = c.tenant_number
        JOIN quotas_limitname AS n ON n.number = c.limit_number
        LEFT JOIN unnest(%(scopes)s::text[], %(numbers)s::int[], %(names)s::text[]) AS e (scope, number, name)
            ON e.scope = c.scope
        JOIN quotas_policy AS p ON (p.tenant_id = t.number OR p.tenant_id IS NULL AND p.tier_id = t.tier_id)
            AND p.endpoint_id IS NOT DISTINCT FROM e.number AND p.service = ''
        JOIN quotas_limit AS l ON l.policy_id = p.id AND l.name_id = c.limit_number
            AND l.algorithm = 'calendar_quota' AND l.mode = 'enforce'
        WHERE c.expires_at > %(now)s AND c.period_start <= %(now)s AND c.subject = '' AND NOT t.suspended
            AND (c.scope = '' OR e.number IS NOT NULL)
        ORDER BY c.tenant_number, c.scope, c.limit_number, p.tenant_id NULLS LAST
    ) AS uses WHERE share >= %(least)s ORDER BY share DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class QuotaUse:
    tenant: str
    scope: str  # `*` or an endpoint
    limit: str
    used: int
    of: int

    @property
    def share(self) -> float:
        return self.used / self.of


def quotas_used(now: datetime, least: float) -> list[QuotaUse]:
    """Those of which at least the share `least` is used, the fullest first."""
    endpoints = dict(Endpoint.objects.values_list("number", "name"))
    places: dict[str, Any] = {"scopes": [keys.endpoint_number(n) for n in endpoints], "numbers": list(endpoints)}
    with connection.cursor() as cursor:
        asked: dict[str, Any] = {"now": now, "least": least, "most": MOST, "names": list(endpoints.values())}
        cursor.execute(_QUERY, {**asked, **places})
        rows = cursor.fetchall()
    found = (_effective(*row) for row in rows)
    return [use for use in found if use is not None and use.share >= least]


def _effective(tenant: str, scope: str, limit: str, used: int) -> QuotaUse | None:
    """Against what holds now, overrides included; None: it is gone."""
    for explained in explain(tenant=tenant, endpoint=scope).limits:
        held, algorithm = explained.effective, explained.effective.limit.algorithm
        if held.limit.name == limit and held.scope == scope and isinstance(algorithm, CalendarQuota):
            return QuotaUse(tenant, scope, limit, used, algorithm.limit)
    return None
