"""API tokens for machines: shown once, revoked for good. Like API keys, they have no revision."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from quotas.errors import author_and_reason, one_line, refuse
from quotas.lookups import find_tenant
from quotas.models import AuditEvent
from quotas.outbox import put_key
from tenants.history import acting
from tenants.identity import acting_principal, actor_of, person_of
from tenants.models import ApiToken, Role, Tenant
from tenants.scope import APPROVE, SCOPES
from tenants.secrets import KeyText

LONGEST_LABEL = 200
APPROVERS = frozenset({Role.APPROVER.value, Role.OWNER.value})


@dataclass(frozen=True, slots=True)
class IssuedToken:
    row: ApiToken
    text: KeyText  # shown once: it cannot be had again


def token_issue(
    *,
    label: str,
    role: str,
    scopes: Collection[str],
    author: str,
    reason: str,
    tenant: str | None = None,
    issuer: str | None = None,
    may_approve: bool = False,
) -> IssuedToken:
    """`issuer`: the account that answers for it. None: the author's, or of whoever issued the author's token."""
    author, reason = author_and_reason(author, reason)
    label = label.strip()
    _check(label, role, scopes)
    answers = _issuer_of(author) if issuer is None else _account(issuer)
    if may_approve:
        _check_permitting(answers, role, scopes)
    text = KeyText.make()
    with acting(author=author, action="token_issue"), transaction.atomic():
        row = ApiToken.objects.create(
            key_id=text.key_id,
            **text.hash_fields(),
            label=label,
            role=role,
            scopes=sorted(set(scopes)),
            tenant=_bound_to(role, tenant),
            author=author,
            issuer_id=answers,
            may_approve=may_approve,
        )
        _record("api_token_issued", row, author, reason)
    return IssuedToken(row, text)


def token_revoke(*, key_id: str, author: str, reason: str) -> ApiToken:
    """Revokes a token for good."""
    author, reason = author_and_reason(author, reason)
    with acting(author=author, action="token_revoke"), transaction.atomic():
        row = _locked(key_id)
        if row.revoked_at is None:
            row.revoked_at = timezone.now()
            row.save(update_fields=["revoked_at"])
            _record("api_token_revoked", row, author, reason)
    return row


def token_permit(*, key_id: str, may_approve: bool, author: str, reason: str) -> ApiToken:
    """Lets a machine approve, or no longer. Only people with the role owner do that."""
    author, reason = author_and_reason(author, reason)
    with acting(author=author, action="token_permit"), transaction.atomic():
        row = _locked(key_id)
        if may_approve:
            _check_permitting(row.issuer_id, row.role, row.scopes)
        if row.may_approve != may_approve:
            row.may_approve = may_approve
            row.save(update_fields=["may_approve"])
            _record("api_token_permitted" if may_approve else "api_token_forbidden", row, author, reason)
    return row


def token_assign(*, key_id: str, issuer: str, author: str, reason: str) -> ApiToken:
    """Says who answers for a token of which nobody is known to."""
    author, reason = author_and_reason(author, reason)
    with acting(author=author, action="token_assign"), transaction.atomic():
        row = _locked(key_id)
        answers = _account(issuer)
        if row.issuer_id not in (None, answers):
            raise refuse("issuer", "taken", f"somebody else answers for token {key_id}; revoke it and issue another")
        if row.issuer_id is None:
            row.issuer_id = answers
            row.save(update_fields=["issuer"])
            _record("api_token_assigned", row, author, reason)
    return row


def lacks_to_approve(role: str, scopes: Collection[str]) -> str:
    """What keeps a token from approving, whatever an owner allows; empty: nothing."""
    if role not in APPROVERS:
        return f"the role {Role.APPROVER.value} or {Role.OWNER.value}"
    return "" if APPROVE in scopes else f"the scope {APPROVE}"


def _locked(key_id: str) -> ApiToken:
    row = ApiToken.objects.select_for_update(of=("self",)).filter(key_id=key_id).first()
    if row is None:
        raise refuse("key_id", "unknown", f"there is no token {key_id}; correct the id")
    return row


def _issuer_of(author: str) -> int | None:
    person = person_of(actor_of(author))
    return None if person is None else person.number


def _account(name: str) -> int:
    number = User.objects.filter(username=name).values_list("pk", flat=True).first()
    if number is None:
        raise refuse("issuer", "unknown", f"there is no account {name}; correct the name")
    return number


def _check_permitting(issuer: int | None, role: str, scopes: Collection[str]) -> None:
    principal = acting_principal()
    if principal is not None and (principal.is_machine or principal.role != Role.OWNER):
        raise refuse("may_approve", "forbidden", "only an owner, signed in as a person, lets a machine approve")
    if issuer is None:
        message = "nobody is known to answer for the token, so it cannot approve; say who does (manage.py token assign)"
        raise refuse("may_approve", "issuer", message)
    if lacking := lacks_to_approve(role, scopes):
        raise refuse("may_approve", "scope", f"the token lacks {lacking}, so it can never approve; issue another")


def _check(label: str, role: str, scopes: Collection[str]) -> None:
    if not label:
        raise refuse("label", "missing", "label is missing; say what the token is for")
    one_line("label", label, LONGEST_LABEL)
    if role not in Role.values:
        raise refuse("role", "unknown", f"role must be one of {', '.join(Role.values)}")
    if not scopes or set(scopes) - set(SCOPES):
        raise refuse("scopes", "unknown", f"scopes must be one or more of {', '.join(SCOPES)}")


def _bound_to(role: str, tenant: str | None) -> Tenant | None:
    if (role == Role.TENANT) != (tenant is not None):
        raise refuse("tenant", "role", "a token of the role tenant names its tenant, and no other token does")
    return None if tenant is None else find_tenant(tenant)


def _record(kind: str, row: ApiToken, author: str, reason: str) -> None:
    detail = {"key_id": row.key_id, "label": row.label, "role": row.role, "author": author, "reason": reason}
    detail["issuer"] = row.issuer.get_username() if row.issuer else ""
    AuditEvent.objects.create(kind=kind, detail=detail)
    put_key(row.key_id)
