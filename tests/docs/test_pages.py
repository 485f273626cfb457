"""What README and docs/ point at is there: files, headings, make targets, commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import get_commands

from config.places import ROOT

PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "deploy" / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
TEXT = {page: page.read_text() for page in PAGES}


def links(page: Path) -> Iterator[str]:
    """Of this repository."""
    for target in re.findall(r"\]\(<?([^)>\s]+)>?\)", TEXT[page]):
        if "://" not in target:
            yield target


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text()), link


def test_every_make_target_is_there() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    said = re.compile(r"(?:^|`|&& )make ([a-z]+)", re.MULTILINE)
    named = {word for text in TEXT.values() for word in said.findall(code_of(text))}
    assert "up" in named
    assert named - targets == set()


def test_every_command_is_there() -> None:
    named = {word for text in TEXT.values() for word in re.findall(r"manage\.py ([a-z_]+)", text)}
    # The README's table of commands has the name alone.
    table = TEXT[ROOT / "README.md"].partition("`.venv/bin/python manage.py …`")[2].partition("## ")[0]
    named |= {word for row in re.findall(r"^\| (`.*?) \|", table, re.M) for word in re.findall(r"`([a-z_]+)", row)}
    assert {"seed", "policy", "api_key"} <= named
    assert named - set(get_commands()) == set()


def code_of(text: str) -> str:
    """Blocks and `words`: prose may make anything."""
    found = re.findall(r"```sh\n(.*?)```|(`[^`\n]+`)", text, re.DOTALL)
    return "\n".join(block or word for block, word in found)
