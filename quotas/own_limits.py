"""Headroom's limits on itself: its API and login are endpoints of its own tenant, edited like any other."""

from __future__ import annotations

from typing import Final

from django.db import transaction

from headroom_edge.keys import OWN_ENDPOINTS, OWN_TENANT
from headroom_edge.local import LocalLimit
from quotas.errors import accepted
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.tenants import NewTenant, tenants_create
from tenants.models import Tenant

API: Final = f"{OWN_ENDPOINTS}api"
LOGIN: Final = f"{OWN_ENDPOINTS}login"
REASON: Final = "Headroom limits its own API and login from the start; change these limits as you need."

# One name tried from one address is a person who forgot; the other two bound whoever tries many names or has many
# addresses. While the store is away the API stays open, so that it can be mended, and the login is counted here.
_DOCUMENT: Final = f"""
tiers: [{{name: headroom}}]
endpoints:
  - {{name: "{API}"}}
  - {{name: "{LOGIN}"}}
policies:
  - name: headroom-api
    tier: headroom
    endpoint: "{API}"
    limits:
      - {{name: api, algorithm: token_bucket, rate: 50, per: 1s, burst: 300, subject: "key|user|ip"}}
  - name: headroom-login
    tier: headroom
    endpoint: "{LOGIN}"
    limits:
      - {{name: tries, algorithm: token_bucket, rate: 5, per: 1m, burst: 10, subject: "user+ip", on_failure: local}}
      - {{name: tries-from, algorithm: token_bucket, rate: 30, per: 1m, burst: 60, subject: ip, on_failure: local}}
      - {{name: tries-of, algorithm: token_bucket, rate: 60, per: 1h, burst: 120, subject: user, on_failure: local}}
"""


def login_floor() -> tuple[LocalLimit, ...]:
    """How logins are counted where the store does not count them: by the original limits, whatever was edited since."""
    document = accepted(read_document(_DOCUMENT))
    return tuple(
        LocalLimit(limit.name, limit.algorithm, True, str(limit.subject), LOGIN, False, limit.subject.alternatives)
        for policy in document.policies
        if policy.endpoint == LOGIN
        for limit in policy.limits
    )


def own_limits_install(author: str) -> bool:
    """Returns False if they already exist, perhaps edited since."""
    if Tenant.objects.filter(name=OWN_TENANT).exists():
        return False
    with transaction.atomic():
        # Nobody is there yet who could approve it.
        document_apply(document=accepted(read_document(_DOCUMENT)), author=author, reason=REASON, emergency=True)
        tenants_create(tenants=[NewTenant(OWN_TENANT, "headroom")], author=author, reason=REASON)
    return True
