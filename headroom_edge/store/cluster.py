"""A cluster, as threads ask it: one `Node` for each primary, and the map of slots, which a thread of its own reads.

The map is read at the start, after a redirection, and as long as a primary does not answer: its replica may take over.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from headroom_edge.errors import StoreError, StoreTimeoutError, StoreUnsentError
from headroom_edge.store.address import ClusterAddress
from headroom_edge.store.breaker import Breaker, BreakerSettings, BreakerState
from headroom_edge.store.connection import BlockingConnection, Peer
from headroom_edge.store.node import Node, ToAll
from headroom_edge.store.routing import (
    LAST_SHARE,
    PAUSE_S,
    READ_MAP,
    Place,
    Routing,
    SlotMap,
    Step,
    map_of,
    needs_routing,
    places_to_ask,
    tag_of,
    worst,
)

REREAD_S: Final = 0.1  # while a primary does not answer ...
REREAD_LATER_S: Final = 1.0  # ... and after it has not for longer than
PATIENT_S: Final = 10.0
ASK_S: Final = 0.3  # for the map, of one server; there are others
AT_ONCE: Final = 8  # threads that ask one primary, for calls that concern several


class Cluster:
    def __init__(
        self, address: ClusterAddress, connect_timeout_s: float, connections: int, breaker: BreakerSettings
    ) -> None:
        self._address = address
        self._seeds = [Place(node.host, node.port) for node in address.nodes]
        self._connect_timeout_s = connect_timeout_s
        self._connections = connections
        self._breaker_settings = breaker
        self._lock = threading.Condition()
        self._nodes: dict[Place, Node] = {}  # replaced, never modified, so that it is read without the lock
        self._slots = SlotMap([])
        self._trouble: StoreError | None = None  # why the map could not be read
        self._is_reading = False
        self._is_closed = False
        # One for each primary: threads that wait for one that hangs must not be missing for the others.
        self._helpers: dict[Place, ThreadPoolExecutor] = {}

    def exchange(self, commands: Sequence[bytes], deadline: float) -> list[Any]:
        if len(commands) == 1 and type(commands) is not ToAll:
            place = self._slots.by_tag.get(tag_of(commands[0]))
            node = None if place is None else self._nodes.get(place)
            if place is not None and node is not None:
                replies = node.exchange(commands, deadline)
                reply = replies[0]
                if not isinstance(reply, Exception) or not self._is_for_others(reply, place):
                    return replies
        return self._route(commands, deadline, Node.exchange)

    def attend(self, commands: Sequence[bytes], deadline: float) -> list[Any]:
        return self._route(commands, deadline, Node.attend)

    def _is_for_others(self, error: Exception, place: Place) -> bool:
        """Whether the command must be sent again. If a server does not answer, the map is read again."""
        if needs_routing(error, place):
            return True
        if isinstance(error, StoreError):
            self._read_soon()
        return False

    def _route(self, commands: Sequence[bytes], deadline: float, ask: Callable[..., list[Any]]) -> list[Any]:
        if not self._has_map(deadline):
            error = self._trouble or StoreTimeoutError("the cluster's map was not read within the budget")
            return [error] * len(commands)
        if type(commands) is ToAll:
            everywhere = [Step(place, [], list(commands), []) for place in self._slots.places]
            return worst(
                self._ask_all(everywhere, lambda step: ask(self._node(step.place), commands, deadline), deadline)
            )
        routing = Routing(commands)
        patient_until = deadline - LAST_SHARE * (deadline - time.monotonic())
        while not routing.is_done:
            steps = routing.steps(self._slots)
            answers = self._ask_all(steps, lambda step: self._take(step, deadline, ask), deadline)
            for step, replies in zip(steps, answers, strict=True):
                routing.heard(step, replies, self._slots)
            if routing.is_map_old:
                self._read_soon()
            if routing.must_wait:
                time.sleep(PAUSE_S)
            if time.monotonic() >= (patient_until if routing.must_wait else deadline):
                routing.give_up(StoreTimeoutError("the slot was moving for as long as the budget lasted"))
        return routing.replies

    def _take(self, step: Step, deadline: float, ask: Callable[..., list[Any]]) -> list[Any]:
        replies = ask(self._node(step.place), step.commands, deadline)
        if isinstance(replies[0], StoreError):
            self._read_soon()
        return replies

    def _ask_all(self, steps: Sequence[Step], take: Callable[[Step], list[Any]], deadline: float) -> list[list[Any]]:
        """At the same time, so that one server that hangs does not use up the others' budget."""
        if not steps:
            return []
        others = [self._submit(step, take) for step in steps[1:]]
        return [take(steps[0]), *(_replies_of(*each, deadline) for each in zip(steps[1:], others, strict=True))]

    def _submit(self, step: Step, take: Callable[[Step], list[Any]]) -> Future[list[Any]] | None:
        """None if the limiter is closed, the server has just left the map, or no thread can be started."""
        with self._lock:
            if self._is_closed:
                return None
            helpers = self._helpers.get(step.place)
            if helpers is None:
                helpers = self._helpers[step.place] = ThreadPoolExecutor(AT_ONCE, "headroom-cluster")
        try:
            return helpers.submit(take, step)
        except RuntimeError:
            return None

    def _node(self, place: Place) -> Node:
        node = self._nodes.get(place)
        if node is not None:
            return node
        with self._lock:
            if place not in self._nodes:
                address = self._address.nodes[0].at(*place)
                dial = partial(BlockingConnection, address, self._connect_timeout_s, Peer.NODE)
                self._nodes = {**self._nodes, place: Node(dial, self._connections, self._breaker_settings)}
            return self._nodes[place]

    @property
    def breaker(self) -> Breaker:
        """The worst one: of a primary that does not answer, if there is one."""
        breakers = [self._node(place).breaker for place in self._slots.places or self._seeds]
        return next((each for each in breakers if each.state is not BreakerState.CLOSED), breakers[0])

    @property
    def is_reachable(self) -> bool:
        places = self._slots.places
        return bool(places) and any(self._node(place).breaker.state is BreakerState.CLOSED for place in places)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._lock.notify_all()
            helpers, self._helpers = self._helpers, {}
        for each in helpers.values():
            each.shutdown(wait=False)
        for node in self._nodes.values():
            node.close()

    # The map.

    def _has_map(self, deadline: float) -> bool:
        if self._slots.places:
            return True
        with self._lock:
            self._trouble = None
        self._read_soon()
        with self._lock:
            self._lock.wait_for(
                lambda: self._slots.places or self._trouble or self._is_closed, max(0.0, deadline - time.monotonic())
            )
        return bool(self._slots.places)

    def _read_soon(self) -> None:
        with self._lock:
            if self._is_reading or self._is_closed:
                return
            self._is_reading = True
        try:
            threading.Thread(target=_keep_reading, args=(weakref.ref(self),), name="headroom-map", daemon=True).start()
        except RuntimeError:  # no more threads can be started
            with self._lock:
                self._is_reading = False

    def _read(self) -> bool:
        """Whether the map was read, and every owner answers."""
        self._trouble = None
        for place in places_to_ask(self._healthy(), self._seeds):
            found = self._ask_for_map(place)
            if found is not None:
                self._install(found)
                return all(self._node(owner).breaker.state is BreakerState.CLOSED for owner in found.places)
        with self._lock:
            self._lock.notify_all()
        return False

    def _healthy(self) -> dict[Place, Node]:
        return {place: node for place, node in self._nodes.items() if node.breaker.state is BreakerState.CLOSED}

    def _ask_for_map(self, place: Place) -> SlotMap | None:
        (reply,) = self._node(place).attend([READ_MAP], time.monotonic() + min(self._connect_timeout_s, ASK_S))
        found = map_of(reply, place)
        if isinstance(found, StoreError):
            self._trouble = found
            return None
        return found

    def _install(self, found: SlotMap) -> None:
        with self._lock:
            if not (found.is_same(self._slots) and not self._slots.moved):
                self._slots = found
            owners = found.places
            gone = [node for place, node in self._nodes.items() if place not in owners]
            self._nodes = {place: node for place, node in self._nodes.items() if place in owners}
            idle = [self._helpers.pop(place) for place in list(self._helpers) if place not in owners]
            self._lock.notify_all()
        for helpers in idle:
            helpers.shutdown(wait=False)
        close_all(gone)


def _replies_of(step: Step, asked: Future[list[Any]] | None, deadline: float) -> list[Any]:
    if asked is None:
        return [StoreUnsentError("the limiter is closed, or no thread could be started")] * len(step.commands)
    try:
        return asked.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        if asked.cancel():  # it waited behind others, and was never sent
            return [StoreTimeoutError("no reply within the budget")] * len(step.commands)
        return asked.result()  # it is about to end: it has the same deadline


def close_all(nodes: Iterable[Node]) -> None:
    for node in nodes:
        node.close()


def _keep_reading(reference: weakref.ref[Cluster]) -> None:
    """In a thread of its own, until every owner of slots answers."""
    began = time.monotonic()
    while True:
        cluster = reference()
        if cluster is None or cluster._is_closed:
            return
        is_well = cluster._read()
        with cluster._lock:
            # Before the first map nobody reads on: whoever asks next starts the next attempt.
            if is_well or not cluster._slots.places:
                cluster._is_reading = False
                return
        del cluster
        time.sleep(REREAD_S if time.monotonic() - began < PATIENT_S else REREAD_LATER_S)
