"""A cluster, as an event loop asks it: one `Pipeline` for each primary, and the map of slots.

The twin of cluster.py for threads; what the two share is in routing.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from headroom_edge.errors import StoreError, StoreTimeoutError, StoreUnsentError
from headroom_edge.store.address import ClusterAddress
from headroom_edge.store.breaker import Breaker, BreakerState
from headroom_edge.store.cluster import ASK_S, PATIENT_S, REREAD_LATER_S, REREAD_S
from headroom_edge.store.connection import Peer
from headroom_edge.store.node import ToAll
from headroom_edge.store.pipeline import Answer, PendingCall, Pipeline, dial_at
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


class BreakersOfNodes(Protocol):
    def of(self, place: Place) -> Breaker: ...
    def keep(self, places: set[Place]) -> None: ...


class ClusterPipeline:
    """Bound to the event loop in which it was created."""

    def __init__(
        self, address: ClusterAddress, patience_s: float, connect_timeout_s: float, breakers: BreakersOfNodes
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._address = address
        self._seeds = [Place(node.host, node.port) for node in address.nodes]
        self._patience_s = patience_s
        self._connect_timeout_s = connect_timeout_s
        self._breakers = breakers
        self._nodes: dict[Place, Pipeline] = {}
        self._slots = SlotMap([])
        self._trouble: StoreError | None = None
        self._reading: asyncio.Task[None] | None = None
        self._has_map = asyncio.Event()
        self._is_closed = False

    def call(self, commands: Sequence[bytes], budget_s: float, answer: Answer) -> None:
        """`answer` may be told before this returns."""
        if len(commands) == 1 and type(commands) is not ToAll:
            place = self._slots.by_tag.get(tag_of(commands[0]))
            node = None if place is None else self._nodes.get(place)
            if node is not None:
                node.call(commands, budget_s, answer)
                return
        _ClusterCall(self, commands, budget_s, answer, is_counted=True).begin()

    def ask(self, commands: Sequence[bytes], budget_s: float, *, is_counted: bool = True) -> asyncio.Future[list[Any]]:
        answer: asyncio.Future[list[Any]] = self.loop.create_future()
        if is_counted:
            self.call(commands, budget_s, answer)
        else:
            _ClusterCall(self, commands, budget_s, answer, is_counted=False).begin()
        return answer

    def node(self, place: Place) -> Pipeline:
        node = self._nodes.get(place)
        if node is None:
            address = self._address.nodes[0].at(*place)
            review = partial(self._review, place)
            dial = partial(dial_at, address, self._connect_timeout_s, peer=Peer.NODE, review=review)
            node = Pipeline(dial, self._patience_s, self._breakers.of(place), self.read_soon)
            self._nodes[place] = node
        return node

    def _review(self, place: Place, call: PendingCall) -> bool:
        """Takes a call that was sent by the short way and must go elsewhere."""
        if isinstance(call.answer, _StepAnswer) or call.is_over or len(call.replies) != 1:
            return False
        if not needs_routing(call.replies[0], place):
            return False
        self._route(call)
        return True

    def _route(self, call: PendingCall) -> None:
        call.is_told = True
        if call.breaker is not None:
            call.breaker.succeeded(call.permit)
        left_s = max(0.0, call.deadline - time.monotonic())
        _ClusterCall(self, call.commands, left_s, call.answer, is_counted=True).begin()

    def _send_elsewhere(self, call: PendingCall) -> None:
        """A call that was not sent, because its server has left the map."""
        if call.is_over or call.breaker is None or isinstance(call.answer, _StepAnswer):
            call.fail(StoreUnsentError("the server has left the cluster's map"))
        else:
            self._route(call)

    @property
    def slots(self) -> SlotMap:
        return self._slots

    @property
    def trouble(self) -> StoreError:
        return self._trouble or StoreTimeoutError("the cluster's map was not read within the budget")

    @property
    def owners(self) -> list[Pipeline]:
        return [self.node(place) for place in self._slots.places]

    @property
    def is_reachable(self) -> bool:
        return any(self._breakers.of(place).state is BreakerState.CLOSED for place in self._slots.places)

    async def wait_for_map(self) -> None:
        self._trouble = None
        self.read_soon()
        await self._has_map.wait()

    def close(self) -> list[asyncio.Task[None]]:
        """Returns the tasks that are about to end."""
        self._is_closed = True
        ending = [] if self._reading is None else [self._reading]
        for task in ending:
            task.cancel()
        return [*ending, *(task for node in self._nodes.values() for task in node.close())]

    # The map.

    def read_soon(self) -> None:
        if self._reading is None and not self._is_closed:
            self._reading = self.loop.create_task(self._keep_reading())

    async def _keep_reading(self) -> None:
        began = time.monotonic()
        try:
            is_well = await self._read()
            while not is_well and self._slots.places:
                await asyncio.sleep(REREAD_S if time.monotonic() - began < PATIENT_S else REREAD_LATER_S)
                is_well = await self._read()
        finally:
            self._reading = None
            # Those who wait for the first map learn that there is none; whoever asks next tries again.
            self._has_map.set()
            if not self._slots.places:
                self._has_map = asyncio.Event()

    async def _read(self) -> bool:
        """Whether the map was read, and every owner answers."""
        healthy = {p: node for p, node in self._nodes.items() if node.breaker.state is BreakerState.CLOSED}
        for place in places_to_ask(healthy, self._seeds):
            found = await self._ask_for_map(place)
            if found is not None:
                self._install(found)
                return all(self._breakers.of(owner).state is BreakerState.CLOSED for owner in found.places)
        return False

    async def _ask_for_map(self, place: Place) -> SlotMap | None:
        (reply,) = await self.node(place).ask([READ_MAP], min(self._connect_timeout_s, ASK_S), is_counted=False)
        found = map_of(reply, place)
        if isinstance(found, StoreError):
            self._trouble = found
            return None
        return found

    def _install(self, found: SlotMap) -> None:
        if not (found.is_same(self._slots) and not self._slots.moved):
            self._slots = found
        owners = found.places
        for place in [place for place in self._nodes if place not in owners]:
            for call in self._nodes.pop(place).retire():
                self._send_elsewhere(call)
        self._breakers.keep(owners)
        self._has_map.set()


class _ClusterCall:
    """A call that concerns several servers, was redirected, or came before the first map."""

    def __init__(
        self, cluster: ClusterPipeline, commands: Sequence[bytes], budget_s: float, answer: Answer, *, is_counted: bool
    ) -> None:
        self._cluster = cluster
        self._commands = commands
        self._deadline = time.monotonic() + budget_s
        self._patient_until = self._deadline - LAST_SHARE * budget_s
        self._answer = answer
        self._is_counted = is_counted
        self._routing = Routing(commands)
        self._open = 0

    def begin(self) -> None:
        if self._cluster.slots.places:
            self._go()
        else:
            self._waiting = self._cluster.loop.create_task(self._go_with_map())

    async def _go_with_map(self) -> None:
        try:
            async with asyncio.timeout(self._left_s):
                await self._cluster.wait_for_map()
        except TimeoutError:
            pass
        if self._cluster.slots.places:
            self._go()
        else:
            self._tell([self._cluster.trouble] * len(self._commands))

    @property
    def _left_s(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def _go(self) -> None:
        if type(self._commands) is ToAll:
            self._ask_everybody()
            return
        slots = self._cluster.slots
        steps = self._routing.steps(slots)
        if self._routing.is_map_old:
            self._cluster.read_soon()
        self._open = len(steps)
        for step in steps:
            self._send(step.place, step.commands, _StepAnswer(partial(self._heard, step, slots)))
        if not steps:
            self._go_on()

    def _send(self, place: Place, commands: Sequence[bytes], answer: _StepAnswer) -> None:
        node = self._cluster.node(place)
        if self._is_counted:
            node.call(commands, self._left_s, answer)
        else:
            node.ask(commands, self._left_s, is_counted=False).add_done_callback(answer.of)

    def _heard(self, step: Step, slots: SlotMap, replies: list[Any]) -> None:
        self._routing.heard(step, replies, slots)
        self._open -= 1
        if not self._open:
            self._go_on()

    def _go_on(self) -> None:
        routing = self._routing
        if routing.is_map_old:
            self._cluster.read_soon()
        if time.monotonic() >= (self._patient_until if routing.must_wait else self._deadline):
            routing.give_up(StoreTimeoutError("the slot was moving for as long as the budget lasted"))
        if routing.is_done:
            self._tell(routing.replies)
        elif routing.must_wait:
            self._cluster.loop.call_later(PAUSE_S, self._go)
        else:
            self._go()

    def _ask_everybody(self) -> None:
        nodes = self._cluster.owners
        answers: list[list[Any]] = []

        def hear(replies: list[Any]) -> None:
            answers.append(replies)
            if len(answers) == len(nodes):
                self._tell(worst(answers))

        for node in nodes:
            node.call(self._commands, self._left_s, _StepAnswer(hear))

    def _tell(self, replies: list[Any]) -> None:
        if not self._answer.done():
            self._answer.set_result(replies)


class _StepAnswer:
    """The Answer of one server of several. A cancelled caller does not end it: a store that was asked may have
    counted."""

    __slots__ = ("_hear",)

    def __init__(self, hear: Callable[[list[Any]], None]) -> None:
        self._hear = hear

    def done(self) -> bool:
        return False

    def set_result(self, replies: list[Any], /) -> None:
        self._hear(replies)

    def of(self, answer: asyncio.Future[list[Any]]) -> None:
        if not answer.cancelled():
            self._hear(answer.result())
