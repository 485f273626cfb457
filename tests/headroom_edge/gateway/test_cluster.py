"""The gateway and Envoy's rate limit service on a real cluster: limits over all tenants, charged and given back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis.cluster import RedisCluster

from headroom_edge import AsyncLimiter
from headroom_edge.gateway.bounds import BoundedProtocol
from headroom_edge.gateway.protocol import CheckProtocol
from headroom_edge.gateway.rls.grpcio_server import GrpcioServer
from headroom_edge.gateway.rls.http2_server import Http2Server
from headroom_edge.gateway.server import Gateway
from tests.clusters import SpareCluster
from tests.headroom_edge.cluster_world import AMPLE, ENDPOINT, TENANTS, publish_cluster, used_of_all
from tests.headroom_edge.conftest import AMPLE_MS, LOOPBACK
from tests.headroom_edge.gateway.rls.asking import OK, OVER_LIMIT, RlsClient, fields_of, serving
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.world import ACME, MACHINE, ZENITH, Client, served

TOTAL = limit("total", "fixed_window", limit=40, window="1h")
SLOTS = limit("slots", "concurrency", limit=2, hold="1h")


@pytest.fixture
def store(cluster: SpareCluster) -> Iterator[RedisCluster]:
    with cluster.client() as client:
        yield client


@pytest.fixture(params=[CheckProtocol, BoundedProtocol], ids=["server", "asgi"])
def gateway(request: pytest.FixtureRequest, cluster: SpareCluster) -> Iterator[Client]:
    with served(Gateway(AsyncLimiter.from_url(cluster.url, budget_ms=AMPLE_MS), LOOPBACK), request.param) as client:
        client.fields["authorization"] = f"Bearer {MACHINE}"
        yield client


@pytest.fixture(params=[Http2Server, GrpcioServer], ids=["http2", "grpcio"])
def rls(request: pytest.FixtureRequest, cluster: SpareCluster) -> Iterator[RlsClient]:
    with serving(AsyncLimiter.from_url(cluster.url, budget_ms=AMPLE_MS), kind=request.param) as client:
        yield client


def check(gateway: Client, tenant: str, **more: Any) -> Any:
    return gateway.post("/v1/check", {"tenant": tenant, "endpoint": ENDPOINT, **more}).json()


def about(tenant: str) -> dict[str, str]:
    return {"tenant": tenant, "endpoint": ENDPOINT}


def test_a_check_of_any_tenant_counts_for_all(gateway: Client, store: RedisCluster) -> None:
    publish_cluster(store, AMPLE, over_all=(TOTAL,))
    told = [check(gateway, tenant) for tenant in TENANTS * 2]
    assert sum(each["allowed"] for each in told) == 40
    assert {(each["status"], each["limit"]) for each in told if not each["allowed"]} == {(429, "total")}
    assert told[-1]["problem"]["violated-policies"] == ["total"]
    assert told[0]["headers"]["RateLimit-Policy"] == '"own";q=1000000;w=3600, "total";q=40;w=3600'


def test_a_batch_counts_for_all(gateway: Client, store: RedisCluster) -> None:
    publish_cluster(store, AMPLE, over_all=(TOTAL,))
    told = gateway.post("/v1/check", {"checks": [about(tenant) for tenant in TENANTS * 2]}).json()
    assert sum(each["allowed"] for each in told["decisions"]) == 40


def test_a_proxy_is_told_of_a_limit_over_all(gateway: Client, store: RedisCluster) -> None:
    publish_cluster(store, AMPLE, over_all=(limit("total", "fixed_window", limit=5, window="1h"),))
    del gateway.fields["authorization"]
    asked = {"x_original_method": "GET", "x_original_uri": "/v1/rides"}
    told = [gateway.get("/v1/authz", x_api_key=key, **asked) for key in (ACME, ZENITH) * 4]
    assert [each.status for each in told] == [200] * 5 + [403] * 3
    assert told[-1].headers["x-headroom-status"] == "429"
    assert told[0].headers["ratelimit"].count(";r=") == 2


def test_a_proxy_that_would_wait_too_long_is_charged_nowhere(gateway: Client, store: RedisCluster) -> None:
    queue = limit("queue", "leaky_bucket", rate=1, per="1h", queue=5)
    publish_cluster(store, queue, over_all=(TOTAL,))
    del gateway.fields["authorization"]
    asked = {"x_original_method": "GET", "x_original_uri": "/v1/rides"}
    told = [gateway.get("/v1/authz", x_api_key=ACME, **asked).status for _ in range(4)]
    assert told == [200, 403, 403, 403]
    assert used_of_all(store) == 1


@pytest.mark.parametrize("own", [AMPLE, limit("own", "concurrency", limit=9, hold="1h")], ids=["window", "slots"])
def test_a_slot_over_all_is_released_by_its_holder(
    cluster: SpareCluster, gateway: Client, store: RedisCluster, own: Any
) -> None:
    """Whether the caller named the holder or the store did, and by a gateway that has not seen the check."""
    publish_cluster(store, own, over_all=(SLOTS,))
    named, made = check(gateway, "t0", holder="mine"), check(gateway, "t1")
    assert (named["holder"], named["allowed"], made["allowed"]) == ("mine", True, True)
    assert not check(gateway, "t2")["allowed"]
    another = AsyncLimiter.from_url(cluster.url, budget_ms=AMPLE_MS)
    with served(Gateway(another, LOOPBACK), CheckProtocol) as client:
        for held in (named, made):
            released = client.post(
                "/v1/release", {**about(held["tenant"]), "holder": held["holder"]}, authorization=f"Bearer {MACHINE}"
            ).json()
            assert released == {"released": 2 if own is not AMPLE else 1}
    assert [check(gateway, tenant)["allowed"] for tenant in TENANTS[:3]] == [True, True, False]


def test_envoy_is_told_of_a_limit_over_all(rls: RlsClient, store: RedisCluster) -> None:
    publish_cluster(store, AMPLE, over_all=(TOTAL,))
    told = [rls.ask(about(tenant)) for tenant in TENANTS * 2]
    assert sum(each.overall_code == OK for each in told) == 40
    assert told[0].statuses[0].current_limit.name == "total"
    assert told[-1].overall_code == OVER_LIMIT
    assert int(fields_of(told[-1])["retry-after"]) > 0


def test_the_other_descriptors_get_back_what_all_were_charged(rls: RlsClient, store: RedisCluster) -> None:
    one = limit("one", "fixed_window", limit=1, window="1h")
    publish_cluster(store, AMPLE, over_all=(TOTAL,), endpoints={"rides:get": (one,)})
    tight = {"tenant": "t1", "endpoint": "rides:get"}
    assert rls.ask(tight).overall_code == OK
    for _ in range(5):
        assert rls.ask(about("t0"), about("t2"), tight).overall_code == OVER_LIMIT
    assert used_of_all(store) == 1


def test_units_of_a_block_go_back_into_it(cluster: SpareCluster, store: RedisCluster) -> None:
    """A limit that is large enough is leased. Then a refused request may cost units, but never brings any."""
    publish_cluster(store, AMPLE, over_all=(limit("total", "fixed_window", limit=1_000_000, window="1h"),))
    with serving(AsyncLimiter.from_url(cluster.url, budget_ms=AMPLE_MS)) as rls:
        for _ in range(20):
            assert rls.ask(*(about(tenant) for tenant in TENANTS)).overall_code == OK
            assert rls.ask(about("t0"), about("bankrupt")).overall_code == OVER_LIMIT
    assert used_of_all(store) >= 20 * len(TENANTS)


def test_a_slot_over_all_that_another_descriptor_refused_is_free_again(rls: RlsClient, store: RedisCluster) -> None:
    one = limit("one", "fixed_window", limit=1, window="1h")
    publish_cluster(store, AMPLE, over_all=(SLOTS,), endpoints={"rides:get": (one,)})
    tight = {"tenant": "t1", "endpoint": "rides:get"}
    assert rls.ask(tight).overall_code == OK  # one of the two slots is held from now on
    for _ in range(3):
        refused = rls.ask(about("t0"), tight)
        assert refused.overall_code == OVER_LIMIT
    assert rls.ask(about("t0")).overall_code == OK
    assert rls.ask(about("t0")).overall_code == OVER_LIMIT


def test_a_peek_over_all_charges_nobody(rls: RlsClient, store: RedisCluster) -> None:
    publish_cluster(store, AMPLE, over_all=(TOTAL,))
    told = [rls.ask(about(tenant), costs=[0]).statuses[0].limit_remaining for tenant in TENANTS]
    assert set(told) <= {39, 40}
    assert used_of_all(store) == 0
