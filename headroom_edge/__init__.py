"""Rate limits and quotas, decided by one call to Redis. No framework is needed.

`Limiter` is for threads, `AsyncLimiter` for an event loop. Adapters for frameworks are in `asgi`, `wsgi`, `django`
and `drf`.
"""

from headroom_edge.aio import AsyncLimiter
from headroom_edge.check import Check
from headroom_edge.decision import Decision, LimitRow
from headroom_edge.errors import StoreError
from headroom_edge.headers import Profile
from headroom_edge.limiter import Limiter
from headroom_edge.settings import Settings
from headroom_edge.store.breaker import BreakerSettings

__all__ = [
    "AsyncLimiter",
    "BreakerSettings",
    "Check",
    "Decision",
    "LimitRow",
    "Limiter",
    "Profile",
    "Settings",
    "StoreError",
]
