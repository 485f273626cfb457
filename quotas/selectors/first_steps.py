"""How far a new installation has come on its way to the first enforced limit."""

from __future__ import annotations

from dataclasses import dataclass

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
    limit = Limit.objects.select_related("policy__tier", "policy__endpoint", "name").order_by("pk").first()
    return FirstSteps(
        pulse=pulse,
        endpoint=Endpoint.objects.filter(retired=False).order_by("number").first(),
        tenant=Tenant.objects.select_related("tier").order_by("number").first(),
        limit=limit,
        is_asked=UsageHour.objects.exists(),
        is_denied=UsageHour.objects.filter(outcome__in=REFUSED).exists(),
    )
