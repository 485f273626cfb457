"""Decides which requests of the demo's history were denied, second by second, by the limits in force then.

Requests are assumed evenly spread within a second, so the remaining burst plus the rate of one second pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from quotas.observations.arrays import Ints

OPEN_ENDED: Final = 2**62


@dataclass(frozen=True, slots=True)
class LimitSpan:
    """The parameters of a limit from `since_s` until the next span."""

    since_s: int
    rate: float
    burst: float


@dataclass(frozen=True, slots=True)
class FlowLimit:
    """A limit on a flow; `outcome` is the Outcome that its denials are counted under."""

    limit: str
    spans: tuple[LimitSpan, ...]
    outcome: str = "d"
    keys: int = 1  # number of API keys, each with its own counter


@dataclass(frozen=True, slots=True)
class FlowLoad:
    """Per second: all requests including retries, and how many of them were denied."""

    offered: Ints
    refused: Ints


def apply_limit(counts: Ints, first_s: int, held: FlowLimit, retries: int, draw: np.random.Generator) -> FlowLoad:
    parts = _split(counts, held.keys, draw)
    found = [_through(part, first_s, held.spans, retries) for part in parts]
    return FlowLoad(sum_of([each.offered for each in found]), sum_of([each.refused for each in found]))


def sum_of(parts: Sequence[Ints]) -> Ints:
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _split(counts: Ints, keys: int, draw: np.random.Generator) -> list[Ints]:
    parts, rest = [], counts
    for left in range(keys, 1, -1):
        part = draw.binomial(rest, 1 / left).astype(np.int64)
        parts.append(part)
        rest = rest - part
    return [*parts, rest]


def _through(counts: Ints, first_s: int, spans: Sequence[LimitSpan], retries: int) -> FlowLoad:
    offered, refused = counts.copy(), np.zeros(len(counts), np.int64)
    ends = [*(span.since_s for span in spans[1:]), OPEN_ENDED]
    for span, end in zip(spans, ends, strict=True):
        begin, stop = max(0, span.since_s - first_s), min(len(counts), end - first_s)
        if begin < stop and _may_exceed(counts[begin:stop], span):
            _walk(offered, refused, range(begin, stop), span, retries)
    return FlowLoad(offered, refused)


def _may_exceed(counts: Ints, span: LimitSpan) -> bool:
    """Whether the limit could deny anything; rules out most flows without walking through their seconds."""
    level = np.cumsum(counts - span.rate)
    return bool((level - np.minimum.accumulate(np.minimum(level, 0.0))).max() > span.burst)


def _walk(offered: Ints, refused: Ints, seconds: range, span: LimitSpan, retries: int) -> None:
    """Walks from one second with requests to the next; clients retry denied requests in the second after."""
    again, rate, full = retries / (retries + 1), span.rate, span.burst + span.rate
    level, last, comes_back = 0.0, seconds.start - 1, 0
    places = np.flatnonzero(offered[seconds.start : seconds.stop]) + seconds.start
    waiting = [(seconds.stop, 0), *zip(places[::-1].tolist(), offered[places[::-1]].tolist(), strict=True)]
    while True:
        if comes_back and last + 1 < waiting[-1][0]:
            here, count = last + 1, 0
        else:
            here, count = waiting.pop()
        if here == seconds.stop:
            return
        level -= rate * (here - last - 1)
        if level < 0.0:
            level = 0.0
        wanted = let = count + comes_back
        if comes_back:
            offered[here] = wanted
        last, comes_back = here, 0
        if level + wanted > full:
            let = int(full - level)
            refused[here] = wanted - let
            comes_back = round((wanted - let) * again)
        level += let - rate
        if level < 0.0:
            level = 0.0
