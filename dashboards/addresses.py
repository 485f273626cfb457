"""Addresses of pages by url name, for links to pages that an installation may not have."""

from __future__ import annotations

from django.urls import NoReverseMatch, reverse


def address(name: str, *arguments: str) -> str:
    """Empty if the page does not exist."""
    try:
        return reverse(name, args=arguments)
    except NoReverseMatch:
        return ""
