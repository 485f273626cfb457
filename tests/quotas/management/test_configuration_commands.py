"""explain, policy, revisions and rollback, as a person at a terminal meets them."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import timezone

from quotas.changes.freeze import freeze_set
from quotas.models import Change, Task
from quotas.models.revision import revisions_stamp
from quotas.overrides import override_create
from quotas.policies.document import LARGE
from quotas.policies.edit import limit_set, policy_create
from quotas.tenants import tenant_suspend
from tests.quotas.management.conftest import Run
from tests.quotas.world import DOCUMENT, FORCED, PAY, SAID, bucket, limit_of, newest

pytestmark = pytest.mark.usefixtures("world")


class TestExplain:
    def test_it_says_what_holds_and_why(self, run: Run) -> None:
        policy_create(name="acme-all", tenant="acme", limits=[bucket(50)], **FORCED)
        end = timezone.now() + timedelta(days=1)
        number = override_create(tenant="acme", multiplier=(3, 2), end=end, **FORCED).pk
        until = f"until {end:%Y-%m-%d %H:%M:%S} UTC"
        assert run("explain", "acme", PAY).splitlines() == [
            f"tenant acme (tier pro) on {PAY}, revision {newest().number}",
            "  burst: token_bucket, 75/s sustained, up to 150 at once, per tenant, enforced",
            "      from tenant acme × *, counted on all endpoints together",
            f"      changed by override {number} ({until})",
            "      instead of tier pro × *: token_bucket, 100/s sustained, up to 200 at once, per tenant, enforced",
            "  minute: token_bucket, 1,500/min sustained, up to 3,000 at once, per tenant, enforced",
            "      from tier pro × *, counted on all endpoints together",
            f"      changed by override {number} ({until})",
        ]

    def test_it_says_what_is_special(self, run: Run) -> None:
        tenant_suspend(name="acme", **SAID)
        said = run("explain", "acme", "some:thing")
        assert "suspended: every request is denied" in said
        assert "some:thing is not registered: the limits on * apply" in said

    def test_an_unknown_tenant_is_one_line(self, run: Run) -> None:
        with pytest.raises(CommandError, match="there is no tenant nobody; correct the name"):
            run("explain", "nobody")


class TestPolicy:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "policies.yaml"
        path.write_text(DOCUMENT.replace("rate: 10,", "rate: 12,"))
        return path

    def test_validating_writes_nothing(self, run: Run, file: Path) -> None:
        before = newest().number
        assert "2 policies, nothing wrong" in run("policy", "validate", str(file))
        assert newest().number == before

    def test_applying_is_one_revision(self, run: Run, file: Path) -> None:
        said = run("policy", "apply", str(file), "--reason", "more for free", "--author", "ann")
        assert said == f"applied as revision {newest().number}\n"
        assert (limit_of("free-all").parameters["rate"], newest().reason) == (12, "more for free")
        assert run("policy", "apply", str(file), "--reason", "again") == "no changes\n"

    def test_a_large_document_shows_how_far_it_is(self, tmp_path: Path) -> None:
        file, out, err = tmp_path / "many.yaml", StringIO(), StringIO()
        file.write_text("tiers: [" + ", ".join(f"{{name: t{number}}}" for number in range(LARGE + 1)) + "]")
        call_command("policy", "plan", str(file), stdout=out, stderr=err)
        assert err.getvalue() == "planning 50%\n"
        call_command("policy", "apply", str(file), "--reason", "many", stdout=out, stderr=err)
        assert err.getvalue().splitlines()[1:] == ["planning 33%", "writing 67%"]
        assert out.getvalue().endswith(f"applied as {newest()}\n")

    def test_everything_that_is_wrong_is_said_with_its_line(self, run: Run, file: Path) -> None:
        file.write_text("tiers: [{name: FREE}]\npolicies: [{name: x, endpoint: '*', limits: []}]\n")
        with pytest.raises(CommandError) as error:
            run("policy", "validate", str(file))
        lines = str(error.value).splitlines()
        assert len(lines) == 2
        assert lines[1] == f"{file}: line 2: policies[0].limits: the policy has no limits; add one or remove the policy"
        assert error.value.returncode == 1

    def test_a_refusal_is_one_line(self, run: Run, file: Path) -> None:
        file.write_text(
            "policies: [{name: x, tier: gold, endpoint: '*', limits: [{name: a, algorithm: gcra, rate: 1}]}]"
        )
        with pytest.raises(CommandError, match="tier: there is no tier gold; create it, or correct the name"):
            run("policy", "apply", str(file), "--reason", "r")

    def test_a_file_that_is_not_there_is_one_line(self, run: Run, tmp_path: Path) -> None:
        with pytest.raises(CommandError, match=r"none\.yaml does not exist; correct the name\.$"):
            run("policy", "validate", str(tmp_path / "none.yaml"))

    def test_a_freeze_fails_as_it_does_in_a_pipeline(self, run: Run, file: Path) -> None:
        file.write_text("tiers: [{name: gold}]")
        freeze_set(end=timezone.now() + timedelta(days=1), author="ann", reason="the holidays")
        with pytest.raises(CommandError, match="the configuration is frozen") as error:
            run("policy", "apply", str(file), "--reason", "r")
        assert error.value.returncode == 1


class TestCalibrate:
    def test_it_is_on_record_like_any_other(self, run: Run) -> None:
        said = run("calibrate")
        task = Task.objects.get(kind=Task.Kind.CALIBRATE)
        assert task.state == Task.State.DONE
        assert task.result is not None
        assert said.startswith(f"{task.result['limits']} limits: ")


class TestRevisions:
    def test_it_lists_the_newest_first(self, run: Run) -> None:
        revisions_stamp(1_000)
        limit_set(policy="free-all", limit=bucket(11), author="ann", reason="a little more", force=True)
        lines = run("revisions", "--count", "2").splitlines()
        assert len(lines) == 2
        assert lines[0].endswith("ann  limit_set  policy:free-all  a little more (not published yet)")
        assert lines[1].endswith("tenant:acme, tenant:bolt  because")

    def test_a_long_list_is_cut(self, run: Run) -> None:
        assert "and 3 more" in run("revisions").splitlines()[-1]


class TestRollback:
    def test_it_goes_back(self, run: Run) -> None:
        then = newest().number
        limit_set(policy="free-all", limit=bucket(11), **FORCED)
        said = run("rollback", str(then), "--reason", "too much")
        assert said == f"rolled back as revision {newest().number}\n"
        assert limit_of("free-all").parameters["rate"] == 10
        assert run("rollback", str(newest().number), "--reason", "x") == "no changes\n"

    def test_a_revision_that_is_not_there_is_one_line(self, run: Run) -> None:
        with pytest.raises(CommandError, match="there is no revision 99; choose one from 1 to"):
            run("rollback", "99", "--reason", "x")

    def test_one_that_cuts_takes_force(self, run: Run) -> None:
        then = newest().number
        limit_set(policy="free-all", limit=bucket(40), **SAID)
        with pytest.raises(CommandError, match="a cut of 75 %"):
            run("rollback", str(then), "--reason", "too much")
        assert "rolled back" in run("rollback", str(then), "--reason", "too much", "--force")

    def test_where_four_eyes_are_wanted_it_waits_unless_it_is_an_emergency(self, run: Run, settings: Any) -> None:
        then = newest().number
        limit_set(policy="free-all", limit=bucket(11), **FORCED)
        settings.HEADROOM_FOUR_EYES = True
        said = run("rollback", str(then), "--reason", "too much")
        assert said == f"filed as {Change.objects.get()}, which waits for an approver\n"
        assert limit_of("free-all").parameters["rate"] == 11
        assert "rolled back" in run("rollback", str(then), "--reason", "too much", "--emergency")
