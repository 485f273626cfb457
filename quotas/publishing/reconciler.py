"""Finds and repairs differences between Redis and what was published: a flush, a lost key, an edited field.

Tokens and sizes of all shards are checked in one round trip every two seconds. Values are compared in small scans,
so that neither Redis nor publishing is delayed; a full round over all fields takes half a minute, and with more than
300,000 tenants longer, about two minutes for a million.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple, cast

import redis

from headroom_edge import keys
from headroom_edge.lua_library import ensure_loaded
from quotas import metrics
from quotas.models.revision import AuditEvent
from quotas.policies.shard_image import ShardImage
from quotas.publishing import store
from quotas.publishing.bypass_switches import switches_read
from quotas.publishing.gateway_tables import ShardTable
from quotas.publishing.nodes import library_servers
from quotas.publishing.publisher import Publisher
from quotas.publishing.shards import CHUNK, ShardContent

logger = logging.getLogger(__name__)

ROUND_SECONDS = 30.0
MOST_SCANS = 20  # in one go, about 20 ms: an edit may be waiting
BYPASS_CHANGED = "bypass_changed"
QUOTED = 5  # wrong fields named in the audit event


class ScannedFields(NamedTuple):
    shard: int
    key: str
    wrong: list[str]  # fields whose value is wrong


class Reconciler:
    """Runs between passes of the publisher, never during one: the image must not change meanwhile."""

    def __init__(self, publisher: Publisher, client: redis.Redis) -> None:
        self._publisher = publisher
        self._client = client
        self._slices = self._round()
        self._swept_at = time.monotonic()
        self._noted: list[dict[str, Any]] | None = None  # the switches of the last audit event

    def check_shards(self) -> None:
        """Checks the library of all servers, and tokens and sizes of all shards, and repairs what differs.

        Raises PartialError at its end if some shards could not be reached.
        """
        shards, images = self._publisher.shards, self._publisher.image.numbered
        shards.begin()
        self._check_library()
        found = shards.read_reachable()
        newest = self._publisher.image.revision
        if any(held.revision > max(newest, images[shard].revision) for shard, held in found.items()):
            # Another publisher has published a newer revision: reload instead of overwriting it.
            self._publisher.forget()
            return
        causes = {shard: _cause(held, images[shard]) for shard, held in found.items()}
        self._repair({shard: cause for shard, cause in causes.items() if cause})
        self._check_gateway_tables()
        shards.refuse_away()

    def _check_library(self) -> None:
        """Nodes of a cluster do not give each other the functions, not even with a slot that moves."""
        repaired = []
        for name, server in library_servers(self._client):
            try:
                if ensure_loaded(server):
                    repaired.append(name)
            except redis.RedisError:
                if store.as_cluster(self._client) is None:
                    raise
                # If it owns shards, they are found to be away in a moment.
        if repaired:
            self._report([], "the function library was missing or old", repaired)

    def _check_gateway_tables(self) -> None:
        away = self._publisher.shards.away
        for table in self._publisher.api_keys.tables:
            drifted = table.drifted() - away.keys()
            failed = table.restore(drifted)
            away |= failed
            if restored := sorted(drifted - failed.keys()):
                self._report(restored, "API keys were missing", [])
        try:
            if self._publisher.routes.has_drifted():
                self._publisher.routes.restore()
                self._report([], "routes were missing or edited", [])
        except redis.RedisError as error:
            if store.as_cluster(self._client) is None:
                raise
            away[keys.EVERYONES_SHARD] = error

    def record_bypass(self) -> None:
        """Audits changes of the switches here, because the bypass command must work without Postgres."""
        switches = [asdict(switch) for switch in switches_read(self._client, self._publisher.shards.count)]
        metrics.BYPASS_SWITCHES.set(len(switches))
        if self._noted is None:
            last = AuditEvent.objects.filter(kind=BYPASS_CHANGED).first()
            self._noted = last.detail["on"] if last else []
        if switches != self._noted:
            AuditEvent.objects.create(kind=BYPASS_CHANGED, detail={"on": switches})
            self._noted = switches

    def sweep(self) -> None:
        """Compares as many fields as are due, so that a round takes ROUND_SECONDS, but at most MOST_SCANS at once."""
        now = time.monotonic()
        share = min(1.0, (now - self._swept_at) / ROUND_SECONDS)
        self._swept_at = now
        for _ in range(min(MOST_SCANS, 1 + int(share * self._round_length()))):
            part = next(self._slices, None)
            if part is None:
                self._slices = self._round()
            elif part.wrong:
                self._mend(part)

    def _mend(self, part: ScannedFields) -> None:
        table = self._table(part.shard, part.key)
        if table is not None:
            if failed := table.restore([part.shard]):
                raise store.PartialError(failed, self._publisher.shards.count)
            self._report([part.shard], "API keys were edited", part.wrong)
        else:
            self._repair({part.shard: "fields were edited"}, part.wrong)

    def _repair(self, causes: Mapping[int, str], fields: list[str] | None = None) -> None:
        self._publisher.rewrite(causes)
        done = {shard: cause for shard, cause in causes.items() if shard not in self._publisher.shards.away}
        for cause in sorted(set(done.values())):
            self._report([shard for shard, why in done.items() if why == cause], cause, fields or [])

    def _report(self, shards: list[int], cause: str, fields: list[str]) -> None:
        logger.warning("repaired shards %s: %s %s", shards, cause, fields[:QUOTED])
        metrics.SHARDS_REPAIRED.labels(cause=cause).inc(len(shards))
        detail = {"shards": shards, "cause": cause, "fields": fields[:QUOTED]}
        AuditEvent.objects.create(kind="shard_repaired", detail=detail | {"revision": self._publisher.image.revision})

    def _round(self) -> Iterator[ScannedFields]:
        for shard in self._publisher.shards.numbers:
            tables = self._publisher.api_keys.tables if shard != keys.EVERYONES_SHARD else ()
            beside = [table.key_of(shard) for table in tables]
            for key in (keys.tenants(shard), keys.config(shard), *beside):
                yield from self._scan(shard, key)

    def _scan(self, shard: int, key: str) -> Iterator[ScannedFields]:
        cursor = 0
        while True:
            try:
                cursor, fields = cast("tuple[int, dict[str, str]]", self._client.hscan(key, cursor, count=CHUNK))
            except redis.RedisError:
                if store.as_cluster(self._client) is None:
                    raise
                return  # its node is away, or the slot moves: the next round compares it
            wanted = self._wanted(shard, key)
            yield ScannedFields(shard, key, [name for name, value in fields.items() if wanted.get(name) != value])
            if cursor == 0:
                return

    def _wanted(self, shard: int, key: str) -> Mapping[str, str]:
        image = self._publisher.image.numbered[shard]
        table = self._table(shard, key)
        if table is not None:
            return table.wanted[shard]
        return image.entries if key == keys.tenants(shard) else image.config

    def _table(self, shard: int, key: str) -> ShardTable | None:
        return next((table for table in self._publisher.api_keys.tables if table.key_of(shard) == key), None)

    def _round_length(self) -> int:
        """About how many scans a round takes."""
        fields = sum(len(image.entries) + len(image.config) for image in self._publisher.image.numbered.values())
        return 4 * self._publisher.shards.count + fields // CHUNK


def _cause(found: ShardContent, image: ShardImage) -> str:
    """Empty: nothing is wrong."""
    if not found.token:
        return "the token was missing"
    if found.token != image.token:
        return "the token was another"
    if (found.entries, found.fields) != (len(image.entries), len(image.config)):
        return "fields were missing"
    return ""
