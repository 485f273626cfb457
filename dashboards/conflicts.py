"""A form that stayed open while somebody else saved the same object: what was typed is kept, and nothing is lost.

`watch` compares when the page is sent. `in_turn` compares once more when the edit has its turn at writing, so of two
people who save at the same moment one is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from django import forms
from django.db.models import QuerySet

from dashboards.forms import PageForm
from quotas.errors import Refused, refuse
from quotas.models import Revision

T = TypeVar("T")
Saved = Mapping[str, Any]  # values by field


@dataclass(frozen=True, slots=True)
class Conflict:
    revision: Revision | None  # the newest that touched the object
    kept: tuple[str, ...]  # labels of what the viewer has edited
    theirs: tuple[str, ...]  # labels of what only the others have edited
    both: tuple[tuple[str, str], ...]  # labels of what both have edited, and the others' values


class WatchedForm(PageForm):
    """Carries the values that its viewer saw, so that an edit by somebody else is noticed."""

    seen = forms.CharField(required=False, widget=forms.HiddenInput)

    watched: tuple[str, ...] = ()
    conflict: Conflict | None = None

    _key = ""

    def watch(self, saved: Saved, key: str) -> None:
        """`saved`: the values now; `key`: the object, as revisions name it. Before the form is validated.

        On a conflict the form shows what the viewer typed, and beside it what the others saved.
        """
        self._key = key
        now = {name: _text(saved.get(name)) for name in self.watched}
        if not self.is_bound:
            self.initial["seen"] = json.dumps(now)
            return
        seen = _read(self.data.get("seen", ""))
        typed = {name: _text(self.data.get(name)) for name in self.watched}
        changed = [name for name in self.watched if seen.get(name, now[name]) != now[name]]
        edited = [name for name in self.watched if seen.get(name, typed[name]) != typed[name]]
        theirs = [name for name in changed if name not in edited]
        both = [name for name in changed if name in edited and typed[name] != now[name]]
        if not theirs and not both:
            return
        self.data = {**dict(self.data.items()), "seen": json.dumps(now), **{name: now[name] for name in theirs}}
        self.conflict = Conflict(
            self.revisions().order_by("-number").first(),
            tuple(map(self._label, edited)),
            tuple(map(self._label, theirs)),
            tuple((self._label(name), now[name]) for name in both),
        )

    def revisions(self) -> QuerySet[Revision]:
        """Of which the newest is told."""
        return Revision.objects.filter(touched__contains=[self._key])

    def in_turn(self, read: Callable[[], Saved | None], act: Callable[[], T]) -> Callable[[], T]:
        """For `commit`: the same act, refused if the object is not what the viewer saw. `read`: None: it is gone."""

        def run() -> T:
            self.check(read())
            return act()

        return run

    def check(self, saved: Saved | None) -> None:
        """Call it in the turn of the edit."""
        if saved is None:
            raise refuse("", "gone", "this was removed meanwhile; close the form and look again")
        self.watch(saved, self._key)
        if self.conflict is not None:
            raise refuse("", "conflict", "somebody else saved this meanwhile; check the values and save again")

    def refused(self, refusal: Refused) -> None:
        """A conflict tells more than its refusal does."""
        if self.conflict is None:
            super().refused(refusal)

    def _label(self, name: str) -> str:
        return self[name].label.lower()


def _text(value: object) -> str:
    return "" if value is None else "\n".join(str(value).split("\r\n")).strip()


def _read(text: str) -> dict[str, str]:
    """What a browser sends back may be anything."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)} if isinstance(found, dict) else {}
