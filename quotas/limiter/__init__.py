"""Framework-free enforcement: `from quotas.limiter import Limiter, AsyncLimiter`."""

from quotas.limiter.aio import AsyncLimiter
from quotas.limiter.breaker import BreakerSettings
from quotas.limiter.check import Check
from quotas.limiter.client import Limiter
from quotas.limiter.decision import Decision, Row
from quotas.limiter.errors import StoreError
from quotas.limiter.headers import Profile
from quotas.limiter.settings import Settings

__all__ = [
    "AsyncLimiter",
    "BreakerSettings",
    "Check",
    "Decision",
    "Limiter",
    "Profile",
    "Row",
    "Settings",
    "StoreError",
]
