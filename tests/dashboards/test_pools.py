"""Pools: the list, one pool, its shares, new pools and new members."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from functools import partial
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboards.pages.pools.chart import PARTS
from dashboards.pages.pools.shares_form import SharesForm
from headroom_edge.algorithms.base import SECOND_US
from headroom_edge.algorithms.sharing import Borrowing
from quotas.changes.freeze import freeze_set
from quotas.changes.undo import revision_revert
from quotas.models import Policy, Task
from quotas.overrides import override_create
from quotas.pools import demand
from quotas.pools.members import members_read
from quotas.pools.queries import pool_read
from quotas.pools.shares import WantedShare, member_add, pool_create, shares_set
from quotas.recommendations.pool_proposal import MemberProposal, PoolProposal, PoolShare
from quotas.slices import task_do
from quotas.tasks import SLICED
from quotas.tenant_summary import measure_tenants
from quotas.tenants import NewTenant, tenants_create, tier_create
from quotas.tenants.archive import tenant_archive
from tests.access.people import signed_in
from tests.dashboards.world import counted, denied, drained, make_world, page, text_of
from tests.quotas.pools.world import grow, make_pool_world, make_team_world
from tests.quotas.world import FORCED, PAY, SAID, Forced, newest

pytestmark = pytest.mark.django_db

CARDS = "/pools/everyone-charge/cards"
JUST = timedelta(seconds=20)
FIXED = Borrowing(30, SECOND_US, 30, 60, 60, 0, "cards")
ASKED = {"policy": "everyone-charge", "limit": "cards"}


@pytest.fixture
def owner(valkey: object) -> Client:
    make_pool_world()
    measure_tenants(timezone.now())
    return signed_in("ann-owner", "owner")


def assured() -> dict[str, int]:
    pool = pool_read("everyone-charge", "cards")
    assert pool is not None
    return {share.tenant: share.algorithm.assured for share in members_read(pool).shares}


def busy() -> None:
    """kite borrows 16/s, lagoon uses a third of its share, summit was denied."""
    counted("kite", "a", 1800, ago=JUST)
    counted("kite", "l", 960, limit="cards", ago=JUST)
    counted("lagoon", "a", 540, ago=JUST)
    counted("summit", "a", 1200, ago=JUST)
    counted("summit", "d", 7, limit="charge", ago=JUST)
    denied("summit", endpoint=PAY, limit="charge", reason="limit/pool")
    drained()


def measured(shares: dict[str, int], revision: int, share: Borrowing = FIXED) -> None:
    """A worker has proposed these shares, with twice as much as ceilings, and a smaller reserve."""
    pool = pool_read("everyone-charge", "cards")
    assert pool is not None
    members = tuple(
        MemberProposal(
            PoolShare(name, 1, "charge", FIXED, scope=PAY), replace(share, assured=assured, ceiling=2 * assured), ()
        )
        for name, assured in shares.items()
    )
    found = PoolProposal(pool.algorithm, replace(pool.algorithm, reserve=90), members, (), None, timezone.now())
    result = {"revision": revision, **found.json()}
    Task.objects.create(kind="shares", author="ann", asked=ASKED, state="done", percent=100, result=result)


def rows(client: Client) -> dict[str, str]:
    """The fields of the table, as the page has them."""
    context = client.get(CARDS).context
    found: dict[str, str] = {}
    for row in context["figures"].rows:
        ceiling = "" if row.ceiling is None else f"{row.ceiling:g}"
        found |= {f"k-{row.index}": row.key, f"g-{row.index}": f"{row.assured:g}", f"c-{row.index}": ceiling}
        found |= {f"was-g-{row.index}": f"{row.assured:g}", f"was-c-{row.index}": ceiling}
    return found


def index_of(fields: dict[str, str], tenant: str) -> str:
    return next(name[2:] for name, value in fields.items() if name.startswith("k-") and value.startswith(f"{tenant}|"))


class TestTheList:
    def test_it_says_what_a_pool_is_before_there_is_one(self, valkey: object) -> None:
        make_world()
        text = page(signed_in("ann-owner", "owner"), "/pools")
        assert "No pools yet" in text
        assert "Create the first pool" in text

    def test_each_pool_has_its_rate_and_use(self, owner: Client) -> None:
        busy()
        text = page(owner, "/pools")
        assert f'href="{CARDS}"' in text
        assert "all tenants" in text
        assert "75 %" in text.replace("\N{NO-BREAK SPACE}", " ")

    def test_the_queries_do_not_grow_with_the_pools(self, owner: Client) -> None:
        drained()
        page(owner, "/pools")
        with CaptureQueriesContext(connection) as few:
            page(owner, "/pools")
        make_team_world()
        with CaptureQueriesContext(connection) as more:
            page(owner, "/pools")
        assert len(few) == len(more)

    def test_an_unknown_tenant_is_told(self, owner: Client) -> None:
        text = page(owner, "/pools?tenant=nobody")
        assert "There is no tenant nobody. These are all pools." in text
        assert "There is no tenant" not in page(owner, "/pools?tenant=kite")

    def test_the_menu_and_the_palette_lead_there(self, owner: Client) -> None:
        assert 'href="/pools"' in page(owner, "/tiers")
        assert CARDS in page(owner, "/palette?q=cards")
        assert "/new/pool" in page(owner, "/palette?q=new+pool")


class TestOnePool:
    def test_the_head_says_who_borrows_from_whom(self, owner: Client) -> None:
        busy()
        text = page(owner, CARDS)
        assert "3 tenants share 100 req/s on payments:charge." in text
        assert "Right now kite borrows 16 req/s: 8.20 from lagoon and 7.80 from the free part." in text

    def test_the_head_and_the_picture_name_the_same_lenders(self, owner: Client) -> None:
        busy()
        context = owner.get(CARDS).context
        drawn = [node.label.lower() for node in context["flow"].lenders]
        assert drawn == ["lagoon", "free part"]
        assert all(label in context["sentence"] for label in drawn)

    def test_what_is_lent_adds_up_with_the_free_part(self, owner: Client) -> None:
        busy()
        answer = owner.get(CARDS)
        figures = answer.context["figures"]
        assert sum(row.lent for row in figures.rows) + figures.free_lent == pytest.approx(figures.borrowed)
        assert '<td class="num" data-l="Lent">7.80</td>' in text_of(answer.content)

    def test_of_many_borrowers_the_largest_is_named(self, owner: Client) -> None:
        busy()
        counted("summit", "l", 60, limit="cards", ago=JUST)
        drained()
        assert "kite 16 and 1 more" in page(owner, CARDS)

    def test_its_figures_are_those_of_the_rollups(self, owner: Client) -> None:
        busy()
        figures = owner.get(CARDS).context["figures"]
        assert (figures.used, figures.borrowed, figures.denied) == (75, 16, 7)
        kite, lagoon = (next(row for row in figures.rows if row.share.tenant == name) for name in ("kite", "lagoon"))
        assert (kite.used, kite.borrowed, kite.assured, kite.ceiling) == (46, 16, 30, 60)
        assert sum(loan.amount for loan in figures.loans) == pytest.approx(16)
        assert lagoon.lent == pytest.approx(16 * 21 / 41)

    def test_the_chart_says_who_borrows_when(self, owner: Client) -> None:
        at = timezone.now()
        for hours in (3, 9):
            name = "kite" if hours == 3 else "lagoon"
            counted(name, "l", 40 * 3600, limit="cards", ago=timedelta(hours=hours))
        drained()
        chart = owner.get(CARDS).context["chart"]
        first, second = (PARTS[(at - timedelta(hours=hours)).hour // 6 * 6] for hours in (3, 9))
        said = {f"{first} kite", f"{second} lagoon"}
        assert all(each in chart.words.lower() for each in said), chart.words
        assert "borrows most; " in chart.words

    def test_denials_say_why_and_lead_to_the_log(self, owner: Client) -> None:
        busy()
        denied("kite", endpoint=PAY, limit="charge", reason="limit/ceiling")
        text = page(owner, CARDS)
        [(address, words)] = re.findall(r'href="(/decisions[^"]*cause=pool[^"]*)" title="[^"]*">([^<]*)<', text)
        assert words == "pool full 50 %"
        log = page(owner, unescape(address))
        assert 'href="/tenants/summit"' in log
        assert 'href="/tenants/kite"' not in log

    def test_without_traffic_nothing_is_invented(self, owner: Client) -> None:
        text = page(owner, CARDS)
        assert "Nothing has been measured yet." in text
        assert "not measured yet" in text

    def test_shares_above_the_rate_are_told(self, owner: Client) -> None:
        grow(2)
        assert "of the guaranteed shares: they add up to" in page(owner, CARDS)

    def test_a_large_pool_has_pages(self, owner: Client) -> None:
        grow(40)
        text = page(owner, CARDS)
        assert "25 of 43 members" in text
        assert "sharebar" not in text

    def test_a_page_of_a_large_pool_does_not_say_that_nobody_borrows(self, owner: Client) -> None:
        """Those who borrow are on the next page."""
        grow(40)
        busy()
        text = page(owner, f"{CARDS}?order=name")
        assert "43 tenants share 100 req/s on payments:charge. Right now 16 req/s of that are borrowed." in text
        assert "nobody borrows" not in text
        assert "Too many members to draw" in text

    def test_a_page_of_a_large_pool_never_divides_the_whole_rate(self, owner: Client) -> None:
        grow(40)
        for shares in ("even", "demand"):
            answer = owner.get(f"{CARDS}?shares={shares}")
            assert {row.proposed for row in answer.context["figures"].rows} == {None}
            text = text_of(answer.content)
            assert "Split evenly" not in text
            assert "By real demand" not in text
            assert "Too many members for one page" in text

    def test_the_queries_do_not_grow_with_the_members(self, owner: Client) -> None:
        grow(30)
        busy()
        page(owner, CARDS)
        with CaptureQueriesContext(connection) as few:
            page(owner, CARDS)
        tenants_create(tenants=[NewTenant(f"more-{each}", "gold") for each in range(60)], author="ann", reason="grow")
        with CaptureQueriesContext(connection) as many:
            page(owner, CARDS)
        assert len(few) == len(many)

    def test_a_pool_of_a_tier_is_shown_for_one_of_its_tenants(self, owner: Client) -> None:
        make_team_world()
        text = page(owner, "/pools/plain-all/org?tenant=acme")
        assert "Each tenant of plain has 1,000 req/s on all endpoints." in text
        assert "each team, counted together" in text

    def test_a_pool_that_no_tenant_has_shows_no_figures(self, owner: Client) -> None:
        make_team_world()
        busy()
        for name in ("acme", "bolt"):
            tenant_archive(name=name, **SAID)
        answer = owner.get("/pools/plain-all/org")
        assert "No tenant has this pool." in text_of(answer.content)
        assert answer.context["figures"].used is None
        assert (answer.context["chart"], answer.context["causes"]) == (None, [])

    def test_the_pool_of_an_archived_tenant_shows_no_figures(self, owner: Client) -> None:
        made = pool_create(name="own", tenant="kite", fields={"rate": 10}, **FORCED)
        busy()
        tenant_archive(name="kite", **SAID)
        assert made is not None
        answer = owner.get(f"/pools/{made.policy}/own")
        assert "No tenant has this pool." in text_of(answer.content)
        assert answer.context["figures"].used is None

    def test_a_tenant_that_has_no_such_pool_is_not_found(self, owner: Client) -> None:
        make_team_world()
        for name in ("typo", "kite"):
            page(owner, f"/pools/plain-all/org?tenant={name}", 404)

    def test_what_is_no_pool_is_not_found(self, owner: Client) -> None:
        page(owner, "/pools/everyone-charge/other", 404)
        page(owner, "/pools/gold-charge/charge", 404)

    def test_a_viewer_sees_it_and_changes_nothing(self, owner: Client) -> None:
        viewer = signed_in("vera", "viewer")
        text = page(viewer, CARDS)
        assert "Save shares" not in text
        assert "Add member" not in text
        assert viewer.post(f"{CARDS}/shares", {}).status_code == 403


class TestShares:
    def test_all_changed_shares_are_saved_in_one_revision(self, owner: Client) -> None:
        fields = rows(owner)
        fields[f"g-{index_of(fields, 'kite')}"], fields[f"g-{index_of(fields, 'lagoon')}"] = "40", "20"
        answer = owner.post(f"{CARDS}/shares", {**fields, "reason": "a fair", "force": "on"})
        assert answer["HX-Redirect"] == f"{CARDS}?saved={newest().number}"
        assert assured() == {"kite": 40, "lagoon": 20, "summit": 20}
        revision_revert(number=newest().number, **FORCED)
        assert assured() == {"kite": 30, "lagoon": 30, "summit": 20}

    def test_after_saving_the_change_can_be_undone_on_the_page(self, owner: Client) -> None:
        fields = rows(owner)
        fields[f"g-{index_of(fields, 'kite')}"] = "40"
        owner.post(f"{CARDS}/shares", {**fields, "reason": "more"})
        number = newest().number
        text = page(owner, CARDS)
        assert f"r{number}</a> by ann-owner" in text
        [address] = re.findall(r'hx-get="(/changes/[^"]*revert[^"]*)"', text)
        assert "undoes what" in text_of(owner.get(address).content)
        owner.post(address, {"reason": "back", "newest": number})
        assert assured()["kite"] == 30

    def test_a_removed_share_can_be_undone_on_the_page(self, owner: Client) -> None:
        for name, value in (("g", "40"), ("r", "on")):
            fields = rows(owner)
            fields[f"{name}-{index_of(fields, 'kite')}"] = value
            answer = owner.post(f"{CARDS}/shares", {**fields, "reason": "a try", "force": "on"})
        assert f"Undo r{newest().number}<" in page(owner, answer["HX-Redirect"])

    def test_a_removed_member_without_a_tiers_share_can_be_undone_on_the_page(self, owner: Client) -> None:
        tenants_create(tenants=[NewTenant("bare", tier_create(name="bronze", **SAID).name)], **SAID)
        shares = partial(member_add, policy="everyone-charge", limit="cards", tier=None, tenant="bare", **FORCED)
        shares(fields={"assured": 5})
        fields = rows(owner)
        fields[f"r-{index_of(fields, 'bare')}"] = "on"
        answer = owner.post(f"{CARDS}/shares", {**fields, "reason": "a try", "force": "on"})
        assert f"Undo r{newest().number}<" in page(owner, answer["HX-Redirect"])

    def test_a_revision_that_changed_something_else_is_not_offered_to_be_undone(self, owner: Client) -> None:
        [last] = re.findall(r"Undo r(\d+)<", page(owner, CARDS))
        pool_create(name="exports", endpoint="payments:refund", fields={"rate": 10}, **FORCED)
        other = newest().number
        for number in (other, other + 1):
            text = page(owner, f"{CARDS}?saved={number}")
            assert f"Undo r{number}<" not in text
            assert f"Undo r{last}<" in text

    def test_a_viewer_sees_the_last_change_and_cannot_undo_it(self, owner: Client) -> None:
        text = page(signed_in("vera", "viewer"), CARDS)
        assert "Last change:" in text
        assert "Undo r" not in text

    def test_the_dry_run_says_whom_it_cuts_and_saves_nothing(self, owner: Client) -> None:
        fields = rows(owner)
        fields[f"g-{index_of(fields, 'kite')}"] = "5"
        told = text_of(owner.post(f"{CARDS}/plan", fields).content)
        assert "Apply anyway" in told
        assert assured()["kite"] == 30

    def test_the_dry_run_says_that_changes_are_frozen_or_wait(self, owner: Client, settings: Any) -> None:
        fields = rows(owner)
        fields[f"g-{index_of(fields, 'kite')}"] = "31"
        settings.HEADROOM_FOUR_EYES = True
        assert "This only files a change." in text_of(owner.post(f"{CARDS}/plan", fields).content)
        freeze_set(end=timezone.now() + timedelta(days=1), **SAID)
        assert "Changes are frozen" in text_of(owner.post(f"{CARDS}/plan", fields).content)

    def test_shares_above_the_rate_and_a_wait_are_told_before_and_after_saving(self, owner: Client) -> None:
        fields = rows(owner)
        kite = index_of(fields, "kite")
        fields |= {f"g-{kite}": "60", f"c-{kite}": "70"}
        told = text_of(owner.post(f"{CARDS}/plan", fields).content)
        owner.post(f"{CARDS}/shares", {**fields, "reason": "its peak"})
        for text in (told, page(owner, CARDS)):
            assert "The pool can keep only 90 % of the guaranteed shares" in text
            assert "may have to wait about 100ms" in text

    def test_a_cut_has_to_be_accepted(self, owner: Client) -> None:
        fields = rows(owner)
        fields[f"g-{index_of(fields, 'kite')}"] = "5"
        answer = owner.post(f"{CARDS}/shares", {**fields, "reason": "less"})
        assert answer.status_code == 422
        assert "Apply anyway" in text_of(answer.content)
        assert assured()["kite"] == 30

    def test_without_a_reason_the_dry_run_and_what_was_confirmed_stay(self, owner: Client) -> None:
        fields = rows(owner)
        fields[f"g-{index_of(fields, 'kite')}"] = "5"
        answer = owner.post(f"{CARDS}/shares", {**fields, "reason": "", "force": "on"})
        text = text_of(answer.content)
        assert "Enter a reason." in text
        assert "1 tenant would get less: kite, limit charge" in text
        assert 'name="force" checked' in text
        assert assured()["kite"] == 30

    def test_a_cut_that_is_not_confirmed_is_listed_once(self, owner: Client) -> None:
        fields = rows(owner)
        fields[f"g-{index_of(fields, 'kite')}"] = "5"
        text = text_of(owner.post(f"{CARDS}/shares", {**fields, "reason": "less"}).content)
        assert text.count("limit charge on payments:charge") == 1
        assert "tick Apply anyway to confirm" in text
        assert "(force)" not in text

    def test_a_share_with_decimals_is_saved_exactly_and_shown_again(self, owner: Client) -> None:
        fields = rows(owner)
        kite = index_of(fields, "kite")
        fields |= {f"g-{kite}": "4.2", f"c-{kite}": "10.5"}
        answer = owner.post(f"{CARDS}/shares", {**fields, "reason": "less", "force": "on"})
        assert answer.status_code == 200, text_of(answer.content)
        fields = rows(owner)
        assert (fields[f"g-{index_of(fields, 'kite')}"], fields[f"c-{index_of(fields, 'kite')}"]) == ("4.2", "10.5")

    def test_an_own_share_is_removed(self, owner: Client) -> None:
        fields = rows(owner)
        fields[f"g-{index_of(fields, 'kite')}"] = "40"
        owner.post(f"{CARDS}/shares", {**fields, "reason": "more"})
        fields = rows(owner)
        fields[f"r-{index_of(fields, 'kite')}"] = "on"
        owner.post(f"{CARDS}/shares", {**fields, "reason": "as before", "force": "on"})
        assert assured()["kite"] == 30
        assert not Policy.objects.filter(tenant__name="kite").exists()

    @pytest.mark.parametrize(
        ("typed", "reason", "said"),
        [
            ({"g": "many"}, "why", "Enter numbers such as 20 or 4.2 for kite."),
            ({"g": "4,2"}, "why", "Enter numbers such as 20 or 4.2 for kite."),
            ({"g": "90"}, "why", "The ceiling of kite, 60, is below its guaranteed share of 90; raise the ceiling"),
            ({}, "why", "No share was changed."),
            ({"g": "31"}, "", "Enter a reason."),
        ],
    )
    def test_what_cannot_be_saved_says_why(self, owner: Client, typed: dict[str, str], reason: str, said: str) -> None:
        fields = rows(owner)
        fields |= {f"{name}-{index_of(fields, 'kite')}": value for name, value in typed.items()}
        answer = owner.post(f"{CARDS}/shares", {**fields, "reason": reason})
        assert answer.status_code == 422
        assert said in text_of(answer.content)

    def test_who_saves_after_somebody_else_is_told_and_overwrites_nothing(self, owner: Client) -> None:
        fields = rows(owner)
        kite, lagoon = index_of(fields, "kite"), index_of(fields, "lagoon")
        said: Forced = {"author": "bob", "reason": "because", "force": True}
        save = partial(shares_set, policy="everyone-charge", limit="cards", **said)
        save(shares=[WantedShare("kite", assured=35), WantedShare("lagoon", assured=25)])
        fields[f"g-{kite}"] = "40"
        answer = owner.post(f"{CARDS}/shares", {**fields, "reason": "mine", "force": "on"})
        text = text_of(answer.content)
        assert answer.status_code == 422
        assert "bob changed this pool" in text
        assert "Your edit of the share of kite is kept." in text
        assert "Their edit of the share of lagoon is shown now." in text
        assert "You both changed the share of kite; theirs is “35”." in text
        assert f'data-now="g-{lagoon}" value="25"' in text
        assert assured() == {"kite": 35, "lagoon": 25, "summit": 20}
        fields |= {f"was-g-{kite}": "35", f"was-g-{lagoon}": "25", f"g-{lagoon}": "25"}
        owner.post(f"{CARDS}/shares", {**fields, "reason": "mine", "force": "on"})
        assert assured() == {"kite": 40, "lagoon": 25, "summit": 20}

    def test_a_conflict_names_rows_by_tenant_or_limit(self) -> None:
        """With the place where one has several shares."""
        keys = ["kite|payments:charge|charge", "|*|node", "kite|payments:refund|charge"]
        posted = QueryDict(mutable=True)
        posted.update({f"k-{i}": key for i, key in enumerate(keys)} | {f"g-{i}": "1" for i in range(3)})
        labels = [SharesForm(posted)[f"g-{i}"].label for i in range(3)]
        named = ["kite on payments:charge", "node", "kite on payments:refund"]
        assert labels == [f"the share of {name}" for name in named]

    def test_of_two_who_save_at_the_same_moment_one_is_told(
        self, owner: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fields = rows(owner)
        fields[f"g-{index_of(fields, 'kite')}"] = "40"
        is_valid = SharesForm.is_valid

        def late(form: SharesForm) -> bool:
            """The other one saves after the form was compared, before the edit has its turn."""
            found = is_valid(form)
            shares_set(policy="everyone-charge", limit="cards", shares=[WantedShare("kite", assured=35)], **FORCED)
            return found

        monkeypatch.setattr(SharesForm, "is_valid", late)
        answer = owner.post(f"{CARDS}/shares", {**fields, "reason": "mine", "force": "on"})
        assert answer.status_code == 422
        assert assured()["kite"] == 35

    def test_a_member_with_an_override_does_not_keep_others_from_being_saved(self, owner: Client) -> None:
        override_create(tenant="lagoon", limits={"charge": {"assured": 35}}, endpoint=PAY, **FORCED)
        fields = rows(owner)
        lagoon = index_of(fields, "lagoon")
        del fields[f"g-{lagoon}"], fields[f"c-{lagoon}"]
        fields[f"g-{index_of(fields, 'kite')}"] = "31"
        assert owner.post(f"{CARDS}/shares", {**fields, "reason": "more"}).status_code == 200
        assert assured()["kite"] == 31

    def test_a_share_of_a_tiers_pool_is_edited_for_all_of_its_tenants(self, owner: Client) -> None:
        make_team_world()
        place = "/pools/plain-all/org"
        found = owner.get(f"{place}?tenant=acme").context["figures"].rows
        row = next(row for row in found if row.share.limit == "team")
        fields = {"k-0": row.key, "g-0": "250", "was-g-0": "200", "c-0": "800", "was-c-0": "800", "reason": "more"}
        assert owner.post(f"{place}/shares", fields).status_code == 200
        assert owner.get(f"{place}?tenant=bolt").context["figures"].rows[0].assured == 250

    def test_even_shares_are_filled_in_and_not_saved(self, owner: Client) -> None:
        figures = owner.get(f"{CARDS}?shares=even").context["figures"]
        assert sorted(row.value for row in figures.rows) == [33, 33, 34]
        assert assured()["kite"] == 30


class TestRealDemand:
    def test_a_get_never_measures_it(self, owner: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        """Measuring and replaying busy members can take a minute."""
        monkeypatch.setattr(demand, "demand_proposal", None)
        text = page(owner, f"{CARDS}?shares=demand")
        assert "Nobody has measured the demand on this pool lately." in text
        assert not Task.objects.exists()

    def test_it_is_measured_by_a_worker_while_the_page_shows_progress(self, owner: Client) -> None:
        busy()
        assert owner.post(f"{CARDS}/demand")["Location"] == f"{CARDS}?shares=demand"
        text = page(owner, f"{CARDS}?shares=demand")
        assert "Waiting for a worker" in text
        assert 'hx-trigger="every 1s"' in text
        Task.objects.update(state="running", percent=40, doing="replaying today's shares")
        progress = text_of(owner.get(f"{CARDS}/demand").content)
        assert "40 %, replaying today&#x27;s shares" in progress
        assert 'hx-target="this"' in progress  # not that of the form around it, which is the bar to save with
        Task.objects.update(state="waiting")
        task_do(Task.objects.get().pk, SLICED[Task.Kind.SHARES])
        assert owner.get(f"{CARDS}/demand")["HX-Redirect"] == f"{CARDS}?shares=demand"
        assert "hx-trigger" not in page(owner, f"{CARDS}?shares=demand")

    def test_the_proposal_is_filled_in_and_not_saved(self, owner: Client) -> None:
        measured({"kite": 42, "lagoon": 12}, revision=newest().number)
        text = page(owner, f"{CARDS}?shares=demand")
        assert "Shares by measured demand are filled in below." in text
        assert "It proposes a reserve of 90 instead of 100" in text
        assert "Limits have changed since" not in text
        rows = owner.get(f"{CARDS}?shares=demand").context["figures"].rows
        assert {row.share.tenant: (row.value, row.ceiling_value) for row in rows} == {
            "kite": (42, 84),
            "lagoon": (12, 24),
            "summit": (20, None),
        }
        assert assured()["kite"] == 30

    def test_what_is_left_as_proposed_is_saved_exactly_so(self, owner: Client) -> None:
        """As its forecast was replayed: with its time and its bursts. Its weight stays comparable with the others."""
        proposed = Borrowing(4, 10 * SECOND_US, 3, 12, 7, 0, "cards")
        measured({"kite": 42, "lagoon": 12}, revision=newest().number, share=proposed)
        fields = rows(owner)
        answer = owner.get(f"{CARDS}?shares=demand")
        [number] = re.findall(r'name="demand" value="(\d+)"', text_of(answer.content))
        shown = {row.share.tenant: row for row in answer.context["figures"].rows}
        assert (shown["kite"].value, shown["kite"].ceiling_value) == (4.2, 8.4)
        for name in ("kite", "lagoon"):
            index = index_of(fields, name)
            fields |= {f"g-{index}": f"{shown[name].value:g}", f"c-{index}": f"{shown[name].ceiling_value:g}"}
        fields[f"g-{index_of(fields, 'lagoon')}"] = "2"
        saved = owner.post(f"{CARDS}/shares", {**fields, "demand": number, "reason": "measured", "force": "on"})
        assert saved.status_code == 200, text_of(saved.content)
        now = {row.share.tenant: row.share.algorithm for row in owner.get(CARDS).context["figures"].rows}
        assert now["kite"] == replace(proposed, assured=42, ceiling=84, weight=4)
        assert (now["lagoon"].assured, now["lagoon"].per_us, now["lagoon"].burst) == (10, 5 * SECOND_US, 2)

    def test_a_proposal_leaves_weights_and_rows_that_are_as_proposed_already(self, owner: Client) -> None:
        save = partial(shares_set, policy="everyone-charge", limit="cards", **FORCED)
        save(shares=[WantedShare("kite", assured=42, ceiling=84, weight=77)])
        measured({"kite": 42}, revision=newest().number, share=Borrowing(42, SECOND_US, 42, 84, 84, 0, "cards"))
        [number] = re.findall(r'name="demand" value="(\d+)"', page(owner, f"{CARDS}?shares=demand"))
        answer = owner.post(f"{CARDS}/shares", {**rows(owner), "demand": number, "reason": "measured", "force": "on"})
        assert "No share was changed." in text_of(answer.content)
        save(shares=[WantedShare("kite", assured=40)])
        fields = rows(owner)
        fields[f"g-{index_of(fields, 'kite')}"] = "42"
        owner.post(f"{CARDS}/shares", {**fields, "demand": number, "reason": "measured", "force": "on"})
        now = {row.share.tenant: row.share.algorithm for row in owner.get(CARDS).context["figures"].rows}
        assert (now["kite"].assured, now["kite"].weight) == (42, 77)

    def test_a_proposal_says_that_limits_have_changed_since(self, owner: Client) -> None:
        measured({"kite": 42}, revision=newest().number - 1)
        assert "Limits have changed since" in page(owner, f"{CARDS}?shares=demand")

    def test_who_asks_while_it_is_measured_gets_the_same_one(self, owner: Client) -> None:
        for _ in range(2):
            owner.post(f"{CARDS}/demand")
        assert Task.objects.count() == 1

    def test_why_it_failed_is_said(self, owner: Client) -> None:
        Task.objects.create(kind="shares", author="ann", asked=ASKED, state="failed", problem="it broke off")
        assert "The demand could not be measured: It broke off." in page(owner, f"{CARDS}?shares=demand")

    def test_a_viewer_cannot_ask(self, owner: Client) -> None:
        viewer = signed_in("vera", "viewer")
        assert viewer.post(f"{CARDS}/demand").status_code == 403
        assert "By real demand" not in page(viewer, CARDS)

    def test_too_little_demand_does_not_pass_for_shares_that_fit(self, owner: Client) -> None:
        busy()
        owner.post(f"{CARDS}/demand")
        task_do(Task.objects.get().pk, SLICED[Task.Kind.SHARES])
        text = page(owner, f"{CARDS}?shares=demand")
        assert "Not enough is measured yet to propose shares" in text
        assert "fit the measured demand" not in text


class TestForms:
    @pytest.mark.parametrize(
        ("address", "typed", "said"),
        [
            ("members/new", {"assured": ""}, "Enter what is guaranteed. 0: it only borrows."),
            ("members/new", {"assured": "many"}, "Guaranteed must be a number, such as 20 or 4.2."),
            ("members/new", {"assured": "1.2345678"}, "Guaranteed has more than 6 decimals. Round it."),
            ("members/new", {"assured": "-1"}, "Guaranteed must be at least 0."),
            ("members/new", {"ceiling": "0"}, "Ceiling must be above 0."),
            (
                "members/new",
                {"owner": "tenant", "tenant": "summit", "scope": "", "ceiling": "2"},
                "Ceiling cannot be below the guaranteed share, which is 5; raise it.",
            ),
            (
                "members/new",
                {"assured": "9" * 12},
                "Guaranteed is too high.",
            ),
            ("members/new", {"scope": "payments:nothing"}, "does not count on cards"),
            ("edit", {"rate": "1.5/5000d"}, "shorten the time of the rate, such as 100/10s"),
            ("members/new", {"tier": "gone"}, "This tier is gone. Choose another."),
            ("members/new", {"owner": ""}, "Choose a tenant or a tier."),
            ("members/new", {"scope": "x" * 129}, "Shorten it to 128 characters."),
            ("edit", {"burst": "1.5"}, "Burst must be a whole number, such as 20."),
            ("edit", {"reserve": "-1"}, "Reserve must be at least 0."),
        ],
    )
    def test_a_field_says_what_to_change_in_the_words_of_the_page(
        self, owner: Client, address: str, typed: dict[str, str], said: str
    ) -> None:
        fields = {"owner": "tier", "tier": "silver", "scope": "payments:refund", "assured": "5", "rate": "100"}
        answer = owner.post(f"{CARDS}/{address}", {**fields, **typed, "reason": "why", "force": "on"})
        text = text_of(answer.content)
        assert answer.status_code == 422
        assert said in text
        assert "This field is required" not in text
        assert "Enter a whole number." not in text

    def test_a_new_pool_without_a_place_or_a_mode_is_asked_for_them(self, owner: Client) -> None:
        text = text_of(owner.post("/new/pool", {"name": "fresh", "rate": "5", "reason": "why"}).content)
        assert "Enter where the pool is" in text
        assert "Choose enforce or shadow." in text
        assert "This field is required" not in text

    def test_a_new_pool_is_offered_the_endpoints(self, owner: Client) -> None:
        text = page(owner, "/new/pool")
        assert 'list="pool-places"' in text
        assert '<option value="payments:charge">' in text

    @pytest.mark.parametrize(("owned_by", "said"), [("tier", "Choose a tier."), ("tenant", "Enter a tenant.")])
    def test_an_owner_left_empty_does_not_mean_everyone(self, owner: Client, owned_by: str, said: str) -> None:
        typed = {"owner": owned_by, "name": "fresh", "endpoint": "*", "rate": "10", "mode": "shadow", "assured": "1"}
        for address in ("/new/pool", f"{CARDS}/members/new"):
            answer = owner.post(address, {**typed, "reason": "test"})
            assert answer.status_code == 422
            assert said in text_of(answer.content)

    def test_a_new_pool_asks_to_confirm_whom_it_starts_to_limit(self, owner: Client) -> None:
        fields = {"name": "exports", "owner": "", "endpoint": "payments:refund", "rate": "10", "mode": "enforce"}
        answer = owner.post("/new/pool", {**fields, "reason": "new"})
        text = text_of(answer.content)
        assert answer.status_code == 422
        assert "This starts to limit 3 tenants on payments:refund. Tick <b>Apply anyway</b> to confirm." in text
        assert "Everyone: limit exports on payments:refund: not enforced →" in text
        assert text.count('name="force"') == 1
        assert "(force)" not in text
        assert "smaller" not in text
        assert owner.post("/new/pool", {**fields, "reason": "new", "force": "on"}).status_code == 302

    def test_a_new_member_asks_to_confirm_whom_it_starts_to_limit(self, owner: Client) -> None:
        fields = {"name": "exports", "owner": "", "endpoint": "payments:refund", "rate": "10", "mode": "enforce"}
        place = owner.post("/new/pool", {**fields, "reason": "new", "force": "on"})["Location"]
        member = {"owner": "tier", "tier": "gold", "assured": "3", "ceiling": "8", "reason": "share"}
        text = text_of(owner.post(f"{place}/members/new", member).content)
        assert "Tick <b>Apply anyway</b> to confirm." in text
        assert "(force)" not in text

    @pytest.mark.parametrize("address", ["/new/pool", f"{CARDS}/members/new"])
    def test_the_tier_and_the_tenant_are_asked_for_only_if_they_count(self, owner: Client, address: str) -> None:
        text = page(owner, address)
        assert 'class="field for-tier"' in text
        assert 'class="field for-tenant"' in text

    def test_a_new_pool_gets_a_member(self, owner: Client) -> None:
        fields = {"name": "exports", "owner": "", "endpoint": "payments:refund", "rate": "10", "mode": "shadow"}
        answer = owner.post("/new/pool", {**fields, "reason": "new", "force": "on"})
        place = answer["Location"]
        assert "No members yet" in page(owner, place)
        member = {"owner": "tier", "tier": "gold", "assured": "3", "ceiling": "8", "reason": "share", "force": "on"}
        assert owner.post(f"{place}/members/new", member)["Location"] == place
        assert "kite" in page(owner, place)

    def test_the_pool_itself_is_edited(self, owner: Client) -> None:
        assert 'value="100"' in page(owner, f"{CARDS}/edit")
        fields = {"rate": "120", "burst": "200", "reserve": "90", "reason": "more"}
        assert owner.post(f"{CARDS}/edit", fields)["Location"] == CARDS
        pool = pool_read("everyone-charge", "cards")
        assert pool is not None
        assert (pool.rate, pool.algorithm.reserve) == (120, 90)

    def test_a_rate_is_edited_as_its_hint_says(self, owner: Client) -> None:
        fields = {"rate": "1,200/10s", "burst": "200", "reserve": "90", "reason": "more"}
        assert owner.post(f"{CARDS}/edit", fields)["Location"] == CARDS
        pool = pool_read("everyone-charge", "cards")
        assert pool is not None
        assert (pool.rate, pool.seconds) == (1200, 10)

    @pytest.mark.parametrize(
        ("fields", "said"),
        [
            ({"name": "cards", "endpoint": PAY, "rate": "10"}, "already has a limit cards"),
            ({"name": "", "endpoint": PAY, "rate": "10"}, "Enter a name."),
            ({"name": "x", "endpoint": "payments:nothing", "rate": "10"}, "payments:nothing"),
            ({"name": "x", "endpoint": PAY, "rate": "fast"}, "Enter a number"),
        ],
    )
    def test_a_refusal_keeps_the_input(self, owner: Client, fields: dict[str, str], said: str) -> None:
        answer = owner.post("/new/pool", {**fields, "mode": "enforce", "reason": "why", "force": "on"})
        assert answer.status_code == 422
        assert said in text_of(answer.content)
