"""Drains the latencies that middlewares report, and stores them per endpoint, hour and load.

The load of a second is only known once every process has reported it, so the fold holds the newest seconds back.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

import redis
from django.db import transaction

from headroom_edge import keys
from headroom_edge.observations import ENDS, Observation
from quotas.locks import Lock, take_lock, take_lock_if_free
from quotas.models import Endpoint
from quotas.models.usage import BEGINNING, DrainBatch, DrainState
from quotas.models.usage_rates import FoldName, FoldState, LatencyHour, UsageLog
from quotas.observations.latency import LatencyCounts, LoadRow, load_rows, pack_histogram, unpack_histogram
from quotas.usage.batch_format import FUTURE, UnreadableItems
from quotas.usage.partitions import ensure_partitions, oldest_kept, partition_of
from quotas.usage.store_nodes import NodeFacts, is_copied, is_moving

log = logging.getLogger(__name__)

EVERYBODY: Final = -1  # instead of a shard number: observations are not sharded
ERROR_CLASS: Final = 5
RANGE_COUNT: Final = 5_000
SECOND: Final = timedelta(seconds=1)
SETTLED: Final = timedelta(seconds=30)  # processes report once a second, and a drain runs every few seconds


def drain_latency(server: redis.Redis, node: NodeFacts) -> int:
    """Moves observations from Redis to the log, exactly once (see quotas.usage.drain); returns how many were new.

    `server` holds `hr:{all}`. While that moves to another one, they wait for the next drain.
    """
    try:
        return _drain(server, node)
    except redis.ResponseError as error:
        if not is_moving(error):
            raise
        log.info("observations wait for the next drain: %s", error)
        return 0


def _drain(server: redis.Redis, node: NodeFacts) -> int:
    batch = server.fcall("hr_drain", 1, keys.ALL, "TAKE", str(uuid.uuid4()))
    if not batch or not is_copied(server, f"{keys.ALL}:ue", node.replicas):
        return 0
    unreadable = UnreadableItems()
    at, run_id = node.at, node.run_id
    answers = _parse(_read(server), at, unreadable)
    with transaction.atomic():
        take_lock(Lock.DRAIN)
        _, is_new = DrainBatch.objects.get_or_create(
            id=uuid.UUID(batch.decode()),
            defaults={"shard": EVERYBODY, "drained_at": at, "run_id": run_id, "rows": len(answers)},
        )
        if is_new and len(answers):
            UsageLog.objects.create(at=at, cells=b"", observed=answers.pack())
    server.fcall("hr_drain", 1, keys.ALL, "DONE", batch)
    if unreadable.count:
        log.warning("%d unreadable observations, for example %s", unreadable.count, unreadable.examples)
    return int(answers.count.sum()) if is_new else 0


def _read(server: redis.Redis) -> Iterator[bytes]:
    have = 0
    while True:
        part: list[Any] = server.lrange(keys.observations_batch(), have, have + RANGE_COUNT - 1)
        yield from part
        have += len(part)
        if len(part) < RANGE_COUNT:
            return


def _parse(items: Iterable[bytes], at: datetime, unreadable: UnreadableItems) -> LatencyCounts:
    numbers = dict(Endpoint.objects.values_list("name", "number"))
    latest = int((at + FUTURE).timestamp())
    rows = []
    for item in items:
        try:
            observed = Observation.parse(item)
        except ValueError:
            unreadable.add(item)
            continue
        key = (observed.second, numbers.get(observed.endpoint, 0), int(observed.status_class >= ERROR_CLASS))
        if observed.second <= latest:
            rows += [(*key, bucket, count) for bucket, count in observed.counts.items() if bucket < len(ENDS)]
    return LatencyCounts.of(rows)


def fold_latency(now: datetime, *, wait: bool = True) -> bool:
    """Adds the seconds that have settled; keeps the newer ones in `FoldState.rest` for the next fold.

    Without `wait`: False at once if another process is at it.
    """
    drained = DrainState.objects.first()
    with transaction.atomic():
        if wait:
            take_lock(Lock.FOLD_LATENCY)
        elif not take_lock_if_free(Lock.FOLD_LATENCY):
            return False
        state, _ = FoldState.objects.get_or_create(name=FoldName.LATENCY, defaults={"until": BEGINNING})
        rows = list(UsageLog.objects.filter(id__gt=state.position).order_by("id").values_list("id", "observed"))
        answers = LatencyCounts.joined(
            [LatencyCounts.unpack(packed) for packed in (state.rest, *(row[1] for row in rows))]
        )
        is_settled = answers.second < int((now - SETTLED).timestamp())
        add_latency(answers.where(is_settled), now)
        state.rest = answers.where(~is_settled).pack()
        state.position = rows[-1][0] if rows else state.position
        state.until = max(state.until, drained.drained_at if drained else BEGINNING)
        state.save()
    return True


def add_latency(answers: LatencyCounts, now: datetime) -> None:
    """Adds whole seconds to the hours, within the caller's transaction."""
    oldest = oldest_kept(LatencyHour, now)
    rows = [row for row in load_rows(answers) if _start(row) >= oldest]
    if not rows:
        return
    ensure_partitions(partition_of(LatencyHour, _start(row)) for row in rows)
    known = {
        (row.endpoint_number, row.start, row.load): row
        for row in LatencyHour.objects.filter(
            endpoint_number__in={row.endpoint for row in rows}, start__in={_start(row) for row in rows}
        )
    }
    LatencyHour.objects.bulk_create(
        [_added(row, known.get((row.endpoint, _start(row), row.load))) for row in rows],
        update_conflicts=True,
        unique_fields=["endpoint_number", "start", "load"],
        update_fields=["seconds", "answers", "errors", "total_us", "latency"],
    )


def _start(row: LoadRow) -> datetime:
    return BEGINNING + row.hour_s * SECOND


def _added(row: LoadRow, before: LatencyHour | None) -> LatencyHour:
    latency = row.latency if before is None else row.latency + unpack_histogram(before.latency)
    return LatencyHour(
        endpoint_number=row.endpoint,
        start=_start(row),
        load=row.load,
        seconds=row.seconds + (before.seconds if before else 0),
        answers=row.answers + (before.answers if before else 0),
        errors=row.errors + (before.errors if before else 0),
        total_us=row.total_us + (before.total_us if before else 0),
        latency=pack_histogram(latency),
    )
