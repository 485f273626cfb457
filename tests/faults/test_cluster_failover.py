"""F8: a primary of a cluster dies or hangs. Only its own tenants notice, until its replica has taken over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from redis.cluster import RedisCluster

from headroom_edge import Check, Decision, keys
from headroom_edge.store.breaker import BreakerSettings
from tests.clusters import SpareCluster
from tests.faults.cluster_load import CALLERS, Crowd, Fleet
from tests.headroom_edge.limiter.both import Either, MakeLimiter, OnCallbacks, OnLoop, OnThreads
from tests.headroom_edge.limiter.world import ENDPOINT, configuration, limit, many_tenants, publish
from tests.sweeps import each_once, first_of
from tests.valkeys import SpareValkey

LIMIT = 20
TENANTS = [f"t{number}" for number in range(12)]
PER_KEY = limit("daily", "fixed_window", "key", limit=LIMIT, window="1d", on_failure="closed")
PLENTY = limit("daily", "fixed_window", limit=10_000_000, window="1d", on_failure="closed")
Hurt = Callable[[SpareValkey], None]


def published(cluster: SpareCluster, one: object) -> None:
    with cluster.client() as client:
        publish(client, many_tenants(configuration(one), len(TENANTS)))  # type: ignore[arg-type]
        client.wait(1, 60_000, target_nodes=RedisCluster.PRIMARIES)


def tenants_of(cluster: SpareCluster, node: SpareValkey) -> list[str]:
    return [tenant for tenant in TENANTS if cluster.owner_of(keys.tenant_prefix(tenant)) is node]


def killed(node: SpareValkey) -> None:
    node.kill()


def paused(node: SpareValkey) -> None:
    node.pause()


def survivors_of(cluster: SpareCluster, victim: SpareValkey) -> list[SpareValkey]:
    return [node for node in cluster.primaries() if node is not victim]


class Spanning:
    """Many callers at once, each of whom asks for tenants of every primary in one call."""

    def __init__(self, limiter: Either, callers: int) -> None:
        self._limiter = limiter
        self._callers = callers
        self.answers: list[list[Decision]] = []
        self.took_s: list[float] = []
        self.errors: list[BaseException] = []

    def ask(self, rounds: int) -> None:
        def call() -> None:
            try:
                for _ in range(rounds):
                    start = time.monotonic()
                    decisions = self._limiter.check_many([Check(tenant, ENDPOINT) for tenant in TENANTS])
                    self.took_s.append(time.monotonic() - start)
                    self.answers.append(decisions)
            except BaseException as error:  # noqa: BLE001 - whatever reaches a caller is what the test looks for
                self.errors.append(error)

        threads = [threading.Thread(target=call) for _ in range(self._callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)

    def degraded(self, tenants: list[str]) -> int:
        return sum(each.degraded for decisions in self.answers for each in decisions if each.check.tenant in tenants)


@pytest.mark.parametrize(
    ("make_limiter", "hurt"), each_once([OnThreads, OnLoop, OnCallbacks], [paused, killed]), indirect=["make_limiter"]
)
def test_calls_that_span_all_primaries_lose_only_the_one_that_is_gone(
    spare_cluster: SpareCluster, make_limiter: MakeLimiter, hurt: Hurt
) -> None:
    published(spare_cluster, PLENTY)
    spare_cluster.keep_roles()
    # It never opens: each call waits for the server that hangs, as those of the first moment do.
    limiter = make_limiter(spare_cluster.url, budget_ms=10_000, breaker=BreakerSettings(failures=1_000, of=1_000))
    assert limiter.ready(60_000)
    # Not the one that is asked first, which the caller's own thread waits for.
    victim = next(node for node in spare_cluster.primaries() if TENANTS[0] not in tenants_of(spare_cluster, node))
    theirs = tenants_of(spare_cluster, victim)
    others = [tenant for tenant in TENANTS if tenant not in theirs]
    assert theirs
    assert len(others) > 1
    spanning = Spanning(limiter, callers=24)
    hurt(victim)
    spanning.ask(1)
    assert spanning.errors == []
    assert spanning.degraded(others) == 0
    assert len(spanning.answers) == 24


def survives(
    cluster: SpareCluster, fleet: Fleet, victim: SpareValkey, hurt: Hurt, rest: int
) -> tuple[list[str], list[str], float]:
    """Whose primary it was, the others, and when its replica had taken over."""
    theirs = tenants_of(cluster, victim)
    others = [tenant for tenant in TENANTS if tenant not in theirs]
    (replica,) = cluster.replicas_of(victim)
    with fleet.running():
        fleet.wait(100)
        hurt(victim)
        cluster.wait_for(lambda: is_primary(replica), "the replica has taken over")
        promoted_s = time.monotonic()
        cluster.wait_for(lambda: knows(cluster, victim, replica), "the others know it")
        fleet.wait(rest)
        # One that wakes up believes for a moment that it is the primary still, while nobody asks it any more.
        victim.resume()
        fleet.wait(100)
    if victim.is_running:
        cluster.wait_for(lambda: not is_primary(victim), "it has heard of its heir")
    return theirs, others, promoted_s


def is_primary(node: SpareValkey) -> bool:
    with node.client() as client:
        return bool(client.role()[0] == b"master")


def knows(cluster: SpareCluster, victim: SpareValkey, heir: SpareValkey) -> bool:
    return all(
        heir.port in owners and victim.port not in owners
        for node in cluster.nodes
        if node is not victim
        for owners in [{row[2][1] for row in cluster.on(node, "CLUSTER", "SLOTS")}]  # type: ignore[attr-defined]
    )


def first_victim(cluster: SpareCluster) -> SpareValkey:
    return next(node for node in cluster.primaries() if tenants_of(cluster, node))


@pytest.mark.parametrize("hurt", first_of([killed, paused]))
def test_a_primary_that_is_lost_under_load_concerns_its_own_tenants_only(
    spare_cluster: SpareCluster, tmp_path: Path, hurt: Hurt
) -> None:
    published(spare_cluster, PER_KEY)
    fleet = Fleet(spare_cluster.url, tmp_path / "fleet", Crowd(TENANTS, limit=LIMIT))
    victim = first_victim(spare_cluster)
    theirs, others, _ = survives(spare_cluster, fleet, victim, hurt, 1_500)
    fleet.assert_nothing_internal_surfaced()
    assert fleet.degraded(others) == []
    assert fleet.degraded(theirs)
    assert fleet.full() > len(TENANTS), "limits were reached"
    # What the last turn of its loop answered may not have reached the replica.
    assert fleet.wrong_charges(spare_cluster, lost_at_most=fleet.count * CALLERS) == []


def test_a_planned_failover_is_noticed_by_nobody(spare_cluster: SpareCluster, tmp_path: Path) -> None:
    published(spare_cluster, PER_KEY)
    # Writes stop while the replica catches up: on a busy machine, for longer than the usual budget.
    fleet = Fleet(spare_cluster.url, tmp_path / "fleet", Crowd(TENANTS, limit=LIMIT, budget_ms=10_000))
    victim = first_victim(spare_cluster)
    (replica,) = spare_cluster.replicas_of(victim)
    with fleet.running():
        for heir, former in ((replica, victim), (victim, replica)) * 2:
            spare_cluster.wait_for(lambda heir=heir: is_synced(heir), "it follows")  # type: ignore[misc]
            spare_cluster.on(heir, "CLUSTER", "FAILOVER")
            spare_cluster.wait_for(lambda a=former, b=heir: knows(spare_cluster, a, b), "all know")  # type: ignore[misc]
            fleet.wait(100)
    fleet.assert_nothing_internal_surfaced()
    assert fleet.causes == {}
    assert fleet.wrong_charges(spare_cluster) == []


def is_synced(node: SpareValkey) -> bool:
    with node.client() as client:
        return bool(client.info("replication").get("master_link_status") == "up")


@pytest.mark.faults_long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("hurt", [killed, paused])
def test_primaries_that_are_lost_again_and_again(tmp_path: Path, hurt: Hurt, figures: Callable[[str], None]) -> None:
    rounds = 4
    answers, failing_s, after_s, wrong, of_others, full = 0, [], [], 0, 0, 0
    for number in range(rounds):
        with SpareCluster(tmp_path / f"cluster-{number}") as cluster:
            published(cluster, PER_KEY)
            fleet = Fleet(cluster.url, tmp_path / f"fleet-{number}", Crowd(TENANTS, limit=LIMIT, subjects=20), count=4)
            victim = first_victim(cluster)
            theirs, others, promoted_s = survives(cluster, fleet, victim, hurt, 2_000)
            fleet.assert_nothing_internal_surfaced()
            wrong += len(fleet.wrong_charges(cluster, lost_at_most=fleet.count * CALLERS))
            degraded = fleet.degraded(theirs)
            failing_s.append(fleet.failure_s([each for each in degraded if each.is_new]))
            after_s.append(max(each.at_s for each in degraded) - promoted_s)
            of_others += len(fleet.degraded(others))
            answers, full = answers + len(fleet.told), full + fleet.full()
    figures(
        f"{rounds} rounds, {answers} answers, {full} subjects at their limit, wrong charges {wrong}, degraded answers "
        f"to tenants of other primaries {of_others}; new subjects saw the failure mode for {min(failing_s):.2f} to "
        f"{max(failing_s):.2f} s, the last one {max(after_s):.2f} s after the promotion"
    )
    assert (wrong, of_others) == (0, 0)
