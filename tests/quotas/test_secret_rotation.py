"""SECRET_KEY changes, and nobody notices: API keys, sessions and sealed secrets stay valid."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
import redis
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client as HttpClient
from django.utils import timezone
from pytest_django.fixtures import Settings

from config.data_folders import ROOT
from config.startup_check import report_locked_keys
from headroom_edge import keys
from headroom_edge.directory import PEPPER, secret_hash
from quotas.api_keys import api_key_issue, api_key_revoke
from quotas.models import AlertTarget, AuditEvent, CalendarCounter
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.secret_rotation import GRACE, keys_advance, keys_renew
from tenants import keyring
from tenants.keyring import WRONG_KEY, KeyringError
from tenants.models import KeyVersion
from tenants.secrets import sealer
from tests.access.people import machine, signed_in, token
from tests.headroom_edge.gateway.test_serving import alone
from tests.headroom_edge.world import Client
from tests.processes import environment, wait_for
from tests.quotas.publishing.worlds import wait_until
from tests.quotas.world import GET, SAID, make_world
from tests.valkeys import free_port

NEW = "a-new-key-" * 6
WRONG = "a-wrong-key-" * 6


@pytest.fixture(autouse=True)
def same_keys_afterwards() -> Iterator[None]:
    """The keyring outlives a test: it is not among the tables that are emptied."""
    keyring.forget()
    yield
    keyring.forget()


def rotate(*words: str) -> str:
    out = io.StringIO()
    call_command("rotate_secrets", *words, stdout=out)
    return out.getvalue()


def publish(url: str) -> None:
    client = store.connect(url)
    store.prepare(client)
    Publisher(client, 64).publish()


def wraps() -> list[bytes]:
    return [bytes(row.wrapped) for row in KeyVersion.objects.all()]


@contextmanager
def web(log: Path, valkey_url: str, **variables: str) -> Iterator[Client]:
    """The web process, with the gateway in it."""
    port = free_port()
    command = [sys.executable, "-m", "config.web", "--port", str(port)]
    own = environment(valkey_url, HEADROOM_HTTPS="0", HEADROOM_BUDGET_MS="60000", **variables)
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=own, cwd=ROOT, stdout=output, stderr=output)
    try:
        wait_for(port, process)
        client = Client(port)
        # Its pool gives up after two seconds, which a busy machine may need for the first connection.
        wait_until(lambda: client.get("/healthz").json()["database"] == "ok", "the first connection")
        yield client
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


@pytest.mark.django_db(transaction=True)
def test_processes_with_the_old_key_and_the_new_one_accept_the_same_api_keys(
    valkey: redis.Redis, valkey_url: str, tmp_path: Path, settings: Settings
) -> None:
    make_world()
    key = str(api_key_issue(tenant="acme", scopes=["check", "read"], **SAID).text)
    publish(valkey_url)
    asked, sent = {"endpoint": GET}, {"authorization": f"Bearer {key}"}
    before, old = list(KeyVersion.objects.all()), settings.SECRET_KEY
    with (
        alone(REDIS_URL=valkey_url) as gateway,
        web(tmp_path / "log", valkey_url, SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=old) as renewed,
    ):

        def statuses() -> list[int]:
            checks = [client.post("/v1/check", asked, **sent).status for client in (gateway, renewed)]
            return [*checks, renewed.get("/v1/tenants/acme", **sent).status]

        assert statuses() == [200, 200, 200]
        try:
            settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW, [old]
            assert rotate().startswith("3 stored keys are now encrypted")
            assert statuses() == [200, 200, 200]
            settings.SECRET_KEY_FALLBACKS = []
            publish(valkey_url)
            assert machine(key).get("/v1/tenants/acme").status_code == 200
            assert statuses() == [200, 200, 200]
        finally:
            KeyVersion.objects.bulk_update(before, ["wrapped"])
    assert WRONG_KEY not in (tmp_path / "log").read_text()


@pytest.mark.django_db(transaction=True)
def test_a_wrong_key_is_one_sentence_at_the_start_in_health_and_for_machines(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    text = token("viewer", "read")
    settings.SECRET_KEY = WRONG
    report_locked_keys()
    assert [record.message for record in caplog.records] == [WRONG_KEY]
    refused = machine(text).get("/v1/tenants")
    assert (refused.status_code, refused.json()["detail"]) == (503, WRONG_KEY)
    assert f"keys: {WRONG_KEY}" in HttpClient().get("/healthz").json()["reason"]


@pytest.mark.django_db(transaction=True)
def test_a_wrong_key_is_the_same_sentence_for_metrics(settings: Settings) -> None:
    text = token("viewer", "metrics")
    settings.SECRET_KEY, settings.HEADROOM_METRICS_FROM = WRONG, ()
    refused = machine(text).get("/metrics")
    assert (refused.status_code, refused.json()["detail"]) == (503, WRONG_KEY)


@pytest.mark.django_db(transaction=True)
def test_a_page_says_a_wrong_key_too(settings: Settings) -> None:
    settings.SECRET_KEY, settings.HEADROOM_ALERT_NETWORKS = WRONG, (ip_network("203.0.113.0/24"),)
    target = {"kind": "webhook", "address": "https://203.0.113.7/hook", "timezone": "UTC", "reason": "on call"}
    refused = signed_in("alice", "owner").post("/settings/targets", target)
    assert (refused.status_code, refused.json()["detail"]) == (503, WRONG_KEY)


@pytest.mark.usefixtures("world")
class TestRotation:
    def test_sealed_secrets_and_tokens_survive_and_the_former_key_may_go(self, settings: Settings) -> None:
        text = token("viewer", "read")
        target = AlertTarget.objects.create(kind="webhook", address="https://a.example", secret=sealer().seal(b"s"))
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW, [settings.SECRET_KEY]
        assert sealer().unseal(bytes(target.secret)) == b"s"
        rotate()
        settings.SECRET_KEY_FALLBACKS = []
        keyring.forget()
        assert sealer().unseal(bytes(target.secret)) == b"s"
        assert machine(text).get("/v1/tenants").status_code == 200

    def test_a_session_outlives_the_change_through_the_fallback(self, settings: Settings) -> None:
        client = signed_in("alice", "owner")
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW, [settings.SECRET_KEY]
        assert client.get("/").status_code == 200
        settings.SECRET_KEY_FALLBACKS = []
        # The first request after the change signed it anew.
        assert client.get("/").status_code == 200

    def test_a_dry_run_changes_nothing_and_a_second_run_finds_nothing(self, settings: Settings) -> None:
        before = wraps()
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW, [settings.SECRET_KEY]
        assert rotate("--dry-run").startswith("3 stored keys would be encrypted")
        assert wraps() == before
        assert "remove SECRET_KEY_FALLBACKS" in rotate()
        after = wraps()
        nothing = "All stored keys are already encrypted under the present SECRET_KEY.\n"
        assert (rotate("--dry-run"), rotate().startswith(nothing)) == (nothing, True)
        assert wraps() == after != before
        assert AuditEvent.objects.filter(kind="keys_rewrapped").count() == 1

    def test_a_wrong_key_is_refused_with_one_sentence_and_changes_nothing(self, settings: Settings) -> None:
        before = wraps()
        settings.SECRET_KEY = WRONG
        with pytest.raises(ImproperlyConfigured, match="set SECRET_KEY to the value used before"):
            rotate()
        assert wraps() == before

    def test_a_row_cannot_pose_as_another(self) -> None:
        one, other = KeyVersion.objects.filter(purpose__in=[keyring.API_KEYS, keyring.SUBJECTS])
        one.wrapped, other.wrapped = other.wrapped, one.wrapped
        for row in (one, other):
            with pytest.raises(KeyringError):
                keyring.unwrap(row)

    def test_changing_the_key_before_the_release_has_stored_its_keys_is_refused(self, settings: Settings) -> None:
        token()
        KeyVersion.objects.all().delete()
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = NEW, [settings.SECRET_KEY]
        with pytest.raises(KeyringError, match="start once with the SECRET_KEY used so far"):
            rotate()
        assert not KeyVersion.objects.exists()


def accepted(client: redis.Redis, text: str) -> bool:
    """As enforcers of every release look a key up."""
    digest = secret_hash(bytes.fromhex(str(client.hget(keys.directory(), PEPPER))), text)
    return client.hget(keys.credentials(keys.shard_of(digest)), digest) is not None


def hashes_published(client: redis.Redis) -> int:
    return sum(client.hlen(keys.credentials(shard)) - 1 for shard in range(keys.SHARDS))


@pytest.mark.usefixtures("world")
class TestNewKeys:
    def test_enforcers_accept_every_key_at_every_step(self, valkey: redis.Redis, valkey_url: str) -> None:
        client = store.connect(valkey_url)
        store.prepare(client)
        publisher = Publisher(client, keys.SHARDS)
        used = str(api_key_issue(tenant="acme", scopes=["check", "read"], **SAID).text)
        unused = api_key_issue(tenant="acme", scopes=["read"], **SAID)
        publisher.publish()
        first = client.hget(keys.directory(), PEPPER)

        assert "api_keys: version 2 is added" in rotate("--new-keys")
        issued = str(api_key_issue(tenant="acme", **SAID).text)
        everybody = [used, str(unused.text), issued]

        def all_accepted(hashes: int) -> bool:
            publisher.publish()
            return all(accepted(client, text) for text in everybody) and hashes_published(client) == hashes

        assert all_accepted(4)
        # Seen by the REST API, a key gets its second hash; the other one is waited for by name.
        assert machine(used).get("/v1/tenants/acme").status_code == 200
        assert all_accepted(5)
        assert "1 API keys and tokens have only a hash with the old key. Any request" in (left := rotate())
        assert f"{unused.text.key_id} of acme" in left
        assert rotate("--list").splitlines() == [f"{unused.text.key_id} of acme"]
        assert client.hget(keys.directory(), PEPPER) == first
        assert machine(str(unused.text)).get("/v1/tenants/acme").status_code == 200
        assert "api_keys: nothing needs the old key" in rotate()
        # The flip: enforcers hash with the new key, and the old hashes stay for those that have not noticed.
        assert all_accepted(6)
        assert client.hget(keys.directory(), PEPPER) != first
        keys_advance(timezone.now() + GRACE + timedelta(minutes=1))
        assert all_accepted(3)
        assert machine(used).get("/v1/tenants/acme").status_code == 200
        assert list(KeyVersion.objects.filter(purpose=keyring.API_KEYS).values_list("version", flat=True)) == [2]
        api_key_revoke(key_id=unused.row.key_id, **SAID)
        publisher.publish()
        assert not accepted(client, str(unused.text))

    def test_a_key_revoked_on_the_way_is_refused_under_both_hashes(self, valkey: redis.Redis, valkey_url: str) -> None:
        client = store.connect(valkey_url)
        store.prepare(client)
        publisher = Publisher(client, keys.SHARDS)
        api_key_issue(tenant="acme", **SAID)
        rotate("--new-keys")
        issued = api_key_issue(tenant="acme", **SAID)
        publisher.publish()
        assert hashes_published(client) == 3
        api_key_revoke(key_id=issued.row.key_id, **SAID)
        publisher.publish()
        assert hashes_published(client) == 1

    def test_sealed_texts_move_to_the_new_key_and_the_old_one_goes(self) -> None:
        target = AlertTarget.objects.create(kind="webhook", address="https://a.example", secret=sealer().seal(b"s"))
        now = timezone.now()
        facts = {"generation": 1, "period_start": now, "expires_at": now, "drained_at": now, "shard": 1}
        place = {"tenant_number": 1, "scope": "", "limit_number": 1} | facts
        for number in range(3):
            text = sealer().seal(f"/user:{number}".encode())
            CalendarCounter.objects.create(subject=text, used=number, **place)
        rotate("--new-keys")
        rotate()
        keys_advance(timezone.now() + GRACE + timedelta(minutes=1))
        assert list(KeyVersion.objects.filter(purpose=keyring.SEALING).values_list("version", flat=True)) == [2]
        target.refresh_from_db()
        assert sealer().unseal(bytes(target.secret)) == b"s"
        found = {sealer().unseal(bytes(row.subject)): row.used for row in CalendarCounter.objects.all()}
        assert found == {f"/user:{number}".encode(): number for number in range(3)}

    def test_a_counter_that_the_drain_stored_meanwhile_wins(self) -> None:
        now = timezone.now()
        place = {"tenant_number": 1, "scope": "", "limit_number": 1, "generation": 1, "period_start": now, "shard": 1}
        place |= {"expires_at": now, "drained_at": now}
        CalendarCounter.objects.create(subject=sealer().seal(b"/user:a"), used=1, **place)
        keys_renew(author="ann")
        CalendarCounter.objects.create(subject=sealer().seal(b"/user:a"), used=2, **place)
        keys_advance()
        assert [row.used for row in CalendarCounter.objects.all()] == [2]

    def test_a_second_renewal_waits_for_the_first(self) -> None:
        rotate("--new-keys")
        before = wraps()
        assert "added" not in rotate("--new-keys")
        assert wraps() == before

    def test_whoever_is_waited_for_can_be_listed_however_many(self) -> None:
        for number in range(12):
            api_key_issue(tenant=("acme", "bolt")[number % 2], **SAID)
        assert " of bolt and 2 more (`rotate_secrets --list` names them all)" in rotate("--new-keys")
        assert len(rotate("--list").splitlines()) == 12

    def test_a_dry_run_says_what_would_be_added(self) -> None:
        before = wraps()
        assert "api_keys: version 2 would be added" in rotate("--new-keys", "--dry-run")
        assert wraps() == before


WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


@pytest.mark.django_db(transaction=True)
def test_two_runs_at_once_add_one_version() -> None:
    def is_waiting() -> bool:
        with connection.cursor() as cursor:
            cursor.execute(WAITING)
            return bool(cursor.fetchone()[0])

    def other_run() -> list[KeyVersion]:
        try:
            return keys_renew(author="bob")
        finally:
            connection.close()

    keyring.read_keys(keyring.API_KEYS)
    try:
        with ThreadPoolExecutor(1) as pool:
            with transaction.atomic():
                assert len(keys_renew(author="ann")) == 3
                other = pool.submit(other_run)
                wait_until(is_waiting, "the other run waits")
            assert other.result() == []
        assert KeyVersion.objects.count() == 6
    finally:
        KeyVersion.objects.filter(version=2).delete()
