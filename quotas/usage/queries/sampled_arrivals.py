"""Requests of the sampled subjects, streamed tenant by tenant; for limits per key, user or address."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from django.db import connection
from psycopg.sql import SQL, Literal

from quotas.observations.arrays import Attempts, whole_numbers
from quotas.policies.spec import SAMPLE_PER_1024
from quotas.usage.queries.demand import TrafficScope, copied_rows, endpoint_values, mean_wait_us

SAMPLED = 1_024 / SAMPLE_PER_1024  # subjects per sampled subject
_ARRIVALS = SQL("""
COPY (
    SELECT tenant_number, subject, (extract(epoch FROM at) * 1000000)::int8, cost, allowed::int4
    FROM quotas_arrival
    WHERE at >= {begin} AND at < {end} AND tenant_number = ANY({tenants}::int4[])
      AND ({every} OR endpoint_number = ANY({endpoints}::int4[])) AND endpoint_number <> ALL({without}::int4[])
    ORDER BY 1, 2, 3
) TO STDOUT (FORMAT binary)
""")
_COLUMNS = (("tenant", ">i4"), ("subject", ">i8"), ("at_us", ">i8"), ("cost", ">i8"), ("allowed", ">i4"))


def attempts_read(traffic: TrafficScope, begin: datetime, end: datetime) -> Iterator[tuple[int, Attempts]]:
    """Tenant number and its attempts, ordered by subject and time."""
    told_us = round(mean_wait_us(traffic, begin, end) or 0)
    with TemporaryFile() as file:
        rows = copied_rows(file, _statement(traffic, begin, end), _COLUMNS)
        bounds = np.flatnonzero(np.diff(rows["tenant"])) + 1
        for first, last in pairwise((0, *bounds.tolist(), len(rows))):
            if last > first:
                yield int(rows["tenant"][first]), _attempts(rows[first:last], traffic, told_us)


def _statement(traffic: TrafficScope, begin: datetime, end: datetime) -> str:
    values = {"begin": begin, "end": end, "tenants": list(traffic.tenants)} | endpoint_values(traffic)
    literals = {name: Literal(value) for name, value in values.items()}
    return _ARRIVALS.format(**literals).as_string(connection.connection)


def _attempts(rows: np.ndarray[Any, Any], traffic: TrafficScope, told_us: int) -> Attempts:
    """`told_us`: the mean Retry-After of denied requests. Arrivals do not store their own."""
    times, subjects = (whole_numbers(rows[name]) for name in ("at_us", "subject"))
    costs = whole_numbers(rows["cost"]) if traffic.unit == "cost" else np.ones(len(rows), np.int64)
    denied = rows["allowed"] == 0
    return Attempts(times, costs, subjects, denied, denied * np.int64(told_us))
