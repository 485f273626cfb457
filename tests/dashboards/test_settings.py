"""Settings: what runs and how fresh it is, and the recommender's parameters."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import Client
from django.utils import timezone

from headroom_edge import keys
from quotas.alerts.rules import RULES
from quotas.alerts.settings import alert_rules
from quotas.models import AlertDelivery, AlertTarget, CalibrationSetting
from quotas.models.usage import BEGINNING, GapRecord
from quotas.models.usage_rates import FoldName, FoldState
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.recommendations.settings import calibration_parameters, calibration_settings_set
from quotas.status.system import NodeGaps, shards_read
from quotas.tokens import token_issue
from tests.access.people import signed_in, token
from tests.clusters import SpareCluster
from tests.quotas.heartbeats import heartbeat, leasing
from tests.quotas.world import make_world
from tests.valkeys import SpareValkey


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in("olga", "operator")


def text_of(client: Client) -> str:
    response = client.get("/settings")
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


def test_it_says_what_is_behind(client: Client, valkey: redis.Redis) -> None:
    text = text_of(client)
    assert "late: publisher, worker, scheduler, watch, drain" in text
    assert "0 of 64" in text


def test_it_shows_the_shards_and_the_library(client: Client, valkey: redis.Redis) -> None:
    make_world()
    server = store.connect(settings.REDIS_URL)
    store.prepare(server)
    Publisher(server, settings.HEADROOM_SHARDS).publish()
    text = text_of(client)
    assert "64 of 64" in text
    assert "up to date" in text
    assert "<dt>Tenants</dt><dd>2</dd>" in text


def test_a_single_server_is_one_node(client: Client, valkey: redis.Redis) -> None:
    text = text_of(client)
    assert "Store nodes" in text
    assert text.count('data-l="Role"> primary') == 1
    assert 'data-l="Slots"' not in text


def test_the_nodes_of_a_cluster_are_shown_with_what_is_wrong(
    client: Client, cluster: SpareCluster, settings: Any, db: None
) -> None:
    settings.REDIS_URL = cluster.url
    node = cluster.primaries()[0]
    cluster.on(node, "CONFIG", "SET", "cluster-require-full-coverage", "yes")
    try:
        text = text_of(client)
    finally:
        cluster.on(node, "CONFIG", "SET", "cluster-require-full-coverage", "no")
    assert text.count('data-l="Role"> primary') == 3
    assert text.count('data-l="Role"> replica') == 3
    assert "5,461" in text
    assert "version 0, needs" in text
    assert f"127.0.0.1:{node.port}</b>: cluster-require-full-coverage is yes" in text


def test_each_node_shows_the_gaps_of_its_shards_of_the_last_day(
    client: Client, cluster: SpareCluster, settings: Any, db: None
) -> None:
    settings.REDIS_URL = cluster.url
    now = timezone.now()
    primary = cluster.primaries()[0]
    own = [shard for shard in range(settings.HEADROOM_SHARDS) if cluster.owner_of(keys.shard_prefix(shard)) is primary]
    for minutes in (30, 10):
        start = now - timedelta(minutes=minutes)
        GapRecord.objects.create(start=start, end=start + timedelta(seconds=4), reason="away", shards=own[:2])
    GapRecord.objects.create(start=BEGINNING, end=now - timedelta(minutes=40), reason="Nothing was measured before.")
    GapRecord.objects.create(start=now - timedelta(days=3), end=now - timedelta(days=2), reason="long ago")
    shown = shards_read()
    assert shown is not None
    found = {node.name: gaps for node, gaps in shown.rows}
    assert found.pop(f"127.0.0.1:{primary.port}") == NodeGaps(2, timedelta(seconds=8), start + timedelta(seconds=4))
    assert sorted(found.values(), key=lambda gaps: gaps is None) == [NodeGaps()] * 2 + [None] * 3
    assert "8.0 s in 2" in text_of(client)


def test_gaps_that_overlap_are_added_once(client: Client, valkey: redis.Redis) -> None:
    now = timezone.now()
    for first, last in ((60, 50), (55, 40)):
        start, end = now - timedelta(seconds=first), now - timedelta(seconds=last)
        GapRecord.objects.create(start=start, end=end, reason="away")
    shown = shards_read()
    assert shown is not None
    ((_, gaps),) = shown.rows
    assert gaps == NodeGaps(2, timedelta(seconds=20), end)


def test_a_parameter_is_changed_and_put_back(operator: Client) -> None:
    assert operator.post("/settings/recommender", {"margin": "1.3", "reason": "more room"}).status_code == 302
    assert calibration_parameters().margin == pytest.approx(1.3)
    assert "changed</span>" in text_of(operator)
    operator.post("/settings/recommender", {"margin": "", "reason": "back"})
    assert not CalibrationSetting.objects.exists()


def test_a_value_that_is_shown_rounded_stays_as_it_is_and_its_authors(operator: Client) -> None:
    calibration_settings_set(values={"margin": 1.23456789}, author="ann", reason="exactly")
    operator.post("/settings/recommender", {"margin": "1.23457", "unrest": "2", "reason": "more room"})
    chosen = list(CalibrationSetting.objects.values_list("name", "value", "author"))
    assert chosen[0] == ("margin", 1.23456789, "ann")
    assert chosen[1][:2] == ("unrest", 2)
    assert chosen[1][2] != "ann"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"margin": "much", "reason": "x"}, "margin must be a number"),
        ({"margin": "0.5", "reason": "x"}, "at least 1"),
        ({"margin": "1.3", "reason": ""}, "Enter a reason"),
        ({"least_tenants": "2.5", "reason": "x"}, "whole number"),
    ],
)
def test_what_is_wrong_is_said_and_what_was_typed_stays(operator: Client, typed: dict[str, str], said: str) -> None:
    response = operator.post("/settings/recommender", typed)
    text = response.content.decode()
    assert response.status_code == 422
    assert said in text
    assert all(f'value="{value}"' in text for value in typed.values() if value)
    assert text.count(said) == 1
    assert "dict_values" not in text
    assert not CalibrationSetting.objects.exists()


def test_a_viewer_changes_nothing(client: Client) -> None:
    assert client.post("/settings/recommender", {"margin": "9", "reason": "x"}).status_code == 403


def test_an_alert_threshold_is_set_in_its_unit(operator: Client) -> None:
    typed = {"name": "denied-share", "threshold": "40", "is_on": "on", "reason": "fewer"}
    operator.post("/settings/alert", typed)
    assert alert_rules()["denied-share"].threshold == pytest.approx(0.4)
    text = text_of(operator)
    assert "on, changed" in text
    operator.post("/settings/alert", {"name": "denied-share", "reason": "too loud"})
    assert not alert_rules()["denied-share"].is_on


def test_a_target_tells_its_secret_once_and_goes(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "HEADROOM_ALERT_NETWORKS", (ip_network("203.0.113.0/24"),))
    typed = {"kind": "webhook", "address": "https://203.0.113.7/hook", "timezone": "UTC", "reason": "on call"}
    operator.post("/settings/targets", typed)
    target = AlertTarget.objects.get()
    assert "not shown again" in text_of(operator)
    assert "not shown again" not in text_of(operator)
    operator.post(f"/settings/targets/{target.pk}/test")
    assert AlertDelivery.objects.count() == 1
    operator.post(f"/settings/targets/{target.pk}/delete")
    assert not AlertTarget.objects.exists()
    assert operator.post(f"/settings/targets/{target.pk}/eat").status_code == 404


@pytest.mark.parametrize(
    ("address", "typed", "said"),
    [
        ("/settings/targets", {"kind": "webhook", "address": "http://127.0.0.1/", "reason": "on call"}, "private"),
        ("/settings/targets", {"kind": "email", "address": "no address", "reason": "on call"}, "address"),
        ("/settings/alert", {"name": "denied-share", "threshold": "400", "reason": "fewer"}, "at most 1"),
    ],
)
def test_a_refused_alert_says_why_and_keeps_what_was_typed(
    operator: Client, address: str, typed: dict[str, str], said: str
) -> None:
    response = operator.post(address, {"timezone": "UTC", **typed})
    text = response.content.decode()
    assert response.status_code == 422
    dialog = text[text.index("data-open-now") :]
    assert said in dialog
    assert [value for value in typed.values() if value not in dialog] == []
    assert not AlertTarget.objects.exists()


def test_every_fold_has_a_name_for_people(client: Client, valkey: redis.Redis) -> None:
    for name in FoldName:
        FoldState.objects.create(name=name, until=timezone.now())
    text = text_of(client)
    assert not [name for name in FoldName if f'<th scope="row">{name}</th>' in text]
    assert "10-second rollup" in text


def report(valkey: redis.Redis, name: str, end_us: int = 2**52, **about: object) -> None:
    valkey.zadd(keys.enforcers(), {name: end_us})
    valkey.hset(keys.enforcer_info(), name, json.dumps(about))


def test_a_process_with_several_clients_is_one_enforcer(client: Client, valkey: redis.Redis) -> None:
    for name, is_degraded in (("one", False), ("two", True)):
        report(valkey, name, host="web-1", pid=7, degraded=is_degraded)
    (row,) = (row for row in rows_of(client) if '<th scope="row">web-1</th>' in row)
    assert "without Redis" in row
    assert row.count("not reported") == 2  # version and revision, which older ones do not tell


def test_enforcers_are_listed_with_the_worst_first(client: Client, valkey: redis.Redis) -> None:
    valkey.set(keys.shard_prefix(3), "12.abc")
    decided: dict[str, Any] = {"pid": 7, "version": "0.2.0", "shard": 3, "decided_s": 2}
    report(valkey, "1", host="good", revision=12, **decided)
    report(valkey, "2", host="gone", revision=12, end_us=int(time.time() - 60) * 1_000_000, **decided)
    report(valkey, "3", host="late", revision=9, **decided)
    report(valkey, "4", host="lost", revision=12, degraded=4, **decided)
    report(valkey, "5", host="idle", revision=9, **{**decided, "decided_s": 300})
    rows = rows_of(client)
    hosts = ("lost", "late", "gone", "good", "idle")
    own = [next(row for row in rows if f'<th scope="row">{host}</th>' in row) for host in hosts]
    assert own == [row for row in rows if row in own]
    states = ("without Redis", "behind", "stale", "enforcing", "enforcing")
    assert [f"{state}</span>" in row for state, row in zip(states, own, strict=True)] == [True] * 5
    assert ["3 behind" in row for row in own] == [False, True, False, False, True]
    assert ["(idle: the next check uses the newest)" in row for row in own] == [False] * 4 + [True]
    assert all("0.2.0" in row for row in own)


def test_processes_that_lease_say_how_long_and_on_how_much(client: Client, valkey: redis.Redis) -> None:
    heartbeat(valkey, "one", host="plain")
    assert "Leases" not in "".join(rows_of(client))
    leasing(valkey, "two", "rides:get", host="leaser", ms=250, more=4)
    rows = rows_of(client)
    (own,) = (row for row in rows if '<th scope="row">leaser</th>' in row)
    assert 'up to 250 ms <span class="muted">on rides:get and 4 more</span>' in re.sub(r"\s+", " ", own)
    (other,) = (row for row in rows if '<th scope="row">plain</th>' in row)
    assert "up to" not in other.partition("</tr>")[0]
    assert "a process that dies may waste up to one block" in rows[-1]


def rows_of(client: Client) -> list[str]:
    """Of the enforcers. The process of the tests may have sent a heartbeat too."""
    text = text_of(client)
    text = text[text.index('id="enforcers"') : text.index('id="alerts"')]
    return text.split("<tr>")[2:]


def test_without_enforcers_the_page_says_what_to_do(
    client: Client, spare_valkey: Callable[..., SpareValkey], settings: Any
) -> None:
    settings.REDIS_URL = spare_valkey().url  # where the process of the tests sends no heartbeat
    text = text_of(client)
    assert "Run a service with the SDK, a middleware or the gateway" in text
    assert "appear if they send hr_heartbeat" in text


def test_only_a_token_that_can_approve_is_offered_to(operator: Client) -> None:
    token("operator", "write", issuer="olga")
    owner = signed_in("otto", "owner")
    text = text_of(owner)
    assert "no, lacks the role approver or owner" in text
    assert "Let it approve" not in text
    token_issue(label="ci", role="approver", scopes=["approve"], author="olga", reason="a test")
    assert "Let it approve" in text_of(owner)


@pytest.mark.django_db
def test_each_alert_leads_to_its_runbook(client: Client, valkey: object) -> None:
    make_world()
    assert 'href="/runbooks/denied-share">Runbook</a>' in client.get("/settings").content.decode()
    for name in RULES:
        assert "Runbook of the alert" in client.get(f"/runbooks/{name}").content.decode()
    text = client.get("/runbooks/denied-share").content.decode()
    assert "<li>Overview → top throttled" in text
    assert '<code class="mono">manage.py rollback N --reason …</code>' in text
    assert client.get("/runbooks/README").status_code == 404
