"""Rates and latency: packed seconds, histograms, and the usage log with the position of each fold.

Rows of rates are computed from the seconds and can be recomputed; a fold replaces them as a whole.
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from django.db import models

from quotas.models.packed_usage import FRESH, PACKED
from quotas.models.usage import ROLLUPS, Arrival, Denial, Partitioned
from quotas.models.usage_totals import TOTALS, WHOLE

EVERY_ENDPOINT = -1  # the sum over all endpoints, for limits on `*`; 0 is every endpoint that is not registered


class UsageLog(models.Model):
    """The cells of each drain, kept until every fold has read them."""

    id = models.BigAutoField(primary_key=True)  # drains commit one at a time, so no smaller id appears later
    at = models.DateTimeField()  # Redis time of the drain
    cells = models.BinaryField()  # quotas.observations.cells
    observed = models.BinaryField(default=b"")  # quotas.observations.latency

    def __str__(self) -> str:
        return f"log {self.id} of {self.at:%Y-%m-%d %H:%M:%S}"


class FoldName(models.TextChoices):
    STEPS = "steps", "UsageStep"
    MINUTES = "minutes", "UsageMinute"
    HOURS = "hours", "UsageHour and UsageDay"
    RATES = "rates", "PackedSeconds and RatesHour"
    LATENCY = "latency", "LatencyHour"
    DAYS = "days", "RatesDay, of days that are over"


class FoldState(models.Model):
    """How far one fold has read the log."""

    name = models.CharField(max_length=32, primary_key=True)
    position = models.BigIntegerField(default=0)  # id of the last log row that was folded
    until = models.DateTimeField()  # Redis time: everything counted before is folded
    rest = models.BinaryField(default=b"")  # read from the log, but too recent to be folded

    def __str__(self) -> str:
        return f"{self.name} up to {self.until:%Y-%m-%d %H:%M:%S}"


class PackedSeconds(Partitioned):
    """The seconds with requests of one hour, or of one closed day (quotas.observations.seconds)."""

    pk = models.CompositePrimaryKey("tenant_number", "endpoint_number", "start")
    start = models.DateTimeField()
    tenant_number = models.IntegerField()
    endpoint_number = models.IntegerField()
    packed = models.BinaryField()

    time_column = "start"
    slice = timedelta(days=2)
    keep = "seconds"
    step = timedelta(hours=1)

    class Meta:
        db_table = "quotas_seconds"

    def __str__(self) -> str:
        return f"seconds of tenant {self.tenant_number} on endpoint {self.endpoint_number} in the hour of {self.start}"


class Rates(Partitioned):
    """Requests offered (allowed and denied) in windows of 1, 10 and 60 s, and the same in units of cost.

    The columns of cost are null if every request cost 1: then they equal those of requests.
    """

    pk = models.CompositePrimaryKey("tenant_number", "endpoint_number", "start")
    start = models.DateTimeField()
    allowed = models.BigIntegerField()  # requests
    denied = models.BigIntegerField()
    peak_1s = models.BigIntegerField()  # the most requests in one window; 0: not known
    peak_10s = models.BigIntegerField()
    peak_60s = models.BigIntegerField()
    cost_1s = models.BigIntegerField(null=True)
    cost_10s = models.BigIntegerField(null=True)
    cost_60s = models.BigIntegerField(null=True)
    tenant_number = models.IntegerField()
    endpoint_number = models.IntegerField()  # or EVERY_ENDPOINT
    requests = models.BinaryField()  # three histograms (quotas.observations.histogram)
    cost = models.BinaryField(null=True)

    time_column = "start"
    step: ClassVar[timedelta]

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"rates of tenant {self.tenant_number} on endpoint {self.endpoint_number} in {self.step} of {self.start}"


class RatesHour(Rates):
    step = timedelta(hours=1)
    slice = timedelta(days=10)
    keep = "rates_1h"

    class Meta:
        db_table = "quotas_rates_1h"


class RatesDay(Rates):
    step = timedelta(days=1)
    slice = timedelta(days=100)
    keep = "rates_1d"

    class Meta:
        db_table = "quotas_rates_1d"


class LatencyHour(Partitioned):
    """Latency of an endpoint in the seconds of an hour that had about this load."""

    pk = models.CompositePrimaryKey("endpoint_number", "start", "load")
    start = models.DateTimeField()
    answers = models.BigIntegerField()
    errors = models.BigIntegerField()  # answers with status 500 or above
    total_us = models.BigIntegerField()
    seconds = models.IntegerField()  # number of seconds with this load
    load = models.SmallIntegerField()  # bucket of answers per second (headroom_edge.observations)
    endpoint_number = models.IntegerField()
    latency = models.BinaryField()  # histogram of microseconds

    time_column = "start"
    slice = timedelta(days=10)
    keep = "latency"
    step = timedelta(hours=1)

    class Meta:
        db_table = "quotas_latency_1h"

    def __str__(self) -> str:
        return f"latency of endpoint {self.endpoint_number} at load {self.load} in the hour of {self.start}"


RATES: tuple[type[Rates], ...] = (RatesHour, RatesDay)
PARTITIONED: tuple[type[Partitioned], ...] = (
    *(FRESH.get(model, model) for model in ROLLUPS),
    *PACKED.values(),
    *TOTALS.values(),
    *WHOLE.values(),
    Denial,
    Arrival,
    PackedSeconds,
    *RATES,
    LatencyHour,
)
