"""F25 in a cluster: every scenario, and the state machine of Lua and the reference model, on nodes that own slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import redis
from redis.cluster import RedisCluster

from headroom_edge import keys
from headroom_edge.lua_library import simulation_source
from quotas.simulation.sandbox import Sandbox, StoreEngine, _see_expired_keys
from quotas.simulation.scenarios.model import ScenarioCase, run_case
from tests.clusters import SpareCluster
from tests.headroom_edge.lua.test_agreement import Agreement, agree
from tests.headroom_edge.lua.world import TENANT
from tests.quotas.simulation.test_scenarios import CASES
from tests.valkeys import SpareValkey

pytestmark = pytest.mark.sweep
SEQUENCES = 100


class ClusterSandbox(Sandbox):
    """The cluster in the place of a server of its own."""

    def __init__(self, cluster: SpareCluster) -> None:
        self._cluster = cluster
        on_connect: Any = _see_expired_keys
        port = cluster.primaries()[0].port
        client: Any = RedisCluster(host="127.0.0.1", port=port, redis_connect_func=on_connect)
        self._redis = cast("redis.Redis", client)
        self._execute: Callable[..., Any] = client.execute_command
        for node in cluster.primaries():
            cluster.on(node, "FUNCTION", "LOAD", "REPLACE", simulation_source())

    def forget(self) -> None:
        for node in self._cluster.primaries():
            self._cluster.on(node, "FLUSHALL")


@pytest.fixture
def clocked(cluster: SpareCluster) -> Iterator[SpareCluster]:
    """Nothing expires by the servers' own clock."""
    for node in cluster.primaries():
        cluster.on(node, "CONFIG", "SET", "import-mode", "yes")
    yield cluster
    for node in cluster.primaries():
        cluster.on(node, "CONFIG", "SET", "import-mode", "no")


@pytest.mark.parametrize("case", CASES)
def test_every_scenario_comes_out_right(clocked: SpareCluster, case: ScenarioCase) -> None:
    sandbox = ClusterSandbox(clocked)
    try:
        assert run_case(case, StoreEngine(sandbox)).mismatches == []
    finally:
        sandbox._redis.close()


class AgreementOnANode(Agreement):
    """Without global limits: in a cluster, their records are not the shard's, but their home's."""

    def _publish(self) -> None:
        self.policies = tuple(policy for policy in self.policies if policy.tier or policy.tenant)
        super()._publish()


@pytest.mark.timeout(3_600)
def test_lua_and_the_reference_model_agree(clocked: SpareCluster) -> None:
    node: SpareValkey = clocked.owner_of(keys.tenant_prefix(TENANT))
    agree(node, SEQUENCES, derandomize=True, machine=AgreementOnANode)
