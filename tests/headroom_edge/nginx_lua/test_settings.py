"""setup{ … } with nonsense: nginx does not start, and says in one sentence what to change."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from headroom_edge.version import __version__
from tests.headroom_edge.nginx_lua.world import configure, lua_nginx, needs_lua
from tests.headroom_edge.nginx_server import command

pytestmark = needs_lua
PLAIN = "redis://127.0.0.1:6379/0"


@pytest.mark.parametrize(
    ("store", "settings", "sentence"),
    [
        ("http://127.0.0.1/", "", "the store's URL has an unsupported scheme"),
        ("redis://127.0.0.1:99999/0", "", "the port in the store's URL must be a number from 1 to 65535"),
        ("redis://127.0.0.1:6379/x", "", "the database in the store's URL must be a whole number, not 'x'"),
        (
            "redis://127.0.0.1/0?ssl_certfile=x",
            "",
            "has the option 'ssl_certfile', which nginx does not know; remove it.",
        ),
        ("rediss://127.0.0.1/0?ssl_cert_reqs=maybe", "", "must be required or none, not 'maybe'."),
        ("unix://", "", "the store's URL has no socket path"),
        ("redis+cluster://", "", "the store's URL names no server of the cluster"),
        (
            "redis+cluster://127.0.0.1:1,127.0.0.1:2/3",
            "",
            "a cluster has no database 3; leave it out",
        ),
        ("unix+cluster:///run/valkey.sock", "", "the store's URL has an unsupported scheme"),
        (PLAIN, "shards = 0,", "shards is 0; set it to a whole number from 1 to 16384."),
        (PLAIN, 'budget_ms = "20",', "budget_ms is 20; set it to a whole number from 1 to 60000."),
        (PLAIN, 'fail = "local",', "fail is 'local'; set it to one of open, closed."),
        (PLAIN, 'headers = "all",', "headers is 'all'; set it to one of draft, draft+x-ratelimit"),
        (
            PLAIN,
            'dimensions = { "user", "tenant" },',
            "'tenant' in dimensions is reserved, repeated or not a valid name",
        ),
        (PLAIN, 'dimensions = "user",', "dimensions must be a list"),
        (PLAIN, "keys = 1,", "keys must be true or false, not 1."),
        (PLAIN, "pasword = 1,", "setup does not know pasword; remove it or mend its spelling."),
        (PLAIN, "leases = true,", "leases need shared memory; add `lua_shared_dict headroom 10m;` inside http { }."),
    ],
)
def test_nonsense_is_refused_at_the_start(tmp_path: Path, store: str, settings: str, sentence: str) -> None:
    configure(tmp_path, store, settings=settings)
    started = subprocess.run(command(tmp_path), capture_output=True, text=True, timeout=120)
    assert started.returncode != 0
    assert re.search(f"headroom: .*{re.escape(sentence)}", started.stderr)


def test_its_version_is_that_of_the_package(tmp_path: Path) -> None:
    answer = 'access_by_lua_block { } content_by_lua_block { ngx.print(require("headroom").VERSION) }'
    with lua_nginx(tmp_path, PLAIN, locations=f"location = /version {{ {answer} }}") as running:
        assert running.client.get("/version").body.decode() == __version__
