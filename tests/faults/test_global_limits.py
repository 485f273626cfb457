"""F30: a global limit of a cluster, of which several processes spend. Never above rate × t + burst, whatever dies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest
from redis.cluster import RedisCluster

from headroom_edge import keys
from headroom_edge.lua_library import ensure_loaded
from quotas.policies.spec import EVERYWHERE, Policy
from tests.clusters import SpareCluster
from tests.faults.global_worker import CALM, JUMP, TENANT, GlobalWorkers
from tests.faults.lease_worker import ALLOWED, ASKED
from tests.headroom_edge.limiter.both import until
from tests.headroom_edge.limiter.leased import usage
from tests.headroom_edge.limiter.world import configuration, limit, publish
from tests.valkeys import SpareValkey

RATE, BURST = 300, 150
SLOW = 100  # a rate that a few processes reach on a busy machine
OWN = limit("own", "fixed_window", limit=10_000_000, window="1d", on_failure="closed")


def published(cluster: SpareCluster, rate: int = RATE) -> None:
    whole = configuration(OWN)
    total = limit("total", "token_bucket", rate=rate, per="1s", burst=BURST, on_failure="closed")
    policies = (*whole.policies, Policy("global", EVERYWHERE, (total,)))
    with cluster.client() as client:
        publish(client, replace(whole, policies=policies, limit_numbers={"own": 1, "total": 2}))
        client.wait(1, 60_000, target_nodes=RedisCluster.PRIMARIES)


def home_of(cluster: SpareCluster) -> SpareValkey:
    home = cluster.owner_of(keys.ALL)
    assert cluster.owner_of(keys.tenant_prefix(TENANT)) is not home, "the tenant lies elsewhere"
    return home


@dataclass
class Meter:
    """Looks again and again at how many were allowed since the start."""

    workers: GlobalWorkers
    rate: int = RATE
    began_s: float = field(default_factory=time.monotonic)
    seen: list[tuple[float, int]] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[None]:
        done = threading.Event()

        def look() -> None:
            while not done.wait(0.005):
                allowed = self.workers.tally.total(ALLOWED)  # before the clock, so that the bound is the larger one
                self.seen.append((time.monotonic(), allowed))

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    @property
    def most_over(self) -> float:
        """Above what the limit allows, at the worst moment; below 0 if it never was."""
        return max(allowed - BURST - self.rate * (at_s - self.began_s) for at_s, allowed in self.seen)


def allowed_more(workers: GlobalWorkers, more: int) -> None:
    before = workers.tally.total(ALLOWED)
    until(lambda: workers.tally.total(ALLOWED) >= before + more)


def assert_usage_is_told(cluster: SpareCluster, workers: GlobalWorkers) -> int:
    """What the tenant's shard has counted is what callers were told. Returns how much a kill has lost."""
    for node in cluster.primaries():
        with node.client() as server:
            ensure_loaded(server)
    with cluster.client() as client:
        told = usage(client, TENANT)
    missing = workers.tally.total(ALLOWED) - told["a"]
    assert -workers.kills <= missing <= workers.lost_at_most()
    return missing


def test_a_jump_of_the_load_and_a_process_that_dies_with_a_block(cluster: SpareCluster, tmp_path: Path) -> None:
    published(cluster, SLOW)
    workers = GlobalWorkers(cluster.url, tmp_path / "tally", 3, budget_ms=10_000)
    meter = Meter(workers, SLOW)
    with meter.running(), workers.running():
        workers.wait()
        allowed_more(workers, 50)
        workers.pace.set(JUMP)
        allowed_more(workers, 300)
        until(lambda: workers.tally.total(ASKED) > workers.tally.total(ALLOWED))
        workers.kill(0)
        workers.kill(1)
        workers.stop_for(2, 0.3)
        allowed_more(workers, 150)
    assert meter.most_over <= 0
    assert_usage_is_told(cluster, workers)


def test_the_homes_primary_is_paused_so_that_replies_are_lost(spare_cluster: SpareCluster, tmp_path: Path) -> None:
    published(spare_cluster)
    home = home_of(spare_cluster)
    (replica,) = spare_cluster.replicas_of(home)
    spare_cluster.on(replica, "CONFIG", "SET", "cluster-replica-no-failover", "yes")
    workers = GlobalWorkers(spare_cluster.url, tmp_path / "tally", 2, budget_ms=2_000)
    meter = Meter(workers)
    workers.pace.set(JUMP)
    with meter.running(), workers.running():
        allowed_more(workers, 200)
        home.pause()
        # Blocks are spent first; then everybody is refused, as the limit declares.
        asked_more(workers, 50)
        spent = workers.tally.total(ALLOWED)
        asked_more(workers, 50)
        assert workers.tally.total(ALLOWED) == spent
        home.resume()
        allowed_more(workers, 200)
    assert meter.most_over <= 0
    assert_usage_is_told(spare_cluster, workers)


def asked_more(workers: GlobalWorkers, more: int) -> None:
    before = workers.tally.of(ASKED)
    until(lambda: all(now >= then + more for now, then in zip(workers.tally.of(ASKED), before, strict=True)))


def test_the_homes_primary_dies_and_its_replica_goes_on(spare_cluster: SpareCluster, tmp_path: Path) -> None:
    published(spare_cluster)
    workers = GlobalWorkers(spare_cluster.url, tmp_path / "tally", 2, budget_ms=10_000)
    meter = Meter(workers)
    workers.pace.set(JUMP)
    with meter.running(), workers.running():
        allowed_more(workers, 200)
        home_of(spare_cluster).kill()
        spare_cluster.wait_for(lambda: spare_cluster.owner_of(keys.ALL).is_running, "the replica has taken over")
        allowed_more(workers, 200)
    assert meter.most_over <= 0
    assert_usage_is_told(spare_cluster, workers)


@pytest.mark.faults_long
@pytest.mark.timeout(900)
def test_processes_and_homes_that_die_again_and_again(
    spare_cluster: SpareCluster, tmp_path: Path, figures: Callable[[str], None]
) -> None:
    published(spare_cluster)
    workers = GlobalWorkers(spare_cluster.url, tmp_path / "tally", 6)
    meter, random, failovers = Meter(workers), Random(13), 0
    with meter.running(), workers.running():
        for number in range(24):
            workers.pace.set(JUMP if number % 3 else CALM)
            time.sleep(random.uniform(0.3, 1.0))
            if number % 8 == 7:
                home = spare_cluster.owner_of(keys.ALL)
                home.kill()
                spare_cluster.wait_for(lambda: spare_cluster.owner_of(keys.ALL).is_running, "there is another home")
                home.start()
                spare_cluster.wait_for(lambda h=home: follows(h), "it follows")  # type: ignore[misc]
                failovers += 1
            elif number % 4 == 3:
                workers.stop_for(random.randrange(6), random.uniform(0.1, 0.6))
            else:
                workers.kill(random.randrange(6))
    missing = assert_usage_is_told(spare_cluster, workers)
    asked, allowed = workers.tally.total(ASKED), workers.tally.total(ALLOWED)
    share = allowed / (BURST + RATE * (meter.seen[-1][0] - meter.began_s))
    figures(
        f"{asked} asked, {allowed} allowed ({share:.2f} of the limit), {workers.kills} processes and {failovers} homes "
        f"killed, at most {meter.most_over:.0f} over rate × t + burst (0 or less holds), {missing} not in usage"
    )
    assert meter.most_over <= 0


def follows(node: SpareValkey) -> bool:
    with node.client() as client:
        facts = client.info("replication")
    return bool(facts["role"] == "slave" and facts["master_link_status"] == "up")
