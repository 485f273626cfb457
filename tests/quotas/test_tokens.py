"""Tokens of machines: shown once, scoped, published to the gateways if they may check, ended for good."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
import redis
from django.conf import settings
from django.core.management import CommandError, call_command

from headroom_edge import keys
from quotas.errors import Refused
from quotas.models import AuditEvent, Outbox
from quotas.publishing import store
from quotas.tokens import IssuedToken, token_issue, token_permit, token_revoke
from tenants.models import ApiToken
from tenants.scope import principal_of_text
from tests.access.people import machine, person
from tests.quotas.publishing.worlds import publisher_for
from tests.quotas.world import SAID, make_world
from tests.valkeys import SpareValkey


@pytest.fixture(autouse=True)
def world(db: None) -> None:
    make_world()


def issue(role: str = "operator", *scopes: str, tenant: str | None = None) -> IssuedToken:
    return token_issue(label="a pipeline", role=role, scopes=scopes or ("read",), tenant=tenant, **SAID)


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_the_text_tells_who_acts() -> None:
    issued = issue("operator", "read", "write")
    found = principal_of_text(str(issued.text))
    assert found is not None
    assert (found.actor, found.role) == (f"token {issued.row.key_id} ({issued.row.label})", "operator")
    assert found.scopes == {"read", "write"}
    assert found.tenant is None


def test_one_of_a_tenant_sees_that_tenant() -> None:
    found = principal_of_text(str(issue("tenant", tenant="acme").text))
    assert found is not None
    assert found.tenant is not None
    assert found.tenant.name == "acme"


def test_no_other_text_opens_it() -> None:
    text = str(issue().text)
    wrong = text[:-1] + ("0" if text[-1] != "0" else "1")
    for attempt in (wrong, text.upper(), text + "\n", "", "hr__"):
        assert principal_of_text(attempt) is None


def test_the_secret_has_256_bits_and_its_text_is_hidden_from_logs() -> None:
    issued = issue()
    assert re.fullmatch("[0-9a-f]{64}", issued.text.secret)
    assert issued.text.secret not in repr(issued)


def test_revoked_it_is_refused_at_once_and_for_good() -> None:
    issued = issue("viewer")
    client = machine(str(issued.text))
    assert client.get("/").status_code == 200
    revoked = token_revoke(key_id=issued.row.key_id, **SAID).revoked_at
    assert client.get("/").status_code == 401
    assert token_revoke(key_id=issued.row.key_id, **SAID).revoked_at == revoked


def test_issuing_and_revoking_are_recorded_and_published() -> None:
    key_id = issue().row.key_id
    token_revoke(key_id=key_id, **SAID)
    assert [row.touched for row in Outbox.objects.filter(kind="api_keys")] == [[key_id], [key_id]]
    events = AuditEvent.objects.order_by("id").values_list("kind", flat=True)
    assert list(events) == ["api_token_issued", "api_token_revoked"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"label": " "}, "label is missing"),
        ({"label": "x" * 201}, "label has 201 characters"),
        ({"role": "root"}, "role must be one of"),
        ({"scopes": []}, "scopes must be one or more of"),
        ({"scopes": ["root"]}, "scopes must be one or more of"),
        ({"role": "tenant"}, "names its tenant"),
        ({"tenant": "acme"}, "names its tenant"),
        ({"role": "tenant", "tenant": "nobody"}, "there is no tenant nobody"),
        ({"reason": ""}, "reason is missing"),
    ],
)
def test_a_refusal_says_why_and_leaves_nothing_behind(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        token_issue(**{"label": "x", "role": "viewer", "scopes": ["read"], **SAID, **fields})
    assert (ApiToken.objects.count(), AuditEvent.objects.count()) == (0, 0)


def test_gateways_learn_of_all_and_what_each_may(valkey: redis.Redis, valkey_server: SpareValkey) -> None:
    with store.connect(valkey_server.url) as client:
        publisher = publisher_for(client)
        may, bound, may_not = issue("viewer", "check"), issue("tenant", "check", tenant="acme"), issue("viewer", "read")
        publisher.publish()
        late = issue("viewer", "check")
        publisher.publish()
        assert [entry(client, one) for one in (may, bound, may_not, late)] == [
            f"{may.text.key_id} check ",
            f"{bound.text.key_id} check acme",
            f"{may_not.text.key_id} read ",
            f"{late.text.key_id} check ",
        ]
        token_revoke(key_id=may.row.key_id, **SAID)
        publisher.publish()
        assert entry(client, may) is None


def entry(client: redis.Redis, issued: IssuedToken) -> object:
    digest = issued.row.secret_hash
    return client.hget(keys.credentials(keys.shard_of(digest, settings.HEADROOM_SHARDS)), digest)


@pytest.mark.parametrize(
    ("command", "words", "shown"),
    [
        (
            "token",
            ["a pipeline", "--role", "operator", "--scope", "write", "--scope", "read"],
            "operator  read,write  a pipeline  issuer unknown",
        ),
        ("api_key", ["acme", "--label", "their app"], "acme  check  their app"),
    ],
)
def test_the_command_shows_the_text_once_and_lists_without_it(command: str, words: list[str], shown: str) -> None:
    text = run(command, "create", *words).strip()
    key_id, secret = text.split("_")[1:]
    listed = run(command, "list")
    assert f"{key_id}  " in listed
    assert shown in listed
    assert secret not in listed
    assert run(command, "revoke", key_id) == f"revoked {key_id}\n"
    assert "revoked 2" in run(command, "list")


def test_the_command_refuses_in_one_sentence() -> None:
    with pytest.raises(CommandError, match="there is no token feed; correct the id"):
        run("token", "revoke", "feed")
    with pytest.raises(CommandError, match="names its tenant"):
        run("token", "create", "x", "--role", "tenant")
    with pytest.raises(CommandError, match="there is no tenant nobody; create it, or correct the name"):
        run("api_key", "create", "nobody")


@pytest.mark.parametrize(
    ("role", "scopes", "lacking"),
    [
        ("operator", ("write", "approve"), "the token lacks the role approver or owner"),
        ("approver", ("write",), "the token lacks the scope approve"),
    ],
)
def test_a_token_that_can_never_approve_is_not_allowed_to(role: str, scopes: tuple[str, ...], lacking: str) -> None:
    person("ann", "owner")
    fields: dict[str, Any] = {"label": "ci", "role": role, "scopes": scopes, "author": "ann", "reason": "a test"}
    with pytest.raises(Refused, match=lacking):
        token_issue(**fields, may_approve=True)
    issued = token_issue(**fields)
    with pytest.raises(Refused, match=lacking):
        token_permit(key_id=issued.row.key_id, may_approve=True, author="ann", reason="a test")
    token_permit(key_id=issued.row.key_id, may_approve=False, author="ann", reason="a test")
