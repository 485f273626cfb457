from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from kombu import Connection

from config import env
from config.data_folders import ROOT, Places
from config.embedded import ServerError, start_embedded_valkey
from config.embedded_cluster import NODES
from config.env import SettingError
from config.up import _reach_broker, _reach_redis
from config.up_cluster import UpCluster, forget_outdated, leave_cluster
from quotas.publishing import store
from tests.clusters import SpareCluster, SpareSentinels
from tests.config.running import PATIENCE_SECONDS, Up


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hr-") as folder:
        yield Path(folder).resolve()


@contextmanager
def running(cluster: UpCluster) -> Iterator[str]:
    """Its URL."""
    cluster.choose_ports()
    cluster.adopt()
    with ExitStack() as stack:
        for node in cluster.nodes():
            node.start()
            stack.callback(node.end)
        cluster.form()
        yield cluster.places.redis_url


def ids(url: str) -> set[str]:
    """Of the nodes that are connected; none while the node that is asked comes up."""
    try:
        with store.connect(url) as client:
            told = client.execute_command("CLUSTER NODES")
    except store.StoreError:
        return set()
    return {facts["node_id"] for facts in told.values() if facts["connected"] and "fail" not in facts["flags"]}


def test_the_next_start_rejoins_the_same_nodes_with_their_data(home: Path) -> None:
    cluster = UpCluster(Places(home))
    with running(cluster) as url:
        assert re.fullmatch(r"redis\+cluster://127\.0\.0\.1:\d+(,127\.0\.0\.1:\d+){5}", url)
        first = ids(url)
        with store.connect(url) as client:
            for number in range(20):
                client.set(f"{{{number}}}", number)
    with running(cluster) as again, store.connect(again) as client:
        assert again == url
        assert ids(again) == first
        assert [client.get(f"{{{number}}}") for number in range(20)] == [str(number) for number in range(20)]


def test_a_cluster_that_was_not_the_store_meanwhile_starts_empty(home: Path) -> None:
    """Its counters are older than those in PostgreSQL."""
    cluster = UpCluster(Places(home))
    with running(cluster) as url, store.connect(url) as client:
        first = ids(url)
        client.set("old", 1)
    leave_cluster(cluster.places)
    assert cluster.places.redis_url == cluster.places.valkey_url
    with running(cluster) as url, store.connect(url) as client:
        assert client.get("old") is None
        assert ids(url).isdisjoint(first)


def test_the_single_valkey_forgets_what_is_older_than_the_cluster(home: Path) -> None:
    places = Places(home)
    server = start_embedded_valkey(places)
    try:
        with redis.Redis.from_url(places.valkey_url) as client:
            client.set("outdated", 1)
            UpCluster(places).adopt()
            forget_outdated(places)
            assert client.get("outdated") is None
            client.set("newer", 1)
            forget_outdated(places)
            assert client.get("newer") == b"1"
    finally:
        server.stop()


def test_a_taken_port_is_one_sentence_with_a_way_out(home: Path) -> None:
    cluster = UpCluster(Places(home))
    cluster.choose_ports()
    for node in (0, NODES):
        port = cluster.places.cluster_ports()[node]
        with socket.create_server(("127.0.0.1", port)), pytest.raises(ServerError) as caught:
            next(cluster.nodes()).start()
        assert str(caught.value) == (
            f"Port {port} of the cluster cannot be used (address already in use); "
            f"free it, or remove {home}/cluster to begin with a new cluster on other ports."
        )


def test_a_command_that_asks_for_a_cluster_that_never_was_gets_a_sentence(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADROOM_CLUSTER", "1")
    with pytest.raises(SettingError, match=r"There is no cluster in .*; start it with `make up CLUSTER=1`, or unset "):
        _ = Places(home).redis_url


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"HEADROOM_CLUSTER": "six"}, "HEADROOM_CLUSTER is 'six'; set it to 1 or 0."),
        (
            {"HEADROOM_CLUSTER": "1", "REDIS_URL": "redis://127.0.0.1:1/0"},
            "CLUSTER=1 starts a cluster of its own; unset REDIS_URL, which names another store.",
        ),
        (
            {"HEADROOM_CLUSTER": "1", "HEADROOM_UNKNOWN_TENANT": "guests"},
            (
                "HEADROOM_UNKNOWN_TENANT is 'guests' and REDIS_URL names a cluster, in which that tenant may be on "
                "another server than the caller's shard; set HEADROOM_UNKNOWN_TENANT to deny."
            ),
        ),
    ],
)
def test_what_does_not_go_together_is_one_line(home: Path, variables: dict[str, str], sentence: str) -> None:
    up = Up(home, **variables)
    assert up.process.wait(PATIENCE_SECONDS) == 2
    assert up.said() == f"headroom: {sentence}\n"


def test_make_hands_on_the_choice_of_its_command_line_only() -> None:
    for words in (["CLUSTER=1"], []):
        told = subprocess.run(
            ["make", "--print-data-base", "--question", "--no-builtin-rules", "help", *words],
            cwd=ROOT,
            env={**os.environ, "CLUSTER": "production"},
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        assert ("HEADROOM_CLUSTER = $(CLUSTER)" in told) is bool(words)


@pytest.mark.timeout(900)
def test_make_up_runs_a_cluster_and_restarts_its_nodes(home: Path) -> None:
    runs_a_cluster(home)


# `test_the_single_valkey_forgets_what_is_older_than_the_cluster` does the last part without all the programs.
@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_make_up_runs_a_cluster_restarts_its_nodes_and_goes_back_to_one_valkey(home: Path) -> None:
    runs_a_cluster(home)
    goes_back(home)


def runs_a_cluster(home: Path) -> None:
    places = Places(home)
    up = Up(home, HEADROOM_CLUSTER="1", HEADROOM_DEMO="0", HEADROOM_BUDGET_MS="10000")
    try:
        up.wait_for(lambda: places.cluster_in_use.exists() and "beat" in up.health()[1])
        url = places.redis_url
        assert url.startswith("redis+cluster://")
        assert command_finds(home) == [url, f"redis+socket://{home}/valkey/valkey.sock?virtual_host=1"]
        with redis.Redis.from_url(places.valkey_url) as client:
            client.set("outdated", 1)

        up.wait_for(lambda: up.health()[0] == 200)
        decision = decided_over_http(up, home)
        assert (decision["allowed"], decision["degraded"], decision["tenant"]) == (True, None, "acme")
        assert up.health()[1]["published_revision"] >= decision["revision"] > 0

        first = ids(url)
        assert len(first) == NODES
        node_of(up, home / "cluster/node-1").kill()
        up.wait_for(lambda: "node-1 ended (signal SIGKILL); restarting it in 0.5 s" in up.said())
        up.wait_for(lambda: ids(url) == first)
    finally:
        assert up.end(signal.SIGINT) == 0


def goes_back(home: Path) -> None:
    places = Places(home)
    back = Up(home, HEADROOM_DEMO="0")
    try:
        back.wait_for(lambda: back.health()[0] == 200)
        assert back.health()[1]["published_revision"] > 0
        assert command_finds(home)[0] == places.redis_url == places.valkey_url
        with redis.Redis.from_url(places.valkey_url) as client:
            assert client.get("outdated") is None
        assert not [each for each in back.family() if _working_folder(each).startswith(str(places.cluster))]
    finally:
        assert back.end(signal.SIGINT) == 0


def command_finds(home: Path) -> list[str]:
    """The servers that a command in another terminal uses."""
    code = "from django.conf import settings; print(settings.REDIS_URL, settings.BROKER_URL)"
    return command(home, "shell", "--no-imports", "-c", code).split()


def command(home: Path, *words: str) -> str:
    environment = {**os.environ, "HEADROOM_HOME": str(home)}
    return subprocess.check_output([sys.executable, "manage.py", *words], cwd=ROOT, env=environment, text=True)


def decided_over_http(up: Up, home: Path) -> dict[str, Any]:
    """What the gateway says about a request of a new tenant."""
    by = "author='test', reason='test'"
    create = f"tier_create(name='free', {by}); tenant_create(name='acme', tier='free', {by})"
    imports = "from quotas.tenants import tenant_create, tier_create"
    command(home, "shell", "--no-imports", "-c", f"{imports}; {create}")
    key = command(home, "api_key", "create", "acme").strip()
    answers: list[dict[str, Any]] = []

    def is_published() -> bool:
        status, body = ask_gateway(up.gateway_port, key, {"endpoint": "*"})
        answers.append(body)
        return status == HTTPStatus.OK

    up.wait_for(is_published)
    return answers[-1]


def ask_gateway(port: int, token: str, check: dict[str, str]) -> tuple[int, dict[str, Any]]:
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("POST", "/v1/check", json.dumps(check), {"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        return response.status, json.load(response)


def node_of(up: Up, folder: Path) -> psutil.Process:
    return next(process for process in up.family() if _working_folder(process) == str(folder))


def _working_folder(process: psutil.Process) -> str:
    try:
        return process.cwd()
    except psutil.Error:  # it has ended meanwhile
        return ""


def test_a_url_must_say_that_its_server_is_a_node_of_a_cluster(cluster: SpareCluster) -> None:
    """A single node knows its own shards only, so that whoever asks it about another gets no decision."""
    _reach_redis(cluster.url)
    with pytest.raises(ServerError, match=r"names one node of a cluster; write it like redis\+cluster://"):
        _reach_redis(cluster.nodes[0].url)


def test_a_store_and_a_broker_behind_sentinels_are_reached(
    sentinels: SpareSentinels, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    _reach_redis(sentinels.url)
    monkeypatch.setenv("BROKER_URL", sentinels.url.removesuffix("0") + "1")
    broker = env.broker("BROKER_URL", beside=sentinels.url)
    settings.BROKER_OPTIONS = broker.options
    _reach_broker(broker.url)
    with Connection(broker.url, transport_options=dict(broker.options)) as connection:
        connection.SimpleQueue("tasks").put("one")
    with sentinels.primary.client() as client:
        client.select(1)
        assert client.llen("tasks") == 1
