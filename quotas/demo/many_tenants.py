"""Fills an empty installation with very many tenants on the demo's tiers and endpoints, without any traffic.

The service functions judge each edit by its effect on every tenant it touches, which takes ten minutes for a million
new ones. Here the rows are written in bulk, with the same revisions, outbox rows and audit history.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.utils import timezone

from quotas.changes.snapshot import OVERRIDE, POLICY, TENANT, State, key_of, snapshots, tenant_state
from quotas.changes.turn import turn
from quotas.demo.backdating import as_table_owner
from quotas.demo.story import PERMITTED, WORLD
from quotas.demo.tenants import REGIONS
from quotas.errors import accepted, refuse
from quotas.lookups import find_endpoint
from quotas.models import Limit, LimitName, Override, Policy, Revision
from quotas.models.revision import newest_revision_number
from quotas.outbox import put_revision
from quotas.policies.apply import document_apply
from quotas.policies.configuration_index import Touched
from quotas.policies.document import read_document
from quotas.policies.limit_codec import algorithm_dump, limit_parse
from quotas.policies.spec import to_us
from quotas.tenant_summary import measure_tenants
from quotas.tenants import NewTenant
from tenants.history import acting
from tenants.models import Tenant
from tenants.privileges import as_owner

MOST: Final = 2_000_000
BATCH: Final = 10_000  # tenants of one revision
OWN_EVERY: Final = 100  # one tenant in so many has limits of its own
OWN_ENDPOINT: Final = "rider:track"
OVERRIDDEN_FOR: Final = timedelta(days=30)
ZONES: Final = ("UTC", "UTC", "UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC", "Australia/Sydney")
AUTHOR: Final = "pipeline"
REASON: Final = "a large platform to try things out on"
STAGE: Final = "tenants"
SEARCH_INDEX: Final = "tenant_search_grams"

# Not COPY, which would not tell the audit who acts.
_INSERT: Final = """
    INSERT INTO tenants_tenant (name, label, tier_id, timezone, tags, contacts, suspended, suspended_reason, handovers)
    SELECT fresh.name, fresh.label, tier.number, timezone, tags, contacts, false, '', '[]'
    FROM jsonb_to_recordset(%s::jsonb) AS fresh
        (name varchar, tier varchar, label varchar, timezone varchar, tags varchar[], contacts varchar[])
    JOIN tenants_tier AS tier ON tier.name = fresh.tier ORDER BY fresh.name
"""
# Without fresh statistics Postgres takes minutes for a join; autovacuum would come by too late.
_TABLES: Final = (
    "tenants_tenant, quotas_tenant_summary, quotas_tenant_search, quotas_policy, quotas_limit, quotas_override, "
    "quotas_revision"
)

Progress = Callable[[str, int, int], None]


def check_count(tenants: int) -> None:
    if not 0 < tenants <= MOST:
        raise refuse("tenants", "range", f"--tenants must be from 1 to {MOST:,}, not {tenants:,}")


def seed_tenants(tenants: int, now: datetime, progress: Progress) -> None:
    """Writes everything in one transaction. Refused if there is any configuration."""
    check_count(tenants)
    with as_table_owner(), turn():
        if Revision.objects.exists() or Tenant.objects.exists():
            message = "there is already a configuration; --tenants fills an empty installation only"
            raise refuse("tenants", "taken", message)
        world = accepted(read_document(WORLD.read_text(encoding="utf-8")))
        document_apply(document=world, author=AUTHOR, reason=REASON, **PERMITTED)
        with _without_search_index():
            for first in range(1, tenants + 1, BATCH):
                batch = range(first, min(first + BATCH, tenants + 1))
                _add_tenants([new_tenant(number) for number in batch])
                progress(STAGE, batch.stop - 1, tenants)
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE {_TABLES}")
        _add_own_limits([new_tenant(number).name for number in range(OWN_EVERY, tenants + 1, OWN_EVERY)], now)
        measure_tenants(now)
    with as_owner("default") as owner, owner.cursor() as cursor:
        cursor.execute(f"VACUUM ANALYZE {_TABLES}")


@contextmanager
def _without_search_index() -> Iterator[None]:
    """Builds the index of letters at the end, in the same transaction: row by row, it would take half of the time."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE indexname = %s", [SEARCH_INDEX])
        (definition,) = cursor.fetchone()
        cursor.execute(f"DROP INDEX {SEARCH_INDEX}")
        yield
        # An index cannot be built while rows have deferred checks pending, so run those checks now.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET LOCAL maintenance_work_mem = '256MB'")
        cursor.execute(definition)
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def new_tenant(number: int) -> NewTenant:
    """Nine in ten are free, one in a hundred is an enterprise."""
    tier = "enterprise" if number % 100 == 7 else "pro" if number % 10 == 3 else "free"
    zone = ZONES[number % len(ZONES)]
    region = REGIONS.get(zone.partition("/")[0])
    name = f"tenant-{number:07}"
    contacts = () if tier == "free" else (f"api@{name}.example",)
    return NewTenant(name, tier, f"Fleet {number:,}", zone, (region,) if region else (), contacts)


def _add_tenants(batch: Sequence[NewTenant]) -> None:
    with acting(author=AUTHOR, action="tenant_create"), connection.cursor() as cursor:
        cursor.execute(_INSERT, [json.dumps([asdict(new) for new in batch])])
    _revise("tenant_create", {key_of(TENANT, new.name): _state(new) for new in batch}, [new.name for new in batch])


def _state(new: NewTenant) -> State:
    return tenant_state(
        tier=new.tier, label=new.label, timezone=new.timezone, suspended="", tags=new.tags, contacts=new.contacts
    )


def _add_own_limits(names: Collection[str], now: datetime) -> None:
    """Half of these tenants get a policy, half an override."""
    owners = list(Tenant.objects.filter(name__in=names).order_by("name"))
    with acting(author=AUTHOR, action="policy_create"):
        _add_policies(owners[::2])
    with acting(author=AUTHOR, action="override_create"):
        _add_overrides(owners[1::2], now)


def _add_policies(owners: Sequence[Tenant]) -> None:
    if not owners:
        return
    endpoint, burst, number = find_endpoint(OWN_ENDPOINT), LimitName.objects.get(name="burst"), _next_number()
    rows = Policy.objects.bulk_create(
        (Policy(name=f"{owner.name}-track", tenant=owner, endpoint=endpoint) for owner in owners), batch_size=2_000
    )
    stored = [algorithm_dump(limit_parse("burst", fields).algorithm) for fields in _own_fields(len(rows))]
    Limit.objects.bulk_create(
        (
            Limit(policy=row, name=burst, changed_revision_id=number, **described)
            for row, described in zip(rows, stored, strict=True)
        ),
        batch_size=2_000,
    )
    states = snapshots(key_of(POLICY, row.name) for row in rows)
    _revise("policy_create", states, [owner.name for owner in owners])


def _own_fields(count: int) -> Iterator[dict[str, object]]:
    """Values that differ, so that tenants do not share their plans."""
    for n in range(count):
        yield {"algorithm": "token_bucket", "rate": 1 + n % 50, "per": "10s", "burst": 20 + n}


def _add_overrides(owners: Sequence[Tenant], now: datetime) -> None:
    if not owners:
        return
    number = _next_number()
    said = {"author": AUTHOR, "reason": REASON, "created_revision_id": number}
    rows = Override.objects.bulk_create(
        (
            Override(
                tenant=owner,
                start=now,
                end=now + OVERRIDDEN_FOR,
                multiplier_numerator=10 + n % 90,
                multiplier_denominator=10,
                **said,
            )
            for n, owner in enumerate(owners)
        ),
        batch_size=2_000,
    )
    _revise("override_create", snapshots(key_of(OVERRIDE, row.pk) for row in rows), [owner.name for owner in owners])


def _next_number() -> int:
    return newest_revision_number() + 1


def _revise(action: str, after: dict[str, State], tenants: Iterable[str]) -> None:
    """Writes the revision of objects that were not there before."""
    revision = Revision.objects.create(
        number=_next_number(),
        author=AUTHOR,
        reason=REASON,
        action=action,
        touched=sorted(after),
        before=dict.fromkeys(after),
        after=after,
        # As the demo's own: a later stamp would write a row with thousands of names once more.
        published_us=to_us(timezone.now()),
    )
    put_revision(revision, Touched(frozenset(tenants)))
