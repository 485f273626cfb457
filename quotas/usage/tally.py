"""Counters that only go up, kept by the drain in the transaction in which it adds to the rollups."""

from __future__ import annotations

import numpy as np
from django.db import connection

from quotas.observations.cells import Cells
from quotas.observations.packing import groups

_ADD = """
    INSERT INTO quotas_tally AS t (endpoint_number, outcome, count, cost) VALUES (%s, %s, %s, %s)
    ON CONFLICT (endpoint_number, outcome) DO UPDATE SET count = t.count + EXCLUDED.count, cost = t.cost + EXCLUDED.cost
"""


def add_tally(cells: Cells) -> None:
    order = np.lexsort((cells.outcome, cells.endpoint))
    cells = cells.where(order)
    first = groups(cells.endpoint, cells.outcome)
    if not len(first):
        return
    sums = (np.add.reduceat(column, first).tolist() for column in (cells.count, cells.cost))
    letters = map(chr, cells.outcome[first].tolist())
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, list(zip(cells.endpoint[first].tolist(), letters, *sums, strict=True)))
