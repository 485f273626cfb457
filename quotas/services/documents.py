"""Policy as code: a document of tiers, endpoints and policies, applied as one revision."""

from __future__ import annotations

from typing import Unpack

from quotas.models import Revision
from quotas.policy.document import Document
from quotas.policy.spec import Carry
from quotas.services.drafts import draft
from quotas.services.endpoints import write_endpoint
from quotas.services.permits import Permits
from quotas.services.policy_rows import write_policy
from quotas.services.tenants import write_tier
from tenants.models import Tier


def document_apply(
    *, document: Document, author: str, reason: str, carry: Carry = "keep", **permits: Unpack[Permits]
) -> Revision | None:
    """Makes everything in the document what it says; what the document does not name stays as it is."""
    with draft(action="document_apply", author=author, reason=reason, carry=carry, **permits) as opened:
        present = set(Tier.objects.values_list("name", flat=True))
        for name in document.tiers:
            if name not in present:
                write_tier(opened, name)
        for endpoint in document.endpoints:
            write_endpoint(opened, endpoint)
        for policy in document.policies:
            write_policy(opened, policy)
    return opened.revision
