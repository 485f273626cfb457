"""Services upgrade at their own pace: an old SDK and an old Lua library work beside the present ones, in any order.

`tests/fixtures` has the wheel before the packages were renamed: SDK 0.1.0 with version 6 of the Lua library.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from config.data_folders import ROOT
from headroom_edge.lua_library import VERSION, ensure_loaded, stored_version
from quotas.api_keys import api_key_issue
from quotas.models.usage import UsageMinute
from quotas.policies.edit import policy_create
from quotas.usage.drain import drain
from quotas.usage.fold import fold_all
from tests.headroom_edge.conftest import AMPLE_MS
from tests.headroom_edge.gateway.test_serving import alone
from tests.headroom_edge.world import Client
from tests.processes import wait_for
from tests.quotas.publishing.worlds import publisher_for
from tests.quotas.world import FORCED, GET, SAID, make_world
from tests.valkeys import free_port

WHEEL = ROOT / "tests" / "fixtures" / "headroom-0.1.0-py3-none-any.whl"
OLD_VERSION = 6
PRINT_LIBRARY = "from quotas.limiter import library; print(library.source(), end='')"
HOURLY = {"name": "hourly", "algorithm": "token_bucket", "rate": 1, "per": "1h", "burst": 8}
MONTHLY = {"name": "monthly", "algorithm": "calendar_quota", "limit": 100, "period": "month"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old")
    zipfile.ZipFile(WHEEL).extractall(folder)
    return folder


@pytest.fixture(scope="module")
def old_library(installed: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", PRINT_LIBRARY], cwd=installed, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


@pytest.fixture
def old(installed: Path, valkey_url: str) -> Iterator[Client]:
    """The gateway of the old wheel, which uses its SDK."""
    port = free_port()
    own = {"PATH": os.environ["PATH"], "HEADROOM_BUDGET_MS": str(AMPLE_MS), "REDIS_URL": valkey_url}
    command = [sys.executable, "-m", "api.gateway", "--port", str(port)]
    process = subprocess.Popen(command, env=own, cwd=installed)
    try:
        wait_for(port, process)
        yield Client(port)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


@pytest.fixture
def new(valkey_url: str) -> Iterator[Client]:
    with alone(REDIS_URL=valkey_url) as gateway:
        yield gateway


@pytest.mark.django_db
def test_old_and_new_share_one_budget_under_either_library(
    valkey: redis.Redis, valkey_url: str, old_library: str, old: Client, new: Client
) -> None:
    make_world()
    policy_create(name="own", tenant="acme", endpoint=GET, limits=[HOURLY, MONTHLY], **FORCED)
    key = str(api_key_issue(tenant="acme", **SAID).text)
    text = redis.Redis.from_url(valkey_url, decode_responses=True)
    publisher = publisher_for(text)
    publisher.publish()

    def remaining(client: Client) -> int:
        answer = client.post("/v1/check", {"endpoint": GET}, authorization=f"Bearer {key}").json()
        assert (answer["reason"], answer["degraded"]) == ("ok", None), answer
        left: int = answer["remaining"]
        return left

    # The platform first: old services use the new library, and do not replace it by theirs.
    assert stored_version(valkey) == VERSION
    assert [remaining(client) for client in (old, new)] == [7, 6]
    assert stored_version(valkey) == VERSION
    # A rollback of the library: what was counted stays counted, whoever asks.
    valkey.function_load(old_library, replace=True)
    assert stored_version(valkey) == OLD_VERSION
    assert [remaining(client) for client in (old, new)] == [5, 4]
    # And forward again, as the publisher does it.
    assert ensure_loaded(valkey)
    publisher.forget()
    publisher.publish()
    assert [remaining(client) for client in (old, new)] == [3, 2]
    # What both have counted comes back as one usage.
    drain(valkey)
    fold_all()
    assert sum(UsageMinute.objects.values_list("count", flat=True)) == 6
