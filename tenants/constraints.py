"""Constraints that several tables share."""

from __future__ import annotations

from collections.abc import Collection

from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.lookups import Exact


def named(pattern: str, name: str, field: str = "name") -> models.CheckConstraint:
    """The whole text must match."""
    return models.CheckConstraint(condition=Q(**{f"{field}__regex": f"^({pattern})$"}), name=name)


def one_of(field: str, values: Collection[str], name: str) -> models.CheckConstraint:
    return models.CheckConstraint(condition=Q(**{f"{field}__in": tuple(values)}), name=name)


def json_is(field: str, kind: str, name: str) -> models.CheckConstraint:
    """`kind` is `object` or `array`. NULL passes the check, so the column's own `null` decides about it."""
    typeof = Func(F(field), function="jsonb_typeof", output_field=models.CharField())
    return models.CheckConstraint(condition=Exact(typeof, Value(kind)), name=name)
