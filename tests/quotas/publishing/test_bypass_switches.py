"""The switch for emergencies: without Postgres, with a reason and an end, and it outlives every publish."""

from __future__ import annotations

from io import StringIO
from typing import NoReturn

import pytest
import redis
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from headroom_edge import keys
from quotas.publishing import store
from quotas.publishing.bypass_switches import BypassSwitch, switch_on, switches_read
from tests.quotas.policies.worlds import limit, tier_policy, world
from tests.quotas.publishing.images import publish
from tests.quotas.publishing.worlds import ENDPOINT


@pytest.fixture(autouse=True)
def published(client: redis.Redis) -> None:
    """acme and bob may make one request an hour."""
    publish(client, world(tier_policy("*", limit("burst", rate=1, per="1h", burst=1))))


@pytest.fixture(autouse=True)
def no_postgres(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> NoReturn:
        raise OperationalError("connection refused")

    monkeypatch.setattr(connection, "cursor", away)
    # Also where no test before this one has left a connection open.
    monkeypatch.setattr(connection, "ensure_connection", away)


def bypass(*arguments: str) -> list[str]:
    output = StringIO()
    call_command("bypass", *arguments, stdout=output)
    return output.getvalue().splitlines()


def allowed(client: redis.Redis, tenant: str = "acme", endpoint: str = ENDPOINT) -> str:
    """The reason of the second request: the first one used up the limit."""
    for _ in range(2):
        reply = client.fcall("hr_check", 1, keys.tenant_prefix(tenant), tenant, endpoint, "1")
    return str(reply[1])


@pytest.mark.parametrize("scope", [["--all"], ["--tenant", "acme"], ["--endpoint", ENDPOINT], ["--limit", "burst"]])
def test_bypassed_limit_lets_everything_through(client: redis.Redis, scope: list[str]) -> None:
    assert allowed(client) == "limit"
    bypass(*scope, "--reason", "outage", "--for", "30m")
    assert allowed(client) == "bypass"


def test_bypass_of_one_tenant_spares_the_others(client: redis.Redis) -> None:
    bypass("--tenant", "acme", "--reason", "outage", "--for", "30m")
    assert (allowed(client, "acme"), allowed(client, "bob")) == ("bypass", "limit")


def test_bypass_is_listed_and_ended(client: redis.Redis) -> None:
    bypass("--tenant", "acme", "--reason", "outage", "--for", "30m")
    bypass("--limit", "burst", "--reason", "too tight", "--for", "1h")
    assert [line.partition(",")[0] for line in bypass("--list")] == ["limit burst", "tenant acme"]
    assert bypass("--off", "--limit", "burst")[0].startswith("ended: limit burst")
    assert [line.partition(",")[0] for line in bypass("--list")] == ["tenant acme"]
    assert len(bypass("--off")) == 1
    assert bypass("--list") == ["Nothing is bypassed."]
    assert allowed(client) == "limit"


def test_bypass_ends_by_itself(client: redis.Redis) -> None:
    past = BypassSwitch("all", "", store.now_us(client) - 1, "over")
    switch_on(client, settings.HEADROOM_SHARDS, past)
    assert allowed(client) == "limit"
    assert switches_read(client, settings.HEADROOM_SHARDS) == []


def test_new_switch_about_the_same_replaces_the_old_one(client: redis.Redis) -> None:
    bypass("--all", "--reason", "outage", "--for", "30m")
    bypass("--all", "--reason", "still", "--for", "1h")
    (line,) = bypass("--list")
    assert line.endswith("still")


def test_bypass_outlives_a_publish(client: redis.Redis) -> None:
    bypass("--all", "--reason", "outage", "--for", "30m")
    publish(client, world(tier_policy("*", limit("burst", rate=1, per="1h", burst=2)), revision=2))
    assert [allowed(client) for _ in range(2)][-1] == "bypass"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--reason", "outage", "--for", "30m"], "Choose what to bypass"),
        (["--all", "--for", "30m"], "--reason"),
        (["--all", "--reason", " ", "--for", "30m"], "--reason"),
        (["--all", "--reason", "outage"], "--for"),
        (["--all", "--reason", "outage", "--for", "soon"], "'soon' is not a duration"),
    ],
)
def test_incomplete_order_is_refused(client: redis.Redis, arguments: list[str], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        bypass(*arguments)
    assert bypass("--list") == ["Nothing is bypassed."]
