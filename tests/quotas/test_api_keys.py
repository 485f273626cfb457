from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import serializers
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django.fixtures import Settings

from quotas.api_keys import api_key_issue, api_key_revoke, api_key_rotate, api_key_update, key_state, live_keys
from quotas.errors import Refused
from quotas.models import AuditEvent, Outbox
from tenants.credentials import verify
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


def in_days(days: float) -> datetime:
    return timezone.now() + timedelta(days=days)


def test_a_key_opens_nothing_once_it_has_expired() -> None:
    issued = api_key_issue(tenant="acme", expires_at=in_days(1), **SAID)
    assert verify(str(issued.text)) is not None
    ApiKey.objects.update(created=in_days(-2), expires_at=in_days(-1))
    assert verify(str(issued.text)) is None


def test_a_rotated_key_is_counted_as_the_first_of_its_line() -> None:
    first = api_key_issue(tenant="acme", scopes=["read", "check"], label="web", **SAID).row
    second = api_key_rotate(key_id=first.key_id, until=in_days(1), **SAID)
    third = api_key_rotate(key_id=second.row.key_id, until=in_days(1), **SAID).row
    assert {second.row.counted_as, third.counted_as} == {first.key_id}
    assert (third.scopes, third.label, third.expires_at) == (["check", "read"], "web", None)
    found = verify(str(second.text))
    assert found is not None
    assert found.counted_as == first.key_id
    first.refresh_from_db()
    assert (first.successor, key_state(first, timezone.now())) == (second.row, "overlap")
    assert key_state(first, in_days(1.001)) == "expired"


def test_an_overlap_never_makes_a_key_last_longer() -> None:
    ends = in_days(1)
    first = api_key_issue(tenant="acme", expires_at=ends, **SAID).row
    api_key_rotate(key_id=first.key_id, until=in_days(7), **SAID)
    first.refresh_from_db()
    assert first.expires_at == ends


def test_a_key_is_rotated_once_unless_its_successor_is_gone() -> None:
    first = api_key_issue(tenant="acme", **SAID).row
    second = api_key_rotate(key_id=first.key_id, until=in_days(1), **SAID).row
    with pytest.raises(Refused, match=f"was replaced by {second.key_id} already; rotate {second.key_id}"):
        api_key_rotate(key_id=first.key_id, until=in_days(1), **SAID)
    api_key_revoke(key_id=second.key_id, **SAID)
    third = api_key_rotate(key_id=first.key_id, until=in_days(1), **SAID).row
    assert third.counted_as == first.key_id
    with pytest.raises(Refused, match=f"key {second.key_id} is revoked; issue a new key instead"):
        api_key_rotate(key_id=second.key_id, until=in_days(1), **SAID)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"until": datetime(2020, 1, 1, tzinfo=UTC)}, "until is in the past"),
        ({"until": datetime(2190, 1, 1, tzinfo=UTC)}, "until is more than 90 days away"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expires_at is in the past"),
        ({"key_id": "feed"}, "there is no API key feed"),
    ],
)
def test_a_wrong_rotation_is_refused_and_changes_nothing(fields: dict[str, Any], sentence: str) -> None:
    first = api_key_issue(tenant="acme", **SAID).row
    with pytest.raises(Refused, match=sentence):
        api_key_rotate(**{"key_id": first.key_id, "until": in_days(1), **SAID, **fields})
    first.refresh_from_db()
    assert (ApiKey.objects.count(), first.expires_at) == (1, None)


def test_a_tenant_has_ten_live_keys_and_can_still_rotate_them() -> None:
    keys = [api_key_issue(tenant="acme", expires_at=in_days(5), **SAID).row for _ in range(10)]
    ApiKey.objects.update(created=in_days(-2))
    with pytest.raises(Refused, match=r"acme has 10 live keys; the most is 10. Revoke one .*, or wait until 20\d\d-"):
        api_key_issue(tenant="acme", **SAID)
    api_key_rotate(key_id=keys[0].key_id, until=in_days(1), **SAID)
    with pytest.raises(Refused, match="acme has 10 live keys"):
        api_key_issue(tenant="acme", **SAID)
    api_key_revoke(key_id=keys[1].key_id, **SAID)
    api_key_issue(tenant="acme", **SAID)
    api_key_issue(tenant="bolt", **SAID)


def test_ten_keys_a_day_are_issued_and_rotations_count() -> None:
    for _ in range(5):
        key = api_key_issue(tenant="acme", **SAID).row
        api_key_revoke(key_id=api_key_rotate(key_id=key.key_id, until=in_days(1), **SAID).row.key_id, **SAID)
        api_key_revoke(key_id=key.key_id, **SAID)
    oldest = ApiKey.objects.filter(tenant__name="acme").earliest("created").created
    free = f"{oldest + timedelta(days=1, minutes=1):%Y-%m-%d %H:%M} UTC"
    with pytest.raises(Refused, match=f"acme was issued 10 keys within 24 hours.*The next is possible at {free}"):
        api_key_issue(tenant="acme", **SAID)
    api_key_issue(tenant="bolt", **SAID)
    ApiKey.objects.update(created=in_days(-2))
    api_key_issue(tenant="acme", **SAID)


def test_who_has_more_keys_than_may_be_issued_keeps_them() -> None:
    owner = Tenant.objects.get(name="acme")
    ApiKey.objects.bulk_create(
        ApiKey(tenant=owner, key_id=f"{n:016x}", secret_hash=f"{n:064x}", scopes=["check"], created=in_days(-9))
        for n in range(15)
    )
    with pytest.raises(Refused, match="acme has 15 live keys; the most is 10"):
        api_key_issue(tenant="acme", **SAID)
    api_key_rotate(key_id=f"{3:016x}", until=in_days(1), **SAID)
    assert live_keys(timezone.now()).count() == 16


def test_an_archived_tenant_gets_no_key() -> None:
    Tenant.objects.filter(name="acme").update(archived_at=timezone.now())
    with pytest.raises(Refused, match="acme is archived; restore it before you issue a key"):
        api_key_issue(tenant="acme", **SAID)


def test_a_label_is_changed_and_noted() -> None:
    key = api_key_issue(tenant="acme", label="web", **SAID).row
    before = Outbox.objects.count()
    for _ in range(2):
        api_key_update(key_id=key.key_id, label="app", **SAID)
    event = AuditEvent.objects.get(kind="api_key_updated")
    assert (event.detail["was"], event.detail["label"]) == ("web", "app")
    assert Outbox.objects.count() == before


def test_the_command_rotates_a_key_and_prints_the_new_one(capsys: pytest.CaptureFixture[str]) -> None:
    first = api_key_issue(tenant="acme", **SAID).row
    call_command("api_key", "rotate", first.key_id, "--overlap", "1h", "--expires", "2199-01-31T18:00:00Z")
    out, err = capsys.readouterr()
    found = verify(out.strip())
    assert found is not None
    assert found.counted_as == first.key_id
    assert f"{first.key_id} works until " in err
    call_command("api_key", "list")
    assert " until 2199-01-31 18:00:00 UTC" in capsys.readouterr().out
    with pytest.raises(CommandError, match=r"was replaced by \w+ already"):
        call_command("api_key", "rotate", first.key_id)
    with pytest.raises(CommandError, match="is not a time; write it like"):
        call_command("api_key", "rotate", first.key_id, "--expires", "tomorrow")
