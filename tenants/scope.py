"""Who acts, and which tenants they see. All look-ups that are scoped to a tenant are here.

A tenant's user who asks for another tenant's row is told that it does not exist, not that it is forbidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db.models import Model, QuerySet
from django.http import Http404

from tenants.credentials import TOKEN, verify
from tenants.models import ApiToken, Membership, Role, Tenant

READ: Final = "read"
WRITE: Final = "write"
APPROVE: Final = "approve"
CHECK: Final = "check"
METRICS: Final = "metrics"
SCOPES: Final = (READ, WRITE, APPROVE, CHECK, METRICS)

PERSON: Final = "person"

LONGEST_LABEL: Final = 100  # in an actor's name, which must fit into a revision's author

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated person or machine."""

    actor: str  # the name in revisions and in the audit
    role: str
    scopes: frozenset[str] = frozenset(SCOPES)
    tenant: Tenant | None = None  # the only tenant it sees; None: all
    user: User | None = None  # None: a machine
    kind: str = PERSON  # or what tenants.credentials verified
    key_id: str = ""  # of a machine's token or key
    counted_as: str = ""  # what limits per key count a machine as; its id if it was never rotated
    is_hash_due: bool = False  # its secret is to be hashed anew (quotas.secret_rotation)

    @property
    def is_machine(self) -> bool:
        return self.user is None

    @property
    def identity(self) -> str:
        """As `tenants.identity` stores it."""
        return f"{self.kind}:{self.key_id if self.user is None else self.user.pk}"


def principal_of_user(user: AbstractBaseUser | AnonymousUser | None) -> Principal | None:
    if not isinstance(user, User) or not user.is_active:
        return None
    if user.is_superuser:
        return Principal(user.get_username(), Role.OWNER, user=user)
    membership = Membership.objects.select_related("tenant").filter(user=user).first()
    if membership is None:
        return None
    return Principal(user.get_username(), membership.role, tenant=membership.tenant, user=user)


def principal_of_text(text: str) -> Principal | None:
    """The principal of a token, or of an API key, which acts as its tenant's user within its scopes."""
    found = verify(text)
    if found is None:
        return None
    tenant = None if found.tenant is None else Tenant.objects.get(pk=found.tenant)
    return Principal(
        _name(found.kind, found.key_id, found.label),
        found.role,
        found.scopes,
        tenant,
        kind=found.kind,
        key_id=found.key_id,
        counted_as=found.counted_as,
        is_hash_due=found.is_hash_due,
    )


def principal_of_identity(identity: str) -> Principal | None:
    """A person or a token as they are now, for work that they asked for earlier. None: gone, revoked or a tenant's."""
    kind, _, key = identity.partition(":")
    if kind == PERSON:
        return principal_of_user(User.objects.filter(pk=int(key)).first())
    token = ApiToken.objects.filter(key_id=key, tenant=None, revoked_at=None).first() if kind == TOKEN else None
    if token is None:
        return None
    return Principal(_name(kind, key, token.label), token.role, frozenset(token.scopes), kind=kind, key_id=key)


def member_names(role: str, most: int) -> list[str]:
    """Whom to ask: some accounts with this role."""
    rows = Membership.objects.filter(role=role, user__is_active=True).order_by("pk")
    return list(rows.values_list("user__username", flat=True)[:most])


def _name(kind: str, key_id: str, label: str) -> str:
    """Of a machine: its id, which is unique, and its label, which people know."""
    # Labels from before they were checked may contain what is not shown in one line.
    text = "".join(one if one.isprintable() else " " for one in label[:LONGEST_LABEL])
    return f"{kind} {key_id} ({text})" if text else f"{kind} {key_id}"


def scoped(principal: Principal, rows: QuerySet[M], path: str = "tenant") -> QuerySet[M]:
    """The rows that the principal may see. `path` is the lookup path from a row to its tenant."""
    return rows if principal.tenant is None else rows.filter(**{path: principal.tenant.pk})


def tenants_of(principal: Principal) -> QuerySet[Tenant]:
    return scoped(principal, Tenant.objects.select_related("tier"), "pk")


def tenant_get(principal: Principal, name: str) -> Tenant:
    tenant = tenants_of(principal).filter(name=name).first()
    if tenant is None:
        raise Http404
    return tenant
