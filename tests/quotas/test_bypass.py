from __future__ import annotations

from typing import Any

import pytest

from quotas.bypass import bypass_set
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
