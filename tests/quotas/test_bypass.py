from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from quotas.bypass import bypass_set, bypasses_read
from quotas.models import AuditEvent
from tests.quotas.world import SAID

pytestmark = pytest.mark.usefixtures("world", "valkey")


def skipped() -> list[str]:
    rows = AuditEvent.objects.filter(kind="approval_skipped").order_by("id")
    return [row.detail["what"] for row in rows]


def test_under_four_eyes_a_bypass_is_an_approval_that_was_skipped(settings: Any) -> None:
    bypass_set(scope="tenant", name="acme", duration="1m", **SAID)
    assert skipped() == []
    settings.HEADROOM_FOUR_EYES = True
    bypass_set(scope="tenant", name="acme", duration="1m", **SAID)
    assert skipped() == ["bypass of tenant acme"]


def order(scope: str, name: str) -> str:
    """What the command complains about. Redis is empty here, so it knows no name."""
    err = StringIO()
    call_command("bypass", scope, name, "--reason", "outage", "--for", "1m", stdout=StringIO(), stderr=err)
    return err.getvalue()


@pytest.mark.parametrize("scope", ["tenant", "endpoint"])
def test_the_command_bypasses_nothing_that_does_not_exist(scope: str) -> None:
    with pytest.raises(CommandError, match=f"there is no {scope} nobody; .*, or correct the name"):
        order(f"--{scope}", "nobody")
    assert bypasses_read() == []


def test_the_command_bypasses_no_limit_that_does_not_exist() -> None:
    with pytest.raises(CommandError, match="there is no limit NOPE; correct the name"):
        order("--limit", "NOPE")
    assert bypasses_read() == []
    assert order("--limit", "burst") == ""


def test_the_command_bypasses_what_is_not_published_yet() -> None:
    assert order("--tenant", "acme") == ""
    assert [str(switch) for switch in bypasses_read()] == ["tenant acme"]


def test_the_command_bypasses_any_name_while_postgres_is_away() -> None:
    def away(*_: object) -> None:
        raise OperationalError("connection refused")

    with connection.execute_wrapper(away):
        said = order("--tenant", "nobody")
    assert "Redis does not know tenant nobody, and PostgreSQL cannot be asked: check the name." in said
    assert "It is not in the audit" in said
    assert [str(switch) for switch in bypasses_read()] == ["tenant nobody"]
