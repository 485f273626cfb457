from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from config.data_folders import ROOT, Places
from config.env import SettingError
from tests.sweeps import first_of

SECRET = "k3Jx9vQ2mT7pLw5zRb8nYc4dHf6gSa1eUoViXtKrMqWjZyNl0BDEF"
PRODUCTION = {
    "DATABASE_URL": "postgresql://app:p%40ss@db.example:6432/quota?sslmode=require",
    "REDIS_URL": "rediss://:pw@cache.example:6380/2",
    "SECRET_KEY": SECRET,
    "ALLOWED_HOSTS": "quota.example, www.quota.example",
}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("HEADROOM_") or name in {
            "PORT",
            "GATEWAY_PORT",
            "GATEWAY_URL",
            "RLS_PORT",
            "RLS_URL",
            "BROKER_URL",
            *PRODUCTION,
        }:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HEADROOM_HOME", str(tmp_path))


def load(monkeypatch: pytest.MonkeyPatch, **variables: str) -> dict[str, Any]:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return runpy.run_path(str(ROOT / "config" / "settings.py"))


def test_nothing_set_means_the_embedded_servers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = load(monkeypatch)
    assert settings["DATABASES"]["default"]["HOST"] == str(tmp_path / "postgres")
    assert settings["REDIS_URL"] == f"unix://{tmp_path}/valkey/valkey.sock?db=0"
    assert settings["BROKER_URL"] == f"redis+socket://{tmp_path}/valkey/valkey.sock?virtual_host=1"
    assert settings["DEBUG"] is False
    assert settings["SECURE_SSL_REDIRECT"] is False


def test_the_machine_keeps_its_own_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = load(monkeypatch)["SECRET_KEY"]
    assert len(first) >= 50
    assert load(monkeypatch)["SECRET_KEY"] == first
    assert (tmp_path / "secret_key").stat().st_mode & 0o777 == 0o600


def test_a_line_end_in_the_file_is_no_part_of_the_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`make up` hands the file's text on in the environment, manage.py reads the file: both must have the same key."""
    (tmp_path / "secret_key").write_text("k" * 60 + "\n")
    assert load(monkeypatch)["SECRET_KEY"] == "k" * 60
    assert load(monkeypatch, SECRET_KEY=Places(tmp_path).secret())["SECRET_KEY"] == "k" * 60


@pytest.mark.parametrize("content", ["", "\n", "short\n"])
def test_a_weak_secret_in_the_file_is_refused(content: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "secret_key").write_text(content)
    with pytest.raises(SettingError, match="50 or more random characters"):
        load(monkeypatch)


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, ["127.0.0.0/8", "::1/128"]),
        ({"HEADROOM_BEHIND_PROXY": "1"}, []),
        ({"HEADROOM_TRUSTED_PROXIES": "127.0.0.1"}, []),
        ({"HEADROOM_METRICS_FROM": "none"}, []),
        (PRODUCTION, []),
        ({**PRODUCTION, "HEADROOM_METRICS_FROM": "10.0.0.0/8, 127.0.0.1"}, ["10.0.0.0/8", "127.0.0.1/32"]),
    ],
)
def test_metrics_need_a_token_except_on_a_laptop(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], named: list[str]
) -> None:
    """A proxy on this machine that sets no header must not show the metrics to everybody."""
    assert [str(network) for network in load(monkeypatch, **variables)["HEADROOM_METRICS_FROM"]] == named


def test_production_reads_its_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, **PRODUCTION)
    database = settings["DATABASES"]["default"]
    assert (database["HOST"], database["PORT"], database["NAME"]) == ("db.example", "6432", "quota")
    assert (database["USER"], database["PASSWORD"]) == ("app", "p@ss")
    assert database["OPTIONS"]["sslmode"] == "require"
    assert settings["BROKER_URL"] == "rediss://:pw@cache.example:6380/3"
    assert settings["ALLOWED_HOSTS"][-2:] == ["quota.example", "www.quota.example"]
    assert settings["SECURE_SSL_REDIRECT"] is True


def test_a_former_key_may_contain_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = f"a,{SECRET}, b,", SECRET[::-1]
    found = load(monkeypatch, **PRODUCTION, SECRET_KEY_FALLBACKS=f"{first},{second}")["SECRET_KEY_FALLBACKS"]
    assert {first, second} <= set(found)
    assert load(monkeypatch, **PRODUCTION, SECRET_KEY_FALLBACKS=f" {second} ")["SECRET_KEY_FALLBACKS"] == [second]


def test_a_part_of_a_former_key_that_could_be_guessed_signs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = load(monkeypatch, **PRODUCTION, SECRET_KEY_FALLBACKS=f"a,{SECRET}")["SECRET_KEY_FALLBACKS"]
    assert found == [SECRET, f"a,{SECRET}"]


def test_an_empty_variable_means_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch, PORT="", HEADROOM_FAIL=" ")["PORT"] == 8000


def test_the_gateway_listens_on_the_next_port(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch, PORT="9000")["GATEWAY_PORT"] == 9001
    assert load(monkeypatch, GATEWAY_PORT="7000")["GATEWAY_PORT"] == 7000
    assert load(monkeypatch, PORT="9000")["RLS_PORT"] == 9002
    assert load(monkeypatch, RLS_PORT="7001")["RLS_PORT"] == 7001


@pytest.mark.parametrize(
    ("name", "value", "way_out"),
    [
        ("PORT", "eighty", "whole number from 1 to 65535"),
        ("PORT", "70000", "whole number from 1 to 65535"),
        ("PORT", "9" * 5000, "whole number from 1 to 65535"),
        ("PORT", "\N{FULLWIDTH DIGIT EIGHT}", "whole number from 1 to 65535"),
        ("PORT", "65535", "set GATEWAY_PORT too"),
        ("GATEWAY_PORT", "0", "whole number from 1 to 65535"),
        ("GATEWAY_PORT", "8000", "different ports"),
        ("PORT", "65534", "set RLS_PORT too"),
        ("RLS_PORT", "8001", "RLS_PORT and GATEWAY_PORT are both 8001"),
        ("GATEWAY_URL", "gateway:8001", "something like http://gateway:8001"),
        ("HEADROOM_SHARDS", "0", "whole number from 1 to 16384"),
        ("HEADROOM_SHARDS", "-64", "whole number from 1 to 16384"),
        ("HEADROOM_BUDGET_MS", "1e3", "whole number from 1 to 60000"),
        ("HEADROOM_FAIL", "ajar", "one of open, closed, local"),
        ("HEADROOM_UNKNOWN_TENANT", "No Such!", "deny, or to the name of a tenant"),
        ("HEADROOM_UNKNOWN_TENANT", "headroom", "a tenant other than headroom"),
        ("HEADROOM_DEBUG", "maybe", "1 or 0"),
        ("HEADROOM_DEMO", "2", "1 or 0"),
        ("HEADROOM_DB_POOL", "many", "whole number from 0 to 200"),
        ("DATABASE_URL", "mysql://h/x", "postgresql://user:password@host:5432/headroom"),
        ("DATABASE_URL", "postgresql://h:port/x", "postgresql://user:password@host:5432/headroom"),
        ("DATABASE_URL", "postgresql://h", "end it with /NAME"),
        ("DATABASE_URL", "http://[::1", "postgresql://user:password@host:5432/headroom"),
        ("REDIS_URL", "localhost:6379", "unsupported scheme"),
        ("REDIS_URL", "http://[::1", "redis+cluster://host1:6379,host2:6379"),
        ("REDIS_URL", "redis://h/zero", "must be a whole number"),
        ("REDIS_URL", "redis://h:0/0", "a number from 1 to 65535"),
        ("REDIS_URL", "redis://h1,h2/0", "names several servers; write it like"),
        ("REDIS_URL", "redis://h/0?nonsense=1", "'nonsense'; remove it"),
        ("REDIS_URL", "redis+cluster://h1,h2/1", "A cluster has database 0 only; remove the number"),
        ("REDIS_URL", "redis+sentinel://h1,h2", "does not name the primary"),
        ("REDIS_URL", "rediss://h/0?ssl_ca_certs=nowhere", "a certificate or key that cannot be used"),
        ("BROKER_URL", "kafka://h", "redis://host:6379/1"),
        ("BROKER_URL", "redis+cluster://h1,h2", "redis://host:6379/1"),
        ("BROKER_URL", "redis+sentinel://h1,h2", "does not name the primary"),
        ("SECRET_KEY_FALLBACKS", "short,shorter", "set it to values that SECRET_KEY had"),
        ("SECRET_KEY", "", "50 or more random characters"),
        ("SECRET_KEY", "short", "50 or more random characters"),
        ("SECRET_KEY", "django-insecure-" + SECRET, "50 or more random characters"),
    ],
)
def test_a_wrong_value_gets_a_sentence_that_names_it_and_the_way_out(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, way_out: str
) -> None:
    with pytest.raises(SettingError) as caught:
        load(monkeypatch, **{**PRODUCTION, name: value})
    message = str(caught.value)
    assert name in message
    assert way_out in message
    assert message.endswith(".")
    assert "\n" not in message


@pytest.mark.parametrize("store", ["redis+cluster://h1,h2", "rediss+cluster://:pw@h1:7000,h2:7000"])
def test_a_cluster_needs_a_broker_of_its_own(monkeypatch: pytest.MonkeyPatch, store: str) -> None:
    with pytest.raises(SettingError) as caught:
        load(monkeypatch, **{**PRODUCTION, "REDIS_URL": store})
    assert str(caught.value) == (
        "BROKER_URL is missing, and REDIS_URL names a cluster, which Celery cannot use as its broker; "
        "set it to a Redis or Valkey that is no cluster, such as redis://host:6379/0."
    )
    settings = load(monkeypatch, BROKER_URL="redis://broker:6379/0")
    assert (settings["REDIS_URL"], settings["HEADROOM_CLUSTERED"]) == (store, True)
    assert (settings["BROKER_URL"], settings["BROKER_OPTIONS"]) == ("redis://broker:6379/0", {})


def test_sentinels_need_a_broker_that_they_may_watch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError) as caught:
        load(monkeypatch, **{**PRODUCTION, "REDIS_URL": "redis+sentinel://h1,h2/main/0"})
    assert str(caught.value) == (
        "BROKER_URL is missing, and REDIS_URL names Sentinels; set it to another database behind the same Sentinels, "
        "such as redis+sentinel://host1:26379,host2:26379/name/1."
    )
    settings = load(monkeypatch, BROKER_URL="redis+sentinel://u:p%40@h1,[::1]:5/main/1?sentinel_password=s")
    assert settings["HEADROOM_CLUSTERED"] is False
    assert settings["BROKER_URL"] == "sentinel://u:p%40@h1:26379/1;sentinel://u:p%40@[::1]:5/1"
    assert settings["BROKER_OPTIONS"] == {"master_name": "main", "sentinel_kwargs": {"password": "s"}}


def test_no_tenant_stands_in_for_unknown_ones_in_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"REDIS_URL": "redis+cluster://h1,h2", "BROKER_URL": "redis://broker:6379/0"}
    with pytest.raises(SettingError) as caught:
        load(monkeypatch, **{**PRODUCTION, **cluster, "HEADROOM_UNKNOWN_TENANT": "guests"})
    assert str(caught.value).startswith("HEADROOM_UNKNOWN_TENANT is 'guests' and REDIS_URL names a cluster")
    assert str(caught.value).endswith("; set HEADROOM_UNKNOWN_TENANT to deny.")
    assert load(monkeypatch, HEADROOM_UNKNOWN_TENANT="deny")["HEADROOM_CLUSTERED"] is True


def test_every_program_finds_the_cluster_of_make_up_and_its_broker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url = "redis+cluster://127.0.0.1:7000,127.0.0.1:7001"
    home = Places(tmp_path)
    home.cluster.mkdir()
    home.cluster_ports_file.write_text("7000 7001 17000 17001\n")
    assert load(monkeypatch)["HEADROOM_CLUSTERED"] is False
    home.cluster_in_use.touch()
    for settings in (load(monkeypatch), load(monkeypatch, REDIS_URL=url)):
        assert (settings["REDIS_URL"], settings["HEADROOM_CLUSTERED"]) == (url, True)
        assert settings["BROKER_URL"] == f"redis+socket://{tmp_path}/valkey/valkey.sock?virtual_host=1"


def test_a_home_that_cannot_be_written_gets_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match=r"set HEADROOM_HOME to a writable folder\.$"):
        load(monkeypatch, HEADROOM_HOME=str(tmp_path / "file"))


def test_no_message_repeats_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError) as caught:
        load(monkeypatch, DATABASE_URL="postgresql://app:hunter2@h:port/x")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "command",
    first_of(
        [["manage.py", "check"], ["-c", "import config.asgi"], ["-c", "import config.celery"], ["-m", "config.up"]]
    ),
)
def test_every_entry_point_says_it_in_one_line(tmp_path: Path, command: list[str]) -> None:
    environment = {**os.environ, "HEADROOM_HOME": str(tmp_path), "PORT": "x"}
    result = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr == "headroom: PORT is 'x'; set it to a whole number from 1 to 65535.\n"


@pytest.mark.parametrize(
    ("variables", "way"),
    [
        ({}, "set HEADROOM_HOME to the folder of your `make up`"),
        pytest.param(PRODUCTION, "correct DATABASE_URL", marks=pytest.mark.sweep),
    ],
)
def test_a_command_without_postgres_says_which_variable_to_look_at(variables: dict[str, str], way: str) -> None:
    nowhere = {name: value.replace("db.example:6432", "127.0.0.1:1") for name, value in variables.items()}
    command = [sys.executable, "manage.py", "revisions"]
    result = subprocess.run(command, cwd=ROOT, env={**os.environ, **nowhere}, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith(f"headroom: PostgreSQL cannot be reached; start it, or {way} (")


def test_check_deploy_is_clean_in_production() -> None:
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
    result = subprocess.run(command, cwd=ROOT, env={**os.environ, **PRODUCTION}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_long_home_gets_sockets_that_fit(tmp_path: Path) -> None:
    deep = Places(tmp_path / ("d" * 120))
    assert len(str(deep.postgres_socket_dir / ".s.PGSQL.5432.lock")) < 104
    assert deep.sockets != Places(tmp_path / ("e" * 120)).sockets
