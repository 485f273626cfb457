"""Dry runs of many objects: worked out in memory, from one snapshot, and judged as the write is."""

from __future__ import annotations

import cProfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from quotas.changes import draft as drafts
from quotas.changes.commit import Outcome, Proposed, Unchanged, Written, commit
from quotas.changes.promotion import change_promote
from quotas.changes.rollout import change_propose
from quotas.changes.undo import revision_rollback
from quotas.endpoints import endpoint_create, endpoint_delete
from quotas.errors import Refused, accepted
from quotas.locks import Lock
from quotas.matrix.edit import Edit, limits_plan, limits_set
from quotas.models import Endpoint, LimitName, Policy, Revision
from quotas.policies.apply import document_apply, document_plan
from quotas.policies.document import Document, read_document
from quotas.policies.edit import candidate_set, limit_set
from tenants.models import Tier
from tests.quotas.world import DOCUMENT, FORCED, GET, PAY, SAID, bucket, newest


def document(text: str) -> Document:
    return accepted(read_document(text))


def large(entries: int, service: str = "s") -> Document:
    """A sixth are tiers, half are endpoints, a third are policies of the tiers."""
    tiers, endpoints, policies = entries // 6, entries // 2, entries // 3
    named = [f"{service}{n % 7}:op{n}" for n in range(endpoints)]
    limits = "[{name: burst, algorithm: gcra, rate: 5, burst: 10}]"
    lines = ["tiers:", *(f"  - {{name: {service}{n}}}" for n in range(tiers))]
    lines += ["endpoints:", *(f"  - {{name: '{name}', path: /{service}/{n}}}" for n, name in enumerate(named))]
    lines += ["policies:"]
    for n in range(policies):
        owner = f"tier: {service}{n % tiers}, endpoint: '{named[n]}'"
        lines.append(f"  - {{name: {service}-{n}, {owner}, limits: {limits}}}")
    return document("\n".join(lines))


def changes(outcome: Outcome[object]) -> dict[str, object]:
    """In any order of fields: PostgreSQL has its own in JSON."""
    return {one.object: (one.action, sorted(map(str, one.fields))) for one in outcome.effect.changes}


def queries(work: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as seen:
        work()
    return len(seen)


def policy(name: str, owner: str, endpoint: str = "*", limit: str = "b") -> str:
    limits = f"[{{name: {limit}, algorithm: gcra, rate: 1, burst: 1}}]"
    return f"policies: [{{name: {name}, {owner} endpoint: '{endpoint}', limits: {limits}}}]"


EDITS = [
    "tiers: [{name: new}]",
    f"endpoints: [{{name: '{PAY}', method: POST, path: /v1/charges, default_cost: 99}}]",
    "endpoints: [{name: 'a:b', path: /x}, {name: 'a:c', path: /y}]",
    policy("pro-all", "tier: pro,", limit="other"),
    policy("pro-all", "tier: pro,", limit="burst"),
    policy("all", "", PAY),
    policy("mine", "tenant: acme,", PAY),
    DOCUMENT,
]


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("text", EDITS)
def test_a_dry_run_foresees_exactly_what_is_written(text: str) -> None:
    candidate_set(policy="pro-all", limit="burst", candidate={"algorithm": "gcra", "rate": 50, "burst": 50}, **SAID)
    before = rows()
    apply = partial(document_apply, document=document(text), **FORCED)
    foreseen = commit(apply, "dry_run")
    assert rows() == before
    written = commit(apply)
    assert changes(foreseen) == changes(written)
    assert foreseen.impact == written.impact
    if isinstance(foreseen, Proposed) and isinstance(written, Written):
        assert (foreseen.proposal.before, foreseen.proposal.after) == (written.proposal.before, written.proposal.after)
    else:
        assert isinstance(foreseen, Unchanged)
        assert isinstance(written, Unchanged)


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize(
    "text",
    [
        policy("x", "tier: gone,"),
        policy("x", "tier: pro,", "no:where"),
        policy("x", "tenant: nobody,"),
        policy("x", "tier: pro,"),
        policy("pro-all", "tier: free,"),
        "endpoints: [{name: 'a:b', method: POST, path: /v1/charges}]",
    ],
    ids=["tier", "endpoint", "tenant", "place", "move", "route"],
)
def test_a_dry_run_refuses_what_the_write_refuses(text: str) -> None:
    told = []
    for mode in ("dry_run", "write"):
        with pytest.raises(Refused) as refused:
            commit(partial(document_apply, document=document(text), **FORCED), mode)
        told.append(refused.value.problems)
    assert told[0] == told[1]


@pytest.mark.usefixtures("world")
def test_endpoints_exchange_their_routes() -> None:
    text = f"endpoints: [{{name: '{PAY}', path: /b}}, {{name: '{GET}', path: /a}}]"
    document_apply(document=document(text.replace("/b", "/c")), **FORCED)
    document_apply(document=document(text.replace("/a", "/c")), **FORCED)
    assert dict(Endpoint.objects.values_list("name", "path")) == {PAY: "/b", GET: "/c"}


@pytest.mark.usefixtures("world")
def test_a_plan_takes_as_many_queries_for_four_times_the_entries() -> None:
    few, many = (queries(partial(document_plan, document=large(size), author="ann")) for size in (60, 240))
    assert few == many < 60


@pytest.mark.usefixtures("world")
def test_applying_takes_as_many_queries_for_four_times_the_entries() -> None:
    wanted = (large(60, "few"), large(240, "many"))
    few, many = (queries(partial(document_apply, document=one, **FORCED)) for one in wanted)
    assert many <= few + 5  # a statement inserts so many rows at most


@pytest.mark.usefixtures("world")
def test_the_work_of_the_checks_grows_with_the_entries() -> None:
    """Function calls, because time says little: four times the entries, at most five times the calls."""
    few, many = (calls(partial(document_plan, document=large(size), author="ann")) for size in (300, 1_200))
    assert many <= 5 * few


def calls(work: Callable[[], object]) -> int:
    profile = cProfile.Profile(builtins=True)
    profile.runcall(work)
    return sum(entry.callcount for entry in profile.getstats())


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each judgement of a draft: was it a rehearsal?"""
    found: list[bool] = []
    check = drafts._proposal

    def noted(opened: Any, *rest: Any) -> Any:
        found.append(opened.is_rehearsal)
        return check(opened, *rest)

    monkeypatch.setattr(drafts, "_proposal", noted)
    return found


@pytest.mark.usefixtures("world")
def test_a_large_edit_is_judged_before_its_turn_and_only_written_in_it(judged: list[bool]) -> None:
    apply = partial(document_apply, document=large(60), **SAID)
    outcome = commit(apply, rehearsal=apply)
    assert isinstance(outcome, Written)
    assert outcome.revision == newest()
    assert judged == [True]


@pytest.mark.usefixtures("world")
def test_a_large_edit_is_judged_again_if_somebody_wrote_meanwhile(judged: list[bool]) -> None:
    def apply() -> object:
        return document_apply(document=large(60), **SAID)

    def rehearsal() -> object:
        return apply()

    def late() -> object:
        endpoint_create(name="z:z", path="/z", **SAID)
        return apply()

    assert isinstance(commit(late, rehearsal=rehearsal), Written)
    assert judged == [True, False, False]


@pytest.mark.usefixtures("world")
def test_a_promotion_is_judged_once(judged: list[bool]) -> None:
    change = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID)
    judged.clear()
    promoted = change_promote(change=change.pk, **FORCED)
    assert judged == [True]
    assert list(promoted.impact["hurt"]) == ["acme"]
    assert newest().after["policy:pro-all"]["limits"]["burst"]["rate"] == 50


@pytest.mark.usefixtures("world")
def test_a_promotion_that_spares_somebody_is_judged_with_their_overrides(judged: list[bool]) -> None:
    change = change_propose(limit_set, policy="pro-all", limit=bucket(50), **SAID)
    judged.clear()
    promoted = change_promote(change=change.pk, grandfather=["acme"], **SAID)
    assert judged == [True, False]  # the number of an override is not known before it is written
    assert not promoted.impact["hurt"]


@pytest.mark.usefixtures("world")
def test_what_a_rehearsal_refuses_never_takes_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    apply = partial(limit_set, policy="pro-all", limit=bucket(1), **SAID)
    monkeypatch.setattr("quotas.changes.commit.turn", lambda: pytest.fail("it took the turn"))
    with pytest.raises(Refused, match="a cut of"):
        commit(apply, rehearsal=apply)


@pytest.mark.usefixtures("world")
def test_a_matrix_preview_foresees_what_is_written() -> None:
    edits = [
        Edit("pro", "*", "burst", None),
        Edit("pro", "*", "minute", None),
        Edit("free", PAY, "cap", {"algorithm": "gcra", "rate": 3, "burst": 3}),
    ]
    before = rows()
    foreseen = limits_plan(edits=edits, author="ann")
    assert rows() == before
    written = commit(partial(limits_set, edits=edits, **FORCED))
    assert changes(foreseen) == changes(written)
    assert foreseen.impact == written.impact


@pytest.mark.usefixtures("world")
def test_a_rollback_foresees_what_is_written_and_writes_no_row() -> None:
    then = newest().number
    document_apply(document=large(60), **FORCED)
    endpoint_create(name="z:z", path="/z", **SAID)
    limit_set(policy="pro-all", limit=bucket(7), **FORCED)
    with CaptureQueriesContext(connection) as seen:
        foreseen = commit(partial(revision_rollback, number=then, **FORCED), "dry_run")
    assert not [one["sql"] for one in seen if one["sql"].startswith(("INSERT", "UPDATE", "DELETE"))]
    written = commit(partial(revision_rollback, number=then, **FORCED))
    assert changes(foreseen) == changes(written)
    assert foreseen.impact == written.impact
    assert not Endpoint.objects.filter(name="z:z", retired=False).exists()


@pytest.mark.usefixtures("world")
def test_a_rollback_brings_back_a_retired_endpoint_and_its_policies() -> None:
    document_apply(document=large(60), **FORCED)
    then = newest().number
    with pytest.raises(Refused, match="has limits in"):
        endpoint_delete(name="s0:op0", **FORCED)
    limits_set(edits=[Edit("s0", "s0:op0", "burst", None)], **FORCED)
    endpoint_delete(name="s0:op0", **FORCED)
    foreseen = commit(partial(revision_rollback, number=then, **FORCED), "dry_run")
    written = commit(partial(revision_rollback, number=then, **FORCED))
    assert changes(foreseen) == changes(written)


@pytest.mark.django_db(transaction=True)
class TestBesideAWriter:
    @pytest.fixture(autouse=True)
    def plain_world(self) -> None:
        document_apply(document=document(DOCUMENT), **SAID)

    @pytest.fixture
    def held(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, threading.Event]]:
        """A dry run that has done its work stops here, its transaction still open."""
        reached, release = threading.Event(), threading.Event()
        check = drafts._proposal

        def slow(opened: Any, *rest: Any) -> Any:
            found = check(opened, *rest)
            if opened.is_rehearsal:
                reached.set()
                assert release.wait(300)
            return found

        monkeypatch.setattr(drafts, "_proposal", slow)
        yield reached, release
        release.set()

    def test_a_dry_run_takes_no_lock_and_a_writer_commits_meanwhile(
        self, held: tuple[threading.Event, threading.Event]
    ) -> None:
        reached, release = held
        wanted = large(60)
        with ThreadPoolExecutor(1) as pool:
            dry = pool.submit(in_thread, partial(document_plan, document=wanted, author="vera"))
            while not reached.wait(0.01):
                assert not dry.done(), dry.exception()
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s", [_LOCK])
                assert cursor.fetchone() == (0,)
            # The same objects, so a row that the dry run had written would keep this waiting.
            written = document_apply(document=wanted, **FORCED)
            assert written is not None
            assert not dry.done()
            release.set()
            plan: Any = dry.result()
        assert plan.revision == written.number - 1
        assert len(plan.changes) == 60 // 6 + 60 // 2 + 60 // 3

    def test_a_small_dry_run_that_meets_a_writer_is_tried_again(self) -> None:
        dry = partial(commit, partial(limit_set, policy="pro-all", limit=bucket(70), **FORCED), "dry_run")
        with ThreadPoolExecutor(1) as pool:
            with transaction.atomic():
                limit_set(policy="pro-all", limit=bucket(90), **FORCED)
                waiting = pool.submit(in_thread, dry)
                wait_for_a_row_lock()
            outcome: Any = waiting.result()
        (rate,) = [field for field in outcome.effect.changes[0].fields if field.path == "limits.burst.rate"]
        assert (rate.before, rate.after) == (90, 70)
        assert Revision.objects.get(number=newest().number).author == "ann"


_LOCK = Lock.REVISIONS.value


def in_thread(work: Callable[[], object]) -> object:
    try:
        return work()
    finally:
        connection.close()


def wait_for_a_row_lock() -> None:
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone() != (0,):
                return


def rows() -> tuple[int, ...]:
    return tuple(model._default_manager.count() for model in (Revision, Tier, Endpoint, Policy, LimitName))
