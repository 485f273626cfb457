"""Looks for known weaknesses in the packages that run: `python config/audit.py REQUIREMENTS`, in .venv-tools.

Fails if there is one. If the source of the reports cannot be reached, it says so and does not fail.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TIMEOUT_S: Final = 300
OPTIONS: Final = ("--require-hashes", "--disable-pip", "--format", "json", "--desc", "off", "--progress-spinner", "off")


@dataclass(frozen=True)
class Verdict:
    failed: bool
    text: str


def main(requirements: str, tool: Sequence[str] = (sys.executable, "-m", "pip_audit")) -> int:
    command = [*tool, *OPTIONS, "--requirement", requirements]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        found = verdict("")
    else:
        found = verdict(done.stdout)
    sys.stderr.write(f"headroom: {found.text}\n")
    return 1 if found.failed else 0


def verdict(report: str) -> Verdict:
    """`report`: the JSON that pip-audit wrote; empty if it broke off, as it does without a network."""
    packages = json.loads(report)["dependencies"] if report else []
    # A source that answers 404 to everything, such as a mirror, would otherwise look like a clean result.
    known = [package for package in packages if "skip_reason" not in package]
    if not known:
        return Verdict(False, "audit skipped: the source of known weaknesses cannot be reached.")
    weak = [f"{one['name']} {one['version']}: {weakness['id']}" for one in known for weakness in one["vulns"]]
    if weak:
        return Verdict(True, "\n  ".join(["these packages have known weaknesses; raise their versions:", *weak]))
    unknown = len(packages) - len(known)
    rest = f"; {unknown} more are unknown to the source" if unknown else ""
    return Verdict(False, f"audit: no known weakness in {len(known)} packages{rest}.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
