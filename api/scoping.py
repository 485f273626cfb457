"""Which rows a request may see; the only way from a view to rows of tenants."""

from __future__ import annotations

from typing import TypeVar

from django.db.models import Model, QuerySet
from rest_framework.request import Request

from api.auth import principal_of
from tenants import access
from tenants.models import Tenant

Row = TypeVar("Row", bound=Model)


def tenants_of(request: Request) -> QuerySet[Tenant]:
    return access.tenants_of(principal_of(request))


def narrowed(request: Request, rows: QuerySet[Row], tenant: str) -> QuerySet[Row]:
    """`tenant`: the path from a row to its tenant."""
    return access.scoped(principal_of(request), rows, tenant)
