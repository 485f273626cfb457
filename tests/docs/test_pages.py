"""Whatever README, CONTRIBUTING and docs/ name exists: links, headings, files, modules, make targets, commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest
from django.core.management import get_commands

from config.data_folders import ROOT

TOP = [
    ROOT / name
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "deploy/README.md",
        "headroom_edge/README.md",
    )
]
PAGES = [*TOP, *sorted(ROOT.glob("docs/**/*.md"))]
TEXT = {page: page.read_text() for page in PAGES}
PACKAGES = ("headroom_edge", "quotas", "tenants", "access", "api", "dashboards", "config", "tests", "benchmarks")
FOLDERS = (*PACKAGES, "docs", "deploy")
FILE = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]*)`")
IMPORT = re.compile(rf"^from ((?:{'|'.join(PACKAGES)})[\w.]*) import (.+)$", re.MULTILINE)
MODULE = re.compile(rf"\b(?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+")


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_and_module_is_there(page: Path) -> None:
    assert [name for name in FILE.findall(TEXT[page]) if not (ROOT / name).exists()] == []
    # The column of old imports in the changelog names what is gone.
    text = re.sub(r"^\| `[^`]*` \| (?=`(?:python -m )?headroom_edge)", "", TEXT[page], flags=re.MULTILINE)
    code = code_of(text, "python", "sh")
    # What ends like a file is one, and no module.
    names = {name for name in MODULE.findall(code) if not name.endswith((".py", ".yml", ".md"))}
    for module, imported in IMPORT.findall(code):
        names |= {f"{module}.{name.strip()}" for name in imported.split(",")}
    assert [name for name in sorted(names) if not is_there(name)] == []


def is_there(dotted: str) -> bool:
    """A module, or a name inside one."""
    try:
        resolve_name(dotted)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_make_target_is_there() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    said = re.compile(r"(?:^|`|&& )make ([a-z-]+)", re.MULTILINE)
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


def code_of(text: str, *languages: str) -> str:
    """Blocks and `words`: prose may use the words of a command as plain words."""
    found = re.findall(rf"```(?:{'|'.join(languages or ('sh',))})\n(.*?)```|(`[^`\n]+`)", text, re.DOTALL)
    return "\n".join(block or word for block, word in found)
