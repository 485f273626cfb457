"""/v1/tokens: who answers for a machine, and whether an owner lets it approve."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from quotas.models import AuditEvent
from quotas.tokens import token_issue
from tenants.models import ApiToken
from tests.access.people import token
from tests.quotas.world import SAID

pytestmark = pytest.mark.usefixtures("world")
ANY = {"If-Match": "*"}
YES = {"may_approve": True, "reason": "our pipeline"}


def test_an_owner_lets_a_machine_approve_and_everybody_who_operates_sees_it(client: APIClient) -> None:
    key_id = token_issue(label="ci", role="approver", scopes=["approve"], **SAID).row.key_id
    path = f"/v1/tokens/{key_id}"
    shown = client.get(path).json()
    assert (shown["issuer"], shown["may_approve"], "secret_hash" in shown) == ("ann", False, False)
    assert client.patch(f"{path}?dry_run=true", YES, headers=ANY).json()["changes"][0]["object"] == f"token:{key_id}"
    assert not ApiToken.objects.get().may_approve
    assert client.patch(path, YES, headers=ANY).json()["may_approve"] is True
    assert [item["key_id"] for item in client.get("/v1/tokens?may_approve=true").json()["items"]] == [key_id]
    assert AuditEvent.objects.filter(kind="api_token_permitted").count() == 1
    assert client.patch(path, YES | {"may_approve": False}, headers=ANY).json()["may_approve"] is False


def test_a_machine_lets_no_machine_approve(client: APIClient) -> None:
    key_id = token_issue(label="ci", role="approver", scopes=["approve"], **SAID).row.key_id
    machine = APIClient(headers={"Authorization": f"Bearer {token('owner')}"})
    refused = machine.patch(f"/v1/tokens/{key_id}", YES, headers=ANY)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    approver = APIClient(headers={"Authorization": f"Bearer {token('approver')}"})
    assert approver.patch(f"/v1/tokens/{key_id}", YES, headers=ANY).status_code == 403
