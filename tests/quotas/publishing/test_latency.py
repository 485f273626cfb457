"""F16: from an edit to the first check that meets it."""

from __future__ import annotations

from statistics import median, quantiles

import pytest
import redis

from tests.quotas.publishing.conftest import Run
from tests.quotas.publishing.worlds import quota, tenant_edit, tier_edit, wait_until


def test_edit_changes_the_next_decisions(client: redis.Redis, world: None, run: Run) -> None:
    """How soon is the long form's matter: the machine may be busy with other tests."""
    edits(client, run, 4)


@pytest.mark.faults_long
def test_edits_change_the_next_decisions_at_once(client: redis.Redis, world: None, run: Run) -> None:
    took = edits(client, run, 500)
    assert median(took) <= 0.2
    assert quantiles(took, n=100)[-1] <= 1.0


def edits(client: redis.Redis, run: Run, number: int) -> list[float]:
    run("serve")
    wait_until(lambda: quota(client, "acme") == 10, "first publish")
    return [edit(client, size) for size in range(100, 100 + number)]


def edit(client: redis.Redis, size: int) -> float:
    """Of the tier and of a tenant in turn; seconds after its commit."""
    if size % 2:
        tier_edit(size)
        return wait_until(lambda: quota(client, "acme") == size, "the tier's new limit")
    tenant_edit(size)
    return wait_until(lambda: quota(client, "carol") == size, "the tenant's new limit")


def test_lost_wake_ups_cost_a_poll(client: redis.Redis, world: None, run: Run) -> None:
    run("serve-deaf")
    wait_until(lambda: quota(client, "acme") == 10, "first publish")
    for size in (100, 101):
        edit(client, size)
