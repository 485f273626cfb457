"""The API and the login are limited by Headroom itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import pytest
import redis
from django.conf import settings as django_settings
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from access import throttle
from headroom_edge.django import limiter
from quotas.bypass import bypass_set
from quotas.endpoints import endpoint_delete
from quotas.models import Endpoint, Limit, Revision
from quotas.own_limits import own_limits_install
from quotas.policies.edit import limit_set, policy_delete
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.tenants import tenant_suspend
from tests.access.people import machine, person, token
from tests.database import kept
from tests.faults.proxy import Proxy
from tests.quotas.world import FORCED, SAID, make_world
from tests.valkeys import SpareValkey

RIGHT = "correct horse battery"
TRIES = 10


@kept
def world_with_own_limits() -> None:
    make_world()
    call_command("own_limits")


@pytest.fixture(autouse=True)
def installed(db: None, valkey: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(throttle, "BUDGET_MS", 60_000)
    stopped = throttle.LoginFloor(lambda: 1_800_000_000_000_000)
    monkeypatch.setattr(throttle, "floor", lambda: stopped)
    world_with_own_limits()
    publish()
    limiter.cache_clear()
    yield
    limiter.cache_clear()


def publish(url: str | None = None) -> None:
    client = store.connect(url or django_settings.REDIS_URL)
    store.prepare(client)
    Publisher(client, django_settings.HEADROOM_SHARDS).publish()


def allow(count: int, limit: str = "api", policy: str = "headroom-api", subject: str = "key|user|ip") -> None:
    """As an operator would change it; for so long that nothing comes back during a test."""
    fields = {"name": limit, "algorithm": "token_bucket", "rate": 1, "per": "1d", "burst": count, "subject": subject}
    limit_set(policy=policy, limit={**fields, "on_failure": "local"}, **FORCED)
    publish()


def sign_in(name: str, password: str, address: str = "192.0.2.1") -> Any:
    return Client(REMOTE_ADDR=address).post("/login", {"username": name, "password": password})


def account(name: str) -> None:
    user = person(name, "viewer")
    user.set_password(RIGHT)
    user.save()


def test_they_are_installed_once_and_left_alone_after() -> None:
    revisions = Revision.objects.count()
    assert not own_limits_install("headroom")
    call_command("own_limits")
    assert Revision.objects.count() == revisions


class TestApi:
    def test_an_answer_says_what_is_left(self) -> None:
        answer = machine(token()).get("/v1/tenants")
        assert answer.status_code == 200
        assert answer["RateLimit-Policy"] == '"api";q=300;w=6'
        assert answer["RateLimit"] == '"api";r=299;t=1'
        tries = {'"tries";q=10;w=120', '"tries-from";q=60;w=120', '"tries-of";q=120;w=7200'}
        assert set(sign_in("alice", "x")["RateLimit-Policy"].split(", ")) == tries

    def test_over_the_limit_it_is_refused_and_others_are_not(self) -> None:
        allow(2)
        busy, other = machine(token()), machine(token())
        assert [busy.get("/v1/tenants").status_code for _ in range(3)] == [200, 200, 429]
        refused = busy.get("/v1/tenants")
        assert refused["Content-Type"] == "application/problem+json"
        assert int(refused["Retry-After"]) > 0
        assert (refused.json()["code"], refused.json()["limit"]) == ("quota-exceeded", "api")
        assert other.get("/v1/tenants").status_code == 200

    def test_people_are_counted_by_their_name(self) -> None:
        allow(1)
        client = Client()
        client.force_login(person("alice", "viewer"))
        assert [client.get("/v1/tiers").status_code for _ in range(2)] == [200, 429]
        assert client.get("/tenants").status_code == 200

    def test_what_is_forbidden_counts_too(self) -> None:
        allow(1)
        client = machine(token("viewer"))
        assert [client.post("/v1/tiers").status_code for _ in range(2)] == [403, 429]

    def test_tokens_cannot_be_guessed_for_long(self) -> None:
        allow(TRIES, "tries", "headroom-login", "user+ip")
        guess = machine("hr_" + "0" * 16 + "_" + "0" * 64)
        statuses = [guess.get("/v1/tenants").status_code for _ in range(TRIES + 1)]
        assert statuses == [401] * TRIES + [429]
        assert machine(token()).get("/v1/tenants").status_code == 200

    def test_nobody_is_locked_out_by_a_suspension(self) -> None:
        suspend()
        answer = machine(token()).get("/v1/tenants")
        assert (answer.status_code, answer.has_header("Retry-After")) == (200, False)

    def test_before_the_first_publish_everybody_passes(self, valkey: redis.Redis) -> None:
        valkey.flushall()
        assert machine(token()).get("/v1/tenants").status_code == 200

    def test_without_the_store_it_is_open_and_says_so(self, proxy: Proxy, settings: Settings) -> None:
        settings.HEADROOM_STORE, settings.HEADROOM_FAIL = proxy.url, "closed"
        proxy.refuse()
        assert machine(token()).get("/v1/tenants").status_code == 200
        limiter.cache_clear()
        proxy.heal()
        assert machine(token()).get("/v1/tenants").has_header("RateLimit")
        proxy.refuse()
        answer = machine(token()).get("/v1/tenants")
        assert (answer.status_code, answer["Headroom-Degraded"]) == (200, "open")


def browser_of(name: str, role: str = "viewer", tenant: str | None = None) -> Client:
    client = Client(headers={"Accept": "text/html,*/*"})
    client.force_login(person(name, role, tenant))
    return client


class TestPages:
    def test_over_the_limit_a_page_says_when_to_try_again_and_others_go_on(self) -> None:
        allow(2, "pages", "headroom-pages", "key|user|ip")
        alice, bob = browser_of("alice"), browser_of("bob")
        assert [alice.get(page).status_code for page in ("/tenants", "/matrix.csv", "/live")] == [200, 200, 429]
        refused = alice.get("/tenants")
        assert refused["Content-Type"].startswith("text/html")
        assert f"Wait {refused['Retry-After']} s" in refused.content.decode()
        assert (bob.get("/tenants").status_code, alice.get("/v1/tiers").status_code) == (200, 200)

    def test_the_users_and_keys_of_a_tenant_share_its_limit(self) -> None:
        allow(2, "portal-of-tenant", "headroom-portal", "org|key|user|ip")
        carol, dora = browser_of("carol", "tenant", "acme"), browser_of("dora", "tenant", "acme")
        erin = browser_of("erin", "tenant", "bolt")
        key = machine(token("tenant", tenant="acme"))
        assert [each.get("/portal").status_code for each in (carol, dora, key, carol)] == [200, 200, 429, 429]
        assert key.get("/portal").json()["limit"] == "portal-of-tenant"
        assert erin.get("/portal").status_code == 200

    def test_a_person_who_clicks_and_drags_does_not_notice(self) -> None:
        alice = browser_of("alice")
        assert {alice.get("/tester").status_code for _ in range(100)} == {200}

    def test_an_installation_that_is_older_gets_the_limits_and_one_that_deleted_them_does_not(self) -> None:
        policy_delete(name="headroom-pages", **FORCED)
        endpoint_delete(name="headroom:pages", **FORCED)
        assert not own_limits_install("headroom")
        Endpoint.objects.filter(name="headroom:pages").delete()
        assert own_limits_install("headroom")
        assert not own_limits_install("headroom")
        assert Limit.objects.filter(policy__name="headroom-pages").exists()

    def test_what_needs_a_login_stays_in_no_cache(self) -> None:
        alice = browser_of("alice")
        for page in ("/tenants", "/matrix", "/v1/tiers"):
            assert alice.get(page)["Cache-Control"] == "no-store", page


def suspend() -> None:
    """As an installation may have it from before this was refused."""
    with patch("quotas.tenants.many.OWN_TENANT", ""):
        tenant_suspend(name="headroom", **SAID)
    publish()


def bypass_all() -> None:
    bypass_set(scope="all", name="", duration="1h", **SAID)


def delete_limits() -> None:
    policy_delete(name="headroom-login", **FORCED)
    publish()


def flush() -> None:
    store.connect(django_settings.REDIS_URL).flushall()


UNLOCKING = (suspend, bypass_all, delete_limits, flush)


@pytest.fixture
def tries() -> None:
    allow(TRIES, "tries", "headroom-login", "user+ip")


@pytest.mark.usefixtures("tries")
class TestLogin:
    def test_after_some_wrong_passwords_a_page_says_when_to_try_again(self) -> None:
        account("alice")
        wrong = [sign_in("alice", "guess") for _ in range(TRIES)]
        assert {answer.status_code for answer in wrong} == {200}
        assert "9 attempts left" in wrong[0].content.decode()
        assert sign_in("\uff41lice", RIGHT).status_code == 429
        refused = sign_in("Alice ", RIGHT)
        assert refused.status_code == 429
        assert refused["Content-Type"].startswith("text/html")
        assert f"Too many attempts. Wait {refused['Retry-After']} s" in refused.content.decode()

    def test_others_and_from_elsewhere_it_goes_on(self) -> None:
        account("alice")
        account("bob")
        for _ in range(TRIES + 1):
            sign_in("alice", "guess")
        assert sign_in("bob", RIGHT).status_code == 302
        assert sign_in("alice", RIGHT, address="192.0.2.2").status_code == 302

    def test_a_right_password_costs_nothing(self) -> None:
        account("alice")
        assert {sign_in("alice", RIGHT).status_code for _ in range(TRIES + 5)} == {302}

    def test_one_address_cannot_try_many_names(self) -> None:
        allow(3, "tries-from", "headroom-login", "ip")
        assert [sign_in(f"name{n}", "x").status_code for n in range(5)] == [200, 200, 200, 429, 429]

    def test_one_name_cannot_be_tried_from_many_addresses(self) -> None:
        allow(3, "tries-of", "headroom-login", "user")
        assert [sign_in("alice", "x", f"192.0.2.{n}").status_code for n in range(5)] == [200, 200, 200, 429, 429]

    def test_without_the_store_the_process_counts_by_itself(
        self, spare_valkey: Callable[..., SpareValkey], settings: Settings
    ) -> None:
        # A server of its own: a client that another test left in this process would have its share of the limit.
        server = spare_valkey()
        publish(server.url)
        with Proxy("127.0.0.1", server.port) as wire:
            settings.HEADROOM_STORE = wire.url
            account("alice")
            sign_in("alice", "guess")
            limiter()._chore_thread.attend()
            wire.refuse()
            statuses = [sign_in("alice", "guess").status_code for _ in range(TRIES + 1)]
            assert statuses == [200] * TRIES + [429]
            assert sign_in("alice", RIGHT)["Headroom-Degraded"] == "local"

    @pytest.mark.parametrize("unlock", UNLOCKING)
    def test_where_the_store_does_not_count_the_process_does(self, unlock: Callable[[], None]) -> None:
        account("alice")
        unlock()
        assert {sign_in("alice", RIGHT).status_code for _ in range(TRIES + 5)} == {302}
        # A bypass lets the store's own tries be used up first.
        statuses = [sign_in("alice", "guess").status_code for _ in range(2 * TRIES + 1)]
        assert (statuses[:TRIES], statuses[-1]) == ([200] * TRIES, 429)
        assert sign_in("alice", RIGHT)["Headroom-Degraded"] == "local"

    def test_a_process_that_never_saw_the_store_counts_too(self, proxy: Proxy, settings: Settings) -> None:
        settings.HEADROOM_STORE = proxy.url
        proxy.refuse()
        statuses = [sign_in("alice", "guess").status_code for _ in range(TRIES + 1)]
        assert statuses == [200] * TRIES + [429]
        guess = machine("hr_" + "0" * 16 + "_" + "0" * 64)
        statuses = [guess.get("/v1/tenants").status_code for _ in range(TRIES + 1)]
        assert statuses == [401] * TRIES + [429]

    def test_nothing_of_what_was_typed_is_kept(self, valkey: redis.Redis) -> None:
        for _ in range(TRIES + 2):
            sign_in("hunter2-in-the-wrong-field", "x")
        kept = b"".join(valkey.dump(key) or b"" for key in valkey.scan_iter())
        assert b"hunter2" not in kept
        assert not any(b"hunter2" in key for key in valkey.scan_iter())
