"""F7 and F8b in a cluster: the library disappears from every node; a gateway is pointed at one node."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from config.data_folders import ROOT
from headroom_edge import Check, Decision
from tests.clusters import SpareCluster
from tests.headroom_edge.limiter.both import Either, MakeLimiter, OnLoop, OnThreads
from tests.headroom_edge.limiter.world import ENDPOINT, configuration, limit, many_tenants, publish
from tests.sweeps import first_of
from tests.valkeys import free_port

both = pytest.mark.parametrize("make_limiter", [OnThreads, OnLoop], ids=["threads", "loop"], indirect=True)
LIMIT = 1_000_000
TENANTS = [f"t{number}" for number in range(9)]


@contextmanager
def flushing(cluster: SpareCluster) -> Iterator[None]:
    """Every 100 ms, on every primary."""
    done, primaries = threading.Event(), cluster.primaries()

    def flush() -> None:
        while not done.wait(0.1):
            for node in primaries:
                cluster.on(node, "FUNCTION", "FLUSH", "SYNC")

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def ask_while_flushing(cluster: SpareCluster, limiter: Either, rounds: int, callers: int) -> list[Decision]:
    answers: list[Decision] = []
    errors: list[BaseException] = []

    def call(number: int) -> None:
        try:
            for each in range(rounds):
                tenants = TENANTS if each % 10 == 0 else [TENANTS[(each + number) % len(TENANTS)]]
                answers.extend(limiter.check_many([Check(tenant, ENDPOINT) for tenant in tenants]))
        except BaseException as error:  # noqa: BLE001 - whatever reaches a caller is what the test looks for
            errors.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
    with flushing(cluster):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
    return answers


def assert_each_was_counted_once(limiter: Either, answers: list[Decision]) -> None:
    assert limiter.degraded == 0
    for tenant in TENANTS:
        told = sorted(LIMIT - each.remaining for each in answers if each.check.tenant == tenant)
        assert told == list(range(1, len(told) + 1))


@pytest.fixture
def limiter(cluster: SpareCluster, make_limiter: MakeLimiter) -> Either:
    with cluster.client() as client:
        one = limit("daily", "fixed_window", limit=LIMIT, window="1d")
        publish(client, many_tenants(configuration(one), len(TENANTS)))
    return make_limiter(cluster.url)


@pytest.mark.parametrize("make_limiter", first_of([OnLoop, OnThreads]), indirect=True)
def test_flushed_on_every_node_each_request_is_counted_once(cluster: SpareCluster, limiter: Either) -> None:
    assert_each_was_counted_once(limiter, ask_while_flushing(cluster, limiter, rounds=200, callers=4))


@pytest.mark.faults_long
@pytest.mark.timeout(600)
@both
def test_flushed_on_every_node_for_a_long_time(
    cluster: SpareCluster, limiter: Either, figures: Callable[[str], None]
) -> None:
    answers = ask_while_flushing(cluster, limiter, rounds=4_000, callers=4)
    assert_each_was_counted_once(limiter, answers)
    figures(f"{len(answers)} requests of {len(TENANTS)} tenants, each counted once")


def test_a_gateway_at_one_node_does_not_start_and_says_which_url_to_write(cluster: SpareCluster) -> None:
    node = cluster.primaries()[0]
    environment = {"PATH": os.environ["PATH"], "REDIS_URL": node.url, "HEADROOM_FAIL": "open"}
    command = [sys.executable, "-m", "headroom_edge.gateway", "--port", str(free_port())]
    ended = subprocess.run(
        command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=120, check=False
    )
    assert ended.returncode != 0
    assert f"write the store's URL as redis+cluster://127.0.0.1:{node.port}" in ended.stderr
