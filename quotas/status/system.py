"""The condition of the installation, for people: freshness of data, shards, Lua library, enforcers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.utils import timezone

from headroom_edge.keys import EVERYONES_SHARD
from headroom_edge.lua_library import VERSION
from quotas.models import DrainState, FoldState, GapRecord, Heartbeat, TierUse
from quotas.models.jobs import PUBLISHER_STALE_AFTER, WATCH
from quotas.models.usage_rates import FoldName
from quotas.publishing import store
from quotas.publishing.bypass_switches import BypassSwitch, switches_read
from quotas.publishing.enforcers import Enforcer, State, enforcers_read, states_of
from quotas.publishing.nodes import StoreNode, nodes_read
from quotas.publishing.shards import Shards

FOLDS: Final[Mapping[str, tuple[str, timedelta]]] = {
    FoldName.STEPS: ("10-second rollup", timedelta(seconds=60)),
    FoldName.MINUTES: ("Minute rollup", timedelta(seconds=60)),
    FoldName.HOURS: ("Hour and day rollups", timedelta(minutes=5)),
    FoldName.RATES: ("Seconds and rates", timedelta(minutes=5)),
    FoldName.LATENCY: ("Latency", timedelta(minutes=5)),
    FoldName.DAYS: ("Daily rates", timedelta(days=2)),
}
# Short, so that a page reports that Redis does not answer instead of waiting for it.
PATIENCE_SECONDS = 0.5
GAPS_FOR: Final = timedelta(days=1)
NODE_SECONDS = 1.0  # for each server of a cluster, on the page that shows them


@dataclass(frozen=True, slots=True)
class Freshness:
    name: str
    words: str
    until: datetime | None  # None: never yet
    expected: timedelta  # how old it may be

    def is_late(self, now: datetime) -> bool:
        return self.until is None or now - self.until > self.expected


@dataclass(frozen=True, slots=True)
class NodeGaps:
    """Periods of the last day for which counts of a node's shards may be missing."""

    count: int = 0
    length: timedelta = timedelta(0)  # in all; where two overlap, once
    last: datetime | None = None  # when the latest one ended


@dataclass(frozen=True, slots=True)
class ShardState:
    """`revisions`: revision → number of shards. A shard keeps its revision until its own content changes."""

    ready: int
    total: int
    tenants: int
    revisions: Mapping[int, int]
    library_wanted: int
    nodes: Sequence[StoreNode]
    gaps: Mapping[str, NodeGaps]  # by the node's name; only those that own shards

    @property
    def rows(self) -> Sequence[tuple[StoreNode, NodeGaps | None]]:
        return [(node, self.gaps.get(node.name)) for node in self.nodes]

    @property
    def primaries(self) -> Sequence[StoreNode]:
        return [node for node in self.nodes if node.is_primary]

    @property
    def is_cluster(self) -> bool:
        return any(node.slots for node in self.nodes)

    @property
    def library(self) -> int:
        """The lowest version."""
        return min((node.library for node in self.nodes if node.library is not None), default=0)

    @property
    def server(self) -> str:
        return ", ".join(sorted({node.version for node in self.nodes if node.version}))

    @property
    def warnings(self) -> Sequence[tuple[StoreNode, str]]:
        return [(node, words) for node in self.nodes for words in node.warnings]


def freshness_read() -> list[Freshness]:
    drain = DrainState.objects.first()
    beats = dict(Heartbeat.objects.values_list("name", "at"))
    use = TierUse.objects.order_by("-measured_at").values_list("measured_at", flat=True).first()
    leaders = (
        TierUse.objects.order_by("-leaders_at").exclude(leaders_at=None).values_list("leaders_at", flat=True).first()
    )
    return [
        Freshness("Publisher", "publishes revisions to Redis", beats.get("publisher"), PUBLISHER_STALE_AFTER),
        Freshness("Worker", "runs drains, folds and measurements", beats.get("worker"), timedelta(seconds=20)),
        Freshness("Scheduler", "starts due jobs", beats.get("beat"), timedelta(seconds=20)),
        Freshness("Watch", "evaluates the alerts", beats.get(WATCH), timedelta(seconds=60)),
        Freshness("Drain", "counters from Redis", drain.drained_at if drain else None, timedelta(seconds=30)),
        *_folds(),
        Freshness("Matrix", "usage of limits by tier", use, timedelta(minutes=3)),
        Freshness("Endpoints", "busiest tenants of 28 days", leaders, timedelta(minutes=15)),
    ]


def _folds() -> list[Freshness]:
    return [
        Freshness(FOLDS[row.name][0], "folded from the usage log", row.until, FOLDS[row.name][1])
        for row in FoldState.objects.order_by("name")
        if row.name in FOLDS
    ]


def shards_read() -> ShardState | None:
    """None: Redis does not answer. Of a cluster, the part that answers."""
    try:
        with store.connect(settings.REDIS_URL, patience_seconds=NODE_SECONDS) as client:
            nodes = nodes_read(client, settings.HEADROOM_SHARDS)
            contents = Shards(client, settings.HEADROOM_SHARDS).read_reachable()
    except store.StoreError:
        return None
    found = [content for shard, content in contents.items() if shard != EVERYONES_SHARD]
    return ShardState(
        ready=sum(bool(shard.token) for shard in found),
        total=settings.HEADROOM_SHARDS,
        # Every shard has one entry that belongs to no tenant (headroom_edge.keys).
        tenants=sum(max(shard.entries - 1, 0) for shard in found),
        revisions=dict(sorted(Counter(shard.revision for shard in found).items(), reverse=True)),
        library_wanted=VERSION,
        nodes=nodes,
        gaps=gaps_by_node(nodes, timezone.now()),
    )


def gaps_by_node(nodes: Sequence[StoreNode], now: datetime) -> dict[str, NodeGaps]:
    """A gap belongs to the nodes that own its shards now, whoever lost the counts."""
    rows = GapRecord.objects.within(now - GAPS_FOR, now)
    recent = [gap for gap in rows if not gap.before_all]
    return {node.name: _gaps_of(node, recent, now - GAPS_FOR) for node in nodes if node.shards}


def _gaps_of(node: StoreNode, gaps: Sequence[GapRecord], begin: datetime) -> NodeGaps:
    own = [gap for gap in gaps if gap.shards is None or not set(gap.shards).isdisjoint(node.shards)]
    length, until = timedelta(0), begin
    for gap in own:  # the earliest first
        length += max(gap.end - max(gap.start, until), timedelta(0))
        until = max(until, gap.end)
    return NodeGaps(len(own), length, until if own else None)


def late_of(rows: Sequence[Freshness], now: datetime | None = None) -> list[Freshness]:
    moment = now or timezone.now()
    return [row for row in rows if row.is_late(moment)]


@dataclass(frozen=True, slots=True)
class Enforcement:
    processes: Sequence[Enforcer]  # of the last ten minutes, the worst first
    switches: Sequence[BypassSwitch]

    @property
    def enforcers(self) -> Sequence[Enforcer]:
        """Those that are alive."""
        return [each for each in self.processes if each.is_alive]

    @property
    def degraded(self) -> Sequence[Enforcer]:
        return [each for each in self.processes if each.state == "degraded"]

    @property
    def leasing(self) -> Sequence[Enforcer]:
        return [each for each in self.processes if each.leases]

    @property
    def states(self) -> Mapping[State, int]:
        return states_of(self.processes)


def enforcement_read() -> Enforcement | None:
    """None: Redis does not answer."""
    try:
        with store.connect(settings.REDIS_URL, patience_seconds=PATIENCE_SECONDS) as client:
            return Enforcement(enforcers_read(client), switches_read(client, settings.HEADROOM_SHARDS))
    except store.StoreError:
        return None
