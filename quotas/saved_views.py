"""Saved views of lists: own ones for everybody, shared ones by approvers and owners. Not configuration: no revision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import Q

from quotas.errors import one_line, refuse
from quotas.models import SavedView
from quotas.models.saved_view import LONGEST_NAME, LONGEST_QUERY
from tenants.models import Role
from tenants.scope import Principal

SHARERS: Final = frozenset({Role.APPROVER.value, Role.OWNER.value})
MOST_VIEWS: Final = 20  # of one person on one page
MOST_SHOWN: Final = 40  # own and shared


def views_of(principal: Principal, page: str) -> Sequence[SavedView]:
    """Own views and those that others share, by name."""
    rows = SavedView.objects.filter(Q(is_shared=True) | Q(owner=principal.user), page=page)
    return list(rows.select_related("owner").order_by("name", "pk")[:MOST_SHOWN])


def may_share(principal: Principal) -> bool:
    return principal.role in SHARERS


def may_change(principal: Principal, view: SavedView) -> bool:
    """Owners tidy up what others share."""
    is_own = principal.user is not None and view.owner_id == principal.user.pk
    return is_own or (view.is_shared and principal.role == Role.OWNER)


def view_create(principal: Principal, *, page: str, name: str, query: str, is_shared: bool) -> SavedView:
    if principal.user is None:
        raise refuse("name", "person", "only people save views; sign in with an account")
    if SavedView.objects.filter(owner=principal.user, page=page).count() >= MOST_VIEWS:
        raise refuse("name", "many", f"you have {MOST_VIEWS} views here; delete one first")
    view = SavedView(owner=principal.user, page=page, query=_query(query))
    return _store(principal, view, name, is_shared)


def view_update(
    principal: Principal, view: SavedView, *, query: str | None = None, name: str = "", is_shared: bool | None = None
) -> SavedView:
    _check_own(principal, view)
    view.query = view.query if query is None else _query(query)
    return _store(principal, view, name or view.name, view.is_shared if is_shared is None else is_shared)


def view_delete(principal: Principal, view: SavedView) -> None:
    _check_own(principal, view)
    view.delete()


def view_get(principal: Principal, page: str, number: int) -> SavedView:
    rows = SavedView.objects.filter(Q(is_shared=True) | Q(owner=principal.user), page=page, pk=number)
    view = rows.first()
    if view is None:
        raise refuse("view", "gone", "this view was deleted; open another one")
    return view


def _store(principal: Principal, view: SavedView, name: str, is_shared: bool) -> SavedView:
    view.name = one_line("name", name.strip(), LONGEST_NAME)
    if not view.name:
        raise refuse("name", "blank", "give the view a name")
    if is_shared and not view.is_shared and not may_share(principal):
        raise refuse("shared", "role", "approvers and owners can share views; save it for yourself, or ask one of them")
    view.is_shared = is_shared
    try:
        with transaction.atomic():
            view.save()
    except IntegrityError:
        raise refuse("name", "taken", f"you have a view called {view.name}; choose another name") from None
    return view


def _check_own(principal: Principal, view: SavedView) -> None:
    if not may_change(principal, view):
        raise refuse("view", "role", f"{view.name} belongs to {view.owner}; save this one under a name of your own")


def _query(text: str) -> str:
    if len(text) > LONGEST_QUERY:
        raise refuse("query", "long", "the filters are too long to be saved; use fewer")
    return text
