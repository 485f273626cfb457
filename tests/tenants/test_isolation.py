"""Row-level security: under a tenant's name the application's own role sees and writes that tenant's rows only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.apps import apps
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, connections, models, transaction
from pghistory.runtime import _inject_history_context

from config.data_folders import APPLICATION
from quotas.api_keys import api_key_issue
from quotas.models import Limit, Override, Policy, Revision
from quotas.models.usage import UsageMinute
from quotas.models.usage_rates import PARTITIONED
from quotas.observations.cells import Cell, Cells, CellSeries
from quotas.overrides import override_create
from quotas.policies.edit import policy_create
from quotas.usage.partitions import partition_of
from quotas.usage.rollups import add_cells
from tenants.history import acting
from tenants.isolation import astream, narrowed, stream, unrestricted
from tenants.models import ApiKey, ApiToken, Membership, Tenant
from tests.access.people import person, token
from tests.database import kept
from tests.quotas.world import SAID, bucket, make_world

NOW = datetime(2031, 3, 5, 14, 30, tzinfo=UTC)
# Measured of all tenants together, or of no tenant at all.
NO_TENANTS_ROWS = {
    "Tier", "Endpoint", "EndpointTarget", "LimitName", "Heartbeat", "DrainBatch", "DrainState", "FoldState",
    "GapRecord", "JobSlot", "Delivery", "Context", "Session", "LogEntry", "ContentType", "Permission", "Group",
}  # fmt: skip


@pytest.fixture
def acme(db: None) -> Tenant:
    """acme and bolt have one of everything."""
    make_everything()
    start = int(NOW.timestamp()) // 60 * 60
    with transaction.atomic():
        numbers = Tenant.objects.values_list("number", flat=True)
        add_cells(Cells.of([Cell(start, CellSeries(number, 1, "a", 0), 1, 1) for number in numbers]), NOW)
    return Tenant.objects.get(name="acme")


@kept
def make_everything() -> None:
    make_world()
    for name in ("acme", "bolt"):
        api_key_issue(tenant=name, **SAID)
        token("tenant", "read", tenant=name)
        person(f"user-of-{name}", "tenant", name)
        policy_create(name=f"{name}-own", tenant=name, limits=[bucket(500)], **SAID)
        override_create(tenant=name, multiplier=(2, 1), **SAID)
    person("alice", "owner")


def sql(statement: str, *values: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found: list[Any] = cursor.fetchall()
        return found


def names(rows: models.QuerySet[Any], path: str = "tenant__name") -> set[str]:
    return set(rows.values_list(path, flat=True))


def _has_table(model: type[models.Model]) -> bool:
    return model._meta.managed and not model._meta.proxy


def test_the_application_owns_nothing_and_bypasses_nothing(db: None) -> None:
    assert sql("SELECT session_user, current_user") == [(APPLICATION, APPLICATION)]
    assert sql(
        "SELECT rolsuper, rolbypassrls, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = current_user"
    ) == [(False, False, False, False)]
    assert sql("SELECT count(*) FROM pg_class WHERE pg_get_userbyid(relowner) = current_user") == [(0,)]


def test_every_table_of_tenants_has_a_policy(db: None) -> None:
    """A new table fails here until it has one, or is said to have no tenant's rows."""
    tables = {model._meta.db_table: model.__name__ for model in apps.get_models() if _has_table(model)}
    policed = {name for (name,) in sql("SELECT tablename FROM pg_policies")}
    assert {name for table, name in tables.items() if table not in policed} - NO_TENANTS_ROWS == set()


def test_one_tenant_is_all_there_is(acme: Tenant) -> None:
    with narrowed(acme.number):
        assert names(Tenant.objects.all(), "name") == {"acme"}
        for model in (ApiKey, ApiToken, Membership, Override):
            assert names(model._default_manager.all()) == {"acme"}
        assert names(Policy.objects.exclude(tenant=None)) == {"acme"}
        assert names(Policy.objects.filter(tenant=None), "name") == {"free-all", "pro-all"}
        assert names(Limit.objects.all(), "policy__name") == {"free-all", "pro-all", "acme-own"}
        assert names(User.objects.all(), "username") == {"user-of-acme"}
        assert set(UsageMinute.objects.values_list("tenant_number", flat=True)) == {acme.number}
    assert names(Tenant.objects.all(), "name") == {"acme", "bolt"}


@pytest.mark.parametrize(
    "table",
    ["quotas_revision", "quotas_outbox", "quotas_auditevent", "api_storedanswer", "tenants_tenantevent"],
)
def test_what_is_nobodys_is_not_there(acme: Tenant, table: str) -> None:
    with narrowed(acme.number):
        assert sql(f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608 - one of those above


@pytest.mark.parametrize("setting", ["", "nonsense", "0", "-1"])
def test_any_other_setting_shows_nothing(acme: Tenant, setting: str) -> None:
    try:
        with transaction.atomic():
            sql("SELECT set_config('headroom.tenant', %s, true)", setting)
            for table in ("tenants_tenant", "quotas_override", "quotas_usage_1m", "quotas_revision"):
                assert sql(f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608
    except DatabaseError:
        assert setting == "nonsense"
    sql("SELECT set_config('headroom.tenant', '*', true)")


def test_rows_of_others_cannot_be_written(acme: Tenant) -> None:
    bolt = Tenant.objects.get(name="bolt")
    with narrowed(acme.number):
        assert Tenant.objects.filter(pk=bolt.pk).update(label="taken over") == 0
        assert ApiKey.objects.filter(tenant_id=bolt.pk).delete()[0] == 0
        with pytest.raises(DatabaseError, match="row-level security"), transaction.atomic():
            sql(
                "INSERT INTO tenants_apikey (tenant_id, key_id, secret_hash, label, scopes) "
                "VALUES (%s, 'aaaaaaaaaaaaaaaa', repeat('0', 64), '', '{check}') RETURNING 1",
                bolt.pk,
            )


@pytest.mark.parametrize("model", PARTITIONED, ids=lambda model: model.__name__)
def test_a_slice_is_seen_through_its_table_only(acme: Tenant, model: Any) -> None:
    name = partition_of(model, NOW).name
    if sql("SELECT to_regclass(%s) IS NULL", name) == [(True,)]:
        partition = partition_of(model, NOW)
        sql(
            "SELECT headroom_slice_make(%s, %s, %s, %s, 70)",
            *(model._meta.db_table, name, partition.start, partition.end),
        )
    with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
        sql(f"SELECT * FROM {name}")  # noqa: S608


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (n int)",
        "ALTER TABLE tenants_tenant DISABLE ROW LEVEL SECURITY",
        "DROP POLICY headroom_tenant ON tenants_tenant",
        "ALTER TABLE tenants_tenant DISABLE TRIGGER ALL",
        "SET session_replication_role = replica",
        "SET ROLE headroom",
        "DELETE FROM django_migrations",
        "SELECT headroom_slice_drop('tenants_tenant', 'tenants_tenant')",
        "SELECT headroom_slice_drop('quotas_packed_1m', 'tenants_tenant')",
        "SELECT headroom_slice_make('quotas_packed_1m', 'x; DROP TABLE y', now(), now(), 70)",
    ],
)
def test_the_application_can_do_no_more_than_it_needs(db: None, statement: str) -> None:
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_refused_statement_or_an_error_gives_the_rest_back(acme: Tenant) -> None:
    with pytest.raises(ZeroDivisionError), narrowed(acme.number):
        raise ZeroDivisionError
    with pytest.raises(DatabaseError), narrowed(acme.number):
        sql("SELECT 1 / 0")
    assert Tenant.objects.count() == 2


def test_more_is_seen_where_that_is_said_and_no_longer(acme: Tenant) -> None:
    with narrowed(acme.number):
        with unrestricted():
            assert Tenant.objects.count() == 2
        assert Tenant.objects.count() == 1
        with pytest.raises(ZeroDivisionError), unrestricted():
            raise ZeroDivisionError
        assert Tenant.objects.count() == 1
        assert Revision.objects.count() == 0


def test_an_inner_rollback_does_not_widen(acme: Tenant) -> None:
    with narrowed(acme.number):
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            raise ZeroDivisionError
        assert Tenant.objects.count() == 1


def test_a_connection_of_ones_own_is_refused(acme: Tenant) -> None:
    with narrowed(acme.number), pytest.raises(RuntimeError, match="must use Django's connection"):
        connection.copy().cursor().execute("SELECT 1")


def tenants_one_by_one() -> Iterator[str]:
    yield "first"
    for tenant in Tenant.objects.order_by("name"):
        yield tenant.name


def test_a_stream_is_narrow_to_its_end(acme: Tenant) -> None:
    assert list(stream(acme.number, tenants_one_by_one())) == ["first", "acme"]
    assert Tenant.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_stream_on_an_event_loop_is_narrow_too(acme: Tenant) -> None:
    async def bits() -> AsyncIterator[list[str]]:
        for _ in range(2):
            yield await sync_to_async(lambda: list(Tenant.objects.values_list("name", flat=True)))()

    async def collect() -> list[list[str]]:
        found = [bit async for bit in astream(acme.number, bits())]
        await sync_to_async(connections.close_all)()
        return found

    assert asyncio.run(collect()) == [["acme"], ["acme"]]


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_was_made_anew_in_the_middle_of_an_edit_stays_narrowed() -> None:
    """Whoever waits for its turn gives its connection back; what notes the author must not take the guard away."""
    usual = list(connection.execute_wrappers)
    with acting(author="ann"):
        connection.close()
        connection.execute_wrappers.clear()  # as for a thread that connects for the first time
        connection.execute_wrappers.append(_inject_history_context)
        assert Tenant.objects.count() == 0
    assert connection.execute_wrappers == usual
    assert Tenant.objects.count() == 0
