"""Extending, editing and ending overrides, one and many at once."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.test import override_settings
from django.utils import timezone

from quotas.changes.approval import change_approve
from quotas.changes.commit import Proposed, Written, commit
from quotas.changes.promotion import change_promote
from quotas.changes.undo import revision_revert, revision_rollback
from quotas.errors import Refused
from quotas.models import Override, Revision
from quotas.override_edits import override_update, overrides_extend
from quotas.overrides import (
    MOST_AT_ONCE,
    OverrideChange,
    override_cancel,
    override_create,
    overrides_cancel,
    overrides_create,
)
from tests.access.people import person
from tests.quotas.world import FORCED, PAY, SAID, newest, waiting

pytestmark = pytest.mark.usefixtures("world")

DOUBLE = OverrideChange(multiplier=(2, 1))


def hours(count: float) -> datetime:
    return timezone.now() + timedelta(hours=count)


def given(end: datetime | None = None) -> Override:
    return override_create(tenant="acme", multiplier=(2, 1), end=end, **SAID)


def test_many_tenants_get_the_same_override_in_one_revision() -> None:
    before = newest().number
    rows = overrides_create(tenants=["acme", "bolt", "acme"], change=DOUBLE, **SAID)
    assert [row.tenant.name for row in rows] == ["acme", "bolt"]
    assert newest().number == before + 1
    assert set(newest().after) == {f"override:{row.pk}" for row in rows}
    assert set(waiting()) == {"tenant:acme", "tenant:bolt"}


def test_if_one_of_many_is_refused_none_is_written() -> None:
    before = Revision.objects.count()
    with pytest.raises(Refused, match="there is no tenant nobody"):
        overrides_create(tenants=["acme", "nobody"], change=DOUBLE, **SAID)
    one = given(hours(1))
    other = given(hours(1))
    override_cancel(override=other.pk, **FORCED)
    with pytest.raises(Refused, match="has already ended"):
        overrides_cancel(overrides=[one.pk, other.pk], **FORCED)
    assert Override.objects.filter(cancelled_at=None).get() == one
    assert Revision.objects.count() == before + 3


@pytest.mark.parametrize("count", [0, MOST_AT_ONCE + 1])
def test_none_and_too_many_are_refused(count: int) -> None:
    with pytest.raises(Refused, match="choose"):
        overrides_create(tenants=[f"t{n}" for n in range(count)], change=DOUBLE, **SAID)
    with pytest.raises(Refused, match="choose"):
        overrides_cancel(overrides=list(range(count)), **SAID)


def test_an_end_moves_by_as_much_or_to_the_same_moment_in_one_revision() -> None:
    first, second = given(hours(1)), given(hours(5))
    ends = [row.end for row in (first, second)]
    before = newest().number
    overrides_extend(overrides=[first.pk, second.pk], by=timedelta(days=1), **SAID)
    assert newest().number == before + 1
    assert newest().action == "override_extend"
    assert [row.end for row in Override.objects.order_by("pk")] == [
        end + timedelta(days=1) for end in ends if end is not None
    ]
    until = hours(100)
    overrides_extend(overrides=[first.pk, second.pk], until=until, **SAID)
    assert {row.end for row in Override.objects.all()} == {until}


def test_what_cannot_be_extended_says_what_to_do() -> None:
    endless, short = given(), given(hours(1))
    for fields, words in (
        ({"overrides": [endless.pk], "by": timedelta(hours=1)}, "has no end; say until when"),
        ({"overrides": [short.pk], "by": timedelta()}, "for how much longer"),
        ({"overrides": [short.pk], "by": timedelta(days=999_999_999)}, "too long"),
        ({"overrides": [short.pk], "until": hours(-1)}, "end must be later than start"),
        ({"overrides": [short.pk]}, "either"),
        ({"overrides": [short.pk], "by": timedelta(1), "until": hours(9)}, "either"),
        ({"overrides": [999_999], "by": timedelta(1)}, "there is no override 999999"),
    ):
        with pytest.raises(Refused, match=words):
            overrides_extend(**fields, **SAID)


def test_other_values_begin_a_new_override_with_the_same_end() -> None:
    row = override_create(tenant="acme", endpoint=PAY, end=hours(9), limits={"burst": {"rate": 150}}, **FORCED)
    fresh = override_update(override=row.pk, limits={"burst": {"rate": 160}}, **FORCED)
    row.refresh_from_db()
    assert row.cancelled_revision_id == newest().number == fresh.created_revision_id
    assert (fresh.scope, fresh.end, fresh.limits) == (PAY, row.end, {"burst": {"rate": 160}})


def test_another_end_alone_keeps_the_override_and_its_number() -> None:
    row = given(hours(9))
    assert override_update(override=row.pk, end=hours(2), **FORCED).pk == row.pk
    assert override_update(override=row.pk, is_endless=True, **SAID).end is None
    count = Revision.objects.count()
    override_update(override=row.pk, **SAID)
    assert Revision.objects.count() == count


def test_undoing_an_extension_puts_the_end_back() -> None:
    row = given(hours(3))
    then, end = newest().number, row.end
    overrides_extend(overrides=[row.pk], by=timedelta(days=1), **SAID)
    revision_revert(number=newest().number, **FORCED)
    row.refresh_from_db()
    assert (row.end, row.cancelled_at) == (end, None)
    overrides_extend(overrides=[row.pk], by=timedelta(days=1), **SAID)
    revision_rollback(number=then, **FORCED)
    row.refresh_from_db()
    assert (row.end, row.cancelled_at) == (end, None)
    assert Override.objects.count() == 1


def test_undoing_an_edit_brings_the_former_values_back() -> None:
    row = override_create(tenant="acme", limits={"burst": {"rate": 150, "burst": 300}}, end=hours(9), **SAID)
    override_update(override=row.pk, limits={"burst": {"rate": 160, "burst": 320}}, **SAID)
    revision_revert(number=newest().number, **FORCED)
    live = Override.objects.get(cancelled_at=None)
    assert (live.limits, live.end) == (row.limits, row.end)


def test_a_dry_run_foresees_many_and_writes_none() -> None:
    found = commit(lambda: overrides_create(tenants=["acme", "bolt"], change=DOUBLE, **FORCED), "dry_run")
    assert found.effect.tenants.count == 2
    assert not Override.objects.exists()
    row = given(hours(2))
    later = commit(lambda: overrides_extend(overrides=[row.pk], by=timedelta(days=1), **FORCED), "dry_run")
    assert [change.action for change in later.effect.changes] == ["update"]
    row.refresh_from_db()
    assert row.end is not None
    assert row.end < hours(3)


def test_with_four_eyes_an_extension_waits_and_is_written_when_it_is_promoted() -> None:
    row = given(hours(2))
    end = row.end
    assert end is not None
    person("ann", "operator")
    person("bob", "approver")
    with override_settings(HEADROOM_FOUR_EYES=True):
        filed = commit(lambda: overrides_extend(overrides=[row.pk], by=timedelta(days=1), **SAID))
        assert isinstance(filed, Proposed)
        assert filed.change is not None
        row.refresh_from_db()
        assert row.end == end
        change_approve(change=filed.change.pk, approver="bob", reason="agreed")
        promoted = commit(lambda: change_promote(change=filed.change.pk, author="ann", reason="now"))  # type: ignore[union-attr]
    assert isinstance(promoted, Written)
    row.refresh_from_db()
    assert row.end == end + timedelta(days=1)
    assert Override.objects.count() == 1
