"""Looks for known weaknesses in the packages that run: `python config/audit.py REQUIREMENTS`, in .venv-tools.

Fails if there is one, or if the audit breaks off. If the source of the reports cannot be reached, it says so and does
not fail.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TIMEOUT_S: Final = 300
OPTIONS: Final = ("--require-hashes", "--disable-pip", "--format", "json", "--desc", "off", "--progress-spinner", "off")
COMPLETE: Final = (0, 1)  # without and with a finding
# How pip-audit ends without a network: it tells some errors itself, others are tracebacks of its HTTP library.
NETWORK: Final = re.compile(
    r"^requests\.exceptions\."
    r"(ConnectionError|ConnectTimeout|ReadTimeout|Timeout|ProxyError|SSLError|HTTPError|ChunkedEncodingError|RetryError)"
    r"\b.*"
    r"|PyPI is not redirecting properly|Could not connect to PyPI's vulnerability feed",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Verdict:
    failed: bool
    text: str


def main(requirements: str, tool: Sequence[str] = (sys.executable, "-m", "pip_audit")) -> int:
    command = [*tool, *OPTIONS, "--requirement", requirements]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        found = skipped(f"no end after {TIMEOUT_S} s")
    else:
        found = outcome(done.returncode, done.stdout, done.stderr)
    sys.stderr.write(f"headroom: {found.text}\n")
    return 1 if found.failed else 0


def outcome(code: int, report: str, words: str) -> Verdict:
    """`report`: the JSON that pip-audit wrote, empty if it broke off; `words`: what else it said."""
    if report and code in COMPLETE:
        return verdict(report)
    unreached = NETWORK.search(words)
    if unreached and not report:
        return skipped(unreached[0])
    return Verdict(True, f"the audit broke off (code {code}):\n{words.strip()}")


def skipped(reason: str) -> Verdict:
    return Verdict(False, f"audit skipped: the source of known weaknesses cannot be reached ({reason[:200]}).")


def verdict(report: str) -> Verdict:
    packages = json.loads(report)["dependencies"]
    # A source that answers 404 to everything, such as a mirror, would otherwise look like a clean result.
    known = [package for package in packages if "skip_reason" not in package]
    if not known:
        return skipped("it knows none of the packages")
    weak = [f"{one['name']} {one['version']}: {weakness['id']}" for one in known for weakness in one["vulns"]]
    if weak:
        return Verdict(True, "\n  ".join(["these packages have known weaknesses; raise their versions:", *weak]))
    unknown = len(packages) - len(known)
    rest = f"; {unknown} more are unknown to the source" if unknown else ""
    return Verdict(False, f"audit: no known weakness in {len(known)} packages{rest}.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
