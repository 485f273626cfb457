"""What every list page shares: its address, sorted columns, pages, tabs of views, and CSV.

A page names its filters and orders, and reads what was asked for:

    FILTERS = ("q", "tier", "state")
    asked = asked_of(request, FILTERS, ORDERS, default="name")
    page = keyset_page(rows, ORDERS, order=asked.order, after=asked.after, before=asked.before)

Its template loads `lists` and uses, with `asked` and `page` in the context:

    {% include "dashboards/lists/views.html" %}     tabs of views (`views`, from `view_tabs`), and what saves one
    {% list_form asked %}…{% endlist_form %}        the toolbar: search and filters, answered as one types
    {% filter_menu asked "tier" "Tier" choices %}   a filter of several values; choices are (value, words)
    {% sort_head asked "asked" "Asked, 24 h" "num" %}     a column head that sorts
    {% include "dashboards/lists/pager.html" %}     Previous and Next
    {% bulk_bar asked "tenants" %}…{% endbulk_bar %}      actions on ticked rows; each row has {% pick name %}

and puts the table into `<section id="list" data-live data-rows data-query="{{ asked.query }}">`. A built-in tab is a
`Tab`; `view_tabs` adds the saved views. `js/lists.js` does the ticking, the keys and the search.
A bulk action is posted with `names` once for each ticked row, or `all=1`; either way with the list's query string.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict

from quotas.keyset import order_read
from quotas.models import SavedView
from quotas.saved_views import may_change, views_of
from tenants.scope import Principal

LONGEST_VALUE = 200
MOST_VALUES = 50  # of one filter
ORDER, AFTER, BEFORE, VIEW = "order", "after", "before", "view"

Params = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Asked:
    """The address of a list, read: unknown parameters are dropped, and unknown orders are the default's."""

    filters: Params
    order: str
    default: str  # order
    after: str = ""
    before: str = ""
    view: int | None = None  # the saved view that it came from

    def one(self, name: str) -> str:
        return next(iter(self.filters.get(name, ())), "")

    def many(self, name: str) -> Sequence[str]:
        return self.filters.get(name, ())

    @property
    def is_filtered(self) -> bool:
        return any(self.filters.values())

    @property
    def query(self) -> str:
        """Filters and order, always written in the same way, so that two can be compared."""
        order = {} if self.order == self.default else {ORDER: [self.order]}
        return urlencode({**self.filters, **order}, doseq=True)

    def address(self, **changes: object) -> str:
        """The same list with other parameters; None takes one out. Starts at the first page, unless told."""
        found: dict[str, object] = {**self.filters}
        if self.order != self.default:
            found[ORDER] = self.order
        if self.view is not None:
            found[VIEW] = self.view
        found |= changes
        return "?" + urlencode({name: value for name, value in found.items() if value not in (None, "")}, doseq=True)

    @property
    def cleared(self) -> str:
        return "?" + urlencode({} if self.order == self.default else {ORDER: self.order})

    def next_order(self, column: str, *, down_first: bool) -> str:
        """The order after a click on a column's head."""
        if self.order.removeprefix("-") == column:
            return column if self.order.startswith("-") else f"-{column}"
        return f"-{column}" if down_first else column

    def direction(self, column: str) -> str:
        if self.order.removeprefix("-") != column:
            return ""
        return "descending" if self.order.startswith("-") else "ascending"


def asked_of(
    request: HttpRequest, names: Sequence[str], orders: Mapping[str, object], default: str, *, query: str | None = None
) -> Asked:
    """`query`: read this query string instead of the request's."""
    given = request.GET if query is None else QueryDict(query)
    return asked_in(given, names, orders, default)


def asked_in(given: QueryDict, names: Sequence[str], orders: Mapping[str, object], default: str) -> Asked:
    view = given.get(VIEW, "")
    return Asked(
        {name: values for name in names if (values := _values(given.getlist(name)))},
        order_read(orders, given.get(ORDER, ""), default),
        default,
        given.get(AFTER, ""),
        given.get(BEFORE, ""),
        int(view) if view.isascii() and view.isdigit() and len(view) < 10 else None,
    )


def _values(given: Iterable[str]) -> list[str]:
    cleaned = (value.strip()[:LONGEST_VALUE] for value in given)
    return list(dict.fromkeys(filter(None, cleaned)))[:MOST_VALUES]


@dataclass(frozen=True, slots=True)
class Tab:
    label: str
    href: str
    is_current: bool = False
    count: int | None = None  # above MOST_COUNTED: more than that
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class ViewTabs:
    """The tabs of a list, and what can be done with the saved view that is open."""

    page: str
    tabs: Sequence[Tab]
    open: SavedView | None = None
    is_changed: bool = False
    may_change: bool = False

    @property
    def original(self) -> str:
        """The address of the open view as it was saved."""
        return view_address(self.open) if self.open else "?"


def view_address(view: SavedView) -> str:
    return f"?{view.query}&{VIEW}={view.pk}" if view.query else f"?{VIEW}={view.pk}"


def view_tabs(page: str, built_in: Sequence[Tab], asked: Asked, principal: Principal) -> ViewTabs:
    """The built-in tabs and the saved views that this person sees. While a saved view is open, no other is current."""
    saved = views_of(principal, page)
    opened = next((view for view in saved if view.pk == asked.view), None)
    tabs = [replace(tab, is_current=tab.is_current and opened is None) for tab in built_in]
    tabs += [Tab(view.name, view_address(view), view == opened, is_shared=view.is_shared) for view in saved]
    return ViewTabs(
        page,
        tabs,
        opened,
        is_changed=opened is not None and opened.query != asked.query,
        may_change=opened is not None and may_change(principal, opened),
    )
