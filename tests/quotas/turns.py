"""Writers that keep others waiting for their turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from quotas.locks import Lock


@contextmanager
def another_process() -> Iterator[None]:
    """Writes all the time: holds the lock, outside of this process's queue.

    For tests with `django_db(transaction=True)`: in another one's transaction, every turn lasts to the end of the test.
    """
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [Lock.REVISIONS.value])
        yield
    finally:
        other.close()
