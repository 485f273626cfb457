"""The timeline of the demo's limit that adapts, as the task would have read it: every ten seconds while it moved."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from quotas.adaptive.limits import rate_reason
from quotas.demo.slow_backend import BACK_S, CRUISE, LIMIT, NOTICED_S, RATE, SLOWDOWN
from quotas.models import AdaptiveReading, Limit
from quotas.models.adaptive import RATE as OF_RATE
from quotas.models.usage import BEGINNING
from quotas.policies.adapt import WHOLE, Adapt
from quotas.publishing.factors import LoopState
from quotas.simulation.synthetic_tenants import HOUR_S, MINUTE_S

WRITTEN: Final = timedelta(hours=24)
READ_EVERY_S: Final = 10
DRAINED_S: Final = 20  # from the first cut to the first good answers
CALM_S: Final = 60
USUAL_LOAD: Final = 5.0  # answers a second


def write_readings(end: datetime) -> None:
    """Up to `end`, of the time that pages show."""
    row = Limit.objects.select_related("policy").filter(name__name=LIMIT).first()
    if row is None or row.adapt is None:
        return
    adapt = Adapt.parse(row.adapt)
    AdaptiveReading.objects.bulk_create(
        AdaptiveReading(
            at=BEGINNING + timedelta(seconds=second),
            kind=OF_RATE,
            policy=row.policy.name,
            limit_name=LIMIT,
            endpoint_number=row.policy.endpoint_id or 0,
            tenant_number=0,
            value=state.factor,
            least=adapt.floor,
            most=adapt.ceiling,
            reason=rate_reason(adapt, state),
        )
        for second, state in _states(adapt, int(end.timestamp()))
    )


def _states(adapt: Adapt, end_s: int) -> Iterator[tuple[int, LoopState]]:
    """A reading for each minute, and for each ten seconds while the limit moves."""
    first_s = end_s - int(WRITTEN.total_seconds())
    for second in range(first_s - first_s % READ_EVERY_S, end_s, READ_EVERY_S):
        state = state_at(adapt, second)
        if second % MINUTE_S == 0 or state.mode != "free" or state.factor < adapt.ceiling:
            yield second, state


def state_at(adapt: Adapt, second: int) -> LoopState:
    """Where the loop settles (lua/health.lua): drained, just below what the backend takes, back after a calm minute."""
    since_s = second % HOUR_S - SLOWDOWN.minutes.start * MINUTE_S - NOTICED_S
    good_s = second % HOUR_S - SLOWDOWN.minutes.stop * MINUTE_S
    estimate = SLOWDOWN.knee / RATE
    if since_s < 0 or good_s >= BACK_S:
        return _state("free", adapt.ceiling, USUAL_LOAD, 0.0)
    if since_s < DRAINED_S:
        return _state("drain", adapt.floor, SLOWDOWN.knee, 0.6)
    cruise = round(WHOLE * estimate * CRUISE)
    if good_s < CALM_S:
        return _state("cruise", cruise, SLOWDOWN.knee * CRUISE, 0.0)
    rising = cruise + (adapt.ceiling - cruise) * (good_s - CALM_S) // (BACK_S - CALM_S)
    return _state("free", rising, USUAL_LOAD * rising / WHOLE, 0.0)


def _state(mode: str, factor: int, answers: float, bad: float) -> LoopState:
    return LoopState(LIMIT, factor, mode, None, answers, bad, 0)
