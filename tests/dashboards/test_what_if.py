"""What-if: a draft is replayed, watched tenant by tenant, and proposed."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from dashboards.pages import what_if
from quotas.long_tasks import task_file
from quotas.models import Change, Revision, Task
from quotas.slices import task_do
from quotas.what_if import WHAT_IF
from tests.access.people import signed_in
from tests.quotas.recorded import make_recorded, working
from tests.quotas.world import GET

DRAFT = f"""
policies:
  - name: pro-get
    tier: pro
    endpoint: "{GET}"
    limits:
      - {{name: steady, algorithm: token_bucket, rate: 60, per: 1m, burst: 60}}
"""


@pytest.fixture
def operator(db: None) -> Client:
    return signed_in("bob", "operator")


def get(client: Client, path: str, **headers: str) -> str:
    response = client.get(path, headers=headers)
    assert response.status_code == 200
    return text_of(response.content)


def text_of(content: bytes) -> str:
    return re.sub(r"\s+", " ", content.decode())


def test_a_draft_is_replayed_and_becomes_a_change(operator: Client) -> None:
    make_recorded({"busy": working("busy", 0.4, hours=2), "calm": working("calm", 0.1, hours=2)}, days=2)
    answer = operator.post("/simulator/what-if", {"document": DRAFT, "days": "2"})
    task = Task.objects.get(kind="whatif")
    assert answer["Location"] == f"/simulator/what-if/{task.pk}"
    waiting = get(operator, answer["Location"])
    assert "Waiting for a worker" in waiting
    assert 'hx-trigger="every 1s"' in waiting
    task_do(task.pk, WHAT_IF)
    done = get(operator, answer["Location"], **{"HX-Request": "true"})
    assert "hx-trigger" not in done
    assert re.search(r"busy</a>.*no longer denied</span>.*calm</a>", done)
    before = Revision.objects.count()
    filed = operator.post(f"{answer['Location']}/draft", {"reason": "busy is denied too often"})
    assert filed["Location"] == "/changes"
    assert Change.objects.get().reason == "busy is denied too often"
    assert Revision.objects.count() == before
    assert f'value="change:{Change.objects.get().pk}"' in get(operator, "/simulator/what-if")


def test_a_slice_that_failed_is_named(operator: Client) -> None:
    make_recorded({"busy": working("busy", 0.4, hours=2)}, days=2)
    operator.post("/simulator/what-if", {"document": DRAFT, "days": "2"})
    task = task_do(Task.objects.get(kind="whatif").pk, WHAT_IF)
    Task.objects.update(problem="1 of 2 slices failed", result=(task.result or {}) | {"revisions": [3, 4]})
    page = get(operator, f"/simulator/what-if/{task.pk}")
    assert "Not complete: 1 of 2 slices failed" in page
    assert "The limits changed during the replay (revisions 3, 4)" in page


def test_rows_stand_at_their_places_while_it_runs(operator: Client) -> None:
    task = task_file(kind=Task.Kind.WHAT_IF, author="bob", asked={"document": DRAFT, "days": 7})
    row = {"tenant": "calm", "tier": "pro", "asked": 10, "denied_before": 0, "denied_after": 2}
    Task.objects.filter(pk=task.pk).update(
        state="running", percent=50, result={"order": ["busy", "calm"], "seen": [row]}
    )
    page = get(operator, f"/simulator/what-if/{task.pk}")
    assert "50 %, 1 of 2 tenants done" in page
    assert re.search(r"busy</a>.*skeleton.*calm</a>.*newly denied", page)


def test_once_it_is_done_the_busiest_come_first() -> None:
    seen = [{"tenant": name, "asked": asked} for name, asked in (("calm", 10), ("busy", 900))]
    task = Task(kind=Task.Kind.WHAT_IF, state=Task.State.DONE, result={"order": ["calm", "busy"], "seen": seen})
    assert [row.tenant for row in what_if._rows(task)] == ["busy", "calm"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"document": "", "days": "7"}, "Start from a policy or a pending change, or write a document."),
        ({"document": "policies: [{name: x}]", "days": "7"}, "Line 1: "),
        ({"document": DRAFT, "days": "90"}, "less than or equal to 30"),
    ],
)
def test_what_cannot_be_replayed_is_said_and_kept(operator: Client, fields: dict[str, str], sentence: str) -> None:
    page = text_of(operator.post("/simulator/what-if", fields).content)
    assert sentence in page
    assert fields["document"].strip()[:9] in page
    assert not Task.objects.exists()


def test_who_only_looks_cannot_ask(client: Client) -> None:
    assert "Requires the operator role." in get(client, "/simulator/what-if")
    assert client.post("/simulator/what-if", {"document": DRAFT, "days": "7"}).status_code == 403


def test_a_policy_is_there_to_start_from(operator: Client) -> None:
    make_recorded({"busy": working("busy", 0.4, hours=1)}, days=1)
    page = get(operator, "/simulator/what-if?from=policy:pro-get")
    assert "Policy pro-get. Edit what you want to try." in page
    assert "token_bucket" in page
    assert "name: nothing" not in get(operator, "/simulator/what-if?from=policy:nothing")
    assert "Document" in get(operator, "/simulator/what-if?from=change:99")
