"""Settings: what runs and how fresh it is, and the recommender's parameters."""

from __future__ import annotations

import re

import pytest
import redis
from django.conf import settings
from django.test import Client

from quotas.models import CalibrationSetting
from quotas.models.health import beat
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.services.calibration_settings import calibration_parameters
from tests.access.people import signed_in
from tests.services.world import make_world


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in("olga", "operator")


def text_of(client: Client) -> str:
    response = client.get("/settings")
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


def test_it_says_what_is_behind(client: Client, valkey: redis.Redis) -> None:
    beat("worker")
    text = text_of(client)
    assert "behind: publisher, scheduler, drain" in text
    assert "0 of 64" in text


def test_it_shows_the_shards_and_the_library(client: Client, valkey: redis.Redis) -> None:
    make_world()
    server = store.connect(settings.REDIS_URL)
    store.prepare(server)
    Publisher(server, settings.HEADROOM_SHARDS).publish()
    text = text_of(client)
    assert "64 of 64" in text
    assert "as in this release" in text
    assert "<dt>Tenants in them</dt><dd>2</dd>" in text


def test_a_parameter_is_changed_and_put_back(operator: Client) -> None:
    assert operator.post("/settings/recommender", {"margin": "1.3", "reason": "more room"}).status_code == 302
    assert calibration_parameters().margin == pytest.approx(1.3)
    assert "changed</span>" in text_of(operator)
    operator.post("/settings/recommender", {"margin": "", "reason": "back"})
    assert not CalibrationSetting.objects.exists()


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"margin": "much", "reason": "x"}, "margin must be a number"),
        ({"margin": "0.5", "reason": "x"}, "at least 1"),
        ({"margin": "1.3", "reason": ""}, "Say why"),
        ({"least_tenants": "2.5", "reason": "x"}, "whole number"),
    ],
)
def test_what_is_wrong_is_said_and_what_was_typed_stays(operator: Client, typed: dict[str, str], said: str) -> None:
    response = operator.post("/settings/recommender", typed)
    text = response.content.decode()
    assert response.status_code == 422
    assert said in text
    assert all(f'value="{value}"' in text for value in typed.values() if value)
    assert not CalibrationSetting.objects.exists()


def test_a_viewer_changes_nothing(client: Client) -> None:
    assert client.post("/settings/recommender", {"margin": "9", "reason": "x"}).status_code == 403
