from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, cast

import pytest
import redis

from headroom_edge import AsyncLimiter, django
from headroom_edge.gateway.bad_tokens import BadTokens
from headroom_edge.gateway.bounds import BoundedProtocol
from headroom_edge.gateway.protocol import CheckProtocol
from headroom_edge.gateway.server import Gateway
from headroom_edge.proxies import TrustedProxies
from headroom_edge.request_guard import GuardRules
from headroom_edge.settings import Settings
from tests.headroom_edge.world import HOURLY, Client, publish_world, served

# The cores are shared with other tests: a budget that only a fault can exceed.
AMPLE_MS = 60_000
LOOPBACK = GuardRules(trusted_proxies=TrustedProxies.parse(["127.0.0.1"]))


@pytest.fixture(scope="package", autouse=True)
def patient_limiters() -> Iterator[None]:
    """Limiters that tests make in this process wait as long for a connection as an ample budget does for an answer.

    A test of a time-out names its own `connect_timeout_ms`.
    """
    names = [field.name for field in fields(Settings)]
    defaults = dict(zip(names, cast("Any", Settings.__init__).__defaults__, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Settings.__init__, "__defaults__", tuple({**defaults, "connect_timeout_ms": AMPLE_MS}.values()))
        yield


@pytest.fixture
def store(valkey: redis.Redis) -> redis.Redis:
    """Everybody has 5 an hour."""
    publish_world(valkey, HOURLY)
    return valkey


@pytest.fixture
def project(settings: Any, valkey_url: str) -> Iterator[Any]:
    """The settings of a Django project that has the middleware first."""
    settings.ROOT_URLCONF = "tests.headroom_edge.django_sample"
    settings.MIDDLEWARE = [
        "headroom_edge.django.QuotaMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
    ]
    settings.SECURE_SSL_REDIRECT = False
    settings.HEADROOM_STORE, settings.HEADROOM_BUDGET_MS, settings.HEADROOM_RULES = valkey_url, AMPLE_MS, GuardRules()
    made = (django.limiter, django.async_limiter, django.guard)
    for one in made:
        one.cache_clear()
    yield settings
    django.limiter().close()
    for one in made:
        one.cache_clear()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What a module with ON_BOTH says holds for the check server and for the application that others mount."""
    if getattr(metafunc.module, "ON_BOTH", False) and "running_gateway" in metafunc.fixturenames:
        servers = {"server": CheckProtocol, "asgi": BoundedProtocol}
        metafunc.parametrize("running_gateway", servers.values(), ids=servers, indirect=True, scope="session")


@pytest.fixture(scope="session")
def running_gateway(request: pytest.FixtureRequest, valkey_url: str) -> Iterator[tuple[Gateway, Client]]:
    # What other tests left in the store would be believed for a second: keys that this world does not have.
    redis.Redis.from_url(valkey_url).flushall()
    limiter = AsyncLimiter.from_url(valkey_url, budget_ms=AMPLE_MS, connect_timeout_ms=AMPLE_MS)
    gateway = Gateway(limiter, LOOPBACK)
    with served(gateway, getattr(request, "param", CheckProtocol)) as client:
        yield gateway, client


@pytest.fixture
def gateway(store: redis.Redis, running_gateway: tuple[Gateway, Client]) -> Client:
    """Behind a proxy on this machine, which it trusts."""
    running, client = running_gateway
    running.bad_tokens = BadTokens()
    return client
