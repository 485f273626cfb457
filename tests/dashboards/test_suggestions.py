"""Every page that suggests a value for a limit suggests the same one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboards.pages.endpoint.limit_line import Holding, suggested_line
from quotas.matrix.queries import matrix_read
from quotas.models import LimitNeed, Recommendation
from quotas.models.recommendation import Kind
from quotas.overrides import override_create
from quotas.policies.limit_codec import algorithm_load
from quotas.quota_requests import quota_request_create
from quotas.recommendations.suggestion import suggestion_for_tenant, suggestion_for_tier
from tests.access.people import signed_in
from tests.quotas.recorded import make_giant, make_held_too_low
from tests.quotas.world import GET, SAID, limit_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def giant(db: None) -> Recommendation:
    make_giant()
    return Recommendation.objects.get()


@pytest.fixture
def tier(db: None) -> Recommendation:
    make_held_too_low(6)
    return Recommendation.objects.get()


def page(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


def value_of(text: str, name: str) -> str:
    (tag,) = re.findall(rf'<input[^>]* name="{name}"[^>]*>', text)
    (value,) = re.findall(r'value="([^"]*)"', tag)
    return str(value)


def test_the_override_dialog_the_request_and_the_portal_suggest_what_is_recommended(giant: Recommendation) -> None:
    assert (giant.kind, giant.proposed is not None) == (Kind.OVERRIDE, True)
    proposed = algorithm_load(giant.proposed or {}).describe()
    place = f"{GET}%7Csteady"
    owner = signed_in("olga", "owner")
    dialog = page(owner, f"/tenants/giant/override?place={place}")
    assert (float(value_of(dialog, "main")), int(value_of(dialog, "size"))) == (proposed["rate"], proposed["burst"])
    assert "The measured need of giant is" in dialog
    portal = page(owner, f"/portal?tenant=giant&endpoint={GET}&limit=steady")
    assert value_of(portal, "wanted") == str(proposed["rate"])
    quota_request_create(tenant="giant", scope=GET, limit="steady", wanted=99, author="g", reason="we grow")
    words = f"Suggested: <b>{proposed['rate']}/min burst {proposed['burst']}</b>"
    assert words in page(owner, "/tenants/giant")


def test_before_any_calibration_the_peak_of_the_last_day_is_covered_everywhere(db: None) -> None:
    held = algorithm_load({"algorithm": "token_bucket", "parameters": {"rate": 6, "per": "10s", "burst": 10}})
    whose: dict[str, Any] = {"tenant": "giant", "tier": "pro", "scope": GET, "limit": "steady", "held": held}
    calm = suggestion_for_tenant(**whose, peak=0.9)
    assert calm is not None
    assert (calm.algorithm.describe()["rate"], calm.needed) == (9, None)
    assert calm.why == "The need of giant was not measured here; this is half as much again"
    busy = suggestion_for_tenant(**whose, peak=2.72)
    assert busy is not None
    assert 6 * 2.72 <= busy.algorithm.describe()["rate"] <= 6 * 2.72 * 1.2
    assert busy.needed == busy.algorithm
    assert "asked for 272 % of its limit at the peak of the last 24 h; this covers that" in busy.why


def test_the_endpoint_page_suggests_what_is_recommended_for_the_tier(tier: Recommendation) -> None:
    row = limit_of("pro-get", "steady")
    held = algorithm_load({"algorithm": row.algorithm, "parameters": row.parameters})
    found = suggestion_for_tier(tier="pro", scope=GET, limit="steady", held=held)
    assert found is not None
    assert found.algorithm == algorithm_load(tier.proposed or {})
    cell = matrix_read(timezone.now()).cell("pro", GET)
    assert cell is not None
    holding = Holding(cell.limits[0].limit, 0.2, 15, is_own=True)
    line = suggested_line("pro", cell, holding, 1)
    assert line is not None
    assert (line.suggestion.algorithm, line.rate, line.burst) == (found.algorithm, 24 / 60, 15)
    assert line.is_at(0.4)


def test_where_nothing_was_measured_the_suggestion_says_so(giant: Recommendation) -> None:
    LimitNeed.objects.all().delete()
    dialog = page(signed_in("olga", "owner"), f"/tenants/giant/override?place={GET}%7Csteady")
    assert value_of(dialog, "main") == "18"
    assert "was not measured here; this is half as much again" in dialog


def test_a_tenant_that_has_enough_by_an_override_is_told_so(giant: Recommendation) -> None:
    override_create(tenant="giant", endpoint=GET, limits={"steady": {"rate": 600, "burst": 600}}, **SAID)
    dialog = page(signed_in("olga", "owner"), f"/tenants/giant/override?place={GET}%7Csteady")
    assert "The measured need of giant is met" in dialog


def test_a_bounded_step_names_the_whole_need(giant: Recommendation) -> None:
    held = algorithm_load(giant.current)
    found = suggestion_for_tenant(tenant="giant", tier="pro", scope=GET, limit="steady", held=held)
    assert found is not None
    assert found.needed is not None
    assert "one step is at most 2 times what it has" in found.why
    assert found.needed == algorithm_load(giant.evidence["needed"])
