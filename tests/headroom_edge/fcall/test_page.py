"""docs/fcall.md shows the programs exactly as they are tested."""

from __future__ import annotations

import re
import zlib

import pytest

from config.data_folders import ROOT
from tests.headroom_edge.fcall.programs import SOURCES

PAGE = (ROOT / "docs" / "fcall.md").read_text()


@pytest.mark.parametrize("file", ["go/headroom.go", "node/headroom.mjs", "java/Limiter.java"])
def test_the_page_shows_the_program_that_is_tested(file: str) -> None:
    assert f"\n{(SOURCES / file).read_text()}```\n" in PAGE


@pytest.mark.parametrize(
    ("file", "package"),
    [
        ("go/go.mod", r"github.com/redis/(go-redis)/v9 v([\d.]+)\n"),
        ("node/package.json", r'"(ioredis)": "([\d.]+)"'),
        ("java/pom.xml", r"<artifactId>(jedis)</artifactId>\s*<version>([\d.]+)<"),
    ],
)
def test_the_page_names_the_pinned_versions(file: str, package: str) -> None:
    found = re.search(package, (SOURCES / file).read_text())
    assert found
    name, version = found.groups()
    assert f"{name} {version}" in PAGE.replace("Jedis", "jedis")


def test_the_shards_in_the_page_are_right() -> None:
    told = re.findall(r"`([a-z0-9-]+)` (?:is )?on\s+(?:shard )?(\d+)", PAGE)
    assert len(told) == 3
    assert [(tenant, zlib.crc32(tenant.encode()) % 64) for tenant, _ in told] == [(t, int(n)) for t, n in told]
