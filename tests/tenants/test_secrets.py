"""What is shown once is kept nowhere: not in the database, not in Redis, not in a log, not in the audit."""

from __future__ import annotations

import io
import logging
from typing import Any

import pytest
import redis
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client
from psycopg import sql

from quotas.models import AuditEvent
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from tests.access.people import machine, person
from tests.quotas.world import make_world

PASSWORD = "correct horse battery staple"


def issue_token() -> str:
    out = io.StringIO()
    scopes = [part for scope in ("read", "write", "check") for part in ("--scope", scope)]
    call_command("token", "create", "a pipeline", "--role", "operator", *scopes, stdout=out, stderr=io.StringIO())
    return out.getvalue().strip()


def issue_key(client: Client) -> str:
    """Twice the same: what a repetition answers is kept, without the secret."""
    asked = {"tenant": "acme", "scopes": ["check", "read"], "reason": "their service"}
    first, second = (
        client.post("/v1/api-keys", asked, content_type="application/json", headers={"Idempotency-Key": "one-key"})
        for _ in range(2)
    )
    assert (first.status_code, second.json()["key"]) == (201, None)
    text: str = first.json()["key"]
    return text


def sign_in() -> None:
    user = person("alice", "owner")
    user.set_password(PASSWORD)
    user.save()
    assert Client().post("/login", {"username": "alice", "password": PASSWORD}).status_code == 302
    assert Client().post("/login", {"username": PASSWORD, "password": PASSWORD}).status_code == 200


def publish() -> None:
    client = store.connect(settings.REDIS_URL)
    store.prepare(client)
    Publisher(client, settings.HEADROOM_SHARDS).publish()


def database() -> str:
    """Every row of every table, as the application sees it."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        found = []
        for table in tables:
            cursor.execute(sql.SQL("SELECT to_jsonb({0})::text FROM {0}").format(sql.Identifier(table)))
            found += [row[0] for row in cursor.fetchall()]
    assert len(found) > 50
    return "\n".join(found)


def redis_text(client: redis.Redis) -> str:
    """Every key with its value, uncompressed."""
    read: dict[bytes, Any] = {
        b"string": client.get,
        b"hash": client.hgetall,
        b"list": lambda key: client.lrange(key, 0, -1),
        b"set": client.smembers,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"none": lambda key: "ended by itself since it was listed",
    }
    found = [repr((key, read[client.type(key)](key))) for key in client.scan_iter(count=1_000)]  # type: ignore[index]
    assert len(found) > 50
    return "\n".join(found)


def test_no_secret_is_kept_anywhere(db: None, valkey: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    make_world()
    call_command("own_limits", stdout=io.StringIO())
    publish()
    token = issue_token()
    key = issue_key(machine(token))
    sign_in()
    publish()
    assert machine(key).get("/v1/tenants/acme").status_code == 200
    for wrong in (key[:-1], token[:-1]):
        assert machine(wrong).get(f"/v1/tenants?search={wrong[:8]}").status_code == 401
    revoked = machine(token).post(
        f"/v1/api-keys/{key.split('_')[1]}/revoke", {"reason": "lost"}, content_type="application/json"
    )
    assert revoked.status_code == 200
    assert AuditEvent.objects.filter(kind="api_key_revoked").exists()
    kept = {"database": database(), "redis": redis_text(valkey), "log": caplog.text}
    secrets = {"token": token.split("_")[2], "key": key.split("_")[2], "password": PASSWORD}
    assert [(where, what) for where, text in kept.items() for what, secret in secrets.items() if secret in text] == []
