"""Two people change the same objects at the same moment: one after the other, or one is told why not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
import redis
from django.conf import settings
from django.db import connection
from django.utils import timezone

from quotas.changes.commit import commit
from quotas.changes.freeze import Frozen, freeze_set
from quotas.changes.promotion import change_promote
from quotas.changes.rollout import change_drop, change_propose, change_start
from quotas.endpoints import endpoint_delete
from quotas.errors import Refused
from quotas.models import Change, Endpoint, Override, Policy, Revision
from quotas.models.change import holding
from quotas.overrides import OverrideChange, overrides_create
from quotas.policies.edit import limit_set, policy_create
from quotas.publishing import store
from quotas.publishing.publisher import Publisher
from quotas.tenants import (
    NewTenant,
    tenant_archive,
    tenant_restore,
    tenants_create,
    tenants_move,
    tenants_suspend,
    tenants_tag,
    tier_create,
    tier_retire,
)
from tenants.models import Tenant
from tests.quotas.publishing.worlds import differences
from tests.quotas.world import FORCED, PAY, SAID, bucket, make_world
from tests.valkeys import SpareValkey

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[[], object]
MANY = [f"t-{number}" for number in range(60)]  # so many are judged before the edit takes its turn
ROUNDS = 4


@pytest.fixture
def published(valkey: redis.Redis, valkey_server: SpareValkey) -> Iterator[Callable[[], None]]:
    """Publishes, and checks that Redis has what Postgres says."""
    make_world()
    tenants_create(tenants=[NewTenant(name, "free") for name in MANY], **SAID)
    with store.connect(valkey_server.url) as client:
        store.prepare(client)

        def publish() -> None:
            Publisher(client, settings.HEADROOM_SHARDS).publish()
            assert differences(client) == []

        yield publish


def race(*acts: Act) -> list[object]:
    """What each of them returned, or how it was refused. Anything else fails the test."""
    start = threading.Barrier(len(acts))

    def run(act: Act) -> object:
        try:
            start.wait()
            return act()
        except Refused as refused:
            return refused
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return [future.result() for future in [pool.submit(run, act) for act in acts]]


def large(edit: Callable[..., object]) -> object:
    """As the pages and the API write an edit of many."""
    return commit(edit, rehearsal=edit)


SWEPT = [pytest.param(end, marks=pytest.mark.sweep) for end in ("drop", "start")]


@pytest.mark.parametrize("end", ["promote", *SWEPT])
def test_a_tenant_is_archived_while_somebody_decides_on_its_trial(end: str, published: Callable[[], None]) -> None:
    policy_create(name="own", tenant="acme", limits=[bucket(500)], **FORCED)
    for turn in range(ROUNDS):
        number = change_propose(limit_set, policy="own", limit=bucket(400 + turn), **SAID).pk
        if end != "start":
            change_start(change=number, mode="shadow", **SAID)
        decide: Act = {
            "promote": partial(change_promote, change=number, **FORCED),
            "drop": partial(change_drop, change=number, **SAID),
            "start": partial(change_start, change=number, mode="shadow", **SAID),
        }[end]
        acts: list[Act] = [decide, partial(tenant_archive, name="acme", **SAID)]
        race(*(acts if turn % 2 else acts[::-1]))
        published()
        assert Tenant.objects.get(name="acme").archived_at
        assert not Change.objects.filter(holding()).exists() or end == "start"
        if not Change.objects.get(pk=number).is_over:
            change_drop(change=number, **SAID)
        tenant_restore(name="acme", **SAID)
        published()
        assert not Policy.objects.get(name="own").limits.exclude(candidate=None).exists()


def test_nobody_is_left_on_a_tier_that_is_retired(published: Callable[[], None]) -> None:
    for turn in range(ROUNDS):
        tier_create(name="gold", **SAID)
        policy_create(name=f"gold-{turn}", tier="gold", limits=[bucket(50)], **FORCED)
        move = partial(tenants_move, names=MANY, tier="gold", **FORCED)
        retire = partial(tier_retire, name="gold", to="free", **FORCED)
        acts = [partial(large, move), partial(large, retire)]
        race(*(acts if turn % 2 else acts[::-1]))
        published()
        left = Tenant.objects.filter(tier__name="gold", tier__retired=True)
        assert not left.exists()
        assert not Policy.objects.filter(tier__name="gold", tier__retired=True).exists()
        if Tenant.objects.filter(tier__name="gold").exists():
            tier_retire(name="gold", to="free", **FORCED)


def test_an_endpoint_is_retired_while_tenants_move_to_a_tier_with_limits_on_it(published: Callable[[], None]) -> None:
    policy_create(name="pro-pay", tier="pro", endpoint=PAY, limits=[bucket(5, "charges")], **FORCED)
    given = partial(
        overrides_create,
        tenants=MANY,
        change=OverrideChange(PAY, None, None, {"own": {"algorithm": "token_bucket", "rate": 5}}),
        **FORCED,
    )
    race(
        partial(endpoint_delete, name=PAY, with_limits=True, **FORCED),
        partial(large, partial(tenants_move, names=MANY, tier="pro", **FORCED)),
        partial(large, given),
    )
    published()
    if Endpoint.objects.get(name=PAY).retired:
        assert not Policy.objects.filter(endpoint__name=PAY).exists()
        assert not Override.objects.filter(endpoint__name=PAY, cancelled_at=None).exists()


def test_nothing_is_written_after_changes_are_frozen(published: Callable[[], None]) -> None:
    newest: list[int] = []

    def freeze() -> object:
        row = freeze_set(end=timezone.now() + timedelta(hours=1), author="ann", reason="the holidays")
        newest.append(Revision.objects.latest("number").number)
        return row

    edits: list[Act] = [
        partial(tenants_move, names=MANY, tier="pro", **FORCED),
        partial(tenants_suspend, names=MANY, **SAID),
        partial(tenants_tag, names=MANY, add=["eu"], **SAID),
        partial(overrides_create, tenants=MANY, change=OverrideChange(multiplier=(2, 1)), **FORCED),
        partial(tier_retire, name="free", to="pro", **FORCED),
    ]
    outcomes = race(freeze, *(partial(large, edit) for edit in edits))
    # A suspension stops harm, so it may pass.
    late = Revision.objects.filter(number__gt=newest[0]).exclude(action="tenant_suspend")
    assert not late.exists(), [row.action for row in late]
    refused = [outcome for outcome in outcomes[1:] if isinstance(outcome, Refused)]
    assert all(isinstance(one, Frozen) or "changed" in str(one) or "tier" in str(one) for one in refused), refused
    for edit in (edits[0], edits[2], edits[3]):
        with pytest.raises(Frozen):
            large(edit)
    published()
