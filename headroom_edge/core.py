"""What both limiters share: arguments, retries, the breaker, failure modes. No I/O.

A conversation is a generator. It yields the commands of one round trip and is sent their replies; where there is none,
a StoreError stands in its place. It returns the decisions. Limiter drives it with sockets, AsyncLimiter with an event
loop. The way to the server of each command, and its breaker, are the store's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from hiredis import ReplyError

from headroom_edge.background_chores import Chores
from headroom_edge.check import Check, encode_call, encode_check, encode_release, pack
from headroom_edge.decision import Decision, Failure, decision_of
from headroom_edge.errors import StoreAddressError, StoreError, StoreRefusedError
from headroom_edge.failure import FailureModes
from headroom_edge.global_limits import ELSEWHERE, GlobalLimits, combined, home_of, paid, refused
from headroom_edge.keys import EVERYONE
from headroom_edge.leases.ask import Ask
from headroom_edge.leases.block import Grant
from headroom_edge.leases.book import LeaseBook
from headroom_edge.leases.decision import LeasedDecision
from headroom_edge.lua_library import source
from headroom_edge.results import RESULTS, Result
from headroom_edge.store.node import ToAll

T = TypeVar("T")
Reply: TypeAlias = Any
Commands: TypeAlias = Sequence[bytes]
Conversation: TypeAlias = Generator[Commands, list[Reply], T]
Here: TypeAlias = "Callable[[Sequence[Check]], Conversation[list[Decision]]]"

CHECK: Final = "hr_check"
PEEK: Final = "hr_peek"
# Another client may flush the server's functions between our load and our retry.
LOADS_AT_MOST: Final = 5
NOT_READY: Final = "not_ready"
UNKNOWN: Final = "unknown_tenant"
NO_ENDPOINTS: Final[frozenset[str]] = frozenset()
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
    globals: GlobalLimits | None = None  # in a cluster

    def is_direct(self, endpoint: str) -> bool:
        """Whether a check is one call of hr_check and nothing else, as far as is known."""
        return self.leases is None and endpoint not in self.global_endpoints

    @property
    def global_endpoints(self) -> Set[str]:
        """Endpoints with global limits that are counted elsewhere."""
        return NO_ENDPOINTS if self.globals is None else self.globals.endpoints

    @property
    def books(self) -> list[LeaseBook]:
        books = [] if self.leases is None else [self.leases]
        return books if self.globals is None else [*books, self.globals.book]

    def check(self, check: Check, rows: bool | None) -> Conversation[Decision]:
        """Decide one check, from a lease if there is one. `decide` always asks the store."""
        wanted = self.rows if rows is None else rows
        if self.globals is None:
            return (yield from self._check_leased(self.leases, check, wanted))

        def here(checks: Sequence[Check]) -> Conversation[list[Decision]]:
            (check,) = checks
            decision = yield from self._check_leased(self.leases, check, wanted)
            return [decision]

        (decision,) = yield from self._with_globals(CHECK, (check,), here, wanted)
        return decision

    def _check_leased(self, book: LeaseBook | None, check: Check, wanted: bool) -> Conversation[Decision]:
        found = None if book is None else book.consult(check, wanted)
        if isinstance(found, Decision):
            return found
        if book is not None and found is not None:
            granted = yield from self._ask_for_lease(book, found, wanted)
            if granted is not None:
                return granted
        (decision,) = yield from self._decide(CHECK, (check,), wanted)
        if book is not None:
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
        limits = self.globals
        if limits is None or (len(checks) == 1 and checks[0].endpoint not in limits.endpoints):
            decisions = yield from self._decide(function, checks, wanted)
            if limits is None or not _is_elsewhere(decisions[0]):
                return decisions
            limits.learn(checks[0].endpoint)

        def here(checks: Sequence[Check]) -> Conversation[list[Decision]]:
            return (yield from self._decide(function, checks, wanted))

        return (yield from self._with_globals(function, checks, here, wanted))

    def _decide(self, function: str, checks: Sequence[Check], wanted: bool) -> Conversation[list[Decision]]:
        commands = [encode_check(function, check, self.shards, rows=wanted) for check in checks]
        replies = yield from self._ask(commands)
        return [self._decision(check, reply) for check, reply in zip(checks, replies, strict=True)]

    def _with_globals(
        self, function: str, checks: Sequence[Check], here: Here, wanted: bool
    ) -> Conversation[list[Decision]]:
        """In a cluster: asks the home of global limits first, then `here`, the tenants' shards."""
        limits = self.globals
        if limits is None:
            return (yield from here(checks))
        concerned = [index for index, check in enumerate(checks) if check.endpoint in limits.endpoints]
        told = yield from self._ask_homes(limits, function, [checks[index] for index in concerned])
        homes = dict(zip(concerned, told, strict=True))
        going = [index for index in range(len(checks)) if index not in homes or homes[index].allowed]
        asked = [paid(checks[index], homes[index]) if index in homes else checks[index] for index in going]
        try:
            found = dict(zip(going, (yield from here(asked)) if asked else [], strict=True))
        except ValueError:
            # One of them is the caller's mistake, so none is told: nobody may have paid for it.
            yield from self.undo(list(homes.values()))
            raise
        unpaid = [index for index, decision in found.items() if _is_elsewhere(decision)]
        if unpaid:
            for index in unpaid:
                limits.learn(checks[index].endpoint)
            again = yield from self._with_globals(function, [checks[index] for index in unpaid], here, wanted)
            found.update(zip(unpaid, again, strict=True))
        denied = [home for index, home in homes.items() if home.allowed and not found[index].allowed]
        if denied and function == CHECK:
            yield from self.undo(denied)
        return [
            found[index]
            if index not in homes
            else combined(check, found[index], homes[index], rows=wanted)
            if index in found
            else refused(check, homes[index], rows=wanted)
            for index, check in enumerate(checks)
        ]

    def _ask_homes(self, limits: GlobalLimits, function: str, checks: Sequence[Check]) -> Conversation[list[Decision]]:
        """In few round trips, because one budget is for all: the first may bring a block for the others, and what no
        block pays for is asked together."""
        homes = [home_of(check) for check in checks]
        found: dict[int, Decision] = {}
        has_asked = False
        for index, home in enumerate(homes):
            if function != CHECK or home.holder:
                continue
            decision = limits.book.answer(home, True)
            if decision is None and not has_asked:
                has_asked = True
                decision = yield from self._check_leased(limits.book, home, True)
            if decision is not None:
                found[index] = decision
        rest = [index for index in range(len(homes)) if index not in found]
        if rest:
            told = yield from self._decide(function, [homes[index] for index in rest], True)
            found.update(zip(rest, told, strict=True))
        return [self._of_home(limits, function, check, found[index]) for index, check in enumerate(checks)]

    def _of_home(self, limits: GlobalLimits, function: str, check: Check, decision: Decision) -> Decision:
        if isinstance(decision, LeasedDecision):
            return decision
        home = decision.check
        if decision.reason == UNKNOWN:
            cause = "the home of global limits has no configuration yet"
            decision = self.failures.decide(home, reason=NOT_READY, cause=cause)
        limits.heard(check.endpoint, decision)
        if not decision.allowed and function == CHECK:
            if decision.degraded:
                self.failures.report_refused(check)
            else:
                limits.denied(check, decision)
        return decision

    def undo(self, decisions: Sequence[Decision]) -> Conversation[None]:
        """Release and refund what the allowed ones were charged, in one round trip. Units of a block go back into it.

        If the store does not answer, they stay charged: never more than the limit is admitted.
        """
        commands = []
        for decision in _charged(decisions):
            if isinstance(decision, LeasedDecision):
                book = self._book_of(decision)
                if book is not None:
                    book.undo(decision)
                continue
            if decision.holder:
                commands.append(encode_call("hr_release", decision.check, self.shards, decision.holder))
            if decision.receipt:
                commands.append(encode_call("hr_refund", decision.check, self.shards, decision.receipt))
        if commands:
            yield commands

    def answered(self, check: Check, reply: Reply) -> Decision | None:
        """What `decide` makes of one reply. None if the store lacks the function, which `decide` loads: nothing was
        counted; or if global limits must be asked first."""
        if _is_missing(reply) or (self.globals is not None and _is_unpaid(reply)):
            return None
        return self._decision(check, reply)

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
        if decision.parts:
            own, home = decision.parts
            refunded = yield from self.refund(own)
            return refunded + (yield from self.refund(home))
        if not decision.allowed or decision.degraded:
            return 0
        if isinstance(decision, LeasedDecision):
            book = self._book_of(decision)
            return 0 if book is None else book.refund(decision)
        if not decision.receipt:
            raise ValueError("The decision has no receipt, which a refund needs; make the check with rows=True.")
        check = decision.check
        try:
            return (yield from self._call(encode_call("hr_refund", check, self.shards, decision.receipt)))
        except StoreError:
            return 0

    def _book_of(self, decision: LeasedDecision) -> LeaseBook | None:
        is_home = decision.check.tenant == EVERYONE
        return self.globals.book if is_home and self.globals is not None else self.leases

    def reset(self, check: Check, limit: str) -> Conversation[int]:
        """Return the number of limits reset. Raises StoreError, because no request depends on a reset."""
        return (yield from self._call(encode_call("hr_reset", check, self.shards, limit)))

    def release(self, decision: Decision, result: Result = "ignore") -> Conversation[int]:
        """Return the number of slots released. A failed release is repeated later; at worst the slot expires."""
        if result not in RESULTS:
            raise ValueError(f"result must be one of {', '.join(RESULTS)}, not {result!r}.")
        if decision.parts:
            own, home = decision.parts
            released = yield from self.release(own, result)
            return released + (yield from self.release(home, result))
        holder = decision.holder
        if not holder or not decision.allowed:
            return 0
        # Without its result, because a later release would tell a longer latency.
        late = encode_call("hr_release", decision.check, self.shards, holder)
        if decision.degraded:
            # The store may have taken the slot all the same: only its reply was lost.
            self.chores.release_later(late)
            return self.failures.local.release(holder)
        try:
            return (yield from self._call(encode_release(decision.check, self.shards, holder, result)))
        except StoreError:
            self.chores.release_later(late)
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
            if check.tenant == EVERYONE:
                book = None if self.globals is None else self.globals.book
            else:
                self.chores.heartbeat.latest = decision
                book = self.leases
            if book is not None:
                book.hear(check.tenant, decision.revision)
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


def _charged(decisions: Sequence[Decision]) -> list[Decision]:
    """Those that the store allowed, each by itself where a decision is of the shard and of global limits.

    What global limits charged for a request that its shard denied was given back with that denial.
    """
    allowed = [decision for decision in decisions if decision.allowed]
    parts = [part for decision in allowed for part in decision.parts or (decision,)]
    return [part for part in parts if part.allowed and not part.degraded]


def _grant_of(reply: Reply) -> Grant | None:
    """Takes the grant off the end of hr_lease's reply. The rest is a reply of hr_check."""
    try:
        return Grant.parse(reply.pop())
    except (LookupError, TypeError, AttributeError, ValueError):
        return None


def _is_missing(reply: Reply) -> bool:
    return isinstance(reply, ReplyError) and "unction not found" in str(reply)


def _is_elsewhere(decision: Decision) -> bool:
    return not decision.allowed and decision.reason == ELSEWHERE


def _is_unpaid(reply: Reply) -> bool:
    return isinstance(reply, list) and reply[1] == b"global"


def _mistake(reply: ReplyError) -> ValueError | None:
    """Arguments that the store rejects are the caller's mistake, like those that Check rejects."""
    text = str(reply)
    return ValueError(text.partition(" ")[2]) if text.startswith(_MISTAKES) else None
