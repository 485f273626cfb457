"""What /healthz says: one function per part, each bounded in time, each with a reason when it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final

import redis
from django.conf import settings
from django.db import Error, connection, transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from redis.backoff import NoBackoff
from redis.retry import Retry

from quotas.changes.queries import changes_overdue
from quotas.models import Change
from quotas.models.jobs import Delivery, Heartbeat

TIMEOUT_SECONDS: Final = 1.0
MOST_SET_ASIDE: Final = 100
STALE_AFTER: Final[Mapping[str, timedelta]] = {
    "publisher": timedelta(seconds=10),
    "worker": timedelta(seconds=20),
    "beat": timedelta(seconds=20),
}


@dataclass(frozen=True)
class Part:
    ok: bool
    says: str


@dataclass(frozen=True)
class Pulses:
    """All signs of life, and the database's own time to judge them by."""

    now: datetime
    beats: Mapping[str, Heartbeat]
    overdue: Change | None = None  # the change that has waited longest for the scheduler
    set_aside: tuple[Delivery, ...] = ()  # tasks that kept killing their worker, newest first


@require_safe
@never_cache
def healthz(request: HttpRequest) -> JsonResponse:
    database, pulses = check_database()
    parts = {"database": database, "redis": check_redis()}
    parts |= {name: check_pulse(name, pulses) for name in STALE_AFTER}
    parts |= {"schedule": check_schedule(pulses), "tasks": check_tasks(pulses)}
    healthy = all(part.ok for part in parts.values())
    body: dict[str, object] = {"status": "ok" if healthy else "unhealthy"}
    body |= {name: part.says for name, part in parts.items()}
    body["published_revision"] = published_revision(pulses)
    if not healthy:
        body["reason"] = "; ".join(f"{name}: {part.says}" for name, part in parts.items() if not part.ok)
    return JsonResponse(body, status=HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE)


def check_database() -> tuple[Part, Pulses | None]:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {TIMEOUT_SECONDS * 1000:.0f}")
            cursor.execute("SELECT now()")
            (now,) = cursor.fetchone()
            beats = {beat.name: beat for beat in Heartbeat.objects.all()}
            overdue = changes_overdue(now).first()
            set_aside = tuple(Delivery.objects.filter(is_set_aside=True).order_by("-at")[:MOST_SET_ASIDE])
    except Error as error:
        return Part(False, first_line(error)), None
    return Part(True, "ok"), Pulses(now, beats, overdue, set_aside)


def check_redis() -> Part:
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        ) as client:
            client.ping()
    except (redis.RedisError, OSError) as error:
        return Part(False, first_line(error))
    return Part(True, "ok")


def check_pulse(name: str, pulses: Pulses | None) -> Part:
    if pulses is None:
        return Part(False, "unknown while the database is away")
    beat = pulses.beats.get(name)
    if beat is None:
        return Part(False, "has not reported yet")
    age = pulses.now - beat.at
    if age > STALE_AFTER[name]:
        return Part(False, f"silent for {age.total_seconds():.0f} s")
    return Part(True, "ok")


def check_schedule(pulses: Pulses | None) -> Part:
    if pulses is None:
        return Part(False, "unknown while the database is away")
    if pulses.overdue is not None:
        return Part(False, f"{pulses.overdue} was due at {pulses.overdue.at:%Y-%m-%d %H:%M:%S} UTC")
    return Part(True, "ok")


def check_tasks(pulses: Pulses | None) -> Part:
    """One that is set aside hurts nobody else, so all stays well; but somebody has to look at it."""
    if pulses is None:
        return Part(False, "unknown while the database is away")
    if not pulses.set_aside:
        return Part(True, "ok")
    last, count = pulses.set_aside[0], len(pulses.set_aside)
    number = f"{count} or more" if count == MOST_SET_ASIDE else str(count)
    return Part(True, f"{number} set aside, the last one {last} until {last.at:%Y-%m-%d %H:%M:%S} UTC")


def published_revision(pulses: Pulses | None) -> int | None:
    beat = pulses.beats.get("publisher") if pulses else None
    return int(beat.detail) if beat and beat.detail.isdigit() else None


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
