"""docker-compose.yml and the Dockerfile: what they set is what the settings read, and every part can be watched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
import yaml

from config.celery import app
from config.data_folders import ROOT
from config.prepare import COMMANDS, needed_steps
from config.up import programs
from headroom_edge.store.address import ClusterAddress, parse_url

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("migrate", "web", "publisher", "worker", "slices", "beat")
NODES = [f"node-{number}" for number in range(1, 7)]
# Of the shell and the images, not of Headroom.
PASSWORDS = ("APP", "OWNER", "VALKEY", "BROKER", "GRAFANA")
FOR_COMPOSE = {f"{name}_PASSWORD": name.lower() for name in PASSWORDS} | {"SECRET_KEY": "d" * 60}

# Of `make up`, of one process alone, or not for production.
OF_THE_MACHINE = {"HEADROOM_HOME", "HEADROOM_CLUSTER", "HEADROOM_DB_POOL", "HEADROOM_DEBUG"}


def variables_read() -> set[str]:
    """Every name that the settings ask the environment for."""
    places = [*(ROOT / "config").glob("*.py"), ROOT / "headroom_edge/gateway/environment.py"]
    return {name for path in places for name in re.findall(r'"([A-Z][A-Z0-9_]{3,})"', path.read_text())}


def test_every_variable_it_sets_is_read() -> None:
    read = variables_read()
    for name in OURS:
        assert set(SERVICES[name]["environment"]) <= read, name


def test_each_of_ours_has_the_servers_and_the_secret() -> None:
    needed = {"DATABASE_URL", "MIGRATION_DATABASE_URL", "REDIS_URL", "BROKER_URL", "SECRET_KEY", "ALLOWED_HOSTS"}
    for name in OURS:
        assert needed <= set(SERVICES[name]["environment"]), name


def test_every_setting_in_the_env_file_reaches_its_process() -> None:
    """A setting that compose leaves out would be ignored without a word: four eyes would stay off."""
    read = {name for name in variables_read() if name.startswith("HEADROOM_") and name not in OF_THE_MACHINE}
    for name in OURS:
        assert read - set(SERVICES[name]["environment"]) == set(), name
    gateway = (ROOT / "headroom_edge/gateway/environment.py").read_text()
    assert set(re.findall(r'"(HEADROOM_[A-Z_]+)"', gateway)) <= set(SERVICES["gateway"]["environment"])


def test_it_prepares_what_make_up_prepares() -> None:
    said = " ".join(SERVICES["migrate"]["command"])
    # The demo and the first owner are left to whoever installs it.
    for step in needed_steps():
        assert f"manage.py {COMMANDS[step][0]}" in said or step in ("seed", "owner"), step


def test_the_gateway_has_the_counters_and_no_database() -> None:
    gateway = SERVICES["gateway"]
    assert gateway["environment"]["REDIS_URL"] == SERVICES["web"]["environment"]["REDIS_URL"]
    assert set(gateway["environment"]) <= variables_read() - {"DATABASE_URL", "SECRET_KEY"}
    port = gateway["command"][-1]
    assert gateway["ports"][0].endswith(f":{port}")
    assert f":{port}/healthz" in gateway["healthcheck"]["test"][-1]
    assert SERVICES["web"]["environment"]["GATEWAY_URL"] == f"http://gateway:{port}"


def test_the_rate_limit_service_has_the_counters_and_asks_for_tokens() -> None:
    rls = SERVICES["rls"]
    assert rls["environment"] == SERVICES["gateway"]["environment"]
    # Every container of the network can reach it.
    assert "--tokens" in rls["command"]
    port = rls["command"][-1]
    assert rls["ports"][0].startswith("127.0.0.1:")
    assert rls["ports"][0].endswith(f":{port}")
    assert rls["healthcheck"]["test"][-1] == f"127.0.0.1:{port}"
    assert SERVICES["web"]["environment"]["RLS_URL"] == f"http://rls:{port}"


def test_every_queue_has_a_worker_of_its_own() -> None:
    """Slices take long and must not keep the drain waiting."""
    queues = {queue.name for queue in app.conf.task_queues}
    asked = [SERVICES[name]["command"][SERVICES[name]["command"].index("-Q") + 1] for name in ("worker", "slices")]
    in_up = programs({"web": 3, "gateway": 4})
    asked_in_up = [in_up[name][in_up[name].index("-Q") + 1] for name in ("worker", "slices")]
    assert queues == {"celery", "slices"} == set(asked) == set(asked_in_up)


def test_the_hosts_it_names_are_services() -> None:
    urls = " ".join(str(value) for value in SERVICES["web"]["environment"].values())
    assert set(re.findall(r"@?(postgres|valkey|broker):\d+", urls)) == {"postgres", "valkey", "broker"}
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["scrape_configs"]
    targets = [target for job in scraped for static in job["static_configs"] for target in static["targets"]]
    assert {target.partition(":")[0] for target in targets} <= set(SERVICES)


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in ("migrate", "cluster")])
def test_every_part_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


def test_nothing_of_ours_runs_as_root_or_can_write_its_image() -> None:
    assert re.search(r"^USER headroom$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for name in (*OURS, "gateway", "rls"):
        assert SERVICES[name]["read_only"] is True
        assert SERVICES[name]["cap_drop"] == ["ALL"]


def test_redis_keeps_what_it_counts() -> None:
    for name in ("valkey", "broker", *NODES):
        command = " ".join(SERVICES[name]["command"])
        assert "--appendonly yes" in command
        assert "--maxmemory-policy noeviction" in command


def test_the_cluster_is_a_profile_and_everything_else_is_started_without_it() -> None:
    assert {name for name, service in SERVICES.items() if "profiles" in service} == {*NODES, "cluster"}
    assert all(SERVICES[name]["profiles"] == ["cluster"] for name in (*NODES, "cluster"))
    for name in (*OURS, "gateway", "rls"):
        assert not {*NODES, "cluster"} & set(SERVICES[name].get("depends_on", {})), name


def test_the_nodes_are_joined_at_the_addresses_that_they_keep() -> None:
    addresses = [SERVICES[name]["networks"]["nodes"]["ipv4_address"] for name in NODES]
    assert addresses == [SERVICES[name]["environment"]["ADDRESS"] for name in NODES]
    (subnet,) = COMPOSE["networks"]["nodes"]["ipam"]["config"]
    assert all(ip_address(address) in ip_network(subnet["subnet"]) for address in addresses)
    joining = SERVICES["cluster"]["command"][-1]
    create = (
        f"--cluster create {' '.join(f'{address}:6379' for address in addresses)} --cluster-replicas 1 --cluster-yes"
    )
    assert create in joining
    assert joining.startswith(
        f"valkey-cli -h {addresses[0]} cluster info | grep -q cluster_known_nodes:{len(NODES)} ||"
    )
    assert list(SERVICES["cluster"]["depends_on"]) == NODES
    assert [SERVICES[name]["environment"]["NAME"] for name in NODES] == NODES


def test_the_guide_names_every_node_in_the_address_of_the_cluster() -> None:
    guide = (ROOT / "deploy/README.md").read_text()
    (url,) = re.findall(r"^STORE_URL=(\S+)$", guide, re.MULTILINE)
    address = parse_url(url.replace("$VALKEY_PASSWORD", "secret"))
    assert isinstance(address, ClusterAddress)
    assert [node.host for node in address.nodes] == NODES
    assert {node.password for node in address.nodes} == {"secret"}


def test_every_file_it_mounts_is_there() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("./"):
                assert (ROOT / source).exists(), name
            else:
                assert source in COMPOSE["volumes"], name


def test_the_image_has_every_package_that_is_imported() -> None:
    text = (ROOT / "Dockerfile").read_text()
    for package in ("config", "tenants", "quotas", "api", "dashboards"):
        assert f"COPY {package} {package}" in text


def has_compose() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_compose(), reason="docker compose is not installed: the file is parsed, not judged by it")
def test_compose_itself_accepts_it() -> None:
    command = ["docker", "compose", "--project-directory", str(ROOT), "config", "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **FOR_COMPOSE}, check=False)
    assert result.returncode == 0, result.stderr


def test_the_image_has_every_package() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests", "benchmarks"}
    copied = re.findall(r"^COPY (\w+) \1$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert set(copied) == packages
