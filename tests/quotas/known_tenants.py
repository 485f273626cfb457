"""What calibration should find of a synthetic tenant: it follows from the rate alone, without drawing anything."""

from __future__ import annotations

import numpy as np

from headroom_edge.algorithms import TokenBucket
from quotas.observations.arrays import Floats
from quotas.simulation.synthetic_tenants import MINUTE_S, SyntheticTenant, Throttle


def throttled(name: str, rate: float, bucket: TokenBucket) -> SyntheticTenant:
    """Demands more than its limit allows and does not retry."""
    return SyntheticTenant(name, "throttled", lambda seconds: np.full(len(seconds), rate), None, Throttle(bucket))


def retry_storm(
    name: str, rate: float, bucket: TokenBucket, every_s: float = 0.2, most_retries: int = 5
) -> SyntheticTenant:
    """Retries every denied request several times."""
    throttle = Throttle(bucket, every_s, most_retries)
    return SyntheticTenant(name, "retry storm", lambda seconds: np.full(len(seconds), rate), None, throttle)


def true_rate(tenant: SyntheticTenant, start_s: float, end_s: float, q: float) -> float:
    """The expected 60 s rate, in requests per second, that the share `q` of all requests does not exceed."""
    minutes = np.arange(start_s, end_s, MINUTE_S, dtype=np.float64)
    means = tenant.intensity(minutes + MINUTE_S / 2) * MINUTE_S
    sure = np.zeros(len(minutes))
    if tenant.cron is not None:
        sure = np.where(minutes % tenant.cron.every_s < MINUTE_S, tenant.cron.size, 0.0)
    return load_quantile_of_poisson(means, q, sure) / MINUTE_S


def load_quantile_of_poisson(means: Floats, q: float, sure: Floats | None = None) -> float:
    """The load-weighted quantile of counts that are `sure` plus a Poisson variable with these means.

    E[s + M; s + M ≤ k] = s × P(M ≤ k − s) + mean × P(M ≤ k − s − 1).
    """
    pairs = np.stack((np.round(means, 3), np.zeros(len(means)) if sure is None else sure))
    (levels, offsets), weights = np.unique(pairs, axis=1, return_counts=True)
    total = float(((levels + offsets) * weights).sum())
    low, high = 0.0, float((offsets + levels + 12 * np.sqrt(levels) + 12).max())
    while high - low > 1:
        middle = (low + high) // 2
        carried = offsets * _poisson_cdf(levels, middle - offsets) + levels * _poisson_cdf(levels, middle - offsets - 1)
        low, high = (low, middle) if float((carried * weights).sum()) >= q * total else (middle, high)
    return high


def _poisson_cdf(means: Floats, most: Floats) -> Floats:
    """P(M ≤ most) for each mean and its own bound; by logarithms, to avoid underflow."""
    numbers = np.arange(max(1, int(most.max()) + 1))
    factorials = np.concatenate(([0.0], np.cumsum(np.log(numbers[1:]))))
    logs = numbers * np.log(np.maximum(means, 1e-300))[:, None] - means[:, None] - factorials
    cdf: Floats = np.where(numbers <= most[:, None], np.exp(logs), 0.0).sum(axis=1)
    return cdf
