"""Framework-free enforcement: `from headroom_edge import Limiter, AsyncLimiter`."""

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
