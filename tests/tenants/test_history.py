"""Everything enforced has a history that the database itself writes, whoever changes it and however."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, models, transaction
from pghistory.models import Event

from quotas.api_keys import api_key_issue
from quotas.models import AuditEvent, Limit
from quotas.policies.edit import policy_update
from quotas.tenants import tenant_suspend
from tenants.history import acting
from tenants.models import ApiKey, Tenant
from tests.access.people import machine, person, signed_in, token
from tests.quotas.models.rows import make_rows
from tests.quotas.world import SAID, bucket, make_world

pytestmark = pytest.mark.django_db

EVENTS = [model for model in apps.get_models() if issubclass(model, Event) and model._meta.managed]
# Not enforced, or written once and protected by a trigger of its own.
WITHOUT_HISTORY = {
    "Revision", "Outbox", "AuditEvent", "Heartbeat", "Task", "TaskSlice", "KeyVersion",
    "LimitNeed", "SavedView", "TenantSummaryRun", "ChartNote",
}  # fmt: skip


def events(name: str) -> list[Any]:
    app = "tenants" if name in ("Tier", "Tenant", "ApiKey", "ApiToken", "Membership", "Account") else "quotas"
    model: Any = apps.get_model(app, f"{name}Event")
    return list(model.objects.order_by("pgh_id"))


def test_every_table_that_is_enforced_has_a_history() -> None:
    tracked = {getattr(model, "pgh_tracked_model", None) for model in EVENTS}
    rows = make_rows().values()
    enforced = {type(row) for row in rows if type(row).__name__ not in WITHOUT_HISTORY}
    measured = {model for model in enforced if model.__module__ == "quotas.models.usage"}
    assert {model.__name__ for model in enforced - tracked - measured} == {"User"}
    assert "Account" in {model.__name__ for model in tracked if model is not None}


def test_plain_sql_and_bulk_writes_are_recorded() -> None:
    make_world()
    Tenant.objects.filter(name="acme").update(label="by the ORM, in bulk")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE tenants_tenant SET label = 'by hand' WHERE name = 'acme'")
    Limit.objects.bulk_update([Limit(pk=limit.pk, mode="shadow") for limit in Limit.objects.all()], ["mode"])
    labels = [(event.pgh_label, event.label) for event in events("Tenant") if event.name == "acme"]
    assert labels == [("insert", ""), ("update", "by the ORM, in bulk"), ("update", "by hand")]
    assert [event.pgh_label for event in events("Limit")].count("update") == Limit.objects.count()


def test_a_row_that_is_gone_has_a_history_still() -> None:
    make_world()
    key = api_key_issue(tenant="acme", **SAID).row
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM tenants_apikey")
    assert [event.pgh_label for event in events("ApiKey")] == ["insert", "delete"]
    assert events("ApiKey")[-1].key_id == key.key_id


def test_a_write_that_changes_nothing_is_no_event() -> None:
    make_world()
    before = len(events("Tenant"))
    Tenant.objects.update(label="")
    assert len(events("Tenant")) == before


def test_it_says_who_wrote_through_a_service_and_what_they_did() -> None:
    make_world()
    policy_update(name="free-all", limits=[bucket(11)], author="alice", reason="they grew")
    assert events("Limit")[-1].pgh_context == {"author": "alice", "action": "policy_update"}


def test_it_says_who_sent_which_request() -> None:
    make_world()
    client = signed_in("alice", "operator")
    response = client.patch(
        "/v1/tenants/acme",
        {"label": "Acme", "reason": "their name"},
        content_type="application/json",
        headers={"x-request-id": "deploy-4711", "if-match": "*"},
    )
    assert response.status_code == 200, response.content
    assert response.headers["X-Request-ID"] == "deploy-4711"
    context = events("Tenant")[-1].pgh_context
    assert context == {"actor": "alice", "request": "deploy-4711", "author": "alice", "action": "tenant_update"}


def test_a_machine_is_named_by_its_token() -> None:
    make_world()
    text = token("operator", "write")
    response = machine(text).post(
        "/v1/tenants/acme/suspend", {"reason": "unpaid"}, content_type="application/json", headers={"if-match": "*"}
    )
    assert response.status_code == 200, response.content
    assert events("Tenant")[-1].pgh_context["actor"] == f"token {text.split('_')[1]} (a test)"


@pytest.mark.parametrize("sent", ["", "short", "x" * 129, "with space in it", "ünïcödë-id"])
def test_an_unfit_request_id_is_replaced(sent: str) -> None:
    response = signed_in("alice", "viewer").get("/", headers={"x-request-id": sent})
    assert len(response.headers["X-Request-ID"]) == 36


def test_rights_of_accounts_are_recorded_without_the_password() -> None:
    alice = person("alice", "viewer")
    alice.set_password("a long enough secret")
    alice.save()
    User.objects.filter(pk=alice.pk).update(is_superuser=True)
    assert [(event.pgh_label, event.is_superuser) for event in events("Account")] == [
        ("insert", False),
        ("update", True),
    ]
    fields = {field.name for field in apps.get_model("tenants", "AccountEvent")._meta.get_fields()}
    assert not fields & {"password", "last_login"}
    assert [event.role for event in events("Membership")] == ["viewer"]


@pytest.mark.parametrize("model", [*EVENTS, AuditEvent], ids=lambda model: model.__name__)
@pytest.mark.parametrize("statement", ["UPDATE {table} SET {column} = {column}", "DELETE FROM {table}"])
def test_what_is_recorded_cannot_be_changed(model: type[models.Model], statement: str) -> None:
    rows = make_rows()
    User.objects.filter(pk=rows["user"].pk).update(is_staff=True)
    table, column = model._meta.db_table, model._meta.pk.column
    before = model._default_manager.count()
    assert before
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format(table=table, column=column))
    with pytest.raises(DatabaseError), transaction.atomic():
        model._default_manager.all().delete()
    assert model._default_manager.count() == before


def test_no_history_keeps_a_hash_of_a_secret() -> None:
    for name in ("ApiKeyEvent", "ApiTokenEvent"):
        fields = {field.name for field in apps.get_model("tenants", name)._meta.get_fields()}
        assert "secret_hash" not in fields


def test_nested_blocks_add_up() -> None:
    make_world()
    with acting(actor="alice"):
        tenant_suspend(name="acme", author="bob", reason="unpaid")
    assert events("Tenant")[-1].pgh_context == {"actor": "alice", "author": "bob", "action": "tenant_suspend"}
    assert not ApiKey.objects.exists()
