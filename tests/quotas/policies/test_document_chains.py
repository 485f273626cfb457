"""Validating a document judges the chains that are whole in it, and leaves the others to a plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from quotas.errors import accepted
from quotas.policies.document import read_document
from quotas.policies.document_chains import unworkable

HEAD = """\
tiers: [{name: gold}]
endpoints: [{name: "rides:search", method: GET, path: /v1/s}]
policies:
"""
EVERYONE = "  - name: everyone\n    endpoint: '*'\n    limits:\n"
GOLD = "  - name: gold-all\n    tier: gold\n    endpoint: '*'\n    limits:\n"
ACME = "  - name: acme-all\n    tenant: acme\n    endpoint: '*'\n    limits:\n"
POOL = "      - {name: org, algorithm: pool, rate: 100}\n"


def share(name: str, parent: str, more: str = "") -> str:
    return f"      - {{name: {name}, algorithm: borrowing, assured: 5, parent: {parent}{more}}}\n"


def told(*parts: str) -> list[tuple[int | None, str]]:
    problems = unworkable(accepted(read_document(HEAD + "".join(parts))))
    return [(problem.line, problem.message) for problem in problems]


BROKEN = {
    "no pool": (
        [EVERYONE, "      - {name: org, algorithm: token_bucket, rate: 5}\n", GOLD, share("team", "org")],
        12,
        "which is a token_bucket; a parent must be a pool",
    ),
    "another mode": ([EVERYONE, POOL, GOLD, share("team", "org", ", mode: shadow")], 12, "has mode shadow, but its"),
    "another unit": ([GOLD, POOL, share("team", "org", ", unit: cost")], 9, "counts cost, but its parent org counts"),
    "four levels": (
        [GOLD, POOL, share("a", "org"), share("b", "a"), share("c", "b")],
        11,
        "has 4 levels: c → b → a → org",
    ),
    "two that borrow": ([GOLD, POOL, share("a", "org"), share("b", "org")], 10, "both borrow from org"),
    "a tenant's": ([EVERYONE, POOL, ACME, share("team", "org", ", unit: cost")], 12, "counts cost, but its parent"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_chain_that_cannot_work_is_told_with_its_line(broken: str) -> None:
    parts, line, words = BROKEN[broken]
    [(found, message)] = told(*parts)
    assert found == line
    assert words in message


def test_a_circle_is_told() -> None:
    found = told(GOLD, share("a", "b"), share("b", "a"))
    assert [line for line, _ in found] == [8, 9]
    assert all("in a circle" in message for _, message in found)


@pytest.mark.parametrize(
    "parts",
    [
        [EVERYONE, POOL, GOLD, share("team", "org")],
        [GOLD, share("team", "elsewhere")],
        [EVERYONE, share("node", "elsewhere"), GOLD, share("team", "node")],
        [GOLD, "      - {name: org, algorithm: pool, rate: 5, mode: 'off'}\n", share("team", "org")],
        # Whether acme is of gold is not in the document.
        [EVERYONE, "      - {name: org, algorithm: gcra, rate: 5}\n", GOLD, POOL, ACME, share("team", "org")],
    ],
)
def test_what_may_work_with_the_platform_is_not_refused(parts: list[str]) -> None:
    assert told(*parts) == []


@pytest.mark.django_db
def test_the_command_refuses_it(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(HEAD + GOLD + POOL + share("team", "org", ", mode: shadow"))
    with pytest.raises(CommandError, match=r"line 9: policies\[0\].limits\[1\]: limit team .* has mode shadow"):
        call_command("policy", "validate", str(file))
