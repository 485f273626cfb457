"""nginx with deploy/nginx/headroom-lua.conf, changed only where a test must."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from config.data_folders import ROOT
from tests.headroom_edge.nginx_server import NGINX, running, write_configuration
from tests.headroom_edge.world import Client
from tests.valkeys import free_port

MODULES = Path("/usr/lib/nginx/modules")
NEEDED = ("ndk_http_module.so", "ngx_http_lua_module.so")
HAS_LUA = NGINX is not None and all((MODULES / name).exists() for name in NEEDED)
needs_lua = pytest.mark.skipif(
    not HAS_LUA, reason="nginx's Lua module is not installed: apt-get install nginx libnginx-mod-http-lua"
)
LOAD = "".join(f"load_module {MODULES / name};\n" for name in NEEDED)
AMPLE = "budget_ms = 60000,"  # only a fault can exceed it

# Everything about the request is told by headers, as if by a proxy in front.
ASKED = """
    location = /ask {
        set $headroom_tenant $http_x_tenant;
        set $headroom_endpoint $http_x_endpoint;
        set $headroom_cost $http_x_cost;
        set $headroom_priority $http_x_priority;
        set $headroom_fail $http_x_fail;
        set $headroom_dim_user $http_x_user;
        set $headroom_dim_ip $http_x_ip;
        content_by_lua_block { ngx.print("served") }
    }
"""


@dataclass(frozen=True)
class LuaNginx:
    client: Client
    process: subprocess.Popen[bytes]


@contextmanager
def lua_nginx(
    folder: Path,
    store: str,
    app: int = 9,
    *,
    settings: str = AMPLE,
    http: str = "",
    locations: str = "",
    workers: int = 1,
) -> Iterator[LuaNginx]:
    """`settings` are further ones of setup, `http` stands before the server, `locations` inside of it."""
    port = configure(folder, store, app, settings=settings, http=http, locations=locations, workers=workers)
    with running(folder, port) as process:
        yield LuaNginx(Client(port), process)


def configure(
    folder: Path,
    store: str,
    app: int = 9,
    *,
    settings: str = AMPLE,
    http: str = "",
    locations: str = "",
    workers: int = 1,
) -> int:
    port = free_port()
    shipped = (ROOT / "deploy" / "nginx" / "headroom-lua.conf").read_text()
    changes = {
        "/etc/nginx/lua": str(ROOT / "deploy" / "nginx"),
        "redis://127.0.0.1:6379/0": store,
        'fail = "open",': settings if "fail =" in settings else f'fail = "open", {settings}',
        "127.0.0.1:9000": f"127.0.0.1:{app}",
        "listen 8080": f"listen 127.0.0.1:{port}",
        "\nserver {": f"{http}\nserver {{",
        "    location = /v1/rides {": f"{locations}\n    location = /v1/rides {{",
    }
    for old, new in changes.items():
        assert shipped.count(old) == 1, old
        shipped = shipped.replace(old, new)
    write_configuration(folder, shipped, modules=LOAD, workers=workers)
    return port
