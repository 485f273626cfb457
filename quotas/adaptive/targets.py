"""Targets of adaptive limits that say `calibrated`: 1.5 × an endpoint's usual latency while it has little to do.

Measured from the latency rollups and kept for each endpoint. A new target is published like any other change of a plan,
but it is no revision: nobody has edited anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final

from django.db import transaction

from headroom_edge.algorithms.adaptive_concurrency import CALIBRATED, LONGEST_TARGET_US, AdaptiveConcurrency
from quotas.models import EndpointTarget, Limit
from quotas.outbox import put_again
from quotas.usage.queries.latency import LatencyAtLoad, latency_read

MEASURED: Final = timedelta(days=7)
MARGIN: Final = Fraction(3, 2)
ENOUGH: Final = 1_000  # answers
CALM: Final = 4  # the quarter of the answers that came at the lowest loads
TOLERATED: Final = Fraction(1, 10)  # a target that moves by less stays
MILLISECOND_US: Final = 1_000


def targets_measure(now: datetime) -> int:
    """Returns how many endpoints have a new target."""
    changed = 0
    for number in calibrated_endpoints():
        target_us = target_of(latency_read(number, now - MEASURED, now))
        if target_us is not None and target_keep(number, target_us, now):
            changed += 1
    if changed:
        put_again()
    return changed


def calibrated_endpoints() -> list[int]:
    limits = Limit.objects.filter(algorithm=AdaptiveConcurrency.name, parameters__target=CALIBRATED)
    numbers = limits.filter(policy__endpoint__isnull=False).order_by("policy__endpoint")
    return list(numbers.values_list("policy__endpoint", flat=True).distinct())


def target_of(loads: Sequence[LatencyAtLoad]) -> int | None:
    """`loads`: the lowest first. None: too few answers to tell."""
    wanted = max(ENOUGH, sum(one.answers for one in loads) // CALM)
    answers = total_us = 0
    for one in loads:
        answers, total_us = answers + one.answers, total_us + one.total_us
        if answers >= wanted:
            target_ms = -(-total_us * MARGIN // (answers * MILLISECOND_US))
            return max(MILLISECOND_US, min(int(target_ms) * MILLISECOND_US, LONGEST_TARGET_US))
    return None


@transaction.atomic
def target_keep(endpoint: int, target_us: int, now: datetime) -> bool:
    """Whether it differs enough from the one that is in force."""
    held = EndpointTarget.objects.select_for_update().filter(pk=endpoint).first()
    if held and abs(target_us - held.target_us) <= TOLERATED * held.target_us:
        return False
    EndpointTarget.objects.update_or_create(pk=endpoint, defaults={"target_us": target_us, "measured_at": now})
    return True
