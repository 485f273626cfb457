"""Who acts, and which tenants they see. All look-ups that are scoped to a tenant are here.

A tenant's user who asks for another tenant's row is told that it does not exist, not that it is forbidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db.models import Model, QuerySet
from django.http import Http404

from tenants.models import HASH_DUE, ApiKey, ApiToken, Membership, Role, Tenant
from tenants.secrets import KeyText

READ: Final = "read"
WRITE: Final = "write"
APPROVE: Final = "approve"
CHECK: Final = "check"
METRICS: Final = "metrics"
SCOPES: Final = (READ, WRITE, APPROVE, CHECK, METRICS)

PERSON: Final = "person"
TOKEN: Final = "token"  # noqa: S105 - a word, not a secret
KEY: Final = "key"

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
    kind: str = PERSON  # or TOKEN or KEY
    key_id: str = ""  # of a machine's token or key
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
    key = KeyText.parse(text)
    if key is None:
        return None
    token = ApiToken.objects.select_related("tenant").filter(key_id=key.key_id, revoked_at=None).first()
    if token is not None:
        return _of_token(token) if key.opens(token) else None
    row = ApiKey.objects.select_related("tenant").filter(key_id=key.key_id, revoked_at=None).first()
    return _of_key(row) if row is not None and key.opens(row) else None


def _of_token(token: ApiToken) -> Principal:
    return _machine(TOKEN, token, token.role)


def _of_key(key: ApiKey) -> Principal:
    return _machine(KEY, key, Role.TENANT)


def _machine(kind: str, row: ApiToken | ApiKey, role: str) -> Principal:
    """Named by its id, which is unique, and its label, which people know."""
    # Labels from before they were checked may contain what is not shown in one line.
    text = "".join(one if one.isprintable() else " " for one in row.label[:LONGEST_LABEL])
    actor = f"{kind} {row.key_id} ({text})" if text else f"{kind} {row.key_id}"
    due = row.next_hash == HASH_DUE
    return Principal(actor, role, frozenset(row.scopes), row.tenant, kind=kind, key_id=row.key_id, is_hash_due=due)


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
