"""API keys. They change often and hold no limits, so they have no revision and wait for no lock of the configuration.

A rotation issues a key that is counted as its predecessor: limits per key have one budget for both. The predecessor
ends by itself when the overlap is over. Enforcers know that end (headroom_edge.directory), so nothing has to run then.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from headroom_edge.keys import OWN_TENANT
from quotas.errors import author_and_reason, check_moment, one_line, refuse
from quotas.lookups import find_tenant
from quotas.models import AuditEvent
from quotas.outbox import put_key
from tenants.history import acting
from tenants.models import ApiKey, Tenant
from tenants.secrets import KeyText

SCOPES: Final = ("check", "read", "write")
LONGEST_LABEL: Final = 200
MOST_LIVE: Final = 10
MOST_A_DAY: Final = 10
LONGEST_OVERLAP: Final = timedelta(days=90)
SOON: Final = timedelta(days=7)  # a key that ends within this time is shown as expiring
DAY: Final = timedelta(days=1)

KeyState = Literal["active", "expiring", "overlap", "expired", "revoked"]


@dataclass(frozen=True, slots=True)
class IssuedKey:
    row: ApiKey
    text: KeyText  # shown once: it cannot be had again


def api_key_issue(
    *,
    tenant: str,
    author: str,
    reason: str,
    scopes: Collection[str] = ("check",),
    label: str = "",
    expires_at: datetime | None = None,
) -> IssuedKey:
    """`expires_at` None: the key never ends by itself."""
    author, reason = author_and_reason(author, reason)
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown or not scopes:
        raise refuse("scopes", "unknown", f"scopes must be one or more of {', '.join(SCOPES)}")
    one_line("label", label, LONGEST_LABEL)
    now = timezone.now()
    _check_end("expires_at", expires_at, now)
    with acting(author=author, action="api_key_issue"), transaction.atomic():
        owner = _lock_owner(tenant)
        _check_live(owner, now)
        _check_issued(owner, now)
        issued = _create(ApiKey(tenant=owner, scopes=sorted(set(scopes)), label=label, expires_at=expires_at))
        _record("api_key_issued", issued.row, author, reason)
    return issued


def api_key_rotate(
    *, key_id: str, until: datetime, author: str, reason: str, expires_at: datetime | None = None
) -> IssuedKey:
    """Issues a key that replaces another, which works until `until`. Both are counted as one by limits per key."""
    author, reason = author_and_reason(author, reason)
    now = timezone.now()
    _check_end("until", until, now)
    _check_end("expires_at", expires_at, now)
    if until - now > LONGEST_OVERLAP:
        raise refuse("until", "range", f"until is more than {LONGEST_OVERLAP.days} days away; choose an earlier time")
    with acting(author=author, action="api_key_rotate"), transaction.atomic():
        owner = _lock_owner(_found(ApiKey.objects.all(), key_id).tenant.name)
        former = _locked(key_id)
        _check_rotates(former, now)
        _check_issued(owner, now)
        new = ApiKey(tenant=owner, scopes=former.scopes, label=former.label, lineage=former.counted_as)
        new.expires_at = expires_at
        issued = _create(new)
        former.successor, former.expires_at = issued.row, min(until, former.expires_at or until)
        former.save(update_fields=["successor", "expires_at"])
        ended = {"replaces": former.key_id, "until": former.expires_at.isoformat()}
        _record("api_key_rotated", issued.row, author, reason, **ended)
        put_key(former.key_id)
    return issued


def api_key_update(*, key_id: str, label: str, author: str, reason: str) -> ApiKey:
    """Renames a key. Only people read its label, so nothing is published."""
    author, reason = author_and_reason(author, reason)
    one_line("label", label, LONGEST_LABEL)
    with acting(author=author, action="api_key_update"), transaction.atomic():
        row = _locked(key_id)
        if row.label != label:
            was, row.label = row.label, label
            row.save(update_fields=["label"])
            _audit("api_key_updated", row, author, reason, label=label, was=was)
    return row


def api_key_revoke(*, key_id: str, author: str, reason: str) -> ApiKey:
    """Revokes a key for good."""
    author, reason = author_and_reason(author, reason)
    with acting(author=author, action="api_key_revoke"), transaction.atomic():
        row = _locked(key_id)
        if row.revoked_at is None:
            row.revoked_at = timezone.now()
            row.save(update_fields=["revoked_at"])
            _record("api_key_revoked", row, author, reason)
    return row


def live_keys(now: datetime) -> QuerySet[ApiKey]:
    return ApiKey.objects.filter(Q(expires_at=None) | Q(expires_at__gt=now), revoked_at=None)


def key_state(row: ApiKey, now: datetime) -> KeyState:
    if row.revoked_at is not None:
        return "revoked"
    if row.expires_at is None:
        return "active"
    if row.expires_at <= now:
        return "expired"
    if row.successor_id is not None:
        return "overlap"
    return "expiring" if row.expires_at - now <= SOON else "active"


def _create(row: ApiKey) -> IssuedKey:
    text = KeyText.make()
    row.key_id = text.key_id
    for name, value in text.hash_fields().items():
        setattr(row, name, value)
    row.save(force_insert=True)
    return IssuedKey(row, text)


def _locked(key_id: str) -> ApiKey:
    return _found(ApiKey.objects.select_for_update(of=("self",)), key_id)


def _found(rows: QuerySet[ApiKey], key_id: str) -> ApiKey:
    row = rows.select_related("tenant").filter(key_id=key_id).first()
    if row is None:
        raise refuse("key_id", "unknown", f"there is no API key {key_id}; correct the id")
    return row


def _lock_owner(tenant: str) -> Tenant:
    """Keys of one tenant are issued one after the other, so that two at once cannot pass the bounds."""
    row = Tenant.objects.select_for_update(no_key=True).get(pk=find_tenant(tenant).pk)
    if row.archived_at is not None:
        raise refuse("tenant", "archived", f"{tenant} is archived; restore it before you issue a key")
    return row


def _check_end(field: str, end: datetime | None, now: datetime) -> None:
    if end is None:
        return
    check_moment(field, end)
    if end <= now:
        raise refuse(field, "past", f"{field} is in the past; choose a later time")


def _check_rotates(former: ApiKey, now: datetime) -> None:
    state = key_state(former, now)
    if state in ("revoked", "expired"):
        raise refuse("key_id", "state", f"key {former.key_id} is {state}; issue a new key instead")
    successor = former.successor
    if successor is not None and key_state(successor, now) not in ("revoked", "expired"):
        what = f"key {former.key_id} was replaced by {successor.key_id} already"
        raise refuse("key_id", "state", f"{what}; rotate {successor.key_id}, or revoke it first")


def _check_live(owner: Tenant, now: datetime) -> None:
    """A key in its overlap is left out: it ends by itself and shares its successor's budget."""
    if owner.name == OWN_TENANT:
        return
    replaced = Q(successor__revoked_at=None) & (Q(successor__expires_at=None) | Q(successor__expires_at__gt=now))
    live = live_keys(now).filter(tenant=owner).exclude(Q(successor__isnull=False) & replaced)
    count = live.count()
    if count < MOST_LIVE:
        return
    ends = live.filter(expires_at__isnull=False).order_by("expires_at").values_list("expires_at", flat=True)
    spare = ends[count - MOST_LIVE : count - MOST_LIVE + 1].first()  # all before it have to end too
    later = f", or wait until {_minute_after(spare)}, when enough have expired" if spare is not None else ""
    held = f"{owner.name} has {count} live keys; the most is {MOST_LIVE}"
    raise refuse("tenant", "too_many", f"{held}. Revoke one that is not used{later}")


def _check_issued(owner: Tenant, now: datetime) -> None:
    if owner.name == OWN_TENANT:
        return
    recent = ApiKey.objects.filter(tenant=owner, created__gt=now - DAY).order_by("-created")
    limiting = recent.values_list("created", flat=True)[MOST_A_DAY - 1 : MOST_A_DAY].first()
    if limiting is not None:
        what = f"{owner.name} was issued {MOST_A_DAY} keys within 24 hours, the most allowed"
        raise refuse("tenant", "too_many", f"{what}. The next is possible at {_minute_after(limiting + DAY)}")


def _minute_after(moment: datetime) -> str:
    return f"{moment + timedelta(seconds=60):%Y-%m-%d %H:%M} UTC"


def _record(kind: str, row: ApiKey, author: str, reason: str, **more: str) -> None:
    _audit(kind, row, author, reason, **more)
    put_key(row.key_id)


def _audit(kind: str, row: ApiKey, author: str, reason: str, **more: str) -> None:
    detail = {"key_id": row.key_id, "tenant": row.tenant.name, "author": author, "reason": reason}
    AuditEvent.objects.create(kind=kind, detail=detail | more)
