"""The contract between whoever changes what is enforced and the publisher, which brings it to Redis.

A writer adds a row in the transaction of its change; that also wakes the publisher once the change is committed. The
wake-up may be lost: the publisher finds its work in the rows, and looks for them every second.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from django.db import connection

from quotas.models.revision import Outbox, Revision
from quotas.policies.configuration_index import Touched

CHANNEL = "headroom_outbox"
# What a row of the kind `revision` may name, besides `tier:NAME` and `tenant:NAME`.
EVERYTHING = "everything"
COMMON = "common"
TIER = "tier:"
TENANT = "tenant:"
# What a row of the kind `api_keys` may name, besides ids.
EVERY_KEY = "*"
# Past this many names, reading everything is quicker for the publisher than reading them one by one.
MOST_NAMES = 5_000


def put_revision(revision: Revision, touched: Touched) -> None:
    Outbox.objects.create(kind=Outbox.Kind.REVISION, revision=revision, touched=_names(touched))
    _wake_publisher()


def put_again() -> None:
    """What every plan holds has changed without an edit. Nothing has been published before the first revision."""
    revision = Revision.objects.order_by("-number").first()
    if revision is not None:
        put_revision(revision, Touched(common=True))


def put_key(key_id: str) -> None:
    """An API key or a token that was issued or revoked."""
    Outbox.objects.create(kind=Outbox.Kind.API_KEYS, touched=[key_id])
    _wake_publisher()


def put_every_key() -> None:
    """The hashes of all API keys, or the key they are made with, have changed."""
    Outbox.objects.create(kind=Outbox.Kind.API_KEYS, touched=[EVERY_KEY])
    _wake_publisher()


def listen(postgres: psycopg.Connection[Any]) -> None:
    postgres.execute(f"LISTEN {CHANNEL}")


@dataclass(frozen=True, slots=True)
class PendingWork:
    """The rows that one pass of the publisher takes on."""

    rows: tuple[int, ...]
    touched: Touched
    is_everything: bool  # too much was touched to list it
    revisions: frozenset[int]
    api_keys: frozenset[str]
    oldest: datetime | None

    def __bool__(self) -> bool:
        return bool(self.rows)


def pending_work_read() -> PendingWork:
    rows = list(Outbox.objects.order_by("id"))
    revisions = [row for row in rows if row.kind == Outbox.Kind.REVISION]
    names = {name for row in revisions for name in row.touched}
    return PendingWork(
        rows=tuple(row.pk for row in rows),
        touched=Touched(_named(names, TENANT), _named(names, TIER), COMMON in names),
        is_everything=EVERYTHING in names,
        revisions=frozenset(row.revision_id for row in revisions if row.revision_id is not None),
        api_keys=frozenset(name for row in rows if row.kind == Outbox.Kind.API_KEYS for name in row.touched),
        oldest=min((row.created for row in rows), default=None),
    )


def pending_work_delete(work: PendingWork) -> None:
    Outbox.objects.filter(pk__in=work.rows).delete()


def _names(touched: Touched) -> list[str]:
    if len(touched.tenants) + len(touched.tiers) > MOST_NAMES:
        return [EVERYTHING]
    common = [COMMON] if touched.common else []
    tiers = [TIER + name for name in sorted(touched.tiers)]
    return common + tiers + [TENANT + name for name in sorted(touched.tenants)]


def _named(names: Iterable[str], prefix: str) -> frozenset[str]:
    return frozenset(name.removeprefix(prefix) for name in names if name.startswith(prefix))


def _wake_publisher() -> None:
    """Postgres tells the listeners when the transaction is committed, and nobody if it is not."""
    with connection.cursor() as cursor:
        cursor.execute(f"NOTIFY {CHANNEL}")
