"""What both limiters share: arguments, retries, the breaker, failure modes. No I/O.

A conversation is a generator. It yields the commands of one round trip and is sent their replies; where there is none,
a StoreError stands in its place. It returns the decisions. Limiter drives it with sockets, AsyncLimiter with an event
loop. The way to the server of each command, and its breaker, are the store's.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from hiredis import ReplyError

from headroom_edge.background_chores import Chores
from headroom_edge.check import Check, encode_call, encode_check, pack
from headroom_edge.decision import Decision, Failure, decision_of
from headroom_edge.errors import StoreAddressError, StoreError, StoreRefusedError
from headroom_edge.failure import FailureModes
from headroom_edge.leases.ask import Ask
from headroom_edge.leases.block import Grant
from headroom_edge.leases.book import LeaseBook
from headroom_edge.leases.decision import LeasedDecision
from headroom_edge.lua_library import source
from headroom_edge.store.node import ToAll

T = TypeVar("T")
Reply: TypeAlias = Any
Commands: TypeAlias = Sequence[bytes]
Conversation: TypeAlias = Generator[Commands, list[Reply], T]

CHECK: Final = "hr_check"
PEEK: Final = "hr_peek"
# Another client may flush the server's functions between our load and our retry.
LOADS_AT_MOST: Final = 5
NOT_READY: Final = "not_ready"
UNAVAILABLE: Final = "unavailable"

_MODES: Final[dict[bytes, Failure]] = {b"open": "open", b"closed": "closed", b"local": "local"}
_MISTAKES: Final = ("HRCOST", "HRARGS")


@dataclass(slots=True)
class Core:
    shards: int
    rows: bool  # whether a check asks for rows by default
    failures: FailureModes
    chores: Chores
    leases: LeaseBook | None = None

    @property
    def is_direct(self) -> bool:
        """Whether a check is one call of hr_check and nothing else."""
        return self.leases is None

    def check(self, check: Check, rows: bool | None) -> Conversation[Decision]:
        """Decide one check, from a lease if there is one. `decide` always asks the store."""
        book = self.leases
        if book is None:
            (decision,) = yield from self.decide(CHECK, (check,), rows)
            return decision
        wanted = self.rows if rows is None else rows
        found = book.consult(check, wanted)
        if isinstance(found, Decision):
            return found
        granted = None if found is None else (yield from self._ask_for_lease(book, found, wanted))
        if granted is not None:
            return granted
        (decision,) = yield from self.decide(CHECK, (check,), wanted)
        book.heard(check, decision)
        return decision

    def _ask_for_lease(self, book: LeaseBook, ask: Ask, rows: bool) -> Conversation[Decision | None]:
        """None if the store's library is older and does not know leases."""
        granted = False
        try:
            reply, *profile = yield from self._ask(ask.commands(self.shards))
            if isinstance(reply, StoreError):
                return self._without_store(ask.check, reply)
            if _is_missing(reply):
                book.pause()
                return None
            grant = _grant_of(reply)
            decision = self._decision(ask.check, reply)
            if grant is not None and not decision.degraded:
                book.granted(ask, decision, grant, *profile)
                granted = True
        finally:
            # In `finally` because a caller may be cancelled, and the block before this one must still be settled.
            if not granted:
                book.unanswered(ask)
        return decision if rows else decision.without_rows()

    def give_back(self) -> Conversation[None]:
        """End all leases, for the end of the process. What the store does not accept now is lost."""
        with suppress(StoreError):
            while dues := self.chores.take_leases(everything=True):
                yield from self.read(*[due.command for due in dues])

    def decide(self, function: str, checks: Sequence[Check], rows: bool | None) -> Conversation[list[Decision]]:
        if not checks:
            return []
        wanted = self.rows if rows is None else rows
        commands = [encode_check(function, check, self.shards, rows=wanted) for check in checks]
        replies = yield from self._ask(commands)
        return [self._decision(check, reply) for check, reply in zip(checks, replies, strict=True)]

    def answered(self, check: Check, reply: Reply) -> Decision | None:
        """What `decide` makes of one reply. None if the store lacks the function, which `decide` loads: nothing was
        counted."""
        return None if _is_missing(reply) else self._decision(check, reply)

    def ready(self) -> Conversation[bool]:
        """Connect to every server, and load the library where it is missing. Ignores the breakers.

        Raises StoreAddressError if the URL is of the wrong kind.
        """
        commands = ToAll([pack(("FCALL_RO", "hr_version", "0"))])
        replies = yield commands
        if _is_missing(replies[0]):
            _, *replies = yield ToAll([pack(("FUNCTION", "LOAD", source())), *commands])
        if isinstance(replies[0], StoreAddressError):
            raise replies[0]
        return not isinstance(replies[0], Exception)

    def refund(self, decision: Decision) -> Conversation[int]:
        """Return the number of limits refunded; 0 if the store cannot be reached."""
        if not decision.allowed or decision.degraded:
            return 0
        if isinstance(decision, LeasedDecision):
            return 0 if self.leases is None else self.leases.refund(decision)
        if not decision.receipt:
            raise ValueError("The decision has no receipt, which a refund needs; make the check with rows=True.")
        check = decision.check
        try:
            return (yield from self._call(encode_call("hr_refund", check, self.shards, decision.receipt)))
        except StoreError:
            return 0

    def reset(self, check: Check, limit: str) -> Conversation[int]:
        """Return the number of limits reset. Raises StoreError, because no request depends on a reset."""
        return (yield from self._call(encode_call("hr_reset", check, self.shards, limit)))

    def release(self, decision: Decision) -> Conversation[int]:
        """Return the number of slots released. A failed release is repeated later; at worst the slot expires."""
        holder = decision.holder
        if not holder or not decision.allowed:
            return 0
        command = encode_call("hr_release", decision.check, self.shards, holder)
        if decision.degraded:
            # The store may have taken the slot all the same: only its reply was lost.
            self.chores.release_later(command)
            return self.failures.local.release(holder)
        try:
            return (yield from self._call(command))
        except StoreError:
            self.chores.release_later(command)
            return 0

    def read(self, *commands: bytes) -> Conversation[list[Reply]]:
        """Send any other commands in one round trip. Raises StoreError if the store does not answer."""
        replies = yield from self._ask(commands)
        for reply in replies:
            if isinstance(reply, StoreError):
                raise reply
            if isinstance(reply, ReplyError):
                raise _mistake(reply) or StoreRefusedError(str(reply))
        return replies

    def _call(self, command: bytes) -> Conversation[int]:
        (reply,) = yield from self.read(command)
        return int(reply)

    def _ask(self, commands: Commands) -> Conversation[list[Reply]]:
        replies = yield commands
        for reply in replies:
            if isinstance(reply, ReplyError):
                return (yield from self._load_and_repeat(commands, replies))
        return replies

    def _load_and_repeat(self, commands: Commands, replies: list[Reply]) -> Conversation[list[Reply]]:
        """Load the library and repeat the commands that found no function: they have counted nothing yet."""
        load = pack(("FUNCTION", "LOAD", source()))
        for _ in range(LOADS_AT_MOST):
            missing = [index for index, reply in enumerate(replies) if _is_missing(reply)]
            if not missing:
                break
            # The load fails if another client was faster, which is just as good.
            _, *again = yield [load, *(commands[index] for index in missing)]
            for index, reply in zip(missing, again, strict=True):
                replies[index] = reply
        return replies

    def _decision(self, check: Check, reply: Reply) -> Decision:
        if isinstance(reply, Exception):
            mistake = _mistake(reply) if isinstance(reply, ReplyError) else None
            if mistake:
                raise mistake
            return self._without_store(check, reply)
        try:
            decision = decision_of(check, reply)
        except (LookupError, TypeError, AttributeError, ValueError):
            unreadable = StoreError(f"the store's answer cannot be read: {reply!r:.100}")
            return self._without_store(check, unreadable)
        if decision.revision:
            self.chores.heartbeat.latest = decision
            if self.leases is not None:
                self.leases.hear(check.tenant, decision.revision)
        mode = _MODES.get(reply[11])
        if mode:
            self.failures.learn((check.tenant, check.endpoint), mode, decision.revision)
        elif decision.reason == NOT_READY:
            return self.failures.decide(check, reason=NOT_READY, cause="the store has no configuration yet")
        elif decision.reason == "suspended":
            # A suspended tenant must not get in while the store is down.
            self.failures.learn((check.tenant, check.endpoint), "closed", decision.revision)
        return decision

    def _without_store(self, check: Check, cause: Exception) -> Decision:
        # With a URL of the wrong kind no limit would ever be enforced, so nobody is let through.
        is_wrong = isinstance(cause, StoreAddressError)
        return self.failures.decide(check, reason=UNAVAILABLE, cause=str(cause), mode="closed" if is_wrong else None)


def _grant_of(reply: Reply) -> Grant | None:
    """Takes the grant off the end of hr_lease's reply. The rest is a reply of hr_check."""
    try:
        return Grant.parse(reply.pop())
    except (LookupError, TypeError, AttributeError, ValueError):
        return None


def _is_missing(reply: Reply) -> bool:
    return isinstance(reply, ReplyError) and "unction not found" in str(reply)


def _mistake(reply: ReplyError) -> ValueError | None:
    """Arguments that the store rejects are the caller's mistake, like those that Check rejects."""
    text = str(reply)
    return ValueError(text.partition(" ")[2]) if text.startswith(_MISTAKES) else None
