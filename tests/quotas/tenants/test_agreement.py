"""Whatever is done to tenants: documents, snapshots of revisions, rows and plans say the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from headroom_edge import keys
from quotas.api_keys import api_key_issue
from quotas.changes.snapshot import TENANT, key_of, snapshots
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.errors import Refused, accepted
from quotas.models import Override, Revision
from quotas.overrides import override_create
from quotas.policies.apply import document_apply, document_export
from quotas.policies.compile import Compiler, Target
from quotas.policies.configuration import configuration_load
from quotas.policies.document import read_document
from quotas.tenants import (
    tenant_archive,
    tenant_create,
    tenant_restore,
    tenant_suspend,
    tenant_update,
    tenants_move,
    tenants_tag,
)
from tenants.models import ApiKey, Tenant
from tests.quotas.world import FORCED, SAID, make_world, newest

Edit = Callable[[], object]
NAMES = st.sampled_from(["acme", "bolt", "city", "moor"])
TIERS = st.sampled_from(["free", "pro"])
MANY = st.lists(NAMES, min_size=1, max_size=3, unique=True)
TAGS = st.lists(st.sampled_from(["eu", "vip"]), max_size=2, unique=True)


def edit(service: Callable[..., object], *, is_forced: bool = False, **fields: Any) -> Edit:
    return lambda: service(**fields, **(FORCED if is_forced else SAID))


def back(service: Callable[..., object], share: float) -> Edit:
    return lambda: service(number=1 + int(share * (newest().number - 1)), **FORCED)


EDITS = st.one_of(
    st.builds(lambda name, tier, tags: edit(tenant_create, name=name, tier=tier, tags=tags), NAMES, TIERS, TAGS),
    st.builds(lambda names, tier: edit(tenants_move, is_forced=True, names=names, tier=tier), MANY, TIERS),
    st.builds(lambda name: edit(tenant_archive, name=name), NAMES),
    st.builds(lambda name: edit(tenant_archive, name=name), NAMES),
    st.builds(lambda name: edit(tenant_restore, name=name), NAMES),
    st.builds(lambda name: edit(tenant_suspend, name=name), NAMES),
    st.builds(lambda names, tags: edit(tenants_tag, names=names, add=tags or ["eu"]), MANY, TAGS),
    st.builds(
        lambda name, zone: edit(tenant_update, name=name, timezone=zone),
        NAMES,
        st.sampled_from(["UTC", "Asia/Kolkata"]),
    ),
    st.builds(lambda name: edit(override_create, is_forced=True, tenant=name, multiplier=(2, 1)), NAMES),
    st.builds(lambda name: edit(api_key_issue, tenant=name), NAMES),
    st.builds(lambda share: back(revision_rollback, share), st.floats(0, 1)),
    st.builds(lambda share: back(revision_revert, share), st.floats(0.5, 1)),
)


def compiled(configuration: Any) -> list[dict[str, str]]:
    compiler = Compiler(Target(4, lambda name: keys.shard_of(name, 4), keys.shard_prefix), 10**15)
    compiler.load(configuration)
    assert not compiler.problems
    return [dict(shard.entries) for shard in compiler.image.shards]


def check_agreement(edits: list[Edit]) -> None:
    make_world()
    for attempt in edits:
        before, revoked = Revision.objects.count(), revoked_keys()
        try:
            attempt()
        except Refused:
            assert Revision.objects.count() == before
        assert revoked <= revoked_keys(), "a revoked key was revived"
    configuration = configuration_load()
    entries = {name: entry for shard in compiled(configuration) for name, entry in shard.items()}
    for row in Tenant.objects.select_related("tier"):
        state = latest_state(row.name)
        assert state == snapshots([key_of(TENANT, row.name)])[key_of(TENANT, row.name)]
        assert configuration.tenants[row.name].tier == row.tier.name == state["tier"]
        is_refused = row.suspended or row.archived_at is not None
        assert configuration.tenants[row.name].suspended == entries[row.name].endswith("!") == is_refused
        if row.archived_at is not None:
            assert not ApiKey.objects.filter(tenant=row, revoked_at=None).exists()
            assert not Override.objects.filter(tenant=row, cancelled_at=None).exists()
    assert document_apply(document=accepted(read_document(document_export())), **FORCED) is None


def revoked_keys() -> set[int]:
    return set(ApiKey.objects.exclude(revoked_at=None).values_list("pk", flat=True))


def latest_state(name: str) -> Any:
    """What the newest revision that touched the tenant says of it."""
    row = Revision.objects.filter(touched__contains=[key_of(TENANT, name)]).order_by("-number").first()
    assert row is not None
    return row.after[key_of(TENANT, name)]


class TestAgreement(TestCase):
    @settings(max_examples=8, deadline=None)
    @given(edits=st.lists(EDITS, min_size=3, max_size=14))
    def test_rows_revisions_documents_and_plans_agree(self, edits: list[Edit]) -> None:
        check_agreement(edits)
