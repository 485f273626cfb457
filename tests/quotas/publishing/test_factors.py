"""From a failing service to every shard: middleware, hr_observe, publisher, and the next check."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast
from wsgiref.util import setup_testing_defaults

import pytest
import redis
from django.conf import settings

from headroom_edge import Limiter, keys
from headroom_edge.request_guard import GuardRules
from headroom_edge.wsgi import QuotaMiddleware, StartResponse
from quotas.adaptive.pin import limit_pin
from quotas.policies.edit import policy_create, policy_delete
from quotas.publishing import store
from quotas.publishing.factors import FactorCopier, LoopState, copy_factors, factor_text, write_loops
from quotas.publishing.publisher import Publisher
from quotas.tenants import tenant_create
from tests.clusters import SpareCluster
from tests.quotas.publishing.conftest import Run
from tests.quotas.publishing.worlds import ENDPOINT, FORCED, SAID, publisher_for, wait_until

ADAPT = {"slow": "5s", "floor": "20%"}
LIMIT = {"name": "backend", "algorithm": "token_bucket", "rate": 1_000, "burst": 1_000, "adapt": ADAPT}


def adapting(name: str = "backend", **parts: str) -> None:
    policy_create(name=name, endpoint=ENDPOINT, limits=[{**LIMIT, "adapt": {**ADAPT, **parts}}], **FORCED)


def texts(client: redis.Redis) -> set[str | None]:
    names = [keys.factors(shard) for shard in range(settings.HEADROOM_SHARDS)]
    return set(cast("list[str | None]", [client.get(name) for name in names]))


class Service:
    """A real middleware in front of an application that answers with one status."""

    def __init__(self, url: str) -> None:
        self.status = "503 Service Unavailable"
        self.limiter = Limiter.from_url(url, budget_ms=60_000)
        rules = GuardRules(tenant="dora", endpoint=lambda _: ENDPOINT)
        self._guarded = QuotaMiddleware(self._answer, limiter=self.limiter, rules=rules)

    def _answer(self, _: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        start(self.status, [])
        return [b""]

    def ask(self) -> str:
        environ: dict[str, Any] = {}
        setup_testing_defaults(environ)
        told: list[str] = []
        list(self._guarded(environ, lambda status, *_: told.append(status)))
        return told[0]


def test_a_failing_service_cuts_its_limit_on_every_shard(
    client: redis.Redis, world: None, run: Run, valkey_url: str
) -> None:
    adapting()
    tenant_create(name="dora", tier="free", **SAID)  # the tier has no limits
    run("serve")
    wait_until(lambda: bool(client.hexists(keys.loops(), ENDPOINT)), "the loops")
    wait_until(lambda: texts(client) == {""}, "an empty text in every shard")
    service = Service(valkey_url)
    with service.limiter:

        def is_cut() -> bool:
            service.ask()
            (text, *others) = texts(client)
            return not others and " 200 " in (text or "")

        wait_until(is_cut, "the floor in every shard")
        prefix = keys.tenant_prefix("dora")
        reply = cast("list[Any]", client.fcall("hr_peek", 1, prefix, "dora", ENDPOINT, "1", "ALL"))
        backend = next(row for row in reply[12:] if row[0] == "backend")
        assert 0 < backend[4] < 200  # a fifth of the burst


@pytest.mark.usefixtures("world")
class TestLoops:
    def publish(self, client: redis.Redis) -> Publisher:
        publisher = publisher_for(client)
        publisher.publish()
        assert publisher.loops is not None
        write_loops(client, publisher.loops)
        return publisher

    def test_they_come_and_go_with_the_limits(self, client: redis.Redis) -> None:
        publisher = self.publish(client)
        assert publisher.loops == {}
        adapting()
        publisher.publish()
        assert publisher.loops
        write_loops(client, publisher.loops)
        assert client.hexists(keys.loops(), ENDPOINT)
        policy_delete(name="backend", **SAID)
        publisher.publish()
        assert publisher.loops == {}
        write_loops(client, {})
        assert not client.exists(keys.loops())

    def test_a_pinned_limit_has_none(self, client: redis.Redis) -> None:
        adapting()
        publisher = self.publish(client)
        limit_pin(policy="backend", limit="backend", at="50%", **SAID)
        publisher.publish()
        assert publisher.loops == {}

    def test_states_of_loops_that_ended_are_removed(self, client: redis.Redis) -> None:
        client.hset(keys.loop_states(), "0badcafe", "{}")
        adapting()
        self.publish(client)
        assert not client.exists(keys.loop_states())

    def test_what_somebody_deleted_is_written_again(self, client: redis.Redis) -> None:
        adapting()
        publisher = self.publish(client)
        copier = FactorCopier("unused", settings.HEADROOM_SHARDS)
        copier.copy(client)  # it does not know any loops yet
        copier.loops = publisher.loops
        client.delete(keys.loops())
        copier.copy(client)
        assert client.hexists(keys.loops(), ENDPOINT)
        assert texts(client) == {""}


def test_only_factors_below_the_whole_are_copied() -> None:
    low = LoopState("aa", 420, "drain", 0.6, 600, 0.4, 1_800_000_000_000_000)
    whole = LoopState("bb", 1_000, "free", None, 600, 0.0, 1_800_000_000_000_000)
    assert factor_text([low, whole]) == "aa 420 1800000000000 drain;"


@pytest.mark.usefixtures("world")
def test_all_nodes_of_a_cluster_get_them(cluster: SpareCluster) -> None:
    adapting()
    with store.connect(cluster.url) as client:
        publisher = publisher_for(client)
        publisher.publish()
        write_loops(client, publisher.loops or {})
        now_us = store.now_us(client)
        (row,) = json.loads(str(client.hget(keys.loops(), ENDPOINT)))
        state = {"f": 0.42, "mode": "drain", "answers": 600, "bad": 0.4, "until_us": now_us + 10_000_000}
        client.hset(keys.loop_states(), row[0], json.dumps(state))
        copy_factors(client, settings.HEADROOM_SHARDS)
        (text,) = texts(client)
        assert text
        assert text.startswith(f"{row[0]} 420 ")
        assert client.get(keys.factors(keys.EVERYONES_SHARD)) == text
