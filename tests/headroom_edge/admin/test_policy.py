"""`headroom-admin policy` against the real web process: what a pipeline sees."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from quotas.changes.freeze import freeze_set
from quotas.models import Change, Revision
from quotas.policies.edit import limit_set
from quotas.tokens import token_issue, token_revoke
from tenants.models import ApiToken
from tests.headroom_edge.admin.conftest import Admin
from tests.quotas.world import DOCUMENT, SAID, bucket, limit_of, newest

# One web process for all of them.
pytestmark = [pytest.mark.xdist_group("admin"), pytest.mark.django_db(transaction=True)]
GOLD = DOCUMENT.replace("{name: pro}", "{name: pro}, {name: gold}")
FASTER = DOCUMENT.replace("rate: 10,", "rate: 12,")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "limits.yaml"
    path.write_text(GOLD)
    return path


def local(*arguments: object) -> str:
    """What `manage.py policy` prints."""
    out = io.StringIO()
    call_command("policy", *map(str, arguments), stdout=out)
    return out.getvalue()


def test_a_pipeline_plans_and_applies_and_then_there_is_nothing_to_do(admin: Admin, file: Path, tmp_path: Path) -> None:
    kept = tmp_path / "plan.json"
    assert admin("policy", "export").out == local("export")
    assert admin("policy", "validate", file).out == local("validate", file)
    plan = admin("policy", "plan", file, "--out", kept)
    assert (plan.status, plan.out) == (0, local("plan", file))
    assert admin("policy", "plan", file, "--detailed-exitcode").status == 2
    applied = admin("policy", "apply", file, "--plan", kept, "--reason", "a new tier", "--detailed-exitcode")
    assert (applied.status, applied.out) == (0, f"applied as {newest()}\n")
    assert newest().reason == "a new tier"
    assert "(pipeline)" in newest().author
    nothing = admin("policy", "plan", file, "--detailed-exitcode")
    assert (nothing.status, nothing.out) == (0, local("plan", file))
    assert admin("policy", "apply", file, "--reason", "again").out == "no changes\n"


def test_a_proposal_is_filed_and_told(admin: Admin, file: Path) -> None:
    """What needs approval is answered in the same way."""
    before = Revision.objects.count()
    filed = admin("policy", "apply", file, "--propose", "--reason", "more", "--detailed-exitcode")
    change = Change.objects.get()
    assert (filed.status, filed.out) == (2, f"filed as {change}, which waits for an approver\n")
    assert admin("policy", "apply", file, "--propose", "--reason", "more").status == 0
    assert Revision.objects.count() == before


def test_a_plan_is_applied_only_while_it_is_true(admin: Admin, file: Path, tmp_path: Path) -> None:
    kept = tmp_path / "plan.json"
    admin("policy", "plan", file, "--out", kept)
    limit_set(policy="free-all", limit=bucket(11), **SAID)
    late = admin("policy", "apply", file, "--plan", kept, "--reason", "x")
    assert (late.status, late.err) == (
        1,
        "headroom-admin: The configuration has changed since the plan; plan again, then apply.\n",
    )
    file.write_text(FASTER)
    other = admin("policy", "apply", file, "--plan", kept, "--reason", "x")
    assert (other.status, limit_of("free-all").parameters["rate"]) == (1, 11)
    assert "is not the document that was planned" in other.err
    kept.write_text("{}")
    assert "is not a plan" in admin("policy", "apply", file, "--plan", kept, "--reason", "x").err


def test_everything_that_is_wrong_with_a_document_is_told_with_its_line(admin: Admin, file: Path) -> None:
    file.write_text("tiers: [{name: FREE}]\npolicies: [{name: x, endpoint: '*', limits: []}]\n")
    with pytest.raises(CommandError) as told:
        local("validate", file)
    for action in (("validate",), ("plan",), ("apply", "--reason", "x")):
        wrong = admin("policy", *action, file)
        assert (wrong.status, wrong.out) == (1, "")
        places = [line.rpartition(": ")[0] for line in wrong.err.splitlines()]
        assert places == [line.rpartition(": ")[0] for line in str(told.value).splitlines()]


def test_a_cut_needs_force(admin: Admin, file: Path) -> None:
    file.write_text(DOCUMENT.replace("rate: 100,", "rate: 50,"))
    refused = admin("policy", "apply", file, "--reason", "less")
    assert refused.status == 1
    assert "cut of 50 %; make the cut smaller, or apply it anyway (--force)" in refused.err
    with pytest.raises(CommandError, match=r"apply it anyway \(--force\)"):
        local("apply", file, "--reason", "less")


def test_a_freeze_is_told_at_once(admin: Admin, file: Path) -> None:
    freeze_set(end=timezone.now() + timedelta(days=1), author="ann", reason="the night of the sale")
    frozen = admin("policy", "apply", file, "--reason", "x")
    assert (frozen.status, len(frozen.err.splitlines())) == (1, 1)
    assert "the night of the sale" in frozen.err


def test_a_token_that_may_not_is_told_why(admin: Admin, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = token_issue(label="reader", role="operator", scopes=("read",), **SAID)
    monkeypatch.setenv("HEADROOM_TOKEN", str(reader.text))
    assert admin("policy", "plan", file).status == 0
    refused = admin("policy", "apply", file, "--reason", "x")
    assert refused.status == 1
    assert "scope" in refused.err
    token_revoke(key_id=ApiToken.objects.get(label="reader").key_id, **SAID)
    gone = admin("policy", "plan", file)
    assert (gone.status, gone.err) == (
        1,
        "headroom-admin: The token is unknown, expired or revoked; send a valid one.\n",
    )


def test_it_runs_without_the_platform(admin: Admin, web_port: int, token: str, file: Path, tmp_path: Path) -> None:
    """Only the package, a URL, a token and standard input; the token is in no argument."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HEADROOM_URL": f"http://127.0.0.1:{web_port}",
        "HEADROOM_TOKEN": f"{token}\n",
    }
    command = [sys.executable, "-m", "headroom_edge.admin", "policy", "plan", "-", "--detailed-exitcode"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, input=GOLD, text=True, capture_output=True)
    assert (done.returncode, done.stderr, done.stdout) == (2, "", local("plan", file))
