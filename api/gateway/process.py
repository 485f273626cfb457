"""The limiters of a Django process, made once from its settings:

HEADROOM_STORE = "redis://localhost:6379/0"   # without it: REDIS_URL
HEADROOM_RULES = Rules(trusted_proxies=TrustedProxies.parse(["10.0.0.0/8"]), exempt=("/healthz",))
HEADROOM_SHARDS, HEADROOM_BUDGET_MS, HEADROOM_FAIL: as in the environment of the gateway
"""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.http import HttpRequest

from api.gateway.guard import Guard, Request
from quotas.limiter import AsyncLimiter, Limiter
from quotas.limiter.keys import SHARDS
from quotas.limiter.settings import BUDGET_MS, Options
from quotas.policy.paths import AS_ROUTED


@cache
def limiter() -> Limiter:
    return Limiter.from_url(_store(), **_options())


@cache
def async_limiter() -> AsyncLimiter:
    return AsyncLimiter.from_url(_store(), **_options())


@cache
def guard() -> Guard:
    return Guard(getattr(settings, "HEADROOM_RULES", None))


def request_of(request: HttpRequest) -> Request:
    def header(name: str) -> str:
        return request.headers.get(name, "")

    peer = request.META.get("REMOTE_ADDR") or ""
    return Request(request.method or "GET", request.path, peer, header, AS_ROUTED, request)


def _store() -> str:
    store: str = getattr(settings, "HEADROOM_STORE", "") or settings.REDIS_URL
    return store


def _options() -> Options:
    return {
        "shards": getattr(settings, "HEADROOM_SHARDS", SHARDS),
        "budget_ms": getattr(settings, "HEADROOM_BUDGET_MS", BUDGET_MS),
        "fail": getattr(settings, "HEADROOM_FAIL", None),
    }
