"""The demo's pool: partners in several time zones pass rides on, and lend each other what they do not use.

In a cluster a pool of everyone is refused, so partners have fixed limits there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.sharing import Borrowing, Pool
from headroom_edge.store.address import is_clustered
from quotas.policies.edit import policy_create

DISPATCH: Final = "partner:dispatch"
MINUTE_US: Final = 60 * SECOND_US
POOL_NAME: Final = "partners"
SHARE_NAME: Final = "dispatch"
POOL: Final = Pool(420, MINUTE_US, 240, 100)
USUAL: Final = Borrowing(48, MINUTE_US, 20, 240, 40, 0, POOL_NAME)
OWN_SHARES: Final[Mapping[str, Borrowing]] = {"kite-mobility": Borrowing(90, MINUTE_US, 20, 240, 40, 0, POOL_NAME)}
FIXED: Final = {"name": SHARE_NAME, "algorithm": "token_bucket", "rate": 120, "per": "1m", "burst": 40}


def can_share() -> bool:
    return not is_clustered(settings.REDIS_URL)


def share_dispatch(*, author: str, reason: str, **permits: Any) -> None:
    """Writes the pool of everyone, the share of a tier, and the larger share of one partner."""
    said: dict[str, Any] = {"author": author, "reason": reason, "endpoint": DISPATCH, **permits}
    if not can_share():
        policy_create(name="enterprise-dispatch", tier="enterprise", limits=[FIXED], **said)
        return
    pool = {"name": POOL_NAME, "algorithm": Pool.name, **POOL.describe()}
    policy_create(name="partner-pool", limits=[pool], **said)
    policy_create(name="enterprise-dispatch", tier="enterprise", limits=[_fields(USUAL)], **said)
    for tenant, share in OWN_SHARES.items():
        policy_create(name=f"{tenant}-dispatch", tenant=tenant, limits=[_fields(share)], **said)


def _fields(share: Borrowing) -> dict[str, Any]:
    return {"name": SHARE_NAME, "algorithm": Borrowing.name, **share.describe()}
