"""Four eyes belong to two people, whatever names and tokens they use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User

from quotas.changes.approval import change_approve
from quotas.changes.commit import Proposed, commit
from quotas.errors import Refused
from quotas.models import Approval, Change
from quotas.policies.edit import limit_set
from quotas.tokens import token_assign, token_permit
from tenants.identity import acting_as
from tenants.models import ApiToken, Membership
from tenants.scope import Principal
from tests.quotas.principals import account, machine
from tests.quotas.world import SAID, bucket

pytestmark = pytest.mark.usefixtures("world", "four_eyes")


@pytest.fixture
def four_eyes(world: None, settings: Any) -> None:
    settings.HEADROOM_FOUR_EYES = True


@contextmanager
def signed_in(who: Principal | None) -> Iterator[str]:
    assert who is not None
    with acting_as(who):
        yield who.actor


def filed(who: Principal) -> int:
    with signed_in(who) as author:
        outcome = commit(partial(limit_set, policy="pro-all", limit=bucket(50), force=True, author=author, reason="x"))
    assert isinstance(outcome, Proposed)
    assert outcome.change
    return outcome.change.pk


def approve(number: int, who: Principal) -> Approval:
    with signed_in(who) as approver:
        return change_approve(change=number, approver=approver, reason="I agree")


def refusal(number: int, who: Principal) -> str:
    with pytest.raises(Refused) as refused:
        approve(number, who)
    return str(refused.value)


def test_a_person_and_their_own_token_are_one() -> None:
    ann = account("ann")
    token = machine(author="ann", may_approve=True)
    assert "counts as ann, who is the author" in refusal(filed(ann), token)
    assert "is the author" in refusal(filed(token), ann)


def test_two_tokens_of_one_person_are_one_and_of_two_are_two() -> None:
    account("ann"), account("bob")
    first, second = machine(author="ann"), machine(author="ann", may_approve=True)
    assert "counts as ann" in refusal(filed(first), second)
    assert approve(filed(first), machine(author="bob", may_approve=True)).approver.startswith("token ")


def test_a_token_that_a_token_issued_counts_as_the_first_person() -> None:
    ann = account("ann")
    with signed_in(machine(author="ann")) as author:
        grandchild = machine(author=author)
    token_permit(key_id=grandchild.key_id, may_approve=True, **SAID)
    assert "counts as ann" in refusal(filed(ann), grandchild)


def test_a_machine_approves_only_if_an_owner_lets_it() -> None:
    account("ann", "owner")
    number, token = filed(account("bob")), machine(author="ann")
    assert "it approves only once an owner allows it" in refusal(number, token)
    for who in (token, account("carol", "approver"), machine(author="ann", role="owner")):
        with signed_in(who) as author, pytest.raises(Refused, match="only an owner, signed in as a person"):
            token_permit(key_id=token.key_id, may_approve=True, author=author, reason="x")
    with signed_in(account("ann", "owner")) as author:
        token_permit(key_id=token.key_id, may_approve=True, author=author, reason="x")
    assert approve(number, token).approver_identity == f"token:{token.key_id}"


@pytest.mark.parametrize("became", ["viewer", "nobody", "inactive"])
def test_a_machine_does_not_approve_once_its_issuer_may_not(became: str) -> None:
    bob = account("bob")
    number, token = filed(account("ann")), machine(author="bob", may_approve=True)
    if became == "viewer":
        account("bob", "viewer")
    elif became == "nobody":
        Membership.objects.filter(user=bob.user).delete()
    else:
        User.objects.filter(username="bob").update(is_active=False)
    assert "bob, who answers for token" in refusal(number, token)
    User.objects.filter(username="bob").update(is_active=True)
    account("bob", "approver")
    assert approve(number, token).approver_identity == f"token:{token.key_id}"


def test_nobody_approves_with_or_for_a_token_that_nobody_answers_for() -> None:
    ann, token = account("ann"), machine(author="somebody on the machine")
    assert ApiToken.objects.get().issuer is None
    number = filed(token)
    assert "nobody is known to answer for token" in refusal(number, ann)
    with pytest.raises(Refused, match="nobody is known to answer"):
        token_permit(key_id=token.key_id, may_approve=True, **SAID)
    token_assign(key_id=token.key_id, issuer="ann", **SAID)
    assert "is the author" in refusal(number, ann)
    with pytest.raises(Refused, match="somebody else answers for token"):
        token_assign(key_id=token.key_id, issuer=account("bob").actor, **SAID)
    approve(number, account("bob"))


def test_under_another_name_they_are_still_the_author() -> None:
    ann = account("ann")
    number = filed(ann)
    User.objects.filter(username="ann").update(username="anna")
    assert "is the author" in refusal(number, account("anna"))


def test_somebody_who_got_the_name_later_is_somebody_else() -> None:
    number = filed(account("ann"))
    User.objects.filter(username="ann").update(username="ann-who-left")
    assert approve(number, account("ann")).approver == "ann"


def test_a_change_from_before_identities_were_stored_goes_by_its_names() -> None:
    account("ann")
    number, token = filed(account("ann")), machine(author="ann", may_approve=True)
    Change.objects.update(author_identity="")
    assert "is the author" in refusal(number, account("ann"))
    assert "counts as ann" in refusal(number, token)
    Change.objects.update(author=token.actor)
    assert "is the author" in refusal(number, account("ann"))
    approve(number, account("bob"))
