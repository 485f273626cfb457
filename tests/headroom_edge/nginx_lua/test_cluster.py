"""nginx's Lua on a real cluster: it learns where a tenant is, and pays global limits at their home."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.cluster import RedisCluster

from headroom_edge import keys
from headroom_edge.lua_library import ensure_loaded
from headroom_edge.store.slots import slot_of
from tests.clusters import SpareCluster
from tests.headroom_edge.cluster_world import (
    AMPLE as OWN,
)
from tests.headroom_edge.cluster_world import (
    ENDPOINT,
    TENANTS,
    publish_cluster,
    tenants_by_primary,
    used_of_all,
)
from tests.headroom_edge.limiter.both import until
from tests.headroom_edge.limiter.world import limit
from tests.headroom_edge.nginx_lua.world import AMPLE, ASKED, lua_nginx, needs_lua
from tests.headroom_edge.world import ACME, Answer, wait_until_free

pytestmark = needs_lua

FIVE = limit("five", "fixed_window", limit=5, window="1h")
TOTAL = limit("total", "fixed_window", limit=40, window="1h")
SHARED = "lua_shared_dict headroom 10m;"
Ask = Callable[..., Answer]


@pytest.fixture
def store(cluster: SpareCluster) -> Iterator[RedisCluster]:
    with cluster.client() as client:
        yield client


@contextmanager
def asking(folder: Path, url: str, settings: str = AMPLE, **more: Any) -> Iterator[Ask]:
    with lua_nginx(folder, url, settings=settings, locations=ASKED, **more) as running:

        def ask(tenant: str, endpoint: str = ENDPOINT, **fields: str) -> Answer:
            return running.client.get("/ask", x_tenant=tenant, x_endpoint=endpoint, **fields)

        yield ask


@pytest.fixture(params=["", "leases = true,"], ids=["direct", "leases"])
def ask(request: pytest.FixtureRequest, cluster: SpareCluster, tmp_path: Path) -> Iterator[Ask]:
    with asking(tmp_path, cluster.url, f"{AMPLE} {request.param}", http=SHARED, workers=2) as ask:
        yield ask


def is_degraded(answer: Answer) -> bool:
    return "headroom-degraded" in answer.headers


def test_every_tenant_is_counted_wherever_it_is(cluster: SpareCluster, store: RedisCluster, ask: Ask) -> None:
    publish_cluster(store, FIVE)
    assert len(tenants_by_primary(cluster)) == 3
    told = {tenant: [ask(tenant).status for _ in range(7)] for tenant in TENANTS}
    assert told == dict.fromkeys(TENANTS, [200] * 5 + [429] * 2)


def test_one_address_is_enough(cluster: SpareCluster, store: RedisCluster, tmp_path: Path) -> None:
    publish_cluster(store, FIVE)
    url = f"redis+cluster://127.0.0.1:{cluster.nodes[-1].port}"  # a replica
    with asking(tmp_path, url) as ask:
        assert [ask(tenant).headers["ratelimit"].partition(";t=")[0] for tenant in TENANTS] == ['"five";r=4'] * 30
        assert ask("", x_api_key=ACME).headers["ratelimit"].startswith('"five";r=4')
        until(lambda: store.hlen(keys.enforcer_info()) == 1)


def test_a_plain_url_at_a_server_of_a_cluster_lets_nobody_through(
    cluster: SpareCluster, store: RedisCluster, tmp_path: Path
) -> None:
    publish_cluster(store, FIVE)
    here = tenants_by_primary(cluster)
    node = cluster.primaries()[0]
    elsewhere = next(names[0] for port, names in here.items() if port != node.port)
    with asking(tmp_path, f"redis://127.0.0.1:{node.port}/0") as ask:
        assert ask(elsewhere, x_fail="open").status == 503


def test_all_tenants_together_get_what_a_global_limit_says(store: RedisCluster, ask: Ask) -> None:
    publish_cluster(store, OWN, over_all=(TOTAL,))
    told = [ask(tenant) for tenant in TENANTS * 2]
    assert sum(each.status == 200 for each in told) == 40
    assert not any(is_degraded(each) for each in told)
    assert told[0].headers["ratelimit-policy"] == '"own";q=1000000;w=3600, "total";q=40;w=3600'
    denied = told[-1]
    assert (denied.status, denied.json()["violated-policies"]) == (429, ["total"])
    assert int(denied.headers["retry-after"]) > 0


def test_a_denial_of_the_shard_gives_the_unit_back(store: RedisCluster, ask: Ask) -> None:
    publish_cluster(store, FIVE, over_all=(TOTAL,))
    told = [ask("t0") for _ in range(9)]
    assert [each.status for each in told] == [200] * 5 + [429] * 4
    assert told[-1].json()["violated-policies"] == ["five"]
    assert used_of_all(store) == 5


def test_a_denial_of_a_global_limit_is_counted_with_its_tenant(store: RedisCluster, ask: Ask) -> None:
    publish_cluster(store, OWN, over_all=(limit("total", "fixed_window", limit=3, window="1h"),))
    assert [ask("t0").status for _ in range(10)] == [200] * 3 + [429] * 7
    usage = f"{keys.tenant_prefix('t0')}:u"

    def counted() -> dict[bytes, int]:
        found: dict[bytes, int] = {}
        for field, value in store.hgetall(usage).items():
            if field != b"_":
                outcome = bytes(field)[-2:]  # type: ignore[arg-type] # bytes, as this client gives
                found[outcome] = found.get(outcome, 0) + int(value) % 2**24
        return found

    until(lambda: counted() == {b"1a": 3, b"d2": 7})


def test_a_global_limit_that_comes_and_goes_is_noticed(store: RedisCluster, ask: Ask) -> None:
    publish_cluster(store, OWN)
    assert all(ask(tenant).status == 200 for tenant in TENANTS)
    publish_cluster(store, OWN, over_all=(limit("total", "fixed_window", limit=5, window="1h"),), revision=2)
    until(lambda: ask("t0").status == 429)
    publish_cluster(store, OWN, revision=3)
    until(lambda: "total" not in ask("t0").headers.get("ratelimit-policy", "total"))


def test_slots_of_a_global_concurrency_limit_are_released(store: RedisCluster, ask: Ask) -> None:
    slots = (limit("all-slots", "concurrency", limit=2, hold="1h"),)
    publish_cluster(store, limit("own-slots", "concurrency", limit=2, hold="1h"), over_all=slots)
    for tenant in TENANTS[:5]:
        assert ask(tenant).status == 200
        wait_until_free(store)  # type: ignore[arg-type] # it only scans


def test_a_large_global_limit_is_leased_and_accounted(
    cluster: SpareCluster, store: RedisCluster, tmp_path: Path
) -> None:
    publish_cluster(store, OWN, over_all=(limit("total", "fixed_window", limit=1_000_000, window="1h"),))
    with asking(tmp_path, cluster.url, f"{AMPLE} leases = true,", http=SHARED, workers=2) as ask:
        told = [ask(tenant) for _ in range(20) for tenant in TENANTS]
        assert {each.status for each in told} == {200}
        assert not any(is_degraded(each) for each in told)
    until(lambda: used_of_all(store) == len(told))


def test_a_slot_that_moves_is_followed(spare_cluster: SpareCluster, tmp_path: Path) -> None:
    """Before, half way and after; the budget lasts for as long as the keys are on both sides."""
    prefix = keys.tenant_prefix("t0")
    with spare_cluster.client() as store:
        publish_cluster(store, FIVE)
        for node in spare_cluster.primaries():
            with node.client() as client:
                ensure_loaded(client)
    source = spare_cluster.owner_of(prefix)
    target = next(node for node in spare_cluster.primaries() if node is not source)
    slot = slot_of(prefix)
    with asking(tmp_path, spare_cluster.url, "budget_ms = 10000,") as ask:
        told = [ask("t0")]
        spare_cluster.begin_move(slot, source, target)
        names = spare_cluster.keys_in(slot, source)
        spare_cluster.move_keys(source, target, names[0])
        halfway = ask("t0")  # the failure mode decides, and nothing is counted
        assert is_degraded(halfway)
        spare_cluster.move_keys(source, target, *names[1:])
        told.append(ask("t0"))  # by ASK
        spare_cluster.end_move(slot, source, target)
        told += [ask("t0") for _ in range(4)]  # by MOVED
    assert [each.status for each in told] == [200] * 5 + [429]
    assert not any(is_degraded(each) for each in told)


def test_a_dead_primary_concerns_its_own_tenants_only(spare_cluster: SpareCluster, tmp_path: Path) -> None:
    with spare_cluster.client() as store:
        publish_cluster(store, OWN)
    by_primary = tenants_by_primary(spare_cluster)
    victim = spare_cluster.primaries()[0]
    replicas = spare_cluster.replicas_of(victim)
    others = [name for port, names in by_primary.items() if port != victim.port for name in names]
    with asking(tmp_path, spare_cluster.url, "budget_ms = 10000,") as ask:
        assert not any(is_degraded(ask(tenant)) for tenant in TENANTS)
        for replica in replicas:
            replica.kill()  # so that nobody takes over
        victim.kill()
        hurt = by_primary[victim.port]
        for _ in range(10):
            assert all(is_degraded(ask(tenant)) for tenant in hurt)
            assert not any(is_degraded(ask(tenant)) for tenant in others)


def test_a_replica_that_takes_over_is_found(spare_cluster: SpareCluster, tmp_path: Path) -> None:
    with spare_cluster.client() as store:
        publish_cluster(store, OWN)
    victim = spare_cluster.primaries()[0]
    hurt = tenants_by_primary(spare_cluster)[victim.port]
    with asking(tmp_path, spare_cluster.url, "budget_ms = 1000,") as ask:
        until(lambda: not any(is_degraded(ask(tenant)) for tenant in TENANTS))
        victim.kill()
        until(lambda: not any(is_degraded(ask(tenant)) for tenant in hurt))


@pytest.mark.parametrize(
    ("mode", "statuses"),
    [("open", [200] * 4 + [429] * 2), pytest.param("closed", [503] * 6, marks=pytest.mark.sweep)],
)
def test_while_the_home_is_away_its_failure_mode_decides_and_shards_go_on(
    spare_cluster: SpareCluster, tmp_path: Path, mode: str, statuses: list[int]
) -> None:
    total = limit("total", "fixed_window", limit=40, window="1h", on_failure=mode)
    with spare_cluster.client() as store:
        publish_cluster(store, FIVE, over_all=(total,))
    home = spare_cluster.owner_of(keys.ALL)
    others = [name for port, names in tenants_by_primary(spare_cluster).items() if port != home.port for name in names]
    with asking(tmp_path, spare_cluster.url, "budget_ms = 500,") as ask:
        assert not is_degraded(ask(others[0]))
        for replica in spare_cluster.replicas_of(home):
            replica.kill()  # so that nobody takes over
        home.pause()
        told = [ask(others[0]) for _ in statuses]
        home.resume()
    assert [each.status for each in told] == statuses
    assert told[0].headers["headroom-degraded"] == mode
