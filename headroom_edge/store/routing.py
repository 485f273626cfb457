"""Where the commands of a call go in a cluster, and what its redirections mean. No I/O.

A slot that is being moved key by key answers ASK, or refuses with a text about a key that is not there, before anything
was changed. Such a command is repeated after a moment, until its budget ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hiredis import ReplyError

from headroom_edge.check import pack
from headroom_edge.errors import StoreAddressError, StoreError, StoreLostError, StoreRefusedError, StoreUnsentError
from headroom_edge.store.slots import slot_of

ASKING: Final = pack(("ASKING",))
READ_MAP: Final = pack(("CLUSTER", "SLOTS"))
MOVES_AT_MOST: Final = 3
PAUSE_S: Final = 0.0015  # about as long as a key takes to move
# Of the budget, for the last attempt. One that ended in mid-reply would count as the server's failure, and it would not
# be known whether the request was counted.
LAST_SHARE: Final = 0.25
LIBRARY: Final = b"*3\r\n$8\r\nFUNCTION"
LOST: Final = StoreRefusedError("no server of the cluster owns this slot")
CIRCLE: Final = StoreRefusedError("the servers of the cluster refer to each other in a circle")


class Place(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Redirection(NamedTuple):
    place: Place
    is_move: bool  # for good; otherwise for this command only
    slot: int


def redirection_of(error: ReplyError, asked: Place) -> Redirection | None:
    """`MOVED 3999 host:port`. Without a host it is the host that was asked."""
    words = str(error).split(maxsplit=3)
    if len(words) < 3 or words[0] not in ("MOVED", "ASK"):
        return None
    host, _, port = words[2].rpartition(":")
    if not (words[1].isdigit() and port.isdigit()):
        return None
    return Redirection(Place(host.strip("[]") or asked.host, int(port)), words[0] == "MOVED", int(words[1]))


def is_passing(error: ReplyError) -> bool:
    """Whether the slot is on its way: nothing was changed, and it may work in a moment."""
    text = str(error)
    return "non local key" in text or text.startswith("TRYAGAIN")


def is_down(error: ReplyError) -> bool:
    """Whether the server does not decide now: a new owner is elected, or it has just come back.

    That takes seconds. To wait for it would use up the budget, also of what the caller asks of the other servers.
    """
    return str(error).startswith("CLUSTERDOWN")


def needs_routing(reply: Any, place: Place) -> bool:
    if not isinstance(reply, ReplyError):
        return isinstance(reply, StoreUnsentError)
    return redirection_of(reply, place) is not None or is_passing(reply) or is_down(reply)


def tag_of(command: bytes) -> bytes:
    """The part of a command's key that decides on its slot: every key of ours is `hr:{tag}…`."""
    start = command.find(b"{") + 1
    return command[start : command.find(b"}", start)]


class SlotMap:
    """Which primary owns which slots. A new one is made when any of it changes, but for single slots that moved."""

    def __init__(self, ranges: Sequence[tuple[int, int, Place]]) -> None:
        ordered = sorted(ranges)
        self._starts = [first for first, _, _ in ordered]
        self._ranges = ordered
        self.moved: dict[int, Place] = {}
        self.by_tag: dict[bytes, Place] = {}

    @classmethod
    def parse(cls, reply: Any, asked: Place) -> SlotMap:
        """The reply to CLUSTER SLOTS. Raises ValueError, LookupError or TypeError if it is none."""
        ranges = []
        for first, last, (host, port, *_), *_ in reply:
            # A server that does not know its own address leaves the host out.
            ranges.append((int(first), int(last), Place(host.decode() if host else asked.host, int(port))))
        return cls(ranges)

    @property
    def places(self) -> set[Place]:
        return {place for _, _, place in self._ranges} | set(self.moved.values())

    def owner(self, tag: bytes) -> Place | None:
        place = self.by_tag.get(tag)
        if place is None:
            place = self._owner(slot_of(b"{%b}" % tag))
            if place is not None and len(self.by_tag) < 100_000:
                self.by_tag[tag] = place
        return place

    def _owner(self, slot: int) -> Place | None:
        if slot in self.moved:
            return self.moved[slot]
        index = bisect_right(self._starts, slot) - 1
        if index < 0 or slot > self._ranges[index][1]:
            return None
        return self._ranges[index][2]

    def move(self, slot: int, place: Place) -> None:
        self.moved[slot] = place
        self.by_tag = {}

    def is_same(self, other: SlotMap) -> bool:
        return self._ranges == other._ranges


def map_of(reply: Any, asked: Place) -> SlotMap | StoreError:
    """The map in a reply to READ_MAP, or why there is none."""
    if isinstance(reply, StoreError):
        return reply
    try:
        found = SlotMap.parse(reply, asked)
    except (ValueError, LookupError, TypeError):
        return StoreAddressError(
            f"{asked} is no node of a cluster ({reply}); write the store's URL as redis://{asked}/0"
        )
    return found if found.places else StoreLostError(f"the cluster that {asked} belongs to has no slots yet")


@dataclass(slots=True)
class Step:
    """What one server is asked in one write."""

    place: Place
    indices: list[int]  # of the commands, in the call
    commands: list[bytes]  # with ASKING and the library before those that need it
    at: list[int]  # where the replies of `indices` are


class Routing:
    """One call. Repeat: take `steps`, ask them all, tell `heard` for each; until `is_done`."""

    def __init__(self, commands: Sequence[bytes]) -> None:
        self._commands = commands
        self._libraries = [index for index, command in enumerate(commands) if command.startswith(LIBRARY)]
        self._todo: dict[int, Place | None] = dict.fromkeys(
            index for index in range(len(commands)) if index not in self._libraries
        )  # and the server that must be asked with ASKING, if any
        self._moves = [0] * len(commands)
        self.replies: list[Any] = [None] * len(commands)
        self.must_wait = False  # for PAUSE_S, before the next steps
        self.is_map_old = False

    @property
    def is_done(self) -> bool:
        return not self._todo

    def steps(self, slots: SlotMap) -> list[Step]:
        self.must_wait = self.is_map_old = False
        found: dict[tuple[Place, bool], Step] = {}
        for index, ask in list(self._todo.items()):
            command = self._commands[index]
            place = ask or slots.owner(tag_of(command))
            if place is None:
                self._settle(index, LOST)
                self.is_map_old = True
                continue
            step = found.get((place, ask is not None))
            if step is None:
                step = found[place, ask is not None] = self._step(place)
            if ask is not None:
                step.commands.append(ASKING)
            step.indices.append(index)
            step.at.append(len(step.commands))
            step.commands.append(command)
        return list(found.values())

    def _step(self, place: Place) -> Step:
        """Every server that is asked gets the library, if the call brings one."""
        step = Step(place, [], [], [])
        if self._libraries:
            step.indices.append(self._libraries[0])
            step.at.append(0)
            step.commands.append(self._commands[self._libraries[0]])
        return step

    def heard(self, step: Step, replies: Sequence[Any], slots: SlotMap) -> None:
        for index, at in zip(step.indices, step.at, strict=True):
            if index in self._libraries:
                self.replies[index] = replies[at]
            else:
                self._judge(index, replies[at], step.place, slots)

    def _judge(self, index: int, reply: Any, place: Place, slots: SlotMap) -> None:
        if isinstance(reply, StoreUnsentError) and self._moves[index] < MOVES_AT_MOST:
            self._moves[index] += 1
            self._todo[index] = None
            return
        if not isinstance(reply, ReplyError):
            self._settle(index, reply)
            return
        redirection = redirection_of(reply, place)
        if redirection is None and is_passing(reply):
            self._todo[index] = None
            self.must_wait = True
        elif redirection is None:
            self.is_map_old |= is_down(reply)
            self._settle(index, reply)
        elif not redirection.is_move:
            self._todo[index] = redirection.place
        elif self._moves[index] >= MOVES_AT_MOST:
            self._settle(index, CIRCLE)
        else:
            self._moves[index] += 1
            self._todo[index] = None
            self.is_map_old = True
            slots.move(redirection.slot, redirection.place)

    def _settle(self, index: int, reply: Any) -> None:
        self.replies[index] = reply
        self._todo.pop(index, None)

    def give_up(self, error: Exception) -> None:
        for index in list(self._todo):
            self._settle(index, error)


def worst(answers: Sequence[Sequence[Any]]) -> list[Any]:
    """Of the replies of several servers to the same commands: an error, if there is one."""
    columns = zip(*answers, strict=True)
    return [next((each for each in column if isinstance(each, Exception)), column[0]) for column in columns]


def places_to_ask(known: Mapping[Place, Any], seeds: Sequence[Place]) -> list[Place]:
    """Where to read the map: those that own slots first, then those of the URL."""
    return [*known, *(seed for seed in seeds if seed not in known)]
