"""Headroom's limits on itself: its API, pages and login are endpoints of its own tenant, edited like any other."""

from __future__ import annotations

from typing import Final

from django.db import transaction

from headroom_edge.keys import OWN_ENDPOINTS, OWN_TENANT
from headroom_edge.local import LocalLimit
from quotas.errors import accepted
from quotas.models import Endpoint
from quotas.policies.apply import document_apply
from quotas.policies.document import read_document
from quotas.tenants import NewTenant, tenants_create
from tenants.models import Tenant

API: Final = f"{OWN_ENDPOINTS}api"
LOGIN: Final = f"{OWN_ENDPOINTS}login"
PAGES: Final = f"{OWN_ENDPOINTS}pages"  # for accounts of the platform
PORTAL: Final = f"{OWN_ENDPOINTS}portal"  # the same pages, for the users and keys of tenants
ORG: Final = "org"  # the dimension with the tenant of a tenant's user or key; `tenant` itself would be Headroom's
REASON: Final = "Headroom limits its own API, pages and login from the start; change these limits as you need."

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


# A person stays far below: dragging a line in a chart asks up to 16 times a second, but not for long, and an open page
# reloads itself every few seconds, and only while it is visible. A tenant gets less, so that the others notice nothing.
_PAGES_DOCUMENT: Final = f"""
endpoints:
  - {{name: "{PAGES}"}}
  - {{name: "{PORTAL}"}}
policies:
  - name: headroom-pages
    tier: headroom
    endpoint: "{PAGES}"
    limits:
      - {{name: pages, algorithm: token_bucket, rate: 10, per: 1s, burst: 200, subject: "key|user|ip"}}
  - name: headroom-portal
    tier: headroom
    endpoint: "{PORTAL}"
    limits:
      - {{name: portal, algorithm: token_bucket, rate: 2, per: 1s, burst: 60, subject: "key|user|ip"}}
      - {{name: portal-of-tenant, algorithm: token_bucket, rate: 5, per: 1s, burst: 150, subject: "{ORG}|key|user|ip"}}
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
    """Install what this installation has never had. Returns False if there was nothing; what exists may be edited."""
    is_new = not Tenant.objects.filter(name=OWN_TENANT).exists()
    documents = [_DOCUMENT] if is_new else []
    # An installation may be older than these limits. The row of a deleted endpoint stays, so they do not come back.
    if not Endpoint.objects.filter(name=PAGES).exists():
        documents.append(_PAGES_DOCUMENT)
    with transaction.atomic():
        for text in documents:
            # Nobody may be there yet who could approve it.
            document_apply(document=accepted(read_document(text)), author=author, reason=REASON, by_design=True)
        if is_new:
            tenants_create(tenants=[NewTenant(OWN_TENANT, "headroom")], author=author, reason=REASON)
    return bool(documents)
