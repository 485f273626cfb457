"""How far a new installation has come on its way to the first enforced limit, besides those on Headroom itself."""

from __future__ import annotations

from dataclasses import dataclass

from headroom_edge.keys import OWN_ENDPOINTS, OWN_TENANT
from quotas.models import Endpoint, Limit
from quotas.models.usage import REFUSED, UsageHour
from quotas.selectors.pulse import Pulse, pulse_read
from tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class FirstSteps:
    pulse: Pulse
    endpoint: Endpoint | None
    tenant: Tenant | None
    limit: Limit | None
    is_asked: bool  # a request was counted
    is_denied: bool

    @property
    def is_enforced(self) -> bool:
        return self.limit is not None and self.pulse.is_published


def first_steps_read() -> FirstSteps:
    pulse = pulse_read()
    limits = Limit.objects.exclude(policy__tier__name=OWN_TENANT).order_by("pk")
    asked = UsageHour.objects.exclude(tenant_number__in=Tenant.objects.filter(name=OWN_TENANT).values("number"))
    return FirstSteps(
        pulse=pulse,
        endpoint=Endpoint.objects.filter(retired=False)
        .exclude(name__startswith=OWN_ENDPOINTS)
        .order_by("number")
        .first(),
        tenant=Tenant.objects.exclude(name=OWN_TENANT).select_related("tier").order_by("number").first(),
        limit=limits.select_related("policy__tier", "policy__endpoint", "name").first(),
        is_asked=asked.exists(),
        is_denied=asked.filter(outcome__in=REFUSED).exists(),
    )
