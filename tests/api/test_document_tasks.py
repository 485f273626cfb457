"""Large documents: filed by the web process, answered by a worker as a small one is answered at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from api.v1 import documents
from api.v1.document_runs import answer
from quotas.changes.dry_run import dry_run
from quotas.changes.freeze import freeze_lift, freeze_set
from quotas.long_tasks import BROKE_OFF, MOST_TRIES
from quotas.models import Change, Revision, Task
from quotas.policies.document import MOST_TEXT
from quotas.policies.edit import limit_set
from quotas.whole_tasks import KEPT, MOST_OPEN, SET_ASIDE, Run, old_tasks_delete, whole_task_cancel, whole_task_run
from tests.access.people import machine, signed_in, token
from tests.quotas.world import DOCUMENT, bucket, make_world, newest

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("filled", "unsent")]
MANY = "tiers: [" + ", ".join(f"{{name: t{number}}}" for number in range(501)) + "]"
LESS = DOCUMENT.replace("rate: 100,", "rate: 50,")
JSON = "application/json"


@pytest.fixture
def filled(transactional_db: None) -> None:
    make_world()


@pytest.fixture
def unsent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the tasks that were sent to a worker."""
    sent: list[int] = []
    monkeypatch.setattr("api.v1.document_tasks.run_document.delay", sent.append)
    return sent


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_TEXT", 0)


def post(client: Any, action: str, document: str, *, status: int = 202, path: str = "", **more: Any) -> Any:
    headers = {name.replace("_", "-"): more.pop(name) for name in ("If_Match", "Idempotency_Key") if name in more}
    response = client.post(f"/v1/document/{action}{path}", {"document": document, **more}, JSON, headers=headers)
    assert response.status_code == status, response.json()
    return response


def done(client: Any, filed: Any) -> dict[str, Any]:
    """What the task says when a worker has done it."""
    whole_task_run(filed.json()["id"], answer)
    shown: dict[str, Any] = client.get(filed["Location"]).json()
    return shown


def both(client: Any, monkeypatch: pytest.MonkeyPatch, action: str, document: str, **more: Any) -> tuple[Any, Any]:
    """The response at once, and the task."""
    at_once = client.post(f"/v1/document/{action}", {"document": document, **more}, JSON)
    monkeypatch.setattr(documents, "MOST_TEXT", 0)
    return at_once, done(client, post(client, action, document, **more))


def test_the_web_process_files_a_task_and_plans_nothing(monkeypatch: pytest.MonkeyPatch, unsent: list[int]) -> None:
    client = signed_in("ann", "viewer")

    def planned(*_: object, **__: object) -> None:
        raise AssertionError("planned in the web process")

    for name in ("document_plan", "document_check", "document_apply"):
        monkeypatch.setattr(documents, name, planned)
    with CaptureQueriesContext(connection) as few:
        filed = post(client, "plan", MANY)
    assert (filed["Location"], unsent) == (f"/v1/document/tasks/{filed.json()['id']}", [filed.json()["id"]])
    monkeypatch.setattr(documents, "read_document", planned)  # much text is not even read
    with CaptureQueriesContext(connection) as many:
        post(client, "plan", MANY + "\n#" * MOST_TEXT)
    assert len(many) == len(few)


@pytest.mark.parametrize("action", ["validate", "plan"])
@pytest.mark.parametrize("document", [LESS, "policies: [{name: x, tier: gone, endpoint: '*'}]", "tiers: {"])
def test_the_result_is_the_response_that_a_small_document_gets(
    monkeypatch: pytest.MonkeyPatch, action: str, document: str
) -> None:
    at_once, task = both(signed_in("ann", "viewer"), monkeypatch, action, document)
    assert (task["status"], task["result"]) == (at_once.status_code, at_once.json())
    is_refused = at_once.status_code == 422
    assert task["state"] == ("failed" if is_refused else "done")
    assert task["problem"] == (at_once.json()["detail"] if is_refused else "")
    assert "document" not in Task.objects.get().asked


def test_a_document_is_applied_once_by_whoever_sent_it(all_large: None) -> None:
    sender = machine(token("operator", "read", "write"))
    plan = done(sender, post(sender, "plan", LESS))["result"]
    filed = post(sender, "apply", LESS, reason="less", force=True, If_Match=plan["etag"], Idempotency_Key="k")
    again = post(sender, "apply", LESS, reason="less", force=True, If_Match=plan["etag"], Idempotency_Key="k")
    assert (again["Location"], again["Idempotency-Replayed"]) == (filed["Location"], "true")
    before = Revision.objects.count()
    task = done(sender, filed)
    whole_task_run(task["id"], answer)  # delivered twice
    assert (task["state"], task["status"], task["percent"]) == ("done", 200, 100)
    assert (task["result"], Revision.objects.count()) == ({"revision": newest().number}, before + 1)
    assert (newest().author, newest().reason) == (task["author"], "less")
    assert task["author"].startswith("token ")


def test_what_is_refused_or_filed_at_once_is_so_in_a_task(all_large: None, settings: Settings) -> None:
    client = signed_in("ann", "operator")
    stale = done(client, post(client, "plan", DOCUMENT))["result"]["etag"]
    limit_set(policy="free-all", limit=bucket(11), author="bob", reason="first")
    before = newest().number
    late = done(client, post(client, "apply", LESS, reason="less", force=True, If_Match=stale))
    cut = done(client, post(client, "apply", LESS, reason="less"))
    urgent = done(client, post(client, "apply", LESS, reason="less", force=True, emergency=True))
    dry = done(client, post(client, "apply", LESS, path="?dry_run=true", reason="less"))
    proposed = done(client, post(client, "apply", LESS, reason="less", force=True, propose=True))
    freeze = freeze_set(start=timezone.now(), end=timezone.now() + timedelta(hours=1), author="carol", reason="a sale")
    frozen = done(client, post(client, "apply", LESS, reason="less", force=True))
    freeze_lift(freeze=freeze.pk, author="carol", reason="over")
    assert [one["status"] for one in (late, cut, urgent, dry, proposed, frozen)] == [412, 422, 403, 200, 202, 423]
    assert (late["problem"], cut["result"]["code"]) == (late["result"]["detail"], "cut")
    assert dry["result"]["needs_force"] is True
    settings.HEADROOM_FOUR_EYES = True
    waiting = done(client, post(client, "apply", LESS, reason="less", force=True))
    numbers = list(Change.objects.order_by("pk").values_list("pk", flat=True))
    assert [proposed["result"], waiting["result"]] == [{"change": number} for number in numbers]
    assert (newest().number, Change.objects.get(pk=numbers[1]).author) == (before, "ann")


def test_whoever_has_lost_the_role_meanwhile_applies_nothing(all_large: None) -> None:
    client = signed_in("ann", "operator")
    filed, before = post(client, "apply", LESS, reason="less", force=True), newest().number
    signed_in("ann", "viewer")
    task = done(client, filed)
    assert (task["state"], task["status"], newest().number) == ("failed", 403, before)


def test_a_task_is_seen_and_cancelled_by_its_author_only(all_large: None) -> None:
    ann, bob = signed_in("ann", "viewer"), signed_in("bob", "owner")
    filed = post(ann, "plan", LESS)
    assert bob.get(filed["Location"]).status_code == 404
    assert bob.post(f"{filed['Location']}/cancel", {"reason": "x"}, JSON).status_code == 404
    cancelled = ann.post(f"{filed['Location']}/cancel", {"reason": "a typo"}, JSON).json()
    assert (cancelled["state"], cancelled["problem"]) == ("failed", "it was cancelled: a typo")
    assert done(ann, filed)["result"] is None
    assert ann.post(f"{filed['Location']}/cancel", {"reason": "x"}, JSON).json()["code"] == "over"


def test_what_is_cancelled_while_it_is_written_is_rolled_back(all_large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    client = signed_in("ann", "operator")
    filed, before = post(client, "apply", LESS, reason="less", force=True), newest().number
    step = Run.step

    def cancelled(run: Run, doing: str, percent: int) -> None:
        step(run, doing, percent)
        if doing == "writing":
            whole_task_cancel(number=run.number, reason="too late?")

    monkeypatch.setattr(Run, "step", cancelled)
    task = done(client, filed)
    assert (task["state"], task["doing"], newest().number) == ("failed", "writing", before)


def test_much_text_that_cannot_be_stored_is_refused_at_once() -> None:
    for unfit in ("\0", "\ud800"):
        post(signed_in("ann", "viewer"), "plan", MANY + "\n#" * MOST_TEXT + unfit, status=422)
    assert not Task.objects.exists()


def test_what_is_cancelled_while_it_is_planned_stops_in_the_database(
    all_large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = signed_in("ann", "viewer")
    filed = post(ann, "plan", LESS)

    def cancel() -> None:
        try:
            whole_task_cancel(number=filed.json()["id"], reason="too slow")
        finally:
            connection.close()

    def plan(**_: object) -> None:
        with dry_run(), connection.cursor() as cursor, ThreadPoolExecutor(1) as other:
            other.submit(cancel).result()
            cursor.execute("SELECT pg_sleep(600)")

    monkeypatch.setattr(documents, "document_plan", plan)
    assert done(ann, filed)["problem"] == "it was cancelled: too slow"


def test_one_sender_has_a_few_open_tasks(all_large: None) -> None:
    ann = signed_in("ann", "viewer")
    for _ in range(MOST_OPEN):
        filed = post(ann, "validate", DOCUMENT)
    refused = post(ann, "validate", DOCUMENT, status=429)
    assert (refused.json()["code"], refused["Retry-After"]) == ("too-many-tasks", "5")
    post(signed_in("bob", "viewer"), "validate", DOCUMENT)
    assert done(ann, filed)["state"] == "done"
    post(ann, "validate", DOCUMENT)


def test_a_task_is_forgotten_when_it_is_old_and_over(all_large: None) -> None:
    ann = signed_in("ann", "viewer")
    over, _open = (post(ann, "validate", DOCUMENT).json()["id"] for _ in range(2))
    whole_task_run(over, answer)
    assert old_tasks_delete(timezone.now()) == 0
    assert old_tasks_delete(timezone.now() + KEPT + timedelta(minutes=1)) == 1
    assert list(Task.objects.values_list("pk", flat=True)) == [_open]


def test_a_task_that_ends_its_workers_is_set_aside(all_large: None) -> None:
    ann = signed_in("ann", "viewer")
    filed = post(ann, "validate", DOCUMENT)

    def die(run: Run) -> None:
        raise OperationalError  # as of a worker that was killed, nothing is stored

    for _ in range(MOST_TRIES):
        with pytest.raises(OperationalError):
            whole_task_run(filed.json()["id"], die)
    assert done(ann, filed)["problem"] == SET_ASIDE


def test_a_fault_of_the_server_is_told_as_one(all_large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = signed_in("ann", "viewer")
    filed = post(ann, "validate", DOCUMENT)

    def breaks(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(documents, "document_check", breaks)
    with pytest.raises(ZeroDivisionError):
        done(ann, filed)
    assert ann.get(filed["Location"]).json()["problem"] == BROKE_OFF
