"""Edits come every few milliseconds while slots move there and back: known tenants stay known, and Redis ends right."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import redis
from django.conf import settings

from headroom_edge import Limiter, keys
from headroom_edge.store.slots import slot_of
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.publishing.reconciler import Reconciler
from tests.clusters import SpareCluster
from tests.quotas.publishing.conftest import world
from tests.quotas.publishing.test_cluster_faults import is_checked, publishes
from tests.quotas.publishing.worlds import (
    ENDPOINT,
    differences,
    publisher_for,
    quota,
    tenant_edit,
    tier_edit,
    wait_until,
)
from tests.valkeys import SpareValkey

__all__ = ["world"]

TENANTS = ("acme", "bob", "carol")
EVERY_S = 0.03


class Storm:
    def __init__(self, cluster: SpareCluster) -> None:
        self._cluster = cluster
        self._done = threading.Event()
        self.told: Counter[tuple[str, bool]] = Counter()  # reason, and whether it was decided without the store
        self.moves = 0
        self.errors: list[BaseException] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._move, self._ask)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._done.set()
            for thread in threads:
                thread.join(120)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the test asserts that there was none
            self.errors.append(error)

    def _move(self) -> None:
        """The slots of the tenants' shards, a key at a time, and back again."""
        cluster = self._cluster
        slots = {slot_of(keys.tenant_prefix(tenant, settings.HEADROOM_SHARDS)) for tenant in TENANTS}
        primaries = cluster.primaries()
        homes = {slot: owner(cluster, slot) for slot in slots}
        while not self._done.is_set():
            for slot, home in homes.items():
                away = next(node for node in primaries if node is not home)
                move(cluster, slot, home, away)
                move(cluster, slot, away, home)
                self.moves += 2

    def _ask(self) -> None:
        with Limiter.from_url(self._cluster.url, budget_ms=1_000, shards=settings.HEADROOM_SHARDS) as limiter:
            assert limiter.ready(60_000)
            while not self._done.is_set():
                for tenant in TENANTS:
                    decision = limiter.check(tenant=tenant, endpoint=ENDPOINT)
                    self.told[decision.reason, decision.degraded] += 1


def owner(cluster: SpareCluster, slot: int) -> SpareValkey:
    return next(node for node in cluster.primaries() if cluster.owner_has([(slot, slot)], node))


def move(cluster: SpareCluster, slot: int, source: SpareValkey, target: SpareValkey) -> None:
    cluster.begin_move(slot, source, target)
    while names := cluster.keys_in(slot, source):
        cluster.move_keys(source, target, names[0])
    cluster.end_move(slot, source, target)


def edit_while_slots_move(text: redis.Redis, publisher: Publisher, storm: Storm, edits: int) -> int:
    """Returns how many passes could not reach every shard."""
    failed = 0
    with storm.running():
        for number in range(edits):
            began_s = time.monotonic()
            (tier_edit if number % 2 else tenant_edit)(100 + number)
            failed += not publishes(publisher)
            time.sleep(max(0.0, EVERY_S - (time.monotonic() - began_s)))
    wait_until(lambda: publishes(publisher), "the last edit is published")
    wait_until(lambda: is_checked(Reconciler(publisher, text)), "the last check")
    return failed


def assert_all_ended_well(text: redis.Redis, storm: Storm, edits: int) -> None:
    assert storm.errors == []
    assert storm.moves > 0
    assert {reason for reason, _ in storm.told} <= {"ok", "limit", "unavailable"}
    assert storm.told["ok", False] + storm.told["limit", False] > 0
    assert differences(text) == []
    last_of_tier, last_of_tenant = (100 + number for number in sorted((edits - 1, edits - 2), key=lambda n: n % 2 == 0))
    assert (quota(text, "acme"), quota(text, "carol")) == (last_of_tier, last_of_tenant)


def test_edits_while_slots_move_lose_no_tenant(spare_cluster: SpareCluster, world: None) -> None:
    with store.connect(spare_cluster.url) as text:
        publisher = publisher_for(text)
        publisher.publish()
        storm = Storm(spare_cluster)
        edit_while_slots_move(text, publisher, storm, 20)
        assert_all_ended_well(text, storm, 20)


@pytest.mark.faults_long
@pytest.mark.timeout(900)
def test_edits_while_slots_move_for_a_long_time(
    spare_cluster: SpareCluster,
    world: None,
    figures: Callable[[str], None],
) -> None:
    edits = 300
    with store.connect(spare_cluster.url) as text:
        publisher = publisher_for(text)
        publisher.publish()
        storm = Storm(spare_cluster)
        failed = edit_while_slots_move(text, publisher, storm, edits)
        figures(
            f"{edits} edits, {storm.moves} slots moved, {failed} passes without all shards, "
            f"answers {dict(storm.told)}, {len(differences(text))} differences at the end"
        )
        assert_all_ended_well(text, storm, edits)
