"""An edit costs what it touches, and leads to the same image as compiling everything."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from quotas.policies.compile import Compiler
from quotas.policies.configuration_index import Touched
from quotas.policies.shard_image import Delta, ShardImage
from quotas.policies.spec import Configuration, Endpoint, Override, Policy, Tenant
from tests.quotas.policies.worlds import (
    NOW_US,
    SHARDS,
    compiled,
    entry,
    global_policy,
    limit,
    shard_of,
    tenant_policy,
    tier_policy,
    world,
)

BASE = (tier_policy("*", limit("burst")), tier_policy("*", limit("burst"), tier="free"))
RAISE = Override(1, "acme", "*", NOW_US, NOW_US + 3_600_000_000, multiplier=(2, 1))

EDITS: dict[str, tuple[Configuration, Touched]] = {
    "a tenant's own policy": (
        world(*BASE, tenant_policy("*", limit("burst", rate=99)), revision=2),
        Touched(tenants=frozenset({"acme"})),
    ),
    "an override": (world(*BASE, overrides=[RAISE], revision=2), Touched(tenants=frozenset({"acme"}))),
    "another tier for a tenant": (
        world(*BASE, tenants=[Tenant(1, "acme", "free")], revision=2),
        Touched(tenants=frozenset({"acme"})),
    ),
    "a new tenant": (
        world(*BASE, tenants=[Tenant(9, "dave", "free", timezone="Asia/Tokyo")], revision=2),
        Touched(tenants=frozenset({"dave"})),
    ),
    "a tier's policy": (
        world(tier_policy("*", limit("burst", rate=7)), BASE[1], revision=2),
        Touched(tiers=frozenset({"pro"})),
    ),
    "a global policy": (world(*BASE, global_policy("*", limit("total")), revision=2), Touched(common=True)),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edit_leads_to_the_same_image_as_compiling_everything(edit: str) -> None:
    after, touched = EDITS[edit]
    compiler = compiled(world(*BASE))
    compiler.update(after, touched)
    assert contents(compiler) == contents(compiled(after))


@pytest.mark.parametrize("edit", EDITS)
def test_taking_an_edit_back_leads_to_the_same_image_as_before(edit: str) -> None:
    after, touched = EDITS[edit]
    compiler = compiled(world(*BASE))
    before = contents(compiler)
    compiler.update(after, touched)
    compiler.update(world(*BASE, revision=3), touched)
    assert contents(compiler) == before


@pytest.mark.parametrize("edit", EDITS)
def test_deltas_turn_the_old_image_into_the_new_one(edit: str) -> None:
    after, touched = EDITS[edit]
    compiler = compiled(world(*BASE))
    shards = [(dict(image.entries), dict(image.config), image.token) for image in compiler.image.shards]
    for number, delta in compiler.update(after, touched).items():
        shards[number] = patched(*shards[number], delta)
    assert shards == [(image.entries, image.config, image.token) for image in compiler.image.shards]


def patched(
    entries: dict[str, str], config: dict[str, str], token: str, delta: Delta
) -> tuple[dict[str, str], dict[str, str], str]:
    assert token == delta.base
    for fields, changes in ((entries, delta.entries), (config, delta.config)):
        fields.update({name: value for name, value in changes.items() if value is not None})
        for name in [name for name, value in changes.items() if value is None]:
            fields.pop(name, None)
    return entries, config, delta.token


def contents(compiler: Compiler) -> list[tuple[dict[str, str], dict[str, str], int]]:
    return [(image.entries, without_revision(image), image.digest) for image in compiler.image.shards]


def without_revision(image: ShardImage) -> dict[str, str]:
    main = json.loads(image.config["main"])
    del main["revision"]
    return {**image.config, "main": json.dumps(main)}


def test_edit_of_one_tenant_concerns_its_shard_alone() -> None:
    compiler = compiled(world(*BASE))
    after, touched = EDITS["a tenant's own policy"]
    (number,) = compiler.update(after, touched)
    assert number == shard_of("acme")
    revisions = [image.revision for image in compiler.image.shards]
    assert sorted(revisions) == [1] * (SHARDS - 1) + [2]


def test_edit_of_a_tier_writes_no_entry_of_a_plain_tenant() -> None:
    compiler = compiled(world(*BASE))
    after, touched = EDITS["a tier's policy"]
    deltas = compiler.update(after, touched)
    assert len(deltas) == SHARDS
    assert not any(delta.entries for delta in deltas.values())


def test_edit_of_a_tier_reaches_its_tenants_with_limits_of_their_own() -> None:
    own = tenant_policy("*", limit("daily"))
    compiler = compiled(world(*BASE, own))
    before = entry(compiler)
    after = world(tier_policy("*", limit("burst", rate=7)), BASE[1], own, revision=2)
    compiler.update(only_tier(after, "pro"), Touched(tiers=frozenset({"pro"})))
    assert entry(compiler) != before
    assert contents(compiler) == contents(compiled(after))


def only_tier(configuration: Configuration, tier: str) -> Configuration:
    """What is read after an edit of a tier: no tenant, and no policy of one."""
    policies: tuple[Policy, ...] = tuple(policy for policy in configuration.policies if policy.tier == tier)
    return replace(configuration, tenants={}, policies=policies, overrides=())


def test_touching_what_did_not_change_changes_nothing() -> None:
    compiler = compiled(world(*BASE))
    tokens = [image.token for image in compiler.image.shards]
    everyone = Touched(frozenset({"acme", "bob", "carol"}), frozenset({"free", "pro"}), common=True)
    assert compiler.update(world(*BASE, revision=2), everyone) == {}
    assert [image.token for image in compiler.image.shards] == tokens
    assert compiler.image.revision == 2


def test_removed_tenant_leaves_nothing_behind() -> None:
    compiler = compiled(world(*BASE, tenants=[Tenant(9, "dave", "pro")]))
    compiler.update(world(*BASE, revision=2), Touched(tenants=frozenset({"dave"})))
    assert contents(compiler) == contents(compiled(world(*BASE)))


def test_loading_another_configuration_drops_what_is_not_in_it() -> None:
    compiler = compiled(world(*BASE, tenant_policy("*", limit("daily")), tenants=[Tenant(9, "dave", "pro")]))
    compiler.load(world(*BASE, revision=2))
    assert contents(compiler) == contents(compiled(world(*BASE)))


def test_endpoint_cost_is_published_to_every_shard() -> None:
    compiler = compiled(world(*BASE))
    dearer = world(*BASE, revision=2)
    dearer = replace(dearer, endpoints={**dearer.endpoints, "search:query": Endpoint(1, "search:query", 5)})
    assert len(compiler.update(dearer, Touched(common=True))) == SHARDS
    main = json.loads(compiler.image.shards[0].config["main"])
    assert json.loads(compiler.image.shards[0].config[f"e:{main['endpoints']}"])["search:query"] == ["001", 5]


def test_stand_in_for_unknown_tenants_is_named_once_it_exists() -> None:
    compiler = compiled(replace(world(*BASE), unknown_tenant="guest"))
    assert "unknown" not in json.loads(compiler.image.shards[0].config["main"])
    guest = replace(world(*BASE, tenants=[Tenant(9, "guest", "free")], revision=2), unknown_tenant="guest")
    compiler.update(guest, Touched(tenants=frozenset({"guest"})))
    main = json.loads(compiler.image.shards[0].config["main"])
    assert main["unknown"] == [f"hr:{{{shard_of('guest')}}}", "guest"]
