"""Django's PostgreSQL connections with a pool that waits: settings.DATABASES names this package as its ENGINE.

A pool gives up after a short time, because it cannot tell a database that is down from one that is busy. While the
server answers, all connections are merely in use, and waiting for one of them is worth it.
"""

from __future__ import annotations

import time
from typing import Any, Final

from django_prometheus.db.backends.postgresql import base
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping
from psycopg_pool import PoolTimeout, TooManyRequests

WAIT_S: Final = 8.0  # for a connection of the pool, while the server answers
PING_S: Final = 2


class DatabaseWrapper(base.DatabaseWrapper):  # type: ignore[misc]  # django_prometheus has no types
    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """TooManyRequests: all connections stayed in use. PoolTimeout: the server cannot be reached."""
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                return super().get_new_connection(conn_params)
            except PoolTimeout as timeout:
                if not self._is_reachable():
                    raise
                if time.monotonic() >= deadline:
                    raise TooManyRequests(f"all {self.pool.max_size} database connections are in use") from timeout

    def _is_reachable(self) -> bool:
        """Asks without signing in, so it works when the server has no connection left either."""
        place = {"host": self.settings_dict["HOST"], "port": self.settings_dict["PORT"]}
        known = {name: value for name, value in place.items() if value}
        about = make_conninfo(dbname=self.settings_dict["NAME"], connect_timeout=PING_S, **known)
        return PGconn.ping(about.encode()) == Ping.OK
