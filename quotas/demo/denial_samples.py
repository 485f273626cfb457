"""Single denials of the last days, so that a 429 of yesterday can be explained too: a sample, as the drain keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from headroom_edge.algorithms.base import SECOND_US
from quotas.demo.traffic_history import FlowSeries
from quotas.models.usage import Outcome
from quotas.usage.batch_format import DenialRecord

DAYS_S: Final = 3 * 86_400
MOST: Final = 400  # of one series
RETRY_US: Final = (200_000, 4_000_000)


def denials(series: FlowSeries, first_s: int, revision: int, draw: np.random.Generator) -> Iterator[DenialRecord]:
    if series.outcome != Outcome.DENIED:
        return
    places = np.flatnonzero(series.counts)
    places = places[places >= len(series.counts) - DAYS_S]
    chosen = np.sort(draw.choice(places, min(MOST, len(places)), replace=False))
    for place in chosen.tolist():
        yield DenialRecord(
            tenant=series.tenant,
            endpoint=series.endpoint,
            at_us=(first_s + place) * SECOND_US + int(draw.integers(SECOND_US)),
            limit=series.limit,
            reason="limit",
            cost=series.cost,
            retry_us=int(draw.integers(*RETRY_US)),
            revision=revision,
            subject=b"",
        )
