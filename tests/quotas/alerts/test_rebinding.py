"""A11, live: a DNS server that answers a public address first and 127.0.0.1 afterwards gets nobody inside.

The resolver is the system's own. It asks a real DNS server, in a network namespace in which the public address is ours.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from config.data_folders import ROOT
from tests.quotas.alerts.rebinding import LOOPBACK, PUBLIC

APART = ["unshare", "--map-root-user", "--mount", "--net"]


def has_namespaces() -> bool:
    if not all(map(shutil.which, ("unshare", "ip", "mount"))):
        return False
    return subprocess.run([*APART, "ip", "link", "set", "lo", "up"], capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not has_namespaces(), reason="a network namespace of its own is not allowed here")


def sent(folder: Path, *answers: str) -> dict[str, Any]:
    command = [*APART, sys.executable, "-m", "tests.quotas.alerts.rebinding", str(folder), *answers]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_name_that_turns_private_after_the_check_is_reached_where_it_was_checked(tmp_path: Path) -> None:
    # The first look-up is of the check when the target is created, the second of the check before sending.
    found = sent(tmp_path, PUBLIC, PUBLIC, LOOPBACK)
    assert found["ended"] == "delivered"
    assert found["connections"] == {PUBLIC: 1, LOOPBACK: 0}
    assert found["now"] == [LOOPBACK]
    assert found["asked"] == 3


@pytest.mark.parametrize("answers", [(PUBLIC, LOOPBACK), (LOOPBACK,), (PUBLIC, f"{PUBLIC}+{LOOPBACK}")])
def test_a_name_that_is_private_when_the_message_is_sent_gets_no_connection(
    tmp_path: Path, answers: tuple[str, ...]
) -> None:
    found = sent(tmp_path, *answers)
    assert "has a private address" in found["ended"]
    assert found["connections"] == {PUBLIC: 0, LOOPBACK: 0}
