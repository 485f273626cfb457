"""Adds past usage that was not counted by Redis: a demo's history, or that of a former system."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from quotas.locks import Lock, take_lock
from quotas.observations.cells import Cells
from quotas.usage.rates import add_rates
from quotas.usage.rollups import add_cells


def backfill_usage(cells: Cells, now: datetime) -> None:
    """Adds the cells to every rollup and to the rates. Not idempotent: the same cells count twice if added twice."""
    with transaction.atomic():
        # As a drain and the folds would, so that rows are locked in one order.
        take_lock(Lock.DRAIN)
        add_cells(cells, now)
        add_rates(cells, now)
