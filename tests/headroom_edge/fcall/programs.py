"""The programs of docs/fcall, built in a temporary folder with their pinned packages, and driven line by line."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from config.data_folders import ROOT

SOURCES = ROOT / "docs" / "fcall"
DRIVERS = Path(__file__).parent / "drivers"
BUILD_SECONDS = 600
# What go, npm and Maven say if they cannot reach their registry.
UNREACHABLE = re.compile(
    r"dial tcp|no such host|i/o timeout|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ECONNRESET"
    r"|Unknown host|UnknownHost|Connect to .* failed|Network is unreachable|Connection timed out"
)


@dataclass(frozen=True)
class Answer:
    shard: str
    allowed: bool
    reason: str
    retry_us: int
    wait_us: int
    error: str


@dataclass(frozen=True)
class Program:
    """How a language's program is started; its arguments are a URL, a budget in ms and a failure mode."""

    command: tuple[str, ...]

    @contextmanager
    def running(self, url: str, *, budget_ms: int, fail: str) -> Iterator[Asker]:
        process = subprocess.Popen(
            [*self.command, url, str(budget_ms), fail], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        # A program that hangs must not keep the test: readline() then sees the end of the output.
        watch = threading.Timer(BUILD_SECONDS, process.kill)
        watch.start()
        try:
            yield Asker(process.stdin, process.stdout)
        finally:
            watch.cancel()
            process.kill()
            process.communicate()


@dataclass(frozen=True)
class Asker:
    questions: IO[str]
    answers: IO[str]

    def check(
        self, tenant: str, endpoint: str, cost: str = "1", subject: Mapping[str, bytes | str] | None = None
    ) -> Answer:
        pairs = [[_base64(name), _base64(value)] for name, value in (subject or {}).items()]
        question = {"tenant": tenant, "endpoint": endpoint, "cost": cost, "subject": pairs}
        self.questions.write(json.dumps(question) + "\n")
        self.questions.flush()
        line = self.answers.readline()
        assert line, "the program ended without an answer"
        return Answer(**json.loads(line))


def _base64(text: bytes | str) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def build(language: str, folder: Path) -> Program:
    """Skips the test where the toolchain is missing or its registry cannot be reached."""
    return {"go": build_go, "node": build_node, "java": build_java}[language](folder)


def build_go(folder: Path) -> Program:
    need("go", "version", (1, 26))
    copy("go", ["headroom.go", "go.mod", "go.sum"], folder)
    (folder / "driver").mkdir()
    shutil.copy(DRIVERS / "main.go", folder / "driver")
    # readonly: what go.sum does not list is an error, not an addition to it.
    run(["go", "build", "-mod=readonly", "-o", "program", "./driver"], folder)
    return Program((str(folder / "program"),))


def build_node(folder: Path) -> Program:
    need("node", "--version", (20, 15))
    need("npm", "--version", (9, 0))
    copy("node", ["headroom.mjs", "package.json", "package-lock.json"], folder)
    shutil.copy(DRIVERS / "driver.mjs", folder)
    # ci: exactly what package-lock.json lists, with its hashes.
    run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    return Program(("node", str(folder / "driver.mjs")))


def build_java(folder: Path) -> Program:
    need("javac", "--version", (17, 0))
    need("mvn", "--version", (3, 8))
    copy("java", ["Limiter.java", "pom.xml", "SHA256SUMS"], folder)
    run(["mvn", "-B", "-q", "-C", "dependency:copy-dependencies", "-DoutputDirectory=lib"], folder)
    compare_hashes(folder / "SHA256SUMS", folder / "lib")
    run(["javac", "-cp", "lib/*", "-d", "classes", "Limiter.java", str(DRIVERS / "Driver.java")], folder)
    return Program(("java", "-cp", f"{folder}/lib/*:{folder}/classes", "Driver"))


def need(tool: str, asked: str, least: tuple[int, int]) -> None:
    """Skips the test if the tool is missing, or older than what the packages need."""
    wanted = f"docs/fcall.md needs {tool} {'.'.join(map(str, least))} or newer"
    if shutil.which(tool) is None:
        pytest.skip(f"{wanted}, which is not installed.")
    said = subprocess.run([tool, asked], capture_output=True, text=True, timeout=BUILD_SECONDS, check=True).stdout
    found = re.search(r"(\d+)\.(\d+)", said)
    assert found, said
    if (int(found[1]), int(found[2])) < least:
        pytest.skip(f"{wanted}; here is {found[0]}.")


def copy(language: str, names: Iterable[str], folder: Path) -> None:
    for name in names:
        shutil.copy(SOURCES / language / name, folder)


def run(command: Sequence[str], folder: Path) -> None:
    environment = {**os.environ, "GOFLAGS": "-buildvcs=false"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
    )
    said = done.stdout + done.stderr
    if done.returncode and UNREACHABLE.search(said):
        pytest.skip(f"{command[0]} could not reach its registry: {said.strip().splitlines()[-1]}")
    assert done.returncode == 0, said


def compare_hashes(listed: Path, folder: Path) -> None:
    """As `sha256sum -c` does, and every file must be listed."""
    expected = {name: digest for digest, name in (line.split() for line in listed.read_text().splitlines())}
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    assert found == expected
