"""`make wheel`: the package for services, installed into an environment that has only redis and fastapi."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
import redis
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from config.data_folders import ROOT
from headroom_edge.version import __version__
from tests.headroom_edge.world import ACME

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
RUNNER = Path(__file__).with_name("readme_runner.py")
NEIGHBOUR = Path(__file__).with_name("neighbour.py")
PLATFORM = ("access", "api", "config", "dashboards", "quotas", "tenants")
# The tests share one wheel and one environment, so they run in one process.
pytestmark = pytest.mark.xdist_group("wheel")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)], check=True
    )
    (built,) = folder.glob("*.whl")
    return built


def test_it_has_the_enforcing_parts_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"headroom_edge"}
    assert "headroom_edge/lua/check.lua" in names


def test_its_metadata_is_right(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = message_from_bytes(archive.read(name))
    assert (metadata["Name"], metadata["Version"]) == ("headroom-edge", VERSION)
    assert __version__ == VERSION
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata.get_all("Provides-Extra") == ["envoy", "gateway"]
    needed = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    assert {need.name for need in needed if need.marker is None} == {"redis"}
    extras = {
        "envoy": {"grpcio", "hpack", "protobuf", "uvloop"},
        "gateway": {"httptools", "msgspec", "uvicorn", "uvloop"},
    }
    for extra, names in extras.items():
        assert {need.name for need in needed if need.marker and need.marker.evaluate({"extra": extra})} == names
    assert metadata["Description-Content-Type"] == "text/markdown"
    readme = metadata.get_payload()
    assert readme == (ROOT / "headroom_edge" / "README.md").read_text()
    assert "](" not in str(readme), "links to files of the repository lead nowhere outside of it"


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with redis, fastapi, their dependencies and the wheel. Needs no network."""
    empty = tmp_path_factory.mktemp("empty")
    venv.create(empty, with_pip=False)
    (packages,) = (empty / "lib").glob("python*/site-packages")
    for name in pulled_in({"redis", "hiredis", "fastapi"}):
        link(distribution(name), packages)
    python = empty / "bin" / "python"
    install = ["install", "--no-index", "--no-deps", "--no-compile", str(wheel)]
    subprocess.run([*PIP, "--python", str(python), *install], check=True)
    return python


def pulled_in(names: set[str]) -> set[str]:
    found: set[str] = set()
    while names - found:
        name = (names - found).pop()
        found.add(name)
        needs = [Requirement(text) for text in distribution(name).requires or ()]
        names |= {
            canonicalize_name(need.name) for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})
        }
    return found


def link(installed: Distribution, packages: Path) -> None:
    for top in {file.parts[0] for file in installed.files or () if file.parts[0] not in ("..", "__pycache__")}:
        (packages / top).symlink_to(Path(str(installed.locate_file(top))))


def test_it_installs_one_package(python: Path) -> None:
    question = "import importlib.metadata as m; print(*sorted({f.parts[0] for f in m.files('headroom-edge')}))"
    done = subprocess.run([str(python), "-I", "-c", question], check=True, stdout=subprocess.PIPE, text=True)
    # Above it is only the folder of commands.
    assert done.stdout.split() == ["..", "headroom_edge", f"headroom_edge-{VERSION}.dist-info"]


def test_it_brings_the_admin_command(python: Path) -> None:
    command = [str(python.with_name("headroom-admin")), "policy", "export"]
    done = subprocess.run(command, env={}, capture_output=True, text=True)
    told = "headroom-admin: No URL was given; set HEADROOM_URL, or use --url https://….\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", told)


def test_what_it_needs_is_there(python: Path) -> None:
    assert subprocess.run([*PIP, "--python", str(python), "check"]).returncode == 0


def test_the_readme_runs_with_nothing_but_redis_and_fastapi(
    python: Path, store: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    example = tmp_path / "example.py"
    example.write_text(example_of((ROOT / "README.md").read_text()))
    environment = {"REDIS_URL": valkey_url, "PATH": os.environ["PATH"]}
    command = [str(python), "-I", str(RUNNER), str(example), ACME]
    done = subprocess.run(command, env=environment, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
    assert json.loads(done.stdout) == {"statuses": [200] * 5 + [429] * 2, "loaded": []}


def test_it_works_beside_packages_named_like_the_platforms(
    python: Path, store: redis.Redis, valkey_url: str, tmp_path: Path
) -> None:
    frameworks, application = tmp_path / "frameworks", tmp_path / "application"
    frameworks.mkdir()
    for name in pulled_in({"django", "djangorestframework"}):
        link(distribution(name), frameworks)
    for name in PLATFORM:
        (application / name).mkdir(parents=True)
        (application / name / "__init__.py").write_text("OWNER = 'the application'\n")
    main = application / "main.py"
    main.write_text(NEIGHBOUR.read_text())
    environment = {"PYTHONPATH": str(frameworks), "REDIS_URL": valkey_url, "PATH": os.environ["PATH"]}
    command = [str(python), str(main), ACME, *PLATFORM]
    done = subprocess.run(command, env=environment, cwd=application, check=True, stdout=subprocess.PIPE, text=True)
    owners = dict.fromkeys(PLATFORM, "the application")
    assert json.loads(done.stdout) == {"owners": owners, "statuses": [200] * 5 + [429] * 2}


def example_of(readme: str) -> str:
    found = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert found is not None
    lines = found[1].strip().splitlines()
    assert len([line for line in lines if line]) <= 10
    return found[1]
