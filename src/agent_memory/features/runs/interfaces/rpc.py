"""kontekst.AgentService: a run as a stream of commands and events."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from functools import partial

from agent_memory.features.runs.interfaces import run_wire
from agent_memory.features.runs.model import machine
from agent_memory.features.runs.services.runs import ActiveRun, Runs
from agent_memory.interfaces.grpc import handlers
from agent_memory.interfaces.grpc.admission import Guard
from agent_memory.interfaces.grpc.calls import Methods
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.errors import AgentMemoryError
from agent_memory.proto import kontekst_pb2 as pb

DESCRIPTOR = pb.DESCRIPTOR.services_by_name["AgentService"]
MAX_UNSENT = 1_000  # events that wait for a slow client


def build_methods(context: Composition, guard: Guard, observer: Observer) -> Methods:
    return handlers.build_service(
        DESCRIPTOR,
        unary={},
        stream={"Run": partial(run, context[Runs])},
        guard=guard,
        observer=observer,
    )


async def run(runs: Runs, commands: AsyncIterator[pb.RunCommand]) -> AsyncIterator[pb.RunEvent]:
    outlet = _EventQueue(asyncio.get_running_loop())
    running = runs.open(outlet)
    reading = asyncio.create_task(_forward_commands(commands, running, outlet))
    try:
        async for event in outlet.events():
            yield run_wire.event_to_proto(event)
    finally:
        # The run has ended, or the client has left: a run without a listener stops.
        reading.cancel()
        outlet.leave()
        running.leave()


async def _forward_commands(
    commands: AsyncIterator[pb.RunCommand], running: ActiveRun, outlet: "_EventQueue"
) -> None:
    """Pass commands on. A client that closes its side after a command still gets the answer."""
    commanded = False
    try:
        async for message in commands:
            command = run_wire.parse_command(message)
            if command is None and not commanded:
                break
            if command is not None:
                running.command(command)
            commanded = True
    except AgentMemoryError as exc:
        outlet.fail(exc)
    running.close_input()


class _EventQueue:
    """Events from the run's thread to the loop. The run waits for a client that is too slow."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._unsent: deque[machine.RunEvent] = deque()
        self._room = threading.Condition()
        self._left = False
        self._over = False
        self._failure: AgentMemoryError | None = None
        self._woken = asyncio.Event()

    # From the run's thread.

    def on_event(self, event: machine.RunEvent) -> None:
        with self._room:
            self._room.wait_for(lambda: len(self._unsent) < MAX_UNSENT or self._left)
            if self._left:
                return
            self._unsent.append(event)
        self._loop.call_soon_threadsafe(self._woken.set)

    def on_end(self) -> None:
        with self._room:
            self._over = True
        self._loop.call_soon_threadsafe(self._woken.set)

    # On the loop.

    async def events(self) -> AsyncIterator[machine.RunEvent]:
        while True:
            self._woken.clear()
            while (event := self._next()) is not None:
                yield event
            if self._failure is not None:
                raise self._failure
            if self._over and not self._unsent:
                return
            await self._woken.wait()

    def fail(self, failure: AgentMemoryError) -> None:
        self._failure = failure
        self._woken.set()

    def leave(self) -> None:
        with self._room:
            self._left = True
            self._room.notify()

    def _next(self) -> machine.RunEvent | None:
        with self._room:
            if not self._unsent:
                return None
            self._room.notify()
            return self._unsent.popleft()
