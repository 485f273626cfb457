"""For tests that start processes of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from urllib.parse import quote

from django.conf import settings
from django.db import connection


def environment(redis_url: str, **more: str) -> dict[str, str]:
    """Points a process at the database of this test and at a Redis."""
    facts = connection.get_connection_params()
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": f"postgresql://{facts['user']}@/{facts['dbname']}?host={quote(facts['host'], safe='')}",
        "REDIS_URL": redis_url,
        "SECRET_KEY": settings.SECRET_KEY,
        **more,
    }


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Until the process listens on the port."""
    while True:
        assert process.poll() is None, "the server did not start"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return
