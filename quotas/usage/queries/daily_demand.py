"""How much tenants asked for on their busiest day, let through or not."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from django.db import connection

from quotas.models.usage import LET_THROUGH, Outcome
from quotas.models.usage_rates import EVERY_ENDPOINT
from quotas.policies.spec import Unit

ASKED: Final = (*LET_THROUGH, Outcome.DENIED, Outcome.OVERFLOW, Outcome.DEGRADED_CLOSED)
_QUERY: Final = """
    SELECT tenant_number, max(units)::bigint FROM (
        SELECT tenant_number, start, sum({column}) AS units FROM {table}
        WHERE start >= %(since)s AND tenant_number = ANY(%(tenants)s) AND outcome = ANY(%(asked)s)
          AND endpoint_number = %(endpoint)s
        GROUP BY 1, 2
    ) AS days GROUP BY 1 HAVING max(units) > %(most)s
"""


def busiest_days(tenants: Collection[int], endpoint: int, unit: Unit, *, since: datetime, above: int) -> dict[int, int]:
    """By tenant, of those who asked for more than `above` on a day of UTC. `endpoint`: or EVERY_ENDPOINT."""
    table = "quotas_tenant_1d" if endpoint == EVERY_ENDPOINT else "quotas_usage_1d"
    statement = _QUERY.format(table=table, column="cost" if unit == "cost" else "count")
    letters = [str(outcome) for outcome in ASKED]
    where: dict[str, Any] = {
        "since": since,
        "tenants": list(tenants),
        "asked": letters,
        "endpoint": endpoint,
        "most": above,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, where)
        return dict(cursor.fetchall())
