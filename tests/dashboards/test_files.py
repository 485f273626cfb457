"""The files of a page: all there, all ours, and together small."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from dashboards.menu import MENU
from tests.quotas.world import make_world

pytestmark = pytest.mark.django_db

MOST_BYTES = 120_000  # of all files of a page, as gzip


def path_of(name: str) -> Path:
    path = finders.find(name)
    assert isinstance(path, str), name
    return Path(path)


def with_imports(name: str) -> set[str]:
    """A module brings others along."""
    text = path_of(name).read_text()
    folder = name.rpartition("/")[0]
    found = {f"{folder}/{other}" for other in re.findall(r'(?:from|import) "\./([\w.-]+)"', text)}
    return {name}.union(*(with_imports(other) for other in found))


def files_of(client: Client, address: str) -> set[str]:
    page = client.get(address).content.decode()
    named = re.findall(rf'(?:href|src)="/{settings.STATIC_URL.strip("/")}/([^"]+)"', page)
    return set().union(*(with_imports(name) for name in named))


@pytest.mark.parametrize("url", [item.url for item in MENU] + ["dashboards:login"])
def test_a_page_loads_little_and_all_of_it_is_there(client: Client, url: str) -> None:
    make_world()  # an empty installation is led to its first limit instead
    found = files_of(client if url != "dashboards:login" else Client(), reverse(url))
    assert len(found) >= 3
    assert sum(len(gzip.compress(path_of(name).read_bytes())) for name in found) <= MOST_BYTES


def test_the_two_dark_blocks_of_the_tokens_are_the_same() -> None:
    text = path_of("dashboards/tokens.css").read_text()
    blocks = re.findall(r'data-theme="(?:light|dark)"\]\)? \{\s*(color-scheme: dark;.*?)\}', text, re.DOTALL)
    assert len(blocks) == 2
    assert blocks[0].split() == blocks[1].split()


def test_no_script_of_ours_is_built_from_text() -> None:
    for path in path_of("dashboards/js/app.js").parent.glob("*.js"):
        assert not re.search(r"\beval\(|new Function|setAttribute\(.(style|on)", path.read_text()), path
