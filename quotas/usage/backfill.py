"""Counts of the past, from somewhere else than Redis: a demo's, or those of a system that was in use before."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from quotas.locks import Lock, take_lock
from quotas.observations.cells import Cells
from quotas.usage.rates import add_rates
from quotas.usage.rollups import add_cells


def backfill_usage(cells: Cells, now: datetime) -> None:
    """Into every rollup, the seconds and the rates at once; added again, they count again."""
    with transaction.atomic():
        # As a drain and the folds would, so that rows are locked in one order.
        take_lock(Lock.DRAIN)
        add_cells(cells, now)
        add_rates(cells, now)
