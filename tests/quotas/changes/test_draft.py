"""Writers take turns: revisions have no gaps, are committed in their order, and lose nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import psycopg
import pytest
from django.db import connection, connections, transaction

from quotas.api_keys import api_key_issue
from quotas.errors import Refused
from quotas.locks import Lock, take_lock
from quotas.models import Limit, LimitName, Outbox, Revision
from quotas.policies.edit import limit_set, policy_create
from tests.quotas.world import FORCED, SAID, bucket, make_world, newest

pytestmark = pytest.mark.django_db(transaction=True)

T = TypeVar("T")
WRITERS, EDITS = 8, 3


@pytest.fixture(autouse=True)
def committed_world() -> Iterator[None]:
    make_world()
    yield
    connections.close_all()


def in_thread(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connections.close_all()


def edit_many(writer: int) -> list[int]:
    """The revisions that this writer made, one limit name per edit."""
    made = []
    for edit in range(EDITS):
        revision = limit_set(policy="free-all", limit=bucket(1 + edit, f"w{writer}-{edit}"), **FORCED)
        assert revision is not None
        made.append(revision.number)
    return made


def test_no_edit_is_lost_and_each_starts_from_what_the_one_before_left() -> None:
    before = newest().number
    with ThreadPoolExecutor(WRITERS) as pool:
        made = list(pool.map(lambda writer: in_thread(lambda: edit_many(writer)), range(WRITERS)))
    numbers = sorted(number for numbers in made for number in numbers)
    assert numbers == list(range(before + 1, before + 1 + WRITERS * EDITS))
    assert Limit.objects.filter(policy__name="free-all").count() == 1 + WRITERS * EDITS
    assert len(set(LimitName.objects.values_list("number", flat=True))) == LimitName.objects.count()
    state = None
    for revision in Revision.objects.filter(touched=["policy:free-all"]).order_by("number"):
        assert state is None or revision.before["policy:free-all"] == state
        state = revision.after["policy:free-all"]


def test_of_two_who_want_the_same_name_one_is_refused() -> None:
    def create(tier: str) -> str:
        try:
            policy_create(name="contested", tier=tier, endpoint="rides:get", limits=[bucket(1)], **FORCED)
        except Refused as refused:
            return str(refused)
        return "written"

    with ThreadPoolExecutor(2) as pool:
        answers = sorted(pool.map(lambda tier: in_thread(lambda: create(tier)), ["free", "pro"]))
    assert answers[1] == "written"
    assert "policy contested already exists" in answers[0]


def test_a_transaction_held_open_holds_back_later_revisions_but_no_key() -> None:
    holding, release = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            take_lock(Lock.REVISIONS)  # as a writer of another process
            holding.set()
            release.wait(300)

    with ThreadPoolExecutor(2) as pool:
        holder = pool.submit(in_thread, hold)
        holding.wait(300)
        writer = pool.submit(in_thread, lambda: limit_set(policy="free-all", limit=bucket(5), **FORCED))
        wait_for_waiter()
        api_key_issue(tenant="acme", **SAID)
        assert not writer.done()
        release.set()
        holder.result()
        assert writer.result() is not None


def wait_for_waiter() -> None:
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
            if cursor.fetchone()[0]:
                return


def test_the_publisher_is_woken_on_commit_and_not_before() -> None:
    with listener() as notifications:
        with transaction.atomic():
            limit_set(policy="free-all", limit=bucket(5), **FORCED)
            assert received(notifications, timeout=0) == 0
        assert received(notifications, timeout=120) == 1
        api_key_issue(tenant="acme", **SAID)
        assert received(notifications, timeout=120) == 1


def test_a_refusal_wakes_nobody_and_leaves_no_outbox_row() -> None:
    rows = Outbox.objects.count()
    with listener() as notifications:
        with pytest.raises(Refused):
            limit_set(policy="free-all", limit=bucket(0), **FORCED)
        assert received(notifications, timeout=0) == 0
    assert Outbox.objects.count() == rows


def listener() -> psycopg.Connection:
    parameters = connection.get_connection_params()
    own = psycopg.connect(
        autocommit=True, **{key: parameters[key] for key in ("dbname", "user", "host", "port") if parameters.get(key)}
    )
    own.execute("LISTEN headroom_outbox")
    return own


def received(listening: psycopg.Connection, timeout: float) -> int:
    return len(list(listening.notifies(timeout=timeout, stop_after=1)))
