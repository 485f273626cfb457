"""API keys as the publisher and the gateway need them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tenants.models import ApiKey
from tenants.secrets import KeyText


class ActiveKey(NamedTuple):
    key_id: str
    tenant: str
    tenant_number: int


def api_keys_active(*, key_ids: Collection[str] | None = None) -> list[ActiveKey]:
    """Those that are not revoked; of the given ids, what is missing in the answer is revoked."""
    keys = ApiKey.objects.filter(revoked_at=None).order_by("key_id")
    if key_ids is not None:
        keys = keys.filter(key_id__in=key_ids)
    return [ActiveKey(*row) for row in keys.values_list("key_id", "tenant__name", "tenant_id")]


def api_key_find(text: str) -> ApiKey | None:
    """The key that this text opens: known, right and not revoked."""
    key = KeyText.parse(text)
    if key is None:
        return None
    row = ApiKey.objects.select_related("tenant").filter(key_id=key.key_id, revoked_at=None).first()
    return row if row is not None and key.matches(row.secret_hash) else None
