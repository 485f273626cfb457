"""Who somebody is, whatever name is shown: names change and are given again, numbers are not.

A row that names somebody stores their identity beside the name: `person:7`, `token:9f…` or `key:9f…`. It is empty in
rows from before identities were stored, and for names without an account: the machine's operator, or a job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import User

from tenants.credentials import KEY, TOKEN
from tenants.models import ApiToken
from tenants.scope import PERSON, Principal

_MACHINE: Final = re.compile(rf"({TOKEN}|{KEY}) ([0-9a-z]{{8,32}})(?: \(|$)")
_principal: ContextVar[Principal | None] = ContextVar("principal", default=None)


@dataclass(frozen=True, slots=True)
class Actor:
    name: str  # as it is shown
    identity: str = ""

    @property
    def is_machine(self) -> bool:
        return self.identity.startswith((f"{TOKEN}:", f"{KEY}:"))

    @property
    def is_key(self) -> bool:
        """A tenant's API key, in contrast to a token."""
        return self.identity.startswith(f"{KEY}:")


@dataclass(frozen=True, slots=True)
class Person:
    number: int | None  # None: somebody without an account
    name: str

    def is_same(self, other: Person) -> bool:
        if self.number is not None and other.number is not None:
            return self.number == other.number
        return self.name.strip().casefold() == other.name.strip().casefold()


@contextmanager
def acting_as(principal: Principal) -> Iterator[None]:
    """Everything within the block is done by this principal."""
    token = _principal.set(principal)
    try:
        yield
    finally:
        _principal.reset(token)


def acting_principal() -> Principal | None:
    """None: not a request, but a command on the machine, or a job."""
    return _principal.get()


def actor_of(name: str, identity: str = "") -> Actor:
    """`identity`: as it was stored with the name. Without one, it is found by the name as of now."""
    name = name.strip()
    if identity:
        return Actor(name, identity)
    principal = _principal.get()
    if principal is not None and principal.actor.strip() == name:
        return Actor(name, principal.identity)
    if machine := _MACHINE.match(name):
        return Actor(name, f"{machine[1]}:{machine[2]}")
    number = _account(name)
    return Actor(name, "" if number is None else f"{PERSON}:{number}")


def _account(name: str) -> int | None:
    spelt = dict(User.objects.filter(username__iexact=name).values_list("username", "pk"))
    return spelt.get(name, next(iter(spelt.values()), None))


def person_of(actor: Actor) -> Person | None:
    """Who answers for what the actor does: for a token, whoever issued it. None: nobody is known to.

    Nobody answers for an API key: its tenant has it, and whoever issued it may have kept it.
    """
    kind, _, key = actor.identity.partition(":")
    if kind == PERSON:
        return Person(int(key), actor.name)
    if kind == TOKEN:
        issuer = User.objects.filter(pk__in=ApiToken.objects.filter(key_id=key).values("issuer")).first()
        return None if issuer is None else Person(issuer.pk, issuer.get_username())
    if kind == KEY:
        return None
    return Person(None, actor.name)


def identities_of(principal: Principal) -> frozenset[str]:
    """Everything that this person acts as: themselves, and the tokens they issued."""
    if principal.user is None:
        return frozenset({principal.identity})
    issued = ApiToken.objects.filter(issuer=principal.user).values_list("key_id", flat=True)
    return frozenset({principal.identity, *(f"{TOKEN}:{key_id}" for key_id in issued)})
