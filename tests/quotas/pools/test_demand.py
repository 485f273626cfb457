"""Shares by real demand, from the stored pool to the printed proposal."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from quotas.long_tasks import task_file
from quotas.models import Task
from quotas.policies.edit import limit_set, policy_create
from quotas.pools.demand import DEMAND, busiest_members, demand_ask, demand_proposal
from quotas.pools.queries import PoolRow, pool_read
from quotas.simulation.synthetic_tenants import SyntheticTenant
from quotas.slices import task_do
from quotas.tenant_summary import measure_tenants
from quotas.whole_tasks import KEPT, old_tasks_delete
from tests.quotas.recorded import NOW, make_recorded
from tests.quotas.world import FORCED, GET

pytestmark = pytest.mark.django_db
POOL = {"name": "rides", "algorithm": "pool", "rate": 60, "per": "1m", "burst": 100, "reserve": 20}
SHARE = {"name": "share", "algorithm": "borrowing", "assured": 10, "per": "1m", "burst": 5, "ceiling": 12}


def awake(name: str, part: int) -> SyntheticTenant:
    """In one sixth of the day."""
    return SyntheticTenant(name, "awake", lambda seconds: np.where(seconds % 86_400 // 14_400 == part, 0.5, 0.0))


def shared_pool(subject: str = "tenant") -> PoolRow:
    """Two tenants that ask for 30 a minute each, one by day and one by night, with a ceiling of 12."""
    make_recorded({"day": awake("day", 2), "night": awake("night", 5)}, days=20)
    policy_create(name="rides-pool", endpoint=GET, limits=[POOL], **FORCED)
    share = {**SHARE, "parent": "rides", "subject": subject}
    limit_set(policy="pro-get", limit=share, **FORCED)
    measure_tenants(NOW)
    found = pool_read("rides-pool", "rides")
    assert found is not None
    return found


def test_the_command_prints_every_share_with_its_reasons_and_the_forecast() -> None:
    shared_pool()
    said = StringIO()
    call_command("calibrate", pool="rides-pool/rides", stdout=said)
    text = said.getvalue()
    assert text.startswith("rides: a pool of 60/min")
    assert "In the busiest" in text
    assert "that the shares were not fitted to" in text
    for name in ("day", "night"):
        assert f"  {name}: 10/min guaranteed, ceiling 12 → " in text
    assert "half of its load came at 3" in text
    assert "by ceiling" in text


@pytest.mark.parametrize("name", ["rides-pool", "rides-pool/none", "none/rides", "pro-get/steady"])
def test_the_command_refuses_what_is_no_pool(name: str) -> None:
    make_recorded({"day": awake("day", 2)}, days=1)
    with pytest.raises(CommandError, match="has no pool"):
        call_command("calibrate", pool=name)


def test_members_that_count_by_key_keep_their_shares_with_the_reason() -> None:
    pool = shared_pool("key")
    found = demand_proposal(pool, busiest_members(pool))
    assert [one.proposed for one in found.members] == [None, None]
    assert all(one.reasons[0].startswith("it counts by key") for one in found.members)


def test_a_worker_proposes_the_same_and_its_progress_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quotas.slices.EVERY_S", 0.0)
    pool = shared_pool()
    seen: list[tuple[str, int]] = []

    def hear(doing: str, percent: int, _: int) -> None:
        seen.append((doing, percent))

    task = task_do(demand_ask(pool=pool, author="ann").pk, DEMAND, hear)
    assert task.state == "done"
    assert task.result is not None
    assert task.result["members"] == demand_proposal(pool, busiest_members(pool)).json()["members"]
    said = dict.fromkeys(doing for doing, _ in seen)
    assert list(said) == ["measuring", "replaying today's shares", "replaying the proposed shares"]
    assert [percent for _, percent in seen] == sorted(percent for _, percent in seen)


def test_a_proposal_is_forgotten_when_it_is_old_and_over() -> None:
    over, still_open = (
        task_file(kind=Task.Kind.SHARES, author="ann", asked={"policy": "gone", "limit": "rides"}) for _ in range(2)
    )
    task_do(over.pk, DEMAND)
    assert old_tasks_delete(timezone.now()) == 0
    assert old_tasks_delete(timezone.now() + KEPT + timedelta(minutes=1)) == 1
    assert list(Task.objects.values_list("pk", flat=True)) == [still_open.pk]


def test_a_pool_that_is_gone_meanwhile_is_said() -> None:
    task = task_file(kind=Task.Kind.SHARES, author="ann", asked={"policy": "gone", "limit": "rides"})
    task = task_do(task.pk, DEMAND)
    assert (task.state, task.problem) == ("failed", "pool: gone has no pool rides any more")
