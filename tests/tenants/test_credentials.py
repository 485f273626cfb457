"""A refusal costs the same, whatever is wrong with the token or the key."""

from __future__ import annotations

import hmac
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import crypto

from quotas.api_keys import api_key_issue, api_key_revoke
from quotas.tokens import token_issue
from tenants import secrets
from tenants.credentials import verify
from tenants.secrets import KeyText
from tests.quotas.world import SAID, make_world

pytestmark = pytest.mark.django_db


def wrong(text: KeyText) -> str:
    return str(KeyText(text.key_id, "0" * 64))


def test_known_unknown_and_revoked_ids_take_the_same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    make_world()
    token = token_issue(label="ci", role="viewer", scopes=["read"], **SAID)
    key, former = api_key_issue(tenant="acme", **SAID), api_key_issue(tenant="acme", **SAID)
    api_key_revoke(key_id=former.row.key_id, **SAID)
    hashes: list[int] = []
    compared: list[tuple[int, int]] = []
    digest, compare = hmac.digest, crypto.constant_time_compare

    def counted_digest(*arguments: Any) -> bytes:
        hashes.append(1)
        return digest(*arguments)

    def counted_compare(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return compare(one, other)

    assert verify(str(token.text))  # loads what is kept in memory
    monkeypatch.setattr(hmac, "digest", counted_digest)
    monkeypatch.setattr(secrets, "constant_time_compare", counted_compare)
    paths = []
    for text in (wrong(token.text), wrong(key.text), str(former.text), str(KeyText.make())):
        hashes.clear()
        compared.clear()
        with CaptureQueriesContext(connection) as asked:
            assert verify(text) is None
        paths.append(([query["sql"].replace(text[3:19], "ID") for query in asked], list(hashes), list(compared)))
    assert len(paths[0][0]) == len(paths[0][1]) == len(paths[0][2]) == 1
    assert paths[0][2] == [(64, 64)]
    assert all(path == paths[0] for path in paths)


def test_what_is_right_is_told_apart() -> None:
    make_world()
    token = token_issue(label="ci", role="operator", scopes=["read", "write"], **SAID)
    key = api_key_issue(tenant="acme", label="web", **SAID)
    mine, theirs = verify(str(token.text)), verify(str(key.text))
    assert mine is not None
    assert theirs is not None
    assert (mine.kind, mine.role, sorted(mine.scopes), mine.tenant) == ("token", "operator", ["read", "write"], None)
    assert (theirs.kind, theirs.role, theirs.tenant) == ("key", "tenant", key.row.tenant_id)
