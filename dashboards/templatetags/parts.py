"""Tags for the components of the stylesheet: icons, badges, cards, tables, dialogs, figures, fields."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Protocol
from urllib.parse import urlencode

from django import template
from django.forms import BoundField
from django.template.context import Context
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from dashboards import svg
from dashboards.figure import Figure
from dashboards.freeze_notice import freeze_notice, nothing_is_frozen
from dashboards.menu import MenuGroup, menu_of
from dashboards.templatetags.numbers import NO_BREAK
from dashboards.viewer import Viewer, initials, principal_of, viewer_of
from quotas.changes.approval import has_to_wait
from quotas.policies.problems import sentence
from quotas.status.summary import StatusSummary, status_summary_read
from quotas.usage.queries.periods import Period, hours_to

register = template.Library()
register.filter("sentence", sentence)

ICONS: Final = {
    "allowed": "ok",
    "denied": "ban",
    "shadow": "eye",
    "degraded": "alert",
    "info": "info",
    "brand": "rec",
}


@register.simple_tag(takes_context=True)
def viewer(context: Context) -> Viewer:
    return viewer_of(context["request"])


@register.simple_tag(takes_context=True)
def pulse(context: Context) -> StatusSummary:
    found = status_summary_read(principal_of(context["request"]).identity)
    if not found.is_frozen:
        nothing_is_frozen(context["request"])
    return found


@register.inclusion_tag("dashboards/parts/freeze_banner.html", takes_context=True)
def freeze_banner(context: Context) -> dict[str, Any]:
    return {"notice": freeze_notice(context["request"])}


@register.inclusion_tag("dashboards/parts/freeze_note.html", takes_context=True)
def freeze_note(context: Context) -> dict[str, Any]:
    """At the top of a form that changes the configuration, so that nobody fills it in for nothing."""
    return {"notice": freeze_notice(context["request"])}


@register.inclusion_tag("dashboards/parts/approval_note.html")
def approval_note(action: str) -> dict[str, Any]:
    """In a form whose edit has to wait for an approver, so that nobody takes it for done."""
    return {"waits": has_to_wait(action, emergency=False)}


@register.simple_tag(takes_context=True)
def menu(context: Context, found: StatusSummary) -> list[MenuGroup]:
    request = context["request"]
    match = request.resolver_match
    return menu_of(match.view_name if match else "", found, principal_of(request))


@register.simple_tag
def waiting_for(viewer: Viewer, found: StatusSummary) -> int:
    """How many entries the viewer's inbox has."""
    waits = found.waits
    return (waits.for_approvers if viewer.approves else 0) + (waits.for_operators if viewer.operates else 0)


class Span(Protocol):
    """A time that a share is measured over, such as a Period."""

    @property
    def begin(self) -> datetime: ...
    @property
    def end(self) -> datetime: ...


@register.simple_tag
def denials_of(span: Span, **wanted: str) -> str:
    """The address of the requests that a share of this time is made of, in the decision log."""
    now = timezone.now()
    wanted |= {"since": span.begin.isoformat(), "until": span.end.isoformat() if span.end <= now else ""}
    return f"{reverse('dashboards:decisions')}?{urlencode({name: value for name, value in wanted.items() if value})}"


@register.filter
def day_to(at: datetime | None) -> Period:
    """The day that the figures of a list, measured at that time, are summed over."""
    return hours_to(at or timezone.now())


@register.filter
def dialog_name(number: int, prefix: str) -> str:
    return f"{prefix}-{number}"


@register.filter
def first_letters(name: str) -> str:
    return initials(name)


@register.simple_tag
def icon(name: str, classes: str = "", label: str = "") -> SafeString:
    """`label`: for an icon that carries meaning the text beside it does not."""
    if label:
        return format_html(
            '<svg class="i {}" role="img" aria-label="{}"><use href="#i-{}"/></svg>', classes, label, name
        )
    return format_html('<svg class="i {}" aria-hidden="true"><use href="#i-{}"/></svg>', classes, name)


@register.simple_tag
def badge(meaning: str, text: str) -> SafeString:
    """`meaning`: allowed, denied, shadow, degraded, info or brand; `line` or empty for a neutral badge."""
    picture = icon(ICONS[meaning]) if meaning in ICONS else ""
    classes = f"badge badge-{meaning}" if meaning else "badge"
    return format_html('<span class="{}">{}{}</span>', classes, picture, text)


@register.simple_tag
def tier(name: str) -> SafeString:
    return format_html('<span class="badge badge-line">{}{}</span>', icon("tier"), name)


@register.simple_tag
def moment(at: datetime | None, form: str = "moment", missing: str = "\N{EN DASH}") -> SafeString:
    """A time that the browser shows in the viewer's zone. `form`: moment, clock, seconds, day, full or ago."""
    if at is None:
        return format_html("{}", missing)
    return format_html(
        '<time datetime="{}" data-as="{}" title="{} UTC">{} UTC</time>',
        f"{at:%Y-%m-%dT%H:%M:%S.%f%z}",
        form,
        f"{at:%-d %b %Y %H:%M:%S}",
        f"{at:%-d %b %H:%M}",
    )


@register.simple_tag
def util(share: float | None, peak: float | None = None, fill: bool = False) -> SafeString:
    """Utilisation, where 1 is the whole limit: a bar, the number and, from 80 %, an icon. Demand may exceed 100 %."""
    if share is None:
        return mark_safe('<span class="util"><span class="faint">no data</span></span>')
    kind, picture = _util_kind(100 * share)
    behind = (
        format_html('<rect class="peak" width="{}%" height="100%"/>', _width(peak)) if peak and peak > share else ""
    )
    bar = format_html(
        '<svg class="util-bar" aria-hidden="true">{}<rect width="{}%" height="100%"/></svg>', behind, _width(share)
    )
    classes = " ".join(filter(None, ("util", kind, "util-fill" if fill else "")))
    return format_html('<span class="{}">{}<b>{}{}%</b>{}</span>', classes, bar, _percent(share), NO_BREAK, picture)


def _util_kind(percent: float) -> tuple[str, SafeString]:
    if percent >= 99.5:
        return "over", icon("ban", "ico", "at the limit")
    if percent >= 79.5:
        return "warn", icon("alert", "ico", "above 80 %")
    return "", mark_safe('<span class="ico"></span>')


def _width(share: float) -> str:
    return f"{min(100 * share, 100):.1f}"


def _percent(share: float) -> str:
    return "< 1" if 0 < share < 0.005 else f"{100 * share:,.0f}"


@register.simple_tag
def spark(values: Sequence[float | None], classes: str = "") -> SafeString:
    """A small line chart without axes. None is unknown and leaves a gap."""
    drawn = svg.spark(values)
    return format_html(
        '<svg class="spark {}" viewBox="0 0 1000 1000" preserveAspectRatio="none" aria-hidden="true">'
        '<path class="area" d="{}"/><path d="{}"/></svg>',
        classes,
        drawn.area,
        drawn.line,
    )


@register.simple_tag
def key(draw: str, color: str) -> SafeString:
    """The legend symbol of a series, drawn as in the chart."""
    if draw in ("area", "step"):
        return format_html(
            '<svg aria-hidden="true"><rect class="a f-{}" y="1" width="18" height="9"/>'
            '<path class="l k-{}" d="M0 1.5H18"/></svg>',
            color,
            color,
        )
    if draw == "bars":
        return format_html(
            '<svg aria-hidden="true" class="kb"><rect class="half f-{}" width="10" height="10" rx="2"/></svg>', color
        )
    if draw == "points":
        return format_html('<svg aria-hidden="true" class="kb"><circle class="f-{}" cx="5" cy="5" r="4"/></svg>', color)
    dash = {"dash": " d-1", "dots": " d-2"}.get(draw, "")
    thin = " l-thin" if color == "ref" else ""
    return format_html('<svg aria-hidden="true"><path class="l{}{} k-{}" d="M0 5H18"/></svg>', thin, dash, color)


@register.inclusion_tag("dashboards/parts/figure.html")
def figure(shown: Figure) -> dict[str, Any]:
    return {"figure": shown}


@register.inclusion_tag("dashboards/parts/field.html")
def field(
    bound: BoundField, suffix: str = "", classes: str = "", hint: str = "", optional: bool = False
) -> dict[str, Any]:
    """A form field with its label, unit and errors."""
    return {"field": bound, "suffix": suffix, "classes": classes, "help": hint or bound.help_text, "optional": optional}


@register.inclusion_tag("dashboards/parts/until.html")
def until(
    bound: BoundField,
    also: str = "",
    after: BoundField | None = None,
    presets: bool = True,
    classes: str = "",
    hint: str = "",
    optional: bool = False,
    default: int = 0,
    at: datetime | None = None,
    past: bool = False,
) -> dict[str, Any]:
    """A MomentField with its zone named, buttons for 1 h, 24 h and 7 d, and the moment in UTC.

    `also`: a second zone to write the moment in, such as the tenant's. `after`: the field with the start, from which
    the buttons count. `default`: an empty field starts with so many seconds from now; `at`: with this moment. `past`:
    a moment in the past is no mistake. The form needs a hidden `zone` field with data-zone-name; read the moment with
    `in_zone`.
    """
    return {
        "field": bound,
        "also": also,
        "after": after,
        "presets": presets,
        "classes": classes,
        "help": hint or bound.help_text,
        "optional": optional,
        "default": default,
        "at": at,
        "past": past,
    }


@register.inclusion_tag("dashboards/parts/empty.html")
def empty(icon: str, title: str, text: str, href: str = "", action: str = "", tight: bool = False) -> dict[str, Any]:
    """An empty state: what is missing and what to do next."""
    return {"icon": icon, "title": title, "text": text, "href": href, "action": action, "tight": tight}


@register.simple_block_tag
def card(
    content: str, title: str, note: str = "", classes: str = "", anchor: str = "", count: object = None
) -> SafeString:
    """{% card "Title" note="…" classes="c-6" anchor="limits" %}…{% endcard %}"""
    name = anchor or title.lower().replace(" ", "-")
    return format_html(
        '<section class="card {}" id="{}" aria-labelledby="h-{}"><div class="card-head"><h2 id="h-{}">{}</h2>{}{}</div>'
        "{}</section>",
        classes,
        name,
        name,
        name,
        title,
        format_html('<p class="only-wide">{}</p>', note) if note else "",
        format_html('<span class="push count count-brand">{}</span>', count) if count is not None else "",
        content,
    )


@register.simple_block_tag
def table(content: str, name: str, classes: str = "") -> SafeString:
    """{% table "Tokens" classes="dense" %}<thead>…{% endtable %}: scrolls if too wide; if narrow, each row is a card.

    A cell with `data-l` has this label in its card.
    """
    return format_html(
        '<div class="table-wrap" tabindex="0" role="region" aria-label="{}, table"><table class="{}">{}</table></div>',
        name,
        f"table cards {classes}".strip(),
        content,
    )


@register.simple_block_tag
def dialog(content: str, name: str, title: str, is_open: bool = False, classes: str = "") -> SafeString:
    """A modal dialog for a form with .body and a footer. `is_open`: open on load, to show the errors of its form."""
    close = format_html(
        '<button class="btn btn-quiet btn-icon btn-sm" type="button" data-close aria-label="Close">{}</button>',
        icon("x"),
    )
    return format_html(
        '<dialog class="{0}" id="{1}" aria-labelledby="{1}-t"{2}>'
        '<header><h2 id="{1}-t" class="grow">{3}</h2>{4}</header>{5}</dialog>',
        f"dialog {classes}".strip(),
        name,
        mark_safe(" data-open-now") if is_open else "",
        title,
        close,
        content,
    )
