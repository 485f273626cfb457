"""Peers that are not Python packages, built through their registries, with their checksums verified.

A build goes into the user's cache folder, once per version. A peer that cannot be built is left out with the reason;
checksum verification is never switched off for it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

BUILD_SECONDS = 900
RATELIMIT = "v1.4.1-0.20260122083618-3fb702589d36"
GUBERNATOR = "v2.13.0"
# Each of them makes go skip the checksum database for some or all modules.
WEAK_GO = ("GONOSUMDB", "GOPRIVATE", "GOINSECURE")


class LeftOutError(Exception):
    """The peer cannot be measured here. The message is the reason, in one line."""


def ratelimit() -> Path:
    return go_program("github.com/envoyproxy/ratelimit/src/service_cmd", RATELIMIT)


def gubernator() -> Path:
    return go_program("github.com/gubernator-io/gubernator/v2/cmd/gubernator", GUBERNATOR)


def limitador() -> Path:
    """No version was on the registry when this was written. Cargo always verifies checksums against the index."""
    folder = _folder("limitador-server")
    command = ["cargo", "install", "limitador-server", "--locked", "--root", str(folder)]
    return _built(folder / "bin" / "limitador-server", command, os.environ)


def go_program(package: str, version: str) -> Path:
    name = package.rpartition("/")[2]
    folder = _folder(f"{name}-{version}")
    environment = {**os.environ, "GOBIN": str(folder)}
    program = folder / name
    if not program.exists() and shutil.which("go"):
        _refuse_weak_go(environment)
    return _built(program, ["go", "install", f"{package}@{version}"], environment)


def _refuse_weak_go(environment: Mapping[str, str]) -> None:
    said = subprocess.run(["go", "env", "-json"], env=environment, capture_output=True, check=True, timeout=60).stdout
    settings = json.loads(said)
    weak = [name for name in WEAK_GO if settings.get(name)] + (["GOSUMDB"] if settings.get("GOSUMDB") == "off" else [])
    if weak:
        raise LeftOutError(f"{weak[0]} weakens the verification of checksums here; unset it to build this peer.")


def _folder(name: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "headroom-bench" / name


def _built(program: Path, command: Sequence[str], environment: Mapping[str, str]) -> Path:
    if program.exists():
        return program
    if shutil.which(command[0]) is None:
        raise LeftOutError(f"{command[0]} is not installed.")
    program.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise LeftOutError(f"`{command[0]} install` took more than {BUILD_SECONDS // 60} minutes.") from None
    if done.returncode:
        raise LeftOutError(f"`{command[0]} install` says: {_reason(done.stderr)}")
    return program


def _reason(said: str) -> str:
    """The line that tells what is wrong, without the addresses of mirrors."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = next((line for line in lines if re.search(r"error|verifying|not found|40[34]", line)), "".join(lines[-1:]))
    told = re.sub(r"^.*(verifying module): \S+:", r"\1:", told)
    return re.sub(r"reading https?://\S+", "looking up the checksum or the module:", told)
