"""The processes that enforce limits, as they report themselves to Redis (headroom_edge.heartbeat)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal, cast, get_args

import redis
from django.conf import settings

from headroom_edge import keys
from quotas.publishing import store
from quotas.publishing.shards import revision_of

State = Literal["degraded", "behind", "stale", "ok"]
STATES: Final[tuple[State, ...]] = get_args(State)  # the worst first
ALIVE_US: Final = 15 * store.SECOND_US  # as in lua/enforcers.lua
BUSY_S: Final = 30  # a process that decided nothing for longer is idle: its next check uses the newest revision
LONGEST: Final = 100  # characters of a text that a process reports
LONGEST_NAME: Final = 128  # of an endpoint
MOST_ENDPOINTS: Final = 20  # that a process names


@dataclass(frozen=True, slots=True)
class Leasing:
    """A process that takes blocks of requests from Redis and decides them by itself."""

    ms: int  # the longest lease that it asks for; a limit may allow less
    endpoints: tuple[str, ...]  # on which it leased within the last minute
    more: int  # further endpoints, which it does not name

    @property
    def others(self) -> int:
        """How many endpoints, besides the first."""
        return len(self.endpoints[1:]) + self.more


@dataclass(frozen=True, slots=True)
class Enforcer:
    id: str
    host: str
    pid: int
    version: str  # of headroom-edge; empty: older than the report
    revision: int | None  # that the latest decision was made with; None: unknown
    behind: int | None  # how many revisions the shard of that decision has moved on since
    decided_s: int | None  # the age of that decision
    is_degraded: bool  # decided without Redis within the last minute
    is_alive: bool  # sent a heartbeat within 15 s
    seen: datetime
    leases: Leasing | None = None  # None: every decision asks Redis

    @property
    def state(self) -> State:
        if self.is_alive and self.is_degraded:
            return "degraded"
        if self.is_alive and self.behind and self.decided_s is not None and self.decided_s < BUSY_S:
            return "behind"
        return "ok" if self.is_alive else "stale"

    @property
    def badness(self) -> tuple[int, str, int, str]:
        """Sorts the worst first."""
        return STATES.index(self.state), self.host, self.pid, self.id


def enforcers_read(client: redis.Redis) -> list[Enforcer]:
    """All processes of the last ten minutes, the worst first."""
    return processes_read(client, settings.HEADROOM_SHARDS)


def processes_read(client: redis.Redis, shards: int = 0) -> list[Enforcer]:
    """`shards`: those whose revisions are read too. Without them it is not known who is behind."""
    now_us = store.now_us(client)
    with client.pipeline(transaction=False) as pipe:
        pipe.zrange(keys.enforcers(), 0, -1, withscores=True)
        pipe.hgetall(keys.enforcer_info())
        for shard in range(shards):
            pipe.get(keys.shard_prefix(shard))
        ends, about, *tokens = pipe.execute(raise_on_error=False)
    for reply in (ends, about):
        if isinstance(reply, Exception):
            raise reply
    # Of a shard that cannot be reached, the revision is unknown.
    revisions = [revision_of("" if isinstance(token, Exception) else str(token or "")) for token in tokens]
    return _processes(_enforcer(name, about.get(name, ""), int(end), now_us, revisions) for name, end in ends)


def enforcers_now() -> list[Enforcer]:
    """Raises StoreError if Redis does not answer."""
    with store.connect(settings.REDIS_URL) as client:
        return enforcers_read(client)


def states_of(enforcers: Iterable[Enforcer]) -> Mapping[State, int]:
    """How many are in each state, the worst state first."""
    counts = Counter(each.state for each in enforcers)
    return {state: counts[state] for state in STATES}


def _processes(clients: Iterable[Enforcer]) -> list[Enforcer]:
    """One per process."""
    found: dict[tuple[str, int] | str, list[Enforcer]] = defaultdict(list)
    for each in sorted(clients, key=lambda each: (not each.is_alive, each.decided_s is None, each.decided_s or 0)):
        found[(each.host, each.pid) if each.host else each.id].append(each)
    return sorted(map(_process, found.values()), key=lambda each: each.badness)


def _process(clients: Sequence[Enforcer]) -> Enforcer:
    """The worst of its clients that is alive, or the one that decided last; with what all of them lease."""
    alive = [each for each in clients if each.is_alive]
    worst = min(alive or clients[:1], key=lambda each: each.badness[0])
    leases = [each.leases for each in clients if each.leases]
    return replace(worst, leases=_leased_by_all(leases)) if leases else worst


def _leased_by_all(leases: Sequence[Leasing]) -> Leasing:
    endpoints = dict.fromkeys(endpoint for each in leases for endpoint in each.endpoints)
    return Leasing(max(each.ms for each in leases), tuple(endpoints), sum(each.more for each in leases))


def _enforcer(name: str, text: str, end_us: int, now_us: int, revisions: Sequence[int]) -> Enforcer:
    try:
        facts = json.loads(text)
    except ValueError:
        facts = {}
    facts = facts if isinstance(facts, dict) else {}
    shard, revision = _whole(facts.get("shard")), _whole(facts.get("revision"))
    current = revisions[shard] if shard is not None and shard < len(revisions) else -1
    decided_s = _whole(facts.get("decided_s"))
    silence_s = max(0, now_us - (end_us - ALIVE_US)) // store.SECOND_US
    return Enforcer(
        name,
        str(facts.get("host", ""))[:LONGEST],
        _whole(facts.get("pid")) or 0,
        str(facts.get("version", ""))[:LONGEST],
        revision,
        None if revision is None or current < 0 else max(0, current - revision),
        None if decided_s is None else decided_s + silence_s,
        bool(facts.get("degraded")),
        end_us >= now_us,
        datetime.fromtimestamp(min(end_us - ALIVE_US, now_us) / store.SECOND_US, UTC),
        # One that fell silent has no lease any more: none is longer than a second.
        _leasing(facts.get("leases")) if end_us >= now_us else None,
    )


def _leasing(told: object) -> Leasing | None:
    if not isinstance(told, dict) or not (ms := _whole(told.get("ms"))):
        return None
    named = told.get("endpoints")
    endpoints = [str(name)[:LONGEST_NAME] for name in named[:MOST_ENDPOINTS]] if isinstance(named, list) else []
    return Leasing(ms, tuple(endpoints), _whole(told.get("more")) or 0)


def _whole(value: object) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53
    return cast("int", value) if is_whole else None
