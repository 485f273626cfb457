"""What every model must have: a new one fails here until it does."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import models
from pghistory.models import Event

from quotas.models import Heartbeat
from tenants.admin import ReadOnlyAdmin
from tests.quotas.models.rows import make_rows

# Histories refer to what may be gone; they are written by triggers alone, and proven in tests/access.
OURS = [
    model
    for model in apps.get_models()
    if model._meta.app_label in ("tenants", "quotas") and not issubclass(model, Event) and not model._meta.proxy
]
# Measured or passing, not configured: nothing of it is enforced, and it is not in the admin.
OBSERVATIONS = {
    "CalendarCounter",
    "UsageStep", "UsageMinute", "FreshStep", "FreshMinute", "PackedStep", "PackedMinute", "UsageHour", "UsageDay",
    "Denial", "Arrival", "DrainBatch", "DrainState", "GapRecord",
    "UsageLog", "FoldState", "PackedSeconds", "RatesHour", "RatesDay", "LatencyHour", "JobSlot", "Delivery",
    "TierUse", "Tally", "TotalStep", "TotalMinute", "TotalHour", "TotalDay", "TenantHour", "TenantDay",
    "AlertState", "AlertDelivery", "KeyVersion", "TaskSlice", "KeyUse",
    "AdaptiveReading", "EndpointTarget", "LimitNeed", "TenantSummary", "TenantSearch", "TenantSummaryRun",
}  # fmt: skip
CONFIGURED = [model for model in OURS if model.__name__ not in OBSERVATIONS and model is not Heartbeat]


def name_of(model: type[models.Model]) -> str:
    return model.__name__


@pytest.mark.parametrize("model", OURS, ids=name_of)
def test_every_reference_protects(model: type[models.Model]) -> None:
    """No cascade can silently drop a tenant's limits."""
    references = [field for field in model._meta.get_fields() if isinstance(field, models.ForeignKey)]
    assert [field.name for field in references if field.remote_field.on_delete is not models.PROTECT] == []


@pytest.mark.parametrize("model", CONFIGURED, ids=name_of)
def test_the_admin_only_shows_it(model: type[models.Model]) -> None:
    assert isinstance(admin.site.get_model_admin(model), ReadOnlyAdmin)


@pytest.mark.django_db
@pytest.mark.parametrize("model", CONFIGURED, ids=name_of)
def test_it_has_a_row_in_the_tests_and_a_text(model: type[models.Model]) -> None:
    assert str(make_rows()[model.__name__.lower()])
