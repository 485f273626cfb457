"""Erases what is known of one subject: a user, an address or another value that services send with their checks.

What is erased comes back with the subject's next request. Rows that hold only a hash of several values, and usage,
which has no subjects, stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import redis
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from headroom_edge import keys
from headroom_edge.keys import RecordPlace, subject_spellings
from quotas.erasure.traces import Trace
from quotas.errors import author_and_reason, refuse
from quotas.locks import Lock, take_lock
from quotas.lookups import find_tenant
from quotas.models import AuditEvent, CalendarCounter
from quotas.models.usage import Arrival, Denial
from quotas.publishing import store
from quotas.usage.rollups import subject_hash
from tenants.keyring import SUBJECTS, read_keys
from tenants.models import ApiKey
from tenants.secrets import sealer

LONGEST_VALUE = 1_000
SCAN_AT_ONCE = 1_000


@dataclass(slots=True)
class _Found:
    tenant: int | None  # None: of all
    records: set[str] = field(default_factory=set)  # keys
    touched: list[tuple[str, str]] = field(default_factory=list)  # hash and field
    denied: list[tuple[str, str]] = field(default_factory=list)  # list and item
    sampled: list[tuple[int, str]] = field(default_factory=list)  # shard and item
    # Keys of records, of those too that are gone: arrivals have only a hash of them.
    names: set[str] = field(default_factory=set)
    counters: list[CalendarCounter] = field(default_factory=list)
    values: set[str] = field(default_factory=set)  # as denials in PostgreSQL hash them

    @property
    def denials(self) -> QuerySet[Denial]:
        stored = read_keys(SUBJECTS).newest_first
        hashes = [subject_hash(values.encode(), key) for key in stored for values in self.values]
        rows = Denial.objects.filter(subject__in=hashes)
        return rows if self.tenant is None else rows.filter(tenant_number=self.tenant)

    @property
    def samples(self) -> frozenset[str]:
        return frozenset(keys.sampled_subject(_bytes(key)) for key in self.names)

    @property
    def arrivals(self) -> QuerySet[Arrival]:
        hashes = [int.from_bytes(bytes.fromhex(hashed), signed=True) for hashed in self.samples]
        return Arrival.objects.filter(subject__in=hashes)

    def traces(self) -> list[Trace]:
        return [
            Trace("counters in Redis", len(self.records)),
            Trace("names of counters that wait for the drain in Redis", len(self.touched)),
            Trace("denials in Redis", len(self.denied)),
            Trace("sampled arrivals in Redis", len(self.sampled)),
            Trace("calendar counters in PostgreSQL", len(self.counters)),
            Trace("denials in PostgreSQL", self.denials.count()),
            Trace("sampled arrivals in PostgreSQL", self.arrivals.count()),
        ]


def subject_traces(*, client: redis.Redis, value: str, tenant: str = "") -> list[Trace]:
    """What `subject_erase` would erase. An empty `tenant` means all of them."""
    return _find(client, value, tenant).traces()


def subject_erase(*, client: redis.Redis, value: str, author: str, reason: str, tenant: str = "") -> list[Trace]:
    """Returns what was erased. The audit says that it happened, not whom it was about."""
    author, reason = author_and_reason(author, reason)
    with transaction.atomic():
        # No drain stores samples or counters meanwhile; it reads them under the same locks.
        take_lock(Lock.DRAIN)
        take_lock(Lock.CALENDARS)
        found = _find(client, value, tenant)
        traces = found.traces()
        found.denials.delete()
        found.arrivals.delete()
        CalendarCounter.objects.filter(pk__in=[counter.pk for counter in found.counters]).delete()
        detail = {"author": author, "reason": reason, "tenant": tenant, "rows": sum(trace.count for trace in traces)}
        AuditEvent.objects.create(kind="subject_erased", detail=detail)
        _delete(client, found)
    return traces


class _Search:
    def __init__(self, value: str, tenant: str) -> None:
        if not 0 < len(value) <= LONGEST_VALUE:
            sentence = f"a subject has 1 to {LONGEST_VALUE} characters; give the value that services send"
            raise refuse("subject", "subject", sentence)
        if any("\ud800" <= one <= "\udfff" for one in value):  # bytes of the command line that are not UTF-8
            raise refuse("subject", "subject", "the subject is not text in UTF-8; give the value that services send")
        self._number = find_tenant(tenant).number if tenant else None
        # A rotated API key is counted as the first of its line.
        lines = ApiKey.objects.filter(key_id=value).exclude(lineage="").values_list("lineage", flat=True)
        self._spellings = frozenset().union(*map(subject_spellings, (value, *lines)))
        self.found = _Found(self._number, values=set(self._spellings))

    def _is_about(self, place: RecordPlace) -> bool:
        """Also in the records of global limits, which all tenants share."""
        of_tenant = self._number is None or place.tenant in (self._number, keys.EVERYONES_TENANT)
        return of_tenant and not self._spellings.isdisjoint(place.values.split(","))

    def look_at(self, client: redis.Redis, key: str) -> None:
        """Records are at `hr:{shard}:…/…`; names of touched ones in `:q` and `:qb`; denials at `:d:TENANT`."""
        shard, brace, name = key.partition("}")
        shard += brace
        if "/" in name:
            place = RecordPlace.parse(name)
            if self._is_about(place):
                self.found.records.add(key)
                self.found.names.add(key)
                self.found.values.add(place.values)
        elif name in (":q", ":qb"):
            for member, _ in client.hscan_iter(key, count=SCAN_AT_ONCE):
                if "/" in member and self._is_about(RecordPlace.parse(member)):
                    self.found.touched.append((key, member))
                    self.found.names.add(shard + member)
        elif name.startswith(":d:"):
            owner = name.removeprefix(":d")
            for item in cast("list[str]", client.lrange(key, 0, -1)):
                record = owner + item.rpartition(" ")[2]
                place = RecordPlace.parse(record)
                if self._is_about(place):
                    self.found.names.add(shard + record)
                    self.found.denied.append((key, item))
                    self.found.values.add(place.values)

    def look_at_counters(self) -> None:
        opened = sealer()
        for counter in CalendarCounter.objects.exclude(subject=b"").iterator():
            subject = opened.unseal(bytes(counter.subject))
            place = RecordPlace(counter.tenant_number, counter.scope, (subject or b"").decode())
            if self._is_about(place):
                self.found.counters.append(counter)
                self.found.names.add(f"{keys.shard_prefix(counter.shard)}{place}")
                self.found.values.add(place.values)

    def look_at_samples(self, client: redis.Redis) -> None:
        """Once all names are known."""
        subjects = self.found.samples
        for shard in range(settings.HEADROOM_SHARDS) if subjects else ():
            pipe = client.pipeline(transaction=False)
            for key in _sample_lists(shard):
                pipe.lrange(key, 0, -1)
            items = {item for part in pipe.execute() for item in part}
            # An item is `tenant+endpoint subject time cost outcome`.
            self.found.sampled += [(shard, item) for item in items if item.partition(" ")[2][:16] in subjects]


def _find(client: redis.Redis, value: str, tenant: str) -> _Found:
    search = _Search(value, tenant)
    for _, server in store.primaries(client):
        # SCAN tells the keys of one server only. A slot that moves meanwhile may be missed: its keys are on two.
        for key in server.scan_iter(match=f"{keys.EVERY_SHARD}:*", count=SCAN_AT_ONCE):
            search.look_at(client, key)
    search.look_at_counters()
    search.look_at_samples(client)
    return search.found


def _sample_lists(shard: int) -> tuple[str, str]:
    """In this order: a drain renames the first to the second, at any time."""
    return keys.arrivals(shard), keys.arrivals_batch(shard)


def _delete(client: redis.Redis, found: _Found) -> None:
    with client.pipeline(transaction=False) as pipe:
        for key in found.records:
            pipe.unlink(key)
        for key, member in found.touched:
            pipe.hdel(key, member)
        for key, item in found.denied:
            pipe.lrem(key, 0, item)
        for shard, item in found.sampled:
            for key in _sample_lists(shard):
                pipe.lrem(key, 0, item)
        pipe.execute()


def _bytes(key: str) -> bytes:
    return key.encode(errors="surrogateescape")
