"""/healthz: one check per part, each with a time limit and a reason if it fails."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.db import Error, connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from quotas.changes.queries import changes_overdue
from quotas.models import Change
from quotas.models.jobs import PUBLISH_TROUBLE, PUBLISHER, PUBLISHER_STALE_AFTER, Delivery, Heartbeat, watched_at
from quotas.publishing import store
from quotas.publishing.store import first_line
from tenants.keyring import API_KEYS, KeyringError, read_keys

TIMEOUT_SECONDS: Final = 1.0
NODE_SECONDS: Final = (
    0.4  # for a server of a cluster: one that is away is asked for the map, and then whether it answers
)
MOST_SET_ASIDE: Final = 100
STALE_AFTER: Final[Mapping[str, timedelta]] = {
    PUBLISHER: PUBLISHER_STALE_AFTER,
    "worker": timedelta(seconds=20),
    "beat": timedelta(seconds=20),
}
WATCH_STALE_AFTER: Final = timedelta(seconds=60)
# The watch runs every 15 s. For a minute after a start, its last run may be long ago.
_STARTED: Final = time.monotonic()


@dataclass(frozen=True)
class PartHealth:
    ok: bool
    text: str


@dataclass(frozen=True)
class HealthFacts:
    """All heartbeats, and the database's time, by which their age is measured."""

    now: datetime
    beats: Mapping[str, Heartbeat]
    overdue: Change | None = None  # the change that is overdue longest
    set_aside: tuple[Delivery, ...] = ()  # tasks that repeatedly killed their worker, newest first
    locked: str = ""  # why the stored keys cannot be opened
    watched: datetime | None = None  # when the alerts were last evaluated


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    database, facts = check_database()
    parts = {"database": database, "redis": check_redis()}
    if settings.GATEWAY_URL:
        parts["gateway"] = check_gateway(settings.GATEWAY_URL)
    if settings.RLS_URL:
        parts["rls"] = check_rls(settings.RLS_URL)
    parts |= {name: check_heartbeat(name, facts) for name in STALE_AFTER}
    parts |= {
        "watch": check_watch(facts),
        "schedule": check_schedule(facts),
        "tasks": check_tasks(facts),
        "keys": check_keys(facts),
    }
    healthy = all(part.ok for part in parts.values())
    body: dict[str, object] = {"status": "ok" if healthy else "unhealthy"}
    body |= {name: part.text for name, part in parts.items()}
    body["published_revision"] = published_revision(facts)
    if not healthy:
        body["reason"] = "; ".join(f"{name}: {part.text}" for name, part in parts.items() if not part.ok)
    return JsonResponse(body, status=HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE)


def check_database() -> tuple[PartHealth, HealthFacts | None]:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {TIMEOUT_SECONDS * 1000:.0f}")
            cursor.execute("SELECT now()")
            (now,) = cursor.fetchone()
            beats = {beat.name: beat for beat in Heartbeat.objects.all()}
            overdue = changes_overdue(now).first()
            set_aside = tuple(Delivery.objects.filter(is_set_aside=True).order_by("-at")[:MOST_SET_ASIDE])
            locked = why_keys_are_locked()
            watched = watched_at()
    except Error as error:
        return PartHealth(False, first_line(error)), None
    return PartHealth(True, "ok"), HealthFacts(now, beats, overdue, set_aside, locked, watched)


def check_redis() -> PartHealth:
    """Of a cluster, every primary must answer: the tenants of one that does not are let through or denied unchecked."""
    if not store.is_cluster_url(settings.REDIS_URL):
        return _ask_redis(TIMEOUT_SECONDS)
    # Each of its servers may keep us waiting, so the whole has a time limit too.
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(_ask_redis, NODE_SECONDS).result(TIMEOUT_SECONDS)
    except TimeoutError:
        return PartHealth(False, f"several servers of the cluster do not answer within {TIMEOUT_SECONDS:g} s")
    finally:
        pool.shutdown(wait=False)


def _ask_redis(patience_seconds: float) -> PartHealth:
    try:
        with store.connect(settings.REDIS_URL, patience_seconds=patience_seconds, retries=0) as client:
            store.refuse_wrong_address(client)
            away = [f"{name}: {reason}" for name, reason in store.unanswered(client)]
    except (store.StoreError, OSError) as error:
        return PartHealth(False, first_line(error))
    return PartHealth(not away, "; ".join(away) or "ok")


def check_gateway(url: str) -> PartHealth:
    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/healthz")
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        return PartHealth(False, first_line(error))
    finally:
        connection.close()
    return PartHealth(True, "ok") if status == HTTPStatus.OK else PartHealth(False, f"responds with {status}")


def check_rls(url: str) -> PartHealth:
    # Imported only where it is asked: grpc takes a moment to load, and memory.
    from headroom_edge.gateway.rls.health import trouble

    reason = trouble(urlsplit(url).netloc, TIMEOUT_SECONDS)
    return PartHealth(reason is None, reason or "ok")


def check_heartbeat(name: str, facts: HealthFacts | None) -> PartHealth:
    if facts is None:
        return PartHealth(False, "unknown while the database is down")
    beat = facts.beats.get(name)
    if beat is None:
        return PartHealth(False, "has not reported yet")
    age = facts.now - beat.at
    if age > STALE_AFTER[name]:
        return PartHealth(False, f"silent for {age.total_seconds():.0f} s")
    trouble = facts.beats.get(PUBLISH_TROUBLE) if name == PUBLISHER else None
    return PartHealth(trouble is None, trouble.detail if trouble else "ok")


def check_watch(facts: HealthFacts | None) -> PartHealth:
    if facts is None:
        return PartHealth(False, "unknown while the database is down")
    is_starting = time.monotonic() - _STARTED < WATCH_STALE_AFTER.total_seconds()
    if facts.watched is None:
        return PartHealth(is_starting, "has not run yet")
    age = facts.now - facts.watched
    if age > WATCH_STALE_AFTER and not is_starting:
        return PartHealth(False, f"silent for {age.total_seconds():.0f} s")
    return PartHealth(True, "ok")


def check_schedule(facts: HealthFacts | None) -> PartHealth:
    if facts is None:
        return PartHealth(False, "unknown while the database is down")
    if facts.overdue is not None:
        return PartHealth(False, f"{facts.overdue} was due at {facts.overdue.at:%Y-%m-%d %H:%M:%S} UTC")
    return PartHealth(True, "ok")


def check_tasks(facts: HealthFacts | None) -> PartHealth:
    """Tasks that were set aside do not make the installation unhealthy, but somebody has to look at them."""
    if facts is None:
        return PartHealth(False, "unknown while the database is down")
    if not facts.set_aside:
        return PartHealth(True, "ok")
    last, count = facts.set_aside[0], len(facts.set_aside)
    number = f"{count} or more" if count == MOST_SET_ASIDE else str(count)
    return PartHealth(True, f"{number} set aside, the latest one {last} until {last.at:%Y-%m-%d %H:%M:%S} UTC")


def check_keys(facts: HealthFacts | None) -> PartHealth:
    """A wrong SECRET_KEY would otherwise show as refused API keys only."""
    if facts is None:
        return PartHealth(False, "unknown while the database is down")
    return PartHealth(not facts.locked, facts.locked or "ok")


def why_keys_are_locked() -> str:
    """Empty: the stored keys can be opened."""
    try:
        read_keys(API_KEYS)
    except KeyringError as error:
        return str(error)
    return ""


def published_revision(facts: HealthFacts | None) -> int | None:
    beat = facts.beats.get(PUBLISHER) if facts else None
    return int(beat.detail) if beat and beat.detail.isdigit() else None
