"""What several service functions refuse alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quotas.alerts.settings import alert_target_create
from quotas.api_keys import api_key_issue
from quotas.errors import Refused
from quotas.tenants import tenant_create, tenant_update
from quotas.tokens import token_issue
from tenants.models import Tenant
from tests.quotas.world import SAID

pytestmark = pytest.mark.usefixtures("world")


@pytest.mark.parametrize(
    "write",
    [
        lambda text: api_key_issue(tenant="acme", label=text, **SAID),
        lambda text: token_issue(label=text, role="viewer", scopes=["read"], **SAID),
        lambda text: tenant_create(name="city", tier="pro", label=text, **SAID),
        lambda text: tenant_update(name="acme", label=text, **SAID),
        lambda text: alert_target_create(kind="webhook", address="https://192.0.2.1/", label=text, **SAID),
        lambda text: tenant_update(name="acme", label="x", author=text, reason="because"),
    ],
)
@pytest.mark.parametrize("control", ["\r\n", "\x1b", "\x7f", "\x85", "\u2028"])
def test_what_is_shown_in_one_line_has_no_control_characters(write: Callable[[str], object], control: str) -> None:
    with pytest.raises(Refused, match=r"(label|author) contains the control character .*; write it in one line"):
        write(f"their app{control}revoked")


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u061c", "\u200b", "\ufeff"])
def test_what_is_shown_in_one_line_does_not_look_like_another_text(mark: str) -> None:
    with pytest.raises(Refused, match=rf"label contains the invisible mark U\+{ord(mark):04X}; remove it"):
        tenant_update(name="acme", label=f"their {mark}ppa", **SAID)


@pytest.mark.parametrize(
    "label",
    [
        "\u0634\u0631\u0643\u0629",
        "\u05d0\u05e7\u05de\u05d4",
        "\u062e\u0627\u0646\u0647\u200c\u0647\u0627",
        "\U0001f469\u200d\U0001f4bb Acme",
    ],
)
def test_labels_of_every_script_are_taken(label: str) -> None:
    tenant_update(name="acme", label=label, **SAID)
    assert Tenant.objects.get(name="acme").label == label
