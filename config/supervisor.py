"""Runs several processes: prefixes their logs, restarts them with back-off, and leaves none behind when it stops."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from config.embedded import ServerError, ServerProcess, end_with_parent

TICK_SECONDS: Final = 0.2
FIRST_DELAY_SECONDS: Final = 0.5
LONGEST_DELAY_SECONDS: Final = 30.0
# After a process ran this long, its next failure starts the back-off from the beginning.
PROVEN_SECONDS: Final = 20.0
STOP_SECONDS: Final = 8.0
COLOURS: Final = (36, 32, 33, 35, 34, 31)


class Printer:
    """The only writer to stdout, so that lines never mix. Silent once the reader has gone."""

    def __init__(self) -> None:
        self._colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._names: list[str] = []
        self.broken = False
        self.last = "headroom: starting"  # the last line, with the name of its process

    def line(self, name: str, text: str) -> None:
        self.last = f"{name}: {text}"
        if self.broken:
            return
        try:
            sys.stdout.write(f"{self._label(name)} {text}\n")
            sys.stdout.flush()
        except (BrokenPipeError, ValueError):
            self.broken = True
            # The interpreter flushes stdout when it exits, which must not fail.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _label(self, name: str) -> str:
        if name not in self._names:
            self._names.append(name)
        label = f"{name:<9} |"
        if not self._colour:
            return label
        return f"\x1b[{COLOURS[self._names.index(name) % len(COLOURS)]}m{label}\x1b[0m"


class Child(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def process(self) -> subprocess.Popen[bytes] | None: ...
    def start(self) -> None: ...
    def end(self) -> None: ...


def give_way(nice: int) -> None:
    os.nice(nice)
    # Linux may share the processor among sessions first; then the value above counts only within the session.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice))


@dataclass
class Program:
    """One of Headroom's processes. Its output is shown line by line; its whole process group ends with it."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    inherits: Sequence[int] = ()  # file descriptors, in addition to the standard three
    nice: int = 0  # 0 to 19; the higher, the sooner it leaves the processor to others
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(self.environment),
            pass_fds=self.inherits,
            start_new_session=True,
            preexec_fn=self._in_the_child(),  # noqa: PLW1509 - there is one thread
        )

    def _in_the_child(self) -> Callable[[], None]:
        stop_with_parent = end_with_parent(signal.SIGTERM)

        def arrange() -> None:
            stop_with_parent()
            if self.nice:
                give_way(self.nice)

        return arrange

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ask_to_stop(self) -> None:
        if self.process is not None and self.alive:
            self.process.terminate()

    def end(self) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@dataclass
class EmbeddedServer:
    """An embedded server. Its log is a file."""

    name: str
    launch: Callable[[], ServerProcess]
    server: ServerProcess | None = None

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        return self.server.process if self.server else None

    def start(self) -> None:
        self.server = self.launch()

    def end(self) -> None:
        if self.server is not None:
            self.server.stop()


@dataclass
class ManagedChild:
    child: Child
    once: bool = False  # it ends by itself when its work is done, and is not started again
    started: float = 0.0
    delay: float = FIRST_DELAY_SECONDS
    due: float | None = None
    rest: bytes = b""


@dataclass
class Supervisor:
    printer: Printer
    children: list[ManagedChild] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._signals = 0
        self._selector = selectors.DefaultSelector()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signals += 1

    def say(self, text: str) -> None:
        self.printer.line("headroom", text)

    def start(self, child: Child, *, once: bool = False) -> None:
        """`once`: the child has an end. It is started again only if it fails."""
        managed = ManagedChild(child, once)
        self.children.append(managed)
        self._launch(managed)

    @contextmanager
    def attending(self, listener: socket.socket, answer: Callable[[], None]) -> Iterator[None]:
        """Within the block, call `answer` for every new connection."""
        self._selector.register(listener, selectors.EVENT_READ, answer)
        try:
            yield
        finally:
            self._selector.unregister(listener)

    def wait_for(self, program: Program) -> bool:
        """Wait for the end of a program that was started once; return whether it succeeded. A stop ends the wait."""
        while program.alive and not self.should_stop:
            self._show_output()
        if program.alive:
            return False
        self._show_output()
        self._drop(next(managed for managed in self.children if managed.child is program))
        return program.process is not None and program.process.returncode == 0

    def run(self, each_tick: Callable[[], None]) -> None:
        while not self.should_stop:
            self._show_output()
            for managed in list(self.children):
                self._keep_alive(managed)
            each_tick()

    def stop_all(self) -> None:
        """Stop the programs first, all at once; then the servers, in reverse order of their start."""
        programs = [managed.child for managed in self.children if isinstance(managed.child, Program)]
        for program in programs:
            program.ask_to_stop()
        deadline = time.monotonic() + STOP_SECONDS
        while any(program.alive for program in programs) and not self._in_a_hurry and time.monotonic() < deadline:
            self._show_output()
        for managed in reversed(self.children):
            managed.child.end()
        self._show_output()

    @property
    def should_stop(self) -> bool:
        return self._signals > 0 or self.printer.broken

    @property
    def _in_a_hurry(self) -> bool:
        return self._signals > 1

    def _launch(self, managed: ManagedChild) -> None:
        managed.due = None
        managed.started = time.monotonic()
        managed.child.start()
        process = managed.child.process
        if process is not None and process.stdout is not None:
            self._selector.register(process.stdout, selectors.EVENT_READ, managed)

    def _keep_alive(self, managed: ManagedChild) -> None:
        now = time.monotonic()
        if managed.due is not None:
            if now >= managed.due:
                self._relaunch(managed)
        elif managed.once and managed.child.process is not None and managed.child.process.poll() == 0:
            self._show_output()
            self._drop(managed)
        elif managed.child.process is None or managed.child.process.poll() is not None:
            self._plan_restart(managed, f"{managed.child.name} ended ({_how_it_ended(managed.child.process)})")

    def _drop(self, managed: ManagedChild) -> None:
        self._forget_output(managed)
        managed.child.end()
        self.children.remove(managed)

    def _relaunch(self, managed: ManagedChild) -> None:
        try:
            self._launch(managed)
        except (ServerError, OSError) as error:
            self._plan_restart(managed, f"{managed.child.name} cannot start: {error}")

    def _plan_restart(self, managed: ManagedChild, what: str) -> None:
        self._forget_output(managed)
        managed.child.end()
        if time.monotonic() - managed.started > PROVEN_SECONDS:
            managed.delay = FIRST_DELAY_SECONDS
        self.say(f"{what}; restarting it in {managed.delay:g} s")
        managed.due = time.monotonic() + managed.delay
        managed.delay = min(managed.delay * 2, LONGEST_DELAY_SECONDS)

    def _show_output(self) -> None:
        for key, _events in self._selector.select(TICK_SECONDS):
            if isinstance(key.data, ManagedChild):
                self._show_lines(key.data, os.read(key.fd, 65536))
            else:
                key.data()

    def _show_lines(self, managed: ManagedChild, data: bytes) -> None:
        if not data:
            self._forget_output(managed)
            return
        *lines, managed.rest = (managed.rest + data).split(b"\n")
        for line in lines:
            self.printer.line(managed.child.name, line.decode(errors="replace").rstrip())

    def _forget_output(self, managed: ManagedChild) -> None:
        process = managed.child.process
        if process is None or process.stdout is None or process.stdout.closed:
            return
        with suppress(KeyError):
            self._selector.unregister(process.stdout)
        process.stdout.close()
        if managed.rest:
            self.printer.line(managed.child.name, managed.rest.decode(errors="replace"))
        managed.rest = b""


def _how_it_ended(process: subprocess.Popen[bytes] | None) -> str:
    code = process.poll() if process else None
    if code is None:
        return "not started"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
