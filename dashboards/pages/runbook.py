"""Runbooks as pages: what an alert means and what to do, from docs/runbooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final, Literal

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from quotas.alerts.rules import RULES

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
_CODE: Final = re.compile(r"`([^`]+)`")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_ITEM: Final = re.compile(r"(?:\d+\.|-) (.+)")


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    is_code: bool


@dataclass(frozen=True, slots=True)
class Block:
    kind: Literal["p", "h2", "ol", "ul"]
    lines: list[list[Piece]]


@require_safe
def runbook(request: HttpRequest, name: str) -> HttpResponse:
    """Only those of alerts, so that no other file can be asked for."""
    path = FOLDER / f"{name}.md"
    if name not in RULES or not path.is_file():
        raise Http404(f"There is no runbook {name}.")
    title, _, text = path.read_text(encoding="utf-8").partition("\n")
    context = {"title": title.lstrip("# "), "name": name, "blocks": list(blocks_of(text))}
    return render(request, "dashboards/runbook.html", context)


def blocks_of(text: str) -> Iterator[Block]:
    """Paragraphs, lists and headings: all that a runbook has."""
    for part in re.split(r"\n\s*\n", text.strip()):
        for kind, group in groupby(_joined(part.splitlines()), key=_kind):
            yield Block(kind, [_pieces(_ITEM.sub(r"\1", line.lstrip("# "))) for line in group])


def _joined(lines: list[str]) -> list[str]:
    """A line that begins nothing new continues the one before it."""
    found: list[str] = []
    for line in map(str.rstrip, lines):
        if found and not _ITEM.match(line) and not line.startswith("#"):
            found[-1] += f" {line.strip()}"
        else:
            found.append(line.strip())
    return found


def _kind(line: str) -> Literal["p", "h2", "ol", "ul"]:
    if _ITEM.match(line):
        return "ol" if line[0].isdigit() else "ul"
    return "h2" if line.startswith("#") else "p"


def _pieces(line: str) -> list[Piece]:
    """Links inside the documentation lead nowhere from here, so they are only words."""
    parts = _CODE.split(_LINK.sub(r"\1", line))
    return [Piece(text, i % 2 == 1) for i, text in enumerate(parts) if text]
