"""Verifies tokens and API keys: one query and one HMAC, whether the id is known or not.

So the time of a refusal does not tell whether an id exists, or how much of a secret is right. The query always returns
one row of the same shape; without such an id, it holds a hash that no secret has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.db import connection

from tenants.keyring import API_KEYS
from tenants.models import HASH_DUE, Role
from tenants.secrets import KeyText

TOKEN: Final = "token"  # noqa: S105 - a word, not a secret
KEY: Final = "key"

_NO_HASH: Final = "0" * 64
_QUERY: Final = """
    SELECT found.kind, coalesce(found.secret_hash, %(no_hash)s), coalesce(found.secret_version, used.version),
        coalesce(found.label, 'nobody'), coalesce(found.role, 'viewer'), coalesce(found.scopes, ARRAY['read']),
        coalesce(found.tenant_id, 0), coalesce(found.next_hash, ''), coalesce(found.lineage, '')
    FROM (
        SELECT min(version) AS version FROM tenants_keyversion WHERE purpose = %(purpose)s AND retired_at IS NULL
    ) AS used
    LEFT JOIN (
        SELECT %(token)s AS kind, secret_hash, secret_version, label, role, scopes::text[], tenant_id, next_hash,
            '' AS lineage
        FROM tenants_apitoken WHERE key_id = %(id)s AND revoked_at IS NULL
        UNION ALL
        SELECT %(key)s, secret_hash, secret_version, label, %(tenant)s, scopes::text[], tenant_id, next_hash, lineage
        FROM tenants_apikey
        WHERE key_id = %(id)s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
    ) AS found ON true
    LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Credential:
    kind: str  # TOKEN or KEY
    key_id: str
    label: str
    role: str
    scopes: frozenset[str]
    tenant: int | None  # its number
    is_hash_due: bool  # its secret is to be hashed anew
    counted_as: str  # the first key of its line of rotations


def verify(text: str) -> Credential | None:
    """None if the text is no credential, is unknown, expired, revoked or has another secret."""
    key = KeyText.parse(text)
    if key is None:
        return None
    asked = {"id": key.key_id, "no_hash": _NO_HASH, "purpose": API_KEYS}
    with connection.cursor() as cursor:
        cursor.execute(_QUERY, asked | {"token": TOKEN, "key": KEY, "tenant": Role.TENANT.value})
        kind, secret_hash, version, label, role, scopes, tenant, next_hash, lineage = cursor.fetchone()
    is_right = key.opens(secret_hash, version)
    if kind is None or not is_right:
        return None
    is_due = next_hash == HASH_DUE
    return Credential(kind, key.key_id, label, role, frozenset(scopes), tenant or None, is_due, lineage or key.key_id)
