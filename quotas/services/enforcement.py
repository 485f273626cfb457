"""What Redis says of enforcement at this moment, for pages: who enforces, and what is switched to shadow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings

from quotas.publishing import store
from quotas.publishing.bypass import Switch, switches_read
from quotas.publishing.enforcers import Enforcer, enforcers_read

# A page would rather say that Redis is silent than wait for it.
PATIENCE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Enforcement:
    enforcers: Sequence[Enforcer]
    switches: Sequence[Switch]

    @property
    def degraded(self) -> Sequence[Enforcer]:
        return [each for each in self.enforcers if each.is_degraded]


def enforcement_read() -> Enforcement | None:
    """None: Redis does not answer."""
    client = store.connect(settings.REDIS_URL, patience_seconds=PATIENCE_SECONDS)
    try:
        return Enforcement(enforcers_read(client), switches_read(client, settings.HEADROOM_SHARDS))
    except store.StoreError:
        return None
    finally:
        client.close()
