"""How long the demo's endpoints take to respond.

By day, one of them gets more than its backend can take at once. The backend of another slows down every hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import numpy as np
from django.db import connection
from psycopg.sql import SQL, Identifier

from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.observations import ENDS
from quotas.demo.enforcement import sum_of
from quotas.demo.slow_backend import ETA, SLOWDOWN, Slowdown
from quotas.demo.traffic_history import FlowSeries
from quotas.models import Endpoint
from quotas.models.usage import BEGINNING, LET_THROUGH
from quotas.models.usage_rates import LatencyHour
from quotas.observations.arrays import Floats, Ints
from quotas.observations.latency import LatencyCounts, load_rows, pack_histogram
from quotas.usage.partitions import ensure_partitions, partition_of

SECOND: Final = timedelta(seconds=1)
SPREAD: Final = 0.35  # of the logarithm of a response time
ERRORS: Final = 0.002  # share of responses, where the backend is not overloaded
_ENDS: Final = np.array(ENDS, np.int64)


@dataclass(frozen=True, slots=True)
class Backend:
    """Takes `base_s` for a request alone; from `knee` requests a second on, each further one waits for the others."""

    base_s: float
    knee: float = np.inf
    per_request_s: float = 0.0  # for each request a second beyond the knee
    slowdown: Slowdown | None = None

    def seconds(self, load: Floats, at_s: Ints, draw: np.random.Generator) -> Floats:
        """The response time of one request at each of these loads, in requests a second, and times."""
        knee = np.where(self.slowdown.has(at_s), self.slowdown.knee, self.knee) if self.slowdown else self.knee
        middle = self.base_s + self.per_request_s * np.maximum(load - knee, 0.0)
        found: Floats = middle * np.exp(SPREAD * draw.standard_normal(len(load)))
        return found


PLAIN: Final = Backend(0.06)
BACKENDS: Final[Mapping[str, Backend]] = {
    "rider:track": Backend(0.04, 8.0, 0.035),
    "rider:quote": Backend(0.12),
    "rider:request": Backend(0.18),
    ETA: Backend(0.06, np.inf, 0.4, SLOWDOWN),
    "partner:exports": Backend(0.9),
    "admin:reports": Backend(0.7),
    "payments:charge": Backend(0.25),
}


def backend_of(endpoint: str) -> Backend:
    return BACKENDS.get(endpoint, PLAIN)


def write_latency(found: Sequence[FlowSeries], day: range) -> None:
    """Writes the response times of all requests of a day that were let through. The tables hold nothing of that day."""
    names = dict(Endpoint.objects.values_list("number", "name"))
    answers = []
    for number, name in names.items():
        parts = [series.counts for series in found if series.endpoint == number and series.outcome in LET_THROUGH]
        if parts:
            answers.append(_answers(sum_of(parts), number, backend_of(name), day.start))
    rows = [(BEGINNING + row.hour_s * SECOND, row) for row in load_rows(LatencyCounts.joined(answers))]
    ensure_partitions(partition_of(LatencyHour, start) for start in {start for start, _ in rows})
    columns = "start, endpoint_number, load, seconds, answers, errors, total_us, latency"
    statement = SQL("COPY {} ({}) FROM STDIN").format(Identifier(LatencyHour._meta.db_table), SQL(columns))
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for start, row in rows:
            numbers = (row.endpoint, row.load, row.seconds, row.answers, row.errors, row.total_us)
            copy.write_row((start, *numbers, pack_histogram(row.latency)))


def _answers(load: Ints, endpoint: int, backend: Backend, first_s: int) -> LatencyCounts:
    draw = np.random.default_rng([endpoint, first_s])
    seconds = np.repeat(np.arange(len(load)), load)
    took_us = backend.seconds(load[seconds].astype(np.float64), first_s + seconds, draw) * SECOND_US
    buckets = np.searchsorted(_ENDS, np.maximum(took_us, 1).astype(np.int64))
    is_error = (draw.random(len(seconds)) < ERRORS).astype(np.int64)
    keys, counts = np.unique((seconds * 2 + is_error) * len(_ENDS) + buckets, return_counts=True)
    places, bucket = np.divmod(keys, len(_ENDS))
    second, failed = np.divmod(places, 2)
    return LatencyCounts(first_s + second, np.full(len(keys), endpoint), failed, bucket, counts)
