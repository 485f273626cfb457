"""Lets a process load its modules early and wait until what it needs is there.

A gate is a pipe. Whoever waits reads from it, and goes on when the supervisor closes the other end; from then on a
process that is started again does not wait.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass
class Gate:
    """The supervisor's side."""

    fd: int = field(init=False)  # for the processes that wait

    def __post_init__(self) -> None:
        self.fd, self._closed_to_open = os.pipe()

    def open(self) -> None:
        os.close(self._closed_to_open)


def wait_at(fd: int) -> None:
    os.read(fd, 1)
