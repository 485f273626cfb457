"""What gateways need besides the credentials: the routes of all endpoints and the pepper (headroom_edge.directory)."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, cast

import redis

from headroom_edge import keys
from headroom_edge.directory import PEPPER, ROUTES, TOKEN, encode_routes
from headroom_edge.plan.routes import Route
from quotas.models import Endpoint
from tenants.secrets import pepper


class RouteTable:
    """Small, and written whole."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._wanted: dict[str, str] = {}

    def publish(self) -> None:
        self._wanted = _table()
        if self.has_drifted():
            self.restore()

    def has_drifted(self) -> bool:
        return bool(self._wanted) and self._client.hgetall(keys.directory()) != self._wanted

    def restore(self) -> None:
        with self._client.pipeline(transaction=True) as pipe:
            pipe.delete(keys.directory())
            pipe.hset(keys.directory(), mapping=cast("dict[Any, Any]", self._wanted))
            pipe.execute()


def _table() -> dict[str, str]:
    rows = Endpoint.objects.filter(retired=False).order_by("name")
    routes = encode_routes([Route(*row) for row in rows.values_list("name", "method", "path")])
    secret = pepper().hex()
    return {TOKEN: sha256(f"{secret} {routes}".encode()).hexdigest()[:16], PEPPER: secret, ROUTES: routes}
