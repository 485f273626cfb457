"""Template filter for the OpenAPI document's descriptions."""

from __future__ import annotations

import re

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

register = template.Library()


@register.filter
def prose(text: str) -> SafeString:
    """Show words in `backticks` as code. Everything is escaped first."""
    return mark_safe(re.sub("`([^`]+)`", r"<code>\1</code>", escape(text)))  # noqa: S308 - escaped before
