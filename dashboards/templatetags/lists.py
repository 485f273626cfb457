"""Tags for the parts of a list page; dashboards/lists.py says how they fit together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import template
from django.template.context import Context
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboards.lists import Asked
from dashboards.templatetags.numbers import number
from dashboards.templatetags.parts import icon
from quotas.keyset import MOST_COUNTED

register = template.Library()

MOST_NAMED = 2  # values that a filter names before it counts them


@register.filter
def up_to(count: int) -> str:
    """A count that was not finished beyond MOST_COUNTED."""
    return f"{number(MOST_COUNTED)}+" if count > MOST_COUNTED else number(count)


@register.simple_tag
def sort_head(asked: Asked, column: str, label: str, classes: str = "", down_first: bool = False) -> SafeString:
    """`down_first`: the first click shows the largest on top."""
    direction = asked.direction(column)
    address = asked.address(order=asked.next_order(column, down_first=down_first))
    return format_html(
        '<th scope="col"{}{}><a class="sort" data-visit href="{}">{}{}</a></th>',
        format_html(' class="{}"', classes) if classes else "",
        format_html(' aria-sort="{}"', direction) if direction else "",
        address,
        label,
        icon("dn"),
    )


@register.simple_tag
def pick(name: object, what: str = "") -> SafeString:
    """The cell that ticks a row."""
    return format_html(
        '<td class="pick"><input type="checkbox" data-pick="{}" aria-label="Select {}"></td>', name, what or name
    )


@register.simple_tag
def pick_all(count: int) -> SafeString:
    return format_html(
        '<th scope="col" class="pick"><input type="checkbox" data-pick-all aria-label="Select all {} rows of this '
        'page"></th>',
        count,
    )


@register.simple_block_tag(takes_context=True)
def list_form(context: Context, content: str, asked: Asked, placeholder: str = "") -> SafeString:
    """The toolbar of a list. `placeholder`: what its search looks in; empty: it has no search."""
    search = (
        format_html(
            '<label class="search">{}<span class="vh">{}</span><input type="search" name="q" value="{}" '
            'placeholder="{}" maxlength="100" autocomplete="off" data-find aria-keyshortcuts="/">'
            '<span class="kbd" aria-hidden="true">/</span></label>',
            icon("search", "i-14"),
            f"Find by {placeholder[:1].lower()}{placeholder[1:]}",
            asked.one("q"),
            placeholder,
        )
        if placeholder
        else ""
    )
    clear = (
        format_html('<a class="btn btn-quiet btn-sm" data-visit data-clears href="{}">Clear</a>', asked.cleared)
        if asked.is_filtered
        else ""
    )
    return format_html(
        '<form class="toolbar" method="get" role="search" data-list-form>{}{}<span class="row" id="list-more" '
        "data-live>{}{}</span></form>",
        search,
        content,
        _hidden(asked),
        clear,
    )


def _hidden(asked: Asked) -> SafeString:
    kept = {"order": "" if asked.order == asked.default else asked.order, "view": asked.view or ""}
    fields = ((name, value) for name, value in kept.items() if value)
    return format_html_join("", '<input type="hidden" name="{}" value="{}">', fields)


@register.inclusion_tag("dashboards/lists/filter_menu.html")
def filter_menu(
    asked: Asked, name: str, label: str, choices: Iterable[tuple[str, str]], single: bool = False
) -> dict[str, Any]:
    """A filter. Several values may be ticked, unless `single`."""
    options = list(choices)
    chosen = asked.many(name)
    words = [words for value, words in options if value in chosen] or list(chosen)
    shown = ", ".join(words) if len(words) <= MOST_NAMED else f"{len(words)} chosen"
    return {
        "name": name,
        "label": label,
        "shown": shown or "any",
        "options": [(value, words, value in chosen) for value, words in options],
        "single": single,
    }


@register.simple_block_tag
def bulk_bar(content: str, asked: Asked, what: str, count: int) -> SafeString:
    """Actions on ticked rows. `what`: such as tenants; `count`: how many match, also on other pages."""
    return format_html(
        '<div class="bulkbar bulk-float" id="bulk" role="region" aria-label="Selected {0}" aria-keyshortcuts="b" '
        "data-bulk data-live hidden>"
        '<form id="bulk-form" method="post" hidden></form><b data-n aria-live="polite"></b>'
        '<button class="btn btn-sm" type="button" data-bulk-all hidden>Select all {1} that match</button>{2}'
        '<button class="btn btn-sm btn-icon" type="button" data-bulk-none aria-label="Clear the selection">{3}</button>'
        "</div>"
        '<dialog class="dialog wide" id="bulk-dialog" aria-label="Change the selected {0}"></dialog>',
        what,
        up_to(count),
        mark_safe(content),  # noqa: S308 - a template's
        icon("x", "i-14"),
    )


@register.simple_tag
def bulk_action(asked: Asked, address: str, label: str, picture: str = "") -> SafeString:
    """A button that opens the dialog of a bulk action: what it posts to answers with the dialog's content."""
    return format_html(
        '<button class="btn btn-sm" type="button" hx-post="{}{}" hx-include="#bulk-form" hx-target="#bulk-dialog" '
        'hx-swap="innerHTML">{}{}</button>',
        address,
        asked.address(view=None),
        icon(picture, "i-14") if picture else "",
        label,
    )


@register.simple_tag
def bulk_csv(asked: Asked, address: str) -> SafeString:
    return format_html(
        '<button class="btn btn-sm" type="submit" form="bulk-form" formaction="{}{}">{}CSV</button>',
        address,
        asked.address(view=None),
        icon("download", "i-14"),
    )
