from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection

import pytest
import redis

from config.data_folders import ROOT
from headroom_edge import keys
from tests.processes import environment

PATIENCE_S = 300  # of a start on a busy machine


def listed(valkey: redis.Redis, pid: int) -> list[dict[str, object]]:
    return [about for about in map(json.loads, valkey.hvals(keys.enforcer_info())) if about["pid"] == pid]


@pytest.mark.django_db(transaction=True)
def test_a_web_process_that_is_stopped_leaves_the_list_of_enforcers(valkey: redis.Redis, valkey_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        descriptor, port = listening.fileno(), listening.getsockname()[1]
        command = [sys.executable, "-m", "config.web", "--fd", str(descriptor)]
        web = subprocess.Popen(
            command, env=environment(valkey_url, HEADROOM_HTTPS="0"), pass_fds=[descriptor], cwd=ROOT
        )
    try:
        connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        # Its two limiters decide: the gateway's, and the one of the pages and the API.
        for method, path in (("POST", "/v1/check"), ("GET", "/v1/tenants")):
            connection.request(method, path, headers={"Authorization": "Bearer hr_0_0"})
            connection.getresponse().read()
        end = time.monotonic() + PATIENCE_S
        while len(listed(valkey, web.pid)) < 2:
            assert web.poll() is None
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        web.terminate()
        web.wait(PATIENCE_S)
    assert listed(valkey, web.pid) == []
