from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from quotas.models import Override
from quotas.overrides import STATES, override_cancel, override_create, override_state, overrides_in
from tests.quotas.world import FORCED

pytestmark = pytest.mark.usefixtures("world")


def test_each_is_upcoming_then_active_then_ended_to_the_microsecond() -> None:
    start, tick = timezone.now() + timedelta(hours=1), timedelta(microseconds=1)
    end = start + timedelta(hours=1)
    row = override_create(tenant="acme", multiplier=(2, 1), start=start, end=end, **FORCED)
    moments = {start - tick: "upcoming", start: "active", end - tick: "active", end: "ended"}
    assert {moment: override_state(row, moment) for moment in moments} == moments
    for moment, state in moments.items():
        found = {one for one in STATES if Override.objects.filter(overrides_in(one, moment)).exists()}
        assert found == {state}


def test_one_that_is_cancelled_has_ended() -> None:
    row = override_create(tenant="acme", multiplier=(2, 1), **FORCED)
    assert override_state(row, timezone.now()) == "active"
    override_cancel(override=row.pk, **FORCED)
    row.refresh_from_db()
    assert override_state(row, timezone.now()) == "ended"
