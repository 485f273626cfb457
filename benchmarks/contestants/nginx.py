"""nginx: its own limit_req, Headroom in its Lua, and Headroom by auth_request and the gateway."""

from __future__ import annotations

from contextlib import ExitStack

import psutil

from benchmarks import nginx
from benchmarks.contestants.builds import LeftOutError
from benchmarks.contestants.in_memory import LACKS_LEASED
from benchmarks.contestants.servers import CLIENT_CORE, SERVER_CORE, Store, on_core
from benchmarks.contestants.turns import Comparison, Contestant, Turn, take_turns
from benchmarks.web.client import CONNECTIONS
from tests.headroom_edge.nginx_lua.world import HAS_LUA

LACKS = (
    "counting beyond one machine; usage per tenant; headers; quotas and windows (only a rate and a burst); changes "
    "without a reload; costs, refunds"
)


def compare(store: Store) -> Comparison:
    if not HAS_LUA:
        raise LeftOutError("nginx's Lua module is not installed: apt-get install nginx libnginx-mod-http-lua.")
    with ExitStack() as stack:
        with on_core(SERVER_CORE):
            gateway_port, gateway = stack.enter_context(nginx.gateway_process(store.url))
            port, worker = stack.enter_context(nginx.nginx(store.url, gateway_port, leases=False))
            leased_port, leased = stack.enter_context(nginx.nginx(store.url, gateway_port, leases=True))
        stack.enter_context(on_core(CLIENT_CORE))
        return take_turns(
            f"nginx, a small file over {CONNECTIONS} connections",
            [
                Contestant("limit_req", turns("/limit_req", port, worker), LACKS),
                Contestant("Headroom, nginx + Lua", turns("/lua", port, worker)),
                Contestant("Headroom, nginx + Lua with leases", turns("/lua", leased_port, leased), LACKS_LEASED),
                Contestant("Headroom, auth_request + gateway, both", turns("/auth_request", port, worker, gateway)),
            ],
        )


def turns(path: str, port: int, *processes: psutil.Process) -> dict[int, Turn]:
    paths = {1: path, 4: f"{path}/4"}
    return {limits: nginx.Contestant(path, port, processes).served_per_s for limits, path in paths.items()}
