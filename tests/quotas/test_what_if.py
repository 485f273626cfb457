"""What-if: the fleet's recorded load against a document; nothing is written, and progress is seen."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from quotas.changes.rollout import change_propose, change_start
from quotas.errors import Refused
from quotas.long_tasks import task_file
from quotas.models import Revision, Task
from quotas.policies.edit import limit_set
from quotas.slices import task_do
from quotas.what_if import MOST_OPEN, WHAT_IF, whatif, whatif_ask
from tests.quotas.recorded import make_recorded, working
from tests.quotas.world import GET, SAID, limit_of

pytestmark = pytest.mark.django_db


def document(rate: int, burst: int) -> str:
    return f"""
policies:
  - name: pro-get
    tier: pro
    endpoint: "{GET}"
    limits:
      - {{name: steady, algorithm: token_bucket, rate: {rate}, per: 1m, burst: {burst}}}
      - {{name: each, algorithm: sliding_counter, limit: 5, window: 1m, subject: key}}
"""


@pytest.fixture
def recorded(db: None) -> None:
    """busy asks for more than its tier has; calm does not, and would with less."""
    make_recorded({"busy": working("busy", 0.4, hours=2), "calm": working("calm", 0.1, hours=2)}, days=2)


@pytest.mark.usefixtures("recorded")
def test_it_says_who_is_freed_and_writes_nothing() -> None:
    before, stages = Revision.objects.count(), list[str]()
    found = whatif(document(60, 60), days=2, progress=lambda stage, *_: stages.append(stage))
    assert (found["tenants"], found["freed"], found["newly_hurt"]) == (2, ["busy"], [])
    assert found["denied_before"] > 0 == found["denied_after"]
    (row,) = found["rows"]
    assert (row["tenant"], row["tier"], row["limits_before"]) == ("busy", "pro", {"steady": row["denied_before"]})
    assert set(stages) == {"replaying"}
    assert Revision.objects.count() == before
    assert limit_of("pro-get", "steady").parameters["rate"] == 12


@pytest.mark.usefixtures("recorded")
def test_it_runs_on_a_policy_that_another_change_is_trying_out() -> None:
    plain = whatif(document(60, 60), days=2)
    limit = {"name": "steady", "algorithm": "token_bucket", "rate": 30, "per": "1m", "burst": 30}
    change = change_propose(limit_set, policy="pro-get", limit=limit, **SAID)
    change_start(change=change.pk, mode="shadow", **SAID)
    again = whatif(document(60, 60), days=2)
    assert (again["freed"], again["denied_after"]) == (plain["freed"], plain["denied_after"])


@pytest.mark.usefixtures("recorded")
def test_it_says_who_is_newly_hurt_and_what_redis_will_hold() -> None:
    found = whatif(document(2, 2), days=2)
    assert found["newly_hurt"] == ["calm"]
    assert found["denied_after"] > found["denied_before"]
    redis = found["redis"]
    assert redis["bytes_after"] > redis["bytes_before"] > 0
    assert (redis["limits_per_check_before"], redis["limits_per_check_after"]) == (1, 1)
    assert found["not_replayed"] == ["each"]
    assert found["notes"] == ["each: not replayed, because usage is recorded for tenants, not for other subjects."]


@pytest.mark.usefixtures("recorded")
def test_it_says_which_limits_it_leaves_out_and_why() -> None:
    text = f"""
policies:
  - name: pro-get
    tier: pro
    endpoint: "{GET}"
    limits:
      - {{name: steady, algorithm: token_bucket, rate: 60, per: 1m, adapt: {{floor: 50%, slow: 300ms}}}}
      - {{name: org, algorithm: pool, rate: 60, per: 1m}}
      - {{name: team, algorithm: borrowing, assured: 6, per: 1m, parent: org, subject: team}}
      - {{name: flight, algorithm: adaptive_concurrency, min: 1, max: 9, target: 300ms, hold: 9s}}
"""
    found = whatif(text, days=2)
    assert found["not_replayed"] == ["flight", "org", "team"]
    assert found["notes"] == [
        "flight: not replayed, because it depends on how long each request takes.",
        "org, team: not replayed, because it depends on what all members of its pool ask for.",
        "steady: replayed as configured, without following the health of the endpoint.",
    ]
    assert found["denied_before"] > 0


@pytest.mark.usefixtures("recorded")
def test_a_worker_runs_it_and_leaves_its_result() -> None:
    task = whatif_ask(document=document(60, 60), author="ann", days=2)
    assert (task.state, task.kind) == ("waiting", "whatif")
    task_do(task.pk, WHAT_IF)
    task.refresh_from_db()
    assert (task.state, task.percent, task.problem) == ("done", 100, "")
    assert task.result is not None
    assert task.result["freed"] == ["busy"]
    task_do(task.pk, WHAT_IF)  # delivered twice


def test_one_author_has_only_some_at_once() -> None:
    tasks = [whatif_ask(document="tiers: []", author="ann") for _ in range(MOST_OPEN)]
    with pytest.raises(Refused, match="5 what-ifs of yours are not done yet; wait"):
        whatif_ask(document="tiers: []", author="ann")
    whatif_ask(document="tiers: []", author="bob")
    Task.objects.filter(pk=tasks[0].pk).update(state=Task.State.DONE)
    whatif_ask(document="tiers: []", author="ann")


def test_a_task_that_is_refused_says_why() -> None:
    task = task_file(kind=Task.Kind.WHAT_IF, author="ann", asked={"document": "policies: [{name: x}]", "days": 1})
    task_do(task.pk, WHAT_IF)
    task.refresh_from_db()
    assert task.state == "failed"
    assert "tier" in task.problem or "endpoint" in task.problem


def test_much_text_is_read_by_the_worker_unless_it_cannot_be_stored() -> None:
    wrong = "policies: [{name: x}]" + "\n# padding" * 10_000
    task = whatif_ask(document=wrong, author="ann")
    task_do(task.pk, WHAT_IF)
    task.refresh_from_db()
    assert (task.state, "policies[0]" in task.problem) == ("failed", True)
    for unfit in ("\0", "\ud800"):
        with pytest.raises(Refused):
            whatif_ask(document=wrong + unfit, author="ann")


@pytest.mark.parametrize("days", [0.0, -1.0, 31.0, float("nan")])
def test_a_span_that_is_not_kept_is_refused(days: float) -> None:
    with pytest.raises(Refused):
        whatif_ask(document="tiers: []", author="ann", days=days)


@pytest.mark.usefixtures("recorded")
def test_the_command_prints_a_table_and_refuses_a_bad_file(tmp_path: Path) -> None:
    path, out = tmp_path / "draft.yaml", StringIO()
    path.write_text(document(60, 60))
    call_command("whatif", str(path), "--days", "2", stdout=out, stderr=StringIO())
    assert "0 tenants newly denied, 1 no longer denied" in out.getvalue()
    path.write_text("tiers: {")
    for wrong in (path, tmp_path / "missing.yaml"):
        with pytest.raises(CommandError) as error:
            call_command("whatif", str(wrong), stdout=out, stderr=StringIO())
        assert error.value.returncode == 2
