"""Rollups over all tenants together, so that a page about everyone does not add up over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quotas.models.usage import Rollup, UsageDay, UsageHour, UsageMinute, UsageStep

EVERYONE: Final = -1  # as the tenant's number, in every row


class TotalStep(Rollup):
    step, slice, keep = UsageStep.step, UsageStep.slice, UsageStep.keep

    class Meta:
        db_table = "quotas_total_10s"


class TotalMinute(Rollup):
    step, slice, keep = UsageMinute.step, UsageMinute.slice, UsageMinute.keep

    class Meta:
        db_table = "quotas_total_1m"


class TotalHour(Rollup):
    step, slice, keep = UsageHour.step, UsageHour.slice, UsageHour.keep

    class Meta:
        db_table = "quotas_total_1h"


class TotalDay(Rollup):
    step, slice, keep = UsageDay.step, UsageDay.slice, UsageDay.keep

    class Meta:
        db_table = "quotas_total_1d"


TOTALS: Final[Mapping[type[Rollup], type[Rollup]]] = {
    UsageStep: TotalStep,
    UsageMinute: TotalMinute,
    UsageHour: TotalHour,
    UsageDay: TotalDay,
}
