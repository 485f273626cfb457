"""Nothing that something else stands on can be deleted, by Django or by SQL."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, models, transaction
from django.db.models import ProtectedError
from django.db.utils import DatabaseError

from quotas.models import Limit, Override, Policy, Revision
from tenants.models import Tenant
from tests.quotas.models.rows import make_rows

pytestmark = pytest.mark.django_db

REFERRED_TO = ["tier", "tenant", "endpoint", "policy", "limitname"]


def counts() -> list[int]:
    return [model.objects.count() for model in (Tenant, Policy, Limit, Override)]


def sql_delete(row: models.Model) -> None:
    meta = row._meta
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f'DELETE FROM {meta.db_table} WHERE "{meta.pk.column}" = %s', [row.pk])  # noqa: S608
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.mark.parametrize("name", REFERRED_TO)
def test_django_refuses_to_delete_it(name: str) -> None:
    with pytest.raises(ProtectedError):
        make_rows()[name].delete()


@pytest.mark.parametrize("name", REFERRED_TO)
def test_sql_cannot_delete_it(name: str) -> None:
    row = make_rows()[name]
    before = counts()
    with pytest.raises(IntegrityError):
        sql_delete(row)
    assert counts() == before


class TestARevision:
    def test_it_is_stamped_once(self) -> None:
        make_rows()
        revision = Revision.objects.get()
        revision.published_us = 5
        revision.save()
        revision.published_us = 6
        with pytest.raises(DatabaseError, match="cannot be changed"), transaction.atomic():
            revision.save()

    @pytest.mark.parametrize("change", ["reason = 'another'", "number = 7", "after = '[]'", "created = now()"])
    def test_nothing_else_of_it_changes(self, change: str) -> None:
        make_rows()
        with pytest.raises(DatabaseError, match="cannot be changed"), transaction.atomic():
            connection.cursor().execute(f"UPDATE quotas_revision SET {change}, published_us = 9")  # noqa: S608

    def test_it_stays(self) -> None:
        make_rows()
        with pytest.raises(DatabaseError, match="cannot be changed or deleted"), transaction.atomic():
            connection.cursor().execute("DELETE FROM quotas_revision")
        assert Revision.objects.count() == 1
