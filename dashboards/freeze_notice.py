"""What pages say while a change freeze is active: a banner on every page, and a note in each form that it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest

from dashboards.viewer import principal_of
from quotas.changes.freeze import freezes_active, may_pass, passers
from quotas.models import Freeze

_ATTRIBUTE: Final = "freeze_notice"
_UNKNOWN: Final = object()


@dataclass(frozen=True, slots=True)
class FreezeNotice:
    freeze: Freeze
    passers: str
    viewer_passes: bool


def freeze_notice(request: HttpRequest) -> FreezeNotice | None:
    """Read once for each request. None: nothing is frozen."""
    found = getattr(request, _ATTRIBUTE, _UNKNOWN)
    if found is _UNKNOWN:
        found = _read(request)
        setattr(request, _ATTRIBUTE, found)
    return found  # type: ignore[return-value] # set above


def nothing_is_frozen(request: HttpRequest) -> None:
    """Whoever has read that already spares the query."""
    setattr(request, _ATTRIBUTE, None)


def _read(request: HttpRequest) -> FreezeNotice | None:
    active = list(freezes_active())
    author = principal_of(request).actor
    closed = [freeze for freeze in active if not may_pass(freeze, author)]
    shown = next(iter(closed or active), None)
    return None if shown is None else FreezeNotice(shown, passers(shown), not closed)
