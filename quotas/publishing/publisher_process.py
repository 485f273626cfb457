"""The publisher process. One is active; the others stand by until its connection to Postgres ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import redis
from django.db import DEFAULT_DB_ALIAS, Error, connection, connections

from quotas import metrics, outbox
from quotas.locks import Lock, try_lock
from quotas.models.jobs import record_heartbeat
from quotas.publishing import store
from quotas.publishing.publisher import Observer, Publisher
from quotas.publishing.reconciler import Reconciler
from quotas.publishing.shards import SupersededError
from tenants.keyring import KeyringError

logger = logging.getLogger(__name__)

POLL_SECONDS = 1.0
CHECK_SECONDS = 2.0
FAILURES = (Error, psycopg.Error, redis.RedisError, SupersededError, KeyringError, OSError)


class Wakeups:
    """A Postgres connection that listens for changes. While it lives, its advisory lock makes this process active."""

    def __init__(self, postgres: psycopg.Connection[Any]) -> None:
        self._postgres = postgres

    def is_active(self) -> bool:
        return try_lock(Lock.PUBLISHER, self._postgres)

    def listen(self) -> None:
        outbox.listen(self._postgres)

    def wait(self) -> None:
        """Waits for a change, at most a second, so that a lost notification costs no more than that."""
        for _ in self._postgres.notifies(timeout=POLL_SECONDS, stop_after=1):
            pass


class PublisherProcess:
    def __init__(self, url: str, shards: int, observer: Observer = lambda _: None) -> None:
        self._client = store.connect(url)
        self._publisher = Publisher(self._client, shards, observer)
        self._reconciler = Reconciler(self._publisher, self._client)
        self._checked_at = 0.0
        self._last_failure = ""  # logged once, not every second

    def run(self) -> None:
        while True:
            try:
                with _own_connection() as wakeups:
                    self._serve(wakeups)
            except FAILURES as error:
                self._failed(error)
                time.sleep(POLL_SECONDS)

    def once(self) -> int:
        """Publishes once; returns the revision that all shards have afterwards."""
        store.prepare(self._client)
        self._publisher.publish()
        return self._publisher.image.revision

    def _serve(self, wakeups: Wakeups) -> None:
        while not wakeups.is_active():
            logger.info("another publisher is active; standing by")
            time.sleep(POLL_SECONDS)
        wakeups.listen()
        store.prepare(self._client)
        self._publisher.forget()
        while True:
            self._publish_and_reconcile()
            wakeups.wait()

    def _publish_and_reconcile(self) -> None:
        try:
            self._publisher.publish()
            self._reconcile()
            self._last_failure = ""
        except (redis.RedisError, SupersededError) as error:
            # Postgres works, so stay active: another process would have the same trouble with Redis.
            self._failed(error)
        record_heartbeat("publisher", str(self._publisher.image.revision))

    def _reconcile(self) -> None:
        if time.monotonic() - self._checked_at >= CHECK_SECONDS:
            self._checked_at = time.monotonic()
            self._reconciler.check_shards()
            self._reconciler.record_bypass()
        if self._publisher.is_loaded:
            self._reconciler.sweep()

    def _failed(self, error: Exception) -> None:
        if str(error) != self._last_failure:
            logger.error("publishing failed and will be retried: %s", error)
        self._last_failure = str(error)
        metrics.PUBLISH_FAILURES.labels(cause=type(error).__name__).inc()
        connection.close()


@contextmanager
def _own_connection() -> Iterator[Wakeups]:
    wrapper = connections.create_connection(DEFAULT_DB_ALIAS)
    wrapper.ensure_connection()
    try:
        yield Wakeups(wrapper.connection)
    finally:
        wrapper.close()
