"""F14: kill -9 at each numbered step. Redis equals Postgres after the restart; no shard ever goes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis
from django.conf import settings

from quotas.models import Outbox, Revision
from quotas.models.revision import newest_revision_number
from quotas.publishing.publisher import PublishStep
from quotas.publishing.publisher_process import PublisherProcess
from tests.quotas.publishing.conftest import Run
from tests.quotas.publishing.worlds import differences, publisher_for, quota, revisions, tenant_edit, tier_edit

STEPS = [step.name for step in PublishStep]


Kill = Callable[..., None]


@pytest.fixture
def kill(run: Run) -> Kill:
    process = run("die")

    def at(which: str, step: str, times: int = 1) -> None:
        """Which pass of a new publisher dies, and when it comes to which step for the how manieth time."""
        if process.stdin is None or process.stdout is None:
            raise AssertionError("the process was started with pipes")
        process.stdin.write(f"{which} {step} {times}\n")
        process.stdin.flush()
        assert process.stdout.readline() == f"{step} killed\n"

    return at


def test_publisher_killed_at_any_step_of_its_first_pass(client: redis.Redis, world: None, kill: Kill) -> None:
    publisher_for(client)
    steps = [step for step in STEPS if step != PublishStep.APPLIED.name]  # there is no base for a delta yet
    before = revisions(client)
    for step in steps:
        tier_edit(100 + PublishStep[step])
        kill("first", step)
        before = never_lower(client, before)
        assert PublisherProcess(settings.REDIS_URL, settings.HEADROOM_SHARDS).once() == newest_revision_number()
        before = never_lower(client, before)
        assert differences(client) == []
        assert quota(client, "acme") == 100 + PublishStep[step]


def test_publisher_killed_at_any_step_after_an_edit(client: redis.Redis, world: None, kill: Kill) -> None:
    publisher_for(client)
    staged = (PublishStep.STAGED.name,)  # a delta fits, so no shard is staged
    before = revisions(client)
    for step in [step for step in STEPS if step not in staged]:
        kill("next", step)
        before = never_lower(client, before)
        PublisherProcess(settings.REDIS_URL, settings.HEADROOM_SHARDS).once()
        before = never_lower(client, before)
        assert differences(client) == []
        assert (quota(client, "acme"), quota(client, "carol")) == (100 + PublishStep[step], 200 + PublishStep[step])
        assert not Outbox.objects.exists()


def test_publisher_killed_between_two_batches_of_shards(client: redis.Redis, world: None, kill: Kill) -> None:
    PublisherProcess(settings.REDIS_URL, settings.HEADROOM_SHARDS).once()
    tier_edit(11)
    kill("first", "STAGED", 3)
    # It did not know what the edit was, so no shard changes before all can.
    assert set(revisions(client)) == {newest_revision_number() - 1}
    PublisherProcess(settings.REDIS_URL, settings.HEADROOM_SHARDS).once()
    assert differences(client) == []
    assert set(revisions(client)) == {newest_revision_number()}


def test_time_of_a_revision_survives_the_kill(client: redis.Redis, world: None, kill: Kill) -> None:
    PublisherProcess(settings.REDIS_URL, settings.HEADROOM_SHARDS).once()
    tier_edit(11)
    tenant_edit(31)
    kill("first", "LOADED")
    stamps = dict(Revision.objects.values_list("number", "published_us"))
    assert all(stamps.values())
    PublisherProcess(settings.REDIS_URL, settings.HEADROOM_SHARDS).once()
    assert dict(Revision.objects.values_list("number", "published_us")) == stamps


def never_lower(client: redis.Redis, before: list[int]) -> list[int]:
    now = revisions(client)
    assert all(new >= old for new, old in zip(now, before, strict=True))
    return now
