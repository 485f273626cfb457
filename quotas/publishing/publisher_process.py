"""The publisher process. One is active; the others stand by until its connection to Postgres ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import redis
from django.db import DEFAULT_DB_ALIAS, Error, connection, connections

from headroom_edge.lua_library import LibraryError
from quotas import metrics, outbox
from quotas.locks import Lock, try_lock
from quotas.models.jobs import PUBLISHER, record_heartbeat, record_publish_trouble
from quotas.publishing import store
from quotas.publishing.factors import FactorCopier
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
    """Connects to Redis when it becomes active, and again whenever it has failed: a cluster that is away at the start,
    or whose nodes have all changed their addresses meanwhile, is found as soon as it answers."""

    def __init__(self, url: str, shards: int, observer: Observer = lambda _: None) -> None:
        self._url = url
        self._shards = shards
        self._observer = observer
        self._checked_at = 0.0
        self._last_failure = ""  # logged once, not every second

    def run(self) -> None:
        while True:
            try:
                with _own_connection() as wakeups:
                    self._serve(wakeups)
            except (store.UnfitServerError, LibraryError) as error:
                _record_trouble(error)
                raise
            except FAILURES as error:
                self._failed(error)
                time.sleep(POLL_SECONDS)

    def once(self) -> int:
        """Publishes once; returns the revision that all shards have afterwards."""
        return store.patiently(self._once)

    def _once(self) -> int:
        with store.connect(self._url) as client:
            store.prepare(client)
            publisher = Publisher(client, self._shards, self._observer)
            publisher.publish()
            return publisher.image.revision

    def _serve(self, wakeups: Wakeups) -> None:
        while not wakeups.is_active():
            logger.info("another publisher is active; standing by")
            time.sleep(POLL_SECONDS)
        wakeups.listen()
        try:
            with store.connect(self._url) as client:
                store.prepare(client)
                copier = FactorCopier(self._url, self._shards)
                copier.start()
                try:
                    self._publish_for_ever(client, wakeups, copier)
                finally:
                    copier.stop()
        except (redis.RedisError, SupersededError) as error:
            _beat(None, error)
            raise

    def _publish_for_ever(self, client: redis.Redis, wakeups: Wakeups, copier: FactorCopier) -> None:
        publisher = Publisher(client, self._shards, self._observer)
        reconciler = Reconciler(publisher, client)
        while True:
            self._publish_and_reconcile(publisher, reconciler)
            copier.loops = publisher.loops
            wakeups.wait()

    def _publish_and_reconcile(self, publisher: Publisher, reconciler: Reconciler) -> None:
        """Postgres works, so it stays active after an error of Redis: another process would have the same trouble."""
        errors: list[Exception] = []
        for step in (publisher.publish, lambda: self._reconcile(publisher, reconciler)):
            try:
                step()
            except (redis.RedisError, SupersededError) as error:
                errors.append(error)
                self._failed(error)
        if not errors:
            self._last_failure = ""
        _beat(publisher.applied, errors[0] if errors else None)
        if errors and store.is_gone(publisher.shards.client):
            raise errors[0]

    def _reconcile(self, publisher: Publisher, reconciler: Reconciler) -> None:
        if not publisher.is_loaded:
            return
        if time.monotonic() - self._checked_at >= CHECK_SECONDS:
            self._checked_at = time.monotonic()
            reconciler.check_shards()
            reconciler.record_bypass()
        reconciler.sweep()

    def _failed(self, error: Exception) -> None:
        if str(error) != self._last_failure:
            logger.error("publishing failed and will be retried: %s", error)
        self._last_failure = str(error)
        metrics.PUBLISH_FAILURES.labels(cause=type(error).__name__).inc()
        connection.close()


def _beat(applied: int | None, error: Exception | None) -> None:
    """Tells the revision that all shards have, not the newest one, and why there is a difference."""
    record_heartbeat(PUBLISHER, "" if applied is None else str(applied))
    record_publish_trouble(store.first_line(error) if error else "")


def _record_trouble(error: Exception) -> None:
    """The process ends, so this is the last chance to tell. Postgres may be what is wrong."""
    with suppress(Error, psycopg.Error):
        _beat(None, error)


@contextmanager
def _own_connection() -> Iterator[Wakeups]:
    wrapper = connections.create_connection(DEFAULT_DB_ALIAS)
    wrapper.ensure_connection()
    try:
        yield Wakeups(wrapper.connection)
    finally:
        wrapper.close()
