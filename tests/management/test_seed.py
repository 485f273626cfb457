"""`manage.py seed`: an empty installation gets something to look at, a used one is left alone."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from quotas.algorithms import ALGORITHMS
from quotas.models import Limit, Revision
from quotas.selectors.explanation import explain
from tenants.models import Tenant

pytestmark = pytest.mark.django_db


def seed() -> str:
    out = StringIO()
    call_command("seed", stdout=out)
    return out.getvalue()


def test_it_uses_every_algorithm() -> None:
    assert "seeded" in seed()
    assert set(Limit.objects.values_list("algorithm", flat=True)) == set(ALGORITHMS)


def test_it_has_a_policy_of_a_tenant_an_override_and_a_suspension() -> None:
    seed()
    burst = {e.effective.limit.name: e for e in explain(tenant="harbor-taxi", endpoint="rides:get").limits}["burst"]
    assert burst.effective.source == "tenant harbor-taxi × *"
    assert [lost.source for lost in burst.lost] == ["tier pro × *"]
    assert explain(tenant="fleetly", endpoint="rides:get").limits[0].overrides
    assert explain(tenant="early-bird", endpoint="rides:get").is_suspended


def test_twice_is_once() -> None:
    seed()
    revisions, tenants = Revision.objects.count(), Tenant.objects.count()
    assert "nothing was seeded" in seed()
    assert (Revision.objects.count(), Tenant.objects.count()) == (revisions, tenants)


def test_where_four_eyes_are_wanted_it_waits_for_nobody(settings: Any) -> None:
    settings.HEADROOM_FOUR_EYES = True
    assert "seeded" in seed()
