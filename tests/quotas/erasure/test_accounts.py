"""A person is erased: the name is nowhere in the database, and the audit stays append-only."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, models, transaction
from django.test import Client
from django.utils import timezone
from psycopg import sql

from quotas.alerts.settings import alert_target_create, alert_target_test
from quotas.alerts.watch import alerts_watch
from quotas.changes.emergency import note_skipped
from quotas.changes.freeze import freeze_lift, freeze_set
from quotas.changes.rollout import change_propose, change_start, changes_apply_due
from quotas.erasure.accounts import NAMES
from quotas.members import member_set
from quotas.models import AlertDelivery, AlertState, AuditEvent, Change, Freeze, Revision, SavedView
from quotas.overrides import override_create
from quotas.policies.edit import policy_update
from quotas.tenants import tenant_suspend
from quotas.tokens import token_issue
from tenants.models import ApiToken
from tests.access.people import person, signed_in
from tests.quotas.world import Said, bucket, make_world

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "zelda.quux"


def database() -> str:
    with connection.cursor() as cursor:
        found = []
        for table in connection.introspection.table_names(cursor):
            cursor.execute(sql.SQL("SELECT %s || to_jsonb({0})::text FROM {0}").format(sql.Identifier(table)), [table])
            found += [row[0] for row in cursor.fetchall()]
    return "\n".join(found)


def erase(*words: str) -> str:
    out = io.StringIO()
    call_command("erase", *words, "--author", "ann", stdout=out)
    return out.getvalue()


def send(client: Client, path: str, asked: dict[str, Any]) -> None:
    """The answer is stored, because it has an Idempotency-Key."""
    headers = {"Idempotency-Key": path}
    assert client.post(path, asked, content_type="application/json", headers=headers).status_code == 201


def set_freezes(client: Client) -> None:
    end = timezone.now() + timedelta(hours=1)
    freeze = freeze_set(end=end, roles=["owner"], members=[NAME, "ann"], author=NAME, reason="the holidays")
    freeze_lift(freeze=freeze.pk, author=NAME, reason="they are over")
    later = {"start": end.isoformat(), "end": (end + timedelta(hours=1)).isoformat()}
    send(client, "/v1/freezes", later | {"members": [NAME], "reason": "the move"})


def declare_an_emergency() -> None:
    target = alert_target_create(kind="webhook", address="https://8.8.8.8/", author=NAME, reason="because").row
    alert_target_test(target=target.pk, author=NAME, reason="because")
    # The alert's sentence fills its column, and the pseudonym is longer than the name.
    note_skipped(action="bypass_set", author=NAME, reason="long " * 99, what="bypass of all", is_grave=True)
    alerts_watch()


def have_a_change_blocked(settings: Any) -> None:
    """It is refused when it is due, with a sentence that names who asked for it."""
    soon = timezone.now() + timedelta(minutes=5)
    said: Said = {"author": NAME, "reason": "because"}
    change = change_propose(policy_update, name="pro-all", limits=[bucket(300)], **said)
    change_start(change=change.pk, mode="scheduled", at=soon, force=True, **said)
    settings.HEADROOM_FOUR_EYES = True
    changes_apply_due(soon)
    settings.HEADROOM_FOUR_EYES = False


@pytest.fixture
def busy(settings: Any) -> User:
    """Somebody who has left traces in most tables."""
    make_world()
    person("ann", "owner")
    client = signed_in(NAME, "operator")
    user = User.objects.get(username=NAME)
    User.objects.filter(pk=user.pk).update(email=f"{NAME}@example.com", first_name="Zelda", last_name="Quux")
    member_set(user=NAME, role="approver", author=NAME, reason="promoted")
    said: Said = {"author": NAME, "reason": "because"}
    policy_update(name="free-all", limits=[bucket(11)], force=True, author=NAME, reason="because")
    override_create(tenant="acme", multiplier=(2, 1), **said)
    tenant_suspend(name="bolt", author=NAME, reason="because")
    token_issue(label="a pipeline", role="viewer", scopes=["read"], **said)
    send(client, "/v1/tenants", {"name": "newcomer", "tier": "free", "reason": "because"})
    have_a_change_blocked(settings)
    declare_an_emergency()
    set_freezes(client)
    return user


def test_the_name_is_nowhere_afterwards_and_every_row_is_still_there(busy: User) -> None:
    revisions, events = Revision.objects.count(), AuditEvent.objects.count()
    assert NAME in database()
    said = erase("--account", NAME, "--reason", "they asked")
    assert NAME not in database()
    assert "Quux" not in database()
    busy.refresh_from_db()
    assert busy.username.startswith("erased-")
    assert busy.username in said
    assert Revision.objects.filter(author=busy.username).count() > 0
    assert (Revision.objects.count(), AuditEvent.objects.count()) == (revisions, events + 1)
    assert AuditEvent.objects.get(kind="account_erased").detail["account"] == busy.username
    assert not Session.objects.exists()
    assert not busy.is_active


def test_private_views_go_and_shared_ones_stay_under_the_pseudonym(busy: User) -> None:
    for name, is_shared in (("my own", False), ("for all", True)):
        SavedView.objects.create(owner=busy, page="tenants", name=name, query=f"q={name}", is_shared=is_shared)
    assert "1  saved views" in erase("--account", NAME, "--dry-run")
    assert SavedView.objects.count() == 2
    assert "1  saved views" in erase("--account", NAME)
    (view,) = SavedView.objects.select_related("owner")
    assert view.name == "for all"
    assert view.owner.username.startswith("erased-")


def test_a_sentence_keeps_its_other_words(busy: User) -> None:
    erase("--account", NAME)
    busy.refresh_from_db()
    blocked = (
        f"change: change {Change.objects.get().pk} waits for an approver other than {busy.username}; have it approved"
    )
    assert Change.objects.get().problem.startswith(blocked)
    assert AuditEvent.objects.get(kind="change_blocked").detail["problem"].startswith(blocked)
    alert = AlertState.objects.get(name="emergency")
    assert alert.text.startswith(f"{busy.username} declared emergency")
    texts = [event["text"] for row in AlertDelivery.objects.order_by("pk") for event in row.body["events"]]
    assert f"a test by {busy.username}" in texts


def test_a_name_within_another_name_stays(busy: User) -> None:
    person("zelda", "viewer")
    person("quux", "viewer")
    said = erase("--account", "zelda"), erase("--account", "quux")
    assert not any("auditevent" in line or "alert" in line for line in said)
    assert NAME in database()


def test_the_audit_of_a_freeze_tells_its_accounts_by_their_numbers(busy: User) -> None:
    ann = User.objects.get(username="ann")
    event = AuditEvent.objects.filter(kind="freeze_set").earliest("pk")
    assert (event.detail["roles"], event.detail["members"]) == (["owner"], sorted([ann.pk, busy.pk]))
    assert Freeze.objects.get(pk=event.detail["freeze"]).members == event.detail["members"]


def test_tokens_of_the_person_that_still_work_are_named(busy: User) -> None:
    token = ApiToken.objects.get(label="a pipeline")
    assert f"Tokens that they issued still work; revoke those that no service needs: {token.key_id}" in erase(
        "--account", NAME
    )


def test_the_audit_is_append_only_as_before(busy: User) -> None:
    erase("--account", NAME)
    for statement in (
        "UPDATE quotas_auditevent SET kind = 'x'",
        "DELETE FROM quotas_revision",
        "UPDATE tenants_accountevent SET username = 'x'",
    ):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_trigger WHERE tgenabled = 'D'")
        assert cursor.fetchone() == (0,)


def test_a_dry_run_lists_what_is_held_and_changes_nothing(busy: User) -> None:
    before = database()
    said = erase("--account", NAME, "--dry-run")
    assert "revision: author (quotas_revision.author)" in said
    assert "1  sessions" in said
    assert database() == before


def test_refusals_change_nothing(busy: User) -> None:
    before = database()
    for words, sentence in (
        (("--account", "nobody"), "there is no account nobody"),
        (("--account", ""), "there is no account"),
        (("--account", "ann"), "nobody erases their own account"),
        (("--account", NAME, "--tenant", "acme"), "--tenant goes with --subject only"),
        (("--subject", ""), "a subject has 1 to"),
        (("--subject", "x", "--tenant", "nobody"), "there is no tenant nobody"),
    ):
        with pytest.raises(CommandError, match=sentence):
            erase(*words)
    with pytest.raises(CommandError, match="is the only owner"):
        call_command("erase", "--account", "ann", "--author", "bob")
    assert database() == before


def test_every_column_that_names_a_person_is_known() -> None:
    """Such columns have the length of an account's name. A new one fails here until it is among them."""
    fields = [field for model in apps.get_models() if model._meta.app_label in ("quotas", "tenants", "api")
              for field in model._meta.get_fields()]  # fmt: skip
    named = {field.name for field in fields if isinstance(field, models.CharField) and field.max_length == 150}
    assert named - {"first_name", "last_name"} <= set(NAMES)
