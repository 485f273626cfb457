"""Folds: read the usage log and add its cells to the rollups and rates.

A drain only appends to the log, which is cheap; a fold adds the cells of many drains at once. Each fold stores its
position in the log in the same transaction as the rows it adds, so nothing is added twice or skipped, even if a fold
is killed or several run. A log row is deleted once every fold has read it. One that cannot be read stops the fold until
somebody can (docs/adr/task-slices.md): passing it over would lose its counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db import connection, transaction
from django.utils import timezone

from quotas.locks import Lock, take_lock, take_lock_if_free
from quotas.models.usage import BEGINNING, DrainState, UsageDay, UsageHour, UsageMinute, UsageStep
from quotas.models.usage_rates import FoldName, FoldState, UsageLog
from quotas.observations.cells import Cells
from quotas.usage.latency import fold_latency
from quotas.usage.rates import add_rates
from quotas.usage.rollups import add_cells

LATENCY_EVERY: Final = timedelta(seconds=60)
BYTES_AT_ONCE: Final = 4_000_000  # of packed cells: about two million counters


@dataclass(frozen=True, slots=True)
class Fold:
    name: str
    every: timedelta
    add: Callable[[Cells, datetime], None]

    @property
    def lock(self) -> Lock:
        return Lock(f"quotas.usage.fold.{self.name}")


FOLDS: Final[Mapping[str, Fold]] = {
    fold.name: fold
    for fold in (
        Fold(FoldName.STEPS, timedelta(seconds=4), lambda cells, now: add_cells(cells, now, (UsageStep,))),
        Fold(FoldName.MINUTES, timedelta(seconds=10), lambda cells, now: add_cells(cells, now, (UsageMinute,))),
        Fold(FoldName.HOURS, timedelta(seconds=60), lambda cells, now: add_cells(cells, now, (UsageHour, UsageDay))),
        Fold(FoldName.RATES, timedelta(seconds=60), add_rates),
    )
}
Observer = Callable[[str], None]


class UnreadableLogError(Exception):
    """A log row that this version cannot read. The message is one sentence for the operator."""

    def __init__(self, row: UsageLog) -> None:
        super().__init__(
            f"{row} cannot be read, so the folds wait there and lose nothing; "
            "if a newer version has written it, start that version's workers"
        )


def folds_due(now: datetime) -> list[str]:
    """Names of the folds that are due. They share nothing, so they may run side by side."""
    states = {state.name: state.until for state in FoldState.objects.all()}
    every = {name: fold.every for name, fold in FOLDS.items()} | {FoldName.LATENCY.value: LATENCY_EVERY}
    return [name for name, step in every.items() if now - states.get(name, BEGINNING) >= step]


def fold_one(name: str, now: datetime) -> bool:
    """Runs the fold of that name. False: another process is at it, and nothing was done."""
    if name == FoldName.LATENCY:
        is_free = fold_latency(now, wait=False)
    else:
        is_free = run_fold(FOLDS[name], wait=False) is not None
    if is_free:
        delete_folded_log()
    return is_free


def fold_due(now: datetime) -> list[str]:
    """Runs the folds that are due, one after another, and returns their names."""
    return [name for name in folds_due(now) if fold_one(name, now)]


def fold_all() -> None:
    for fold in FOLDS.values():
        run_fold(fold)
    fold_latency(timezone.now())
    delete_folded_log()


def run_fold(fold: Fold, *, wait: bool = True, on_step: Observer = lambda step: None) -> int | None:
    """Folds everything in the log, in transactions of bounded size; returns the number of log rows.

    Without `wait`: None at once if another process has this fold. Tests use `on_step` to stop a fold after each step:
    added, folded.
    """
    drained = DrainState.objects.first()
    rows = 0
    while found := _fold_some(fold, drained.drained_at if drained else BEGINNING, wait, on_step):
        rows += found
        on_step("folded")
    return None if found is None and not rows else rows


def _fold_some(fold: Fold, drained_at: datetime, wait: bool, on_step: Observer) -> int | None:
    with transaction.atomic():
        if wait:
            take_lock(fold.lock)
        elif not take_lock_if_free(fold.lock):
            return None
        state, _ = FoldState.objects.get_or_create(name=fold.name, defaults={"until": BEGINNING})
        chosen, is_rest = _next(state.position)
        logged = UsageLog.objects.in_bulk(chosen)
        if logged:
            last = logged[chosen[-1]]
            fold.add(Cells.joined([_unpacked(logged[id_]) for id_ in chosen if logged[id_].cells]), last.at)
            state.position, state.until = last.id, max(state.until, last.at)
        if is_rest:
            # `drained_at` was read before the log, so the log had everything counted until then.
            state.until = max(state.until, drained_at)
        on_step("added")
        state.save()
    return len(logged)


def _unpacked(row: UsageLog) -> Cells:
    try:
        return Cells.unpack(row.cells)
    except ValueError:
        raise UnreadableLogError(row) from None


def _next(position: int) -> tuple[list[int], bool]:
    """Ids of the next log rows, and whether they reach the end of the log."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, octet_length(cells) FROM quotas_usagelog WHERE id > %s ORDER BY id LIMIT 1000", [position]
        )
        waiting = cursor.fetchall()
    chosen: list[int] = []
    size = 0
    for id_, length in waiting:
        if chosen and size + length > BYTES_AT_ONCE:
            return chosen, False
        chosen.append(id_)
        size += length
    return chosen, len(waiting) < 1000


def delete_folded_log() -> int:
    """Deletes the log rows that every fold has read; returns how many."""
    readers = (*FOLDS, FoldName.LATENCY)
    positions = list(FoldState.objects.filter(name__in=readers).values_list("position", flat=True))
    if len(positions) < len(readers):
        return 0
    return UsageLog.objects.filter(id__lte=min(positions)).delete()[0]
