from __future__ import annotations

import re

import pytest
from django.core import serializers
from pytest_django.fixtures import Settings

from quotas.api_keys import api_key_issue, api_key_revoke
from quotas.errors import Refused
from quotas.models import AuditEvent, Outbox
from tenants.keyring import KeyringError
from tenants.models import ApiKey, Tenant
from tests.quotas.world import SAID, newest, opened_by

pytestmark = pytest.mark.usefixtures("world")


def test_the_text_opens_the_key() -> None:
    issued = api_key_issue(tenant="acme", scopes=["read", "check"], label="web", **SAID)
    found = opened_by(str(issued.text))
    assert found is not None
    assert (found.tenant.name, found.scopes, found.label) == ("acme", ["check", "read"], "web")


def test_no_other_text_opens_it() -> None:
    text = str(api_key_issue(tenant="acme", **SAID).text)
    wrong = text[:-1] + ("0" if text[-1] != "0" else "1")
    for attempt in (wrong, text.upper(), text + "\n", text.replace("hr_", ""), "", "hr__", "hr_\0"):
        assert opened_by(attempt) is None


def test_the_secret_has_256_bits_and_is_stored_nowhere() -> None:
    issued = api_key_issue(tenant="acme", **SAID)
    assert re.fullmatch("[0-9a-f]{64}", issued.text.secret)
    stored = serializers.serialize("json", [*ApiKey.objects.all(), *AuditEvent.objects.all(), *Outbox.objects.all()])
    assert issued.text.secret not in stored
    assert issued.text.secret not in repr(issued)


def test_under_another_secret_key_no_text_can_be_verified_and_the_sentence_says_why(settings: Settings) -> None:
    issued = api_key_issue(tenant="acme", **SAID)
    settings.SECRET_KEY = "another" * 10
    with pytest.raises(KeyringError, match="set SECRET_KEY to the value used before"):
        opened_by(str(issued.text))


def test_revoked_it_opens_nothing_for_good() -> None:
    issued = api_key_issue(tenant="acme", **SAID)
    revoked = api_key_revoke(key_id=issued.row.key_id, **SAID).revoked_at
    assert opened_by(str(issued.text)) is None
    assert api_key_revoke(key_id=issued.row.key_id, **SAID).revoked_at == revoked


def test_it_has_no_revision_but_is_published_and_recorded() -> None:
    before = newest().number
    key = api_key_issue(tenant="acme", **SAID).row
    api_key_revoke(key_id=key.key_id, **SAID)
    assert newest().number == before
    rows = Outbox.objects.filter(kind="api_keys").order_by("id")
    assert [row.touched for row in rows] == [[key.key_id], [key.key_id]]
    events = AuditEvent.objects.order_by("id").values_list("kind", flat=True)
    assert list(events) == ["api_key_issued", "api_key_revoked"]


def test_a_tenant_with_keys_cannot_be_dropped() -> None:
    api_key_issue(tenant="acme", **SAID)
    with pytest.raises(Exception, match="protected"):
        Tenant.objects.get(name="acme").delete()


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"tenant": "nobody"}, "there is no tenant nobody"),
        ({"scopes": []}, "scopes must be one or more of"),
        ({"scopes": ["root"]}, "scopes must be one or more of"),
        ({"label": "x" * 201}, "label has 201 characters"),
        ({"reason": ""}, "reason is missing"),
    ],
)
def test_a_refusal_says_why_and_leaves_nothing_behind(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        api_key_issue(**{"tenant": "acme", **SAID, **fields})  # type: ignore[arg-type]
    assert (ApiKey.objects.count(), AuditEvent.objects.count()) == (0, 0)


def test_an_unknown_key_cannot_be_revoked() -> None:
    with pytest.raises(Refused, match="there is no API key feed"):
        api_key_revoke(key_id="feed", **SAID)
