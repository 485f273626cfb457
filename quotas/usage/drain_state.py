"""What the last drain saw of the servers, and what a change of servers means: a loss, a failover or a moved slot."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain

import redis
from django.conf import settings
from django.db import transaction

from quotas.locks import Lock, take_lock
from quotas.models.revision import AuditEvent
from quotas.models.usage import BEGINNING, DrainState, GapRecord, ShardOwner
from quotas.usage.store_nodes import NodeFacts, StoreNode, run_ids, store_nodes

log = logging.getLogger(__name__)

DROPPED = "PostgreSQL was unavailable for so long that Redis ran out of room for counters."
WAS_AWAY = "Redis was down for a while, or another server took over."
STORE_FAILOVER = "store_failover"
STORE_RESHARDED = "store_resharded"
# A drain that started earlier may commit later, by less than this. A larger difference means Redis' clock went back.
OVERTAKEN = timedelta(minutes=1)
UPTIME_STEP = timedelta(seconds=1)  # Redis tells its uptime in whole seconds


@dataclass(frozen=True, slots=True)
class DrainedNode:
    """A server that was drained, and the shards that it gave."""

    node: StoreNode
    facts: NodeFacts
    shards: frozenset[int]

    @property
    def owner(self) -> ShardOwner:
        return ShardOwner(self.facts.run_id, self.node.name, self.facts.at, tuple(sorted(self.shards)))


@dataclass(frozen=True, slots=True)
class OwnerChange:
    """Shards that another process holds than at their last drain."""

    before: ShardOwner
    after: DrainedNode
    shards: tuple[int, ...]

    @property
    def is_failover(self) -> bool:
        """Whether a server took over that ran at the last drain already; otherwise it was restarted since."""
        return self.after.facts.started_at <= self.before.drained_at - UPTIME_STEP


def record_dropped(shards: Sequence[int], end_us: int, *, in_cluster: bool) -> None:
    """A gap for counts that these shards had to drop. Call it before `record_drained` moves their last drain on."""
    state = DrainState.objects.filter(id=1).first()
    last = state.last_owners(shards) if state else []
    start = min((owner.drained_at for owner in last), default=BEGINNING)
    end = BEGINNING + timedelta(microseconds=end_us)
    if end > start:
        concerned = sorted(shards) if in_cluster else None
        # A drain that died after this point sees the mark again; it must not add a second gap.
        gap, _ = GapRecord.objects.update_or_create(
            start=start, reason=DROPPED, shards=concerned, defaults={"end": end}
        )
        log.warning("counts are missing from %s", gap)


def record_drained(client: redis.Redis, drained: Sequence[DrainedNode], first: datetime) -> None:
    """Moves the last drain of these servers' shards on. `first`: the start of the earliest cell."""
    at = min(each.facts.at for each in drained)
    with transaction.atomic():
        take_lock(Lock.DRAIN)
        state = DrainState.objects.filter(id=1).first()
        if state and timedelta(0) < state.drained_at - at < OVERTAKEN:
            return
        if state is None:
            GapRecord.objects.create(start=BEGINNING, end=first, reason="Nothing was measured before.")
        else:
            _record_changes(client, state, drained)
        DrainState.objects.update_or_create(id=1, defaults=state_of(drained, state))


def state_of(drained: Sequence[DrainedNode], before: DrainState | None = None) -> dict[str, object]:
    """The fields of DrainState. Shards that were not drained keep what is known about them."""
    main = next((each for each in drained if each.node.has_all), drained[0]).owner
    found: dict[str, object] = {"run_id": main.run_id, "node": main.node, "owners": []}
    found["drained_at"] = min(each.facts.at for each in drained)
    if any(each.node.in_cluster for each in drained):
        others = set(range(settings.HEADROOM_SHARDS)).difference(*(each.shards for each in drained))
        kept = before.last_owners(others) if before else []
        found["owners"] = [owner.as_json() for owner in (*kept, *(each.owner for each in drained))]
    return found


def first_state(client: redis.Redis, at: datetime) -> DrainState:
    """As if all had been drained at that time from the servers that there are now."""
    nodes = store_nodes(client, range(settings.HEADROOM_SHARDS))
    seen = [DrainedNode(node, replace(node.facts(), at=at), frozenset(node.shards)) for node in nodes]
    return DrainState(**state_of(seen))


def _record_changes(client: redis.Redis, state: DrainState, drained: Sequence[DrainedNode]) -> None:
    changes = list(chain.from_iterable(_changes(state, each) for each in drained))
    if not changes:
        return
    lost = set(_lost(client, state, changes))
    moved = [change for change in changes if change not in lost]
    for change in sorted(lost, key=lambda each: each.shards):
        _record_loss(change)
    for after, parts in _by_node(change for change in lost if change.is_failover).items():
        _record_event(STORE_FAILOVER, after, parts)
    for after, parts in _by_node(moved).items():
        _record_event(STORE_RESHARDED, after, parts)


def _changes(state: DrainState, after: DrainedNode) -> list[OwnerChange]:
    shards = after.shards if after.node.in_cluster else range(settings.HEADROOM_SHARDS)
    last = [owner for owner in state.last_owners(shards) if owner.run_id != after.facts.run_id]
    return [OwnerChange(owner, after, owner.shards) for owner in last]


def _lost(client: redis.Redis, state: DrainState, changes: Sequence[OwnerChange]) -> list[OwnerChange]:
    """Without moved slots, which lose nothing.

    A slot was moved if its former owner is still a primary. A primary that gave its last slot away becomes a replica;
    then the slots went to a server that was a primary before. A failover brings up one that was none.
    """
    now = run_ids(client)
    were_primaries = {owner.run_id for owner in state.last_owners(range(settings.HEADROOM_SHARDS))}
    return [
        change
        for change in changes
        if change.before.run_id not in now.primaries
        and not (change.before.run_id in now.replicas and change.after.facts.run_id in were_primaries)
    ]


def _record_loss(change: OwnerChange) -> None:
    """Records what a new Redis process may have lost.

    A restarted server lost at most what was counted before it started; a replica that took over, up to now. After a
    clean stop it is a gap too: while Redis is down, nothing is counted.
    """
    drained_at, facts = change.before.drained_at, change.after.facts
    end = facts.started_at if facts.started_at > drained_at else facts.at
    concerned = list(change.shards) if change.after.node.in_cluster else None
    gap = GapRecord(start=min(drained_at, end), end=end, reason=WAS_AWAY, shards=concerned)
    gap.save()
    log.warning("counts may be missing from %s", gap)


def _by_node(changes: Iterable[OwnerChange]) -> dict[DrainedNode, list[OwnerChange]]:
    found: dict[DrainedNode, list[OwnerChange]] = defaultdict(list)
    for change in changes:
        found[change.after].append(change)
    return found


def _record_event(kind: str, after: DrainedNode, changes: Sequence[OwnerChange]) -> None:
    shards = sorted(chain.from_iterable(change.shards for change in changes))
    former = sorted({change.before.node for change in changes if change.before.node})
    detail = {"node": after.node.name, "former": former, "shards": shards, "of": settings.HEADROOM_SHARDS}
    AuditEvent.objects.create(kind=kind, detail=detail)
    log.warning("%s: %s has %d shards of %s now", kind, after.node.name, len(shards), former or "another server")
