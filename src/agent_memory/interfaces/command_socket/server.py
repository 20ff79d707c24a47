"""The command server: launchers connect over a Unix socket, and their commands run in threads.

The event loop reads and sends; a command only queues its output, on its `CallerConnection`.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import structlog

from agent_memory.interfaces import listening
from agent_memory.interfaces.command_socket import frames
from agent_memory.interfaces.command_socket.calls import Channel, CommandCall, HookAnswer
from agent_memory.interfaces.command_socket.connection import CallerConnection
from agent_memory.interfaces.wire.errors import get_codes
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import AgentMemoryError, Cancelled, InvalidInput
from agent_memory.launcher import command_client as launcher
from agent_memory.launcher import versions

log = structlog.get_logger()

MAX_COMMANDS = 256
SETTLE_SECONDS = 0.02
HELLO_SECONDS = 5.0
BEAT_SECONDS = 3.0  # a launcher gives up after four of them without a frame

HOOK = "hook"  # in place of a program; its input follows in the second frame
HOOK_THREADS = 8
HOOK_INPUT_SECONDS = 5.0

MCP = "mcp"  # in place of a program; the connection is handed to PipeHandler
MAX_PIPES = 256

CommandHandler = Callable[[CommandCall, Channel, CancelToken], int]
HookHandler = Callable[[CommandCall, bytes], HookAnswer]
# Serves a connection that carries plain bytes, without frames, until the caller closes it, or until
# shortly after the event is set.
PipeHandler = Callable[
    [CommandCall, asyncio.StreamReader, asyncio.StreamWriter, asyncio.Event], Awaitable[None]
]


class CallHandlers(NamedTuple):
    """The handlers of all calls but hooks, which need a daemon that is ready.

    `busy` tells whether it has other work.
    """

    run: CommandHandler
    busy: Callable[[], bool]
    pipe: PipeHandler | None


class CommandServer:
    """Calls `hook` for every hook and, once it is open, `run` for every command and `pipe` for
    every MCP client: those that come earlier wait.

    A hook gets all of its input at once and cannot ask for more.

    `on_newer` is called when a launcher of a newer version connects and the daemon is idle. A
    daemon that runs commands or is `busy` serves that launcher too, and calls `on_newer` when it
    becomes idle: an upgrade must not interrupt running work. A connected MCP client does not keep
    the daemon busy unless it waits for an answer (which `busy` includes): it stays connected all
    day, notices the end of its server, and starts the next one.
    """

    def __init__(
        self,
        hook: HookHandler,
        *,
        version: str,
        on_newer: Callable[[], None],
        beat_seconds: float = BEAT_SECONDS,
    ) -> None:
        self._hook = hook
        self._handlers: CallHandlers | None = None
        self._settled = asyncio.Event()  # it is open, or ends without having been
        self._beat_seconds = beat_seconds
        self._pipes: dict[CallerConnection, asyncio.Task[None] | None] = {}
        self._ending = asyncio.Event()
        self._hook_threads = ThreadPoolExecutor(HOOK_THREADS, "hook")
        self._version = version
        self._on_newer = on_newer
        self._outdated = False
        self._server: asyncio.Server | None = None
        self._connections: set[CallerConnection] = set()
        self._calls: set[CallerConnection] = set()  # commands and hooks that run
        self._idle = asyncio.Event()
        self._idle.set()

    async def listen(self, socket: Path) -> None:
        # More than the default of 100: a hundred hooks may call at once.
        self._server = await asyncio.start_unix_server(
            self._serve, socket, backlog=listening.BACKLOG
        )

    def open(
        self,
        run: CommandHandler,
        *,
        busy: Callable[[], bool] = lambda: False,
        pipe: PipeHandler | None = None,
    ) -> None:
        """Serve commands and MCP clients from now on."""
        self._handlers = CallHandlers(run, busy, pipe)
        self._settled.set()

    async def stop(self, grace_seconds: float) -> None:
        """Accept no more calls. Wait for running ones, then cancel them, then abandon them."""
        if self._server is not None:
            self._server.close()
        self._ending.set()
        self._settled.set()
        await asyncio.sleep(SETTLE_SECONDS)  # let connections that were just accepted begin
        for give_up in (CallerConnection.cancel, CallerConnection.abandon):
            try:
                await asyncio.wait_for(self._idle.wait(), grace_seconds)
                break
            except TimeoutError:
                for connection in list(self._connections):
                    give_up(connection)
                for task in list(self._pipes.values()):
                    if task is not None:
                        task.cancel()
        self._hook_threads.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = CallerConnection(asyncio.get_running_loop(), writer)
        self._connections.add(connection)
        self._idle.clear()
        try:
            await self._answer(connection, reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the caller disconnected; `leave` below cancels its command
        except asyncio.CancelledError:
            pass  # the daemon abandons this command at its end, which is not a failure
        except InvalidInput as exc:
            log.warning("command.bad_frame", error=str(exc))
        finally:
            connection.leave()
            writer.close()
            self._connections.discard(connection)
            self._pipes.pop(connection, None)
            self._calls.discard(connection)
            if not self._connections:
                self._idle.set()
            if self._outdated and not self._is_busy():
                self._on_newer()

    async def _answer(
        self,
        connection: CallerConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        kind, payload = await asyncio.wait_for(frames.read(reader), HELLO_SECONDS)
        if kind != launcher.HELLO:
            raise InvalidInput("the first frame is not a hello")
        call = frames.parse_call(payload)
        if versions.release(call.version) > versions.release(self._version):
            log.info("daemon.outdated", ours=self._version, callers=call.version)
            if not self._is_busy() or call.protocol != launcher.PROTOCOL.decode():
                await connection.send(launcher.frame(launcher.UPGRADE, b""))
                self._on_newer()
                return
            self._outdated = True
            if call.program not in (HOOK, MCP):
                await connection.warn(
                    f"note: daemon {self._version} is busy; {call.version} replaces it when it is"
                    " idle"
                )
        if call.protocol != launcher.PROTOCOL.decode():
            await connection.refuse(
                f"this command has version {call.version}, the daemon {self._version}, and they"
                " are not compatible: run `memory-daemon stop`, or install one of them again"
            )
            return
        if call.program == HOOK:
            if await self._has_room(connection):
                await self._answer_hook(connection, reader, call)
            return
        handlers = await self._wait_for_handlers(connection)
        if handlers is None:
            # The start has failed. The caller starts the next one, and learns why.
            await connection.send(launcher.frame(launcher.UPGRADE, b""))
        elif call.program == MCP and handlers.pipe is not None:
            await self._hand_over(handlers.pipe, call, connection, reader, writer)
        elif await self._has_room(connection):
            await self._run_command(handlers.run, connection, reader, call)

    def _is_busy(self) -> bool:
        return bool(self._calls) or (self._handlers is not None and self._handlers.busy())

    async def _has_room(self, connection: CallerConnection) -> bool:
        """Count a call that begins. Refuse it, and return False, if too many are running."""
        if len(self._calls) >= MAX_COMMANDS:
            await connection.refuse(
                f"{MAX_COMMANDS} commands are running, the limit: try again later"
            )
            return False
        self._calls.add(connection)
        return True

    async def _wait_for_handlers(self, connection: CallerConnection) -> CallHandlers | None:
        """Wait until the server is open. Return None if it ends before."""
        if not self._settled.is_set():
            connection.beat(self._beat_seconds)
            try:
                await self._settled.wait()
            finally:
                connection.stop_beating()
        return self._handlers

    async def _run_command(
        self,
        run: CommandHandler,
        connection: CallerConnection,
        reader: asyncio.StreamReader,
        call: CommandCall,
    ) -> None:
        watch = asyncio.create_task(self._watch(connection, reader))
        connection.beat(self._beat_seconds)
        threading.Thread(
            target=self._command, args=(run, connection, call), name="command", daemon=True
        ).start()
        try:
            await connection.send_all()
        finally:
            watch.cancel()
            connection.stop_beating()

    async def _hand_over(
        self,
        pipe: PipeHandler,
        call: CommandCall,
        connection: CallerConnection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        if len(self._pipes) >= MAX_PIPES:
            await connection.refuse(
                f"{MAX_PIPES} MCP clients are connected, the limit: close one of them"
            )
            return
        self._pipes[connection] = asyncio.current_task()
        await connection.send(launcher.frame(launcher.BRIDGE, b""))
        try:
            await pipe(call, reader, writer, self._ending)
        except Exception:
            log.exception("mcp.connection_failed")

    async def _answer_hook(
        self, connection: CallerConnection, reader: asyncio.StreamReader, call: CommandCall
    ) -> None:
        kind, data = await asyncio.wait_for(frames.read(reader), HOOK_INPUT_SECONDS)
        if kind != launcher.HOOK_INPUT:
            raise InvalidInput("a hook's input is missing")
        answer, error, on_delivered = await asyncio.get_running_loop().run_in_executor(
            self._hook_threads, self._hook, call, data
        )
        is_late = reader.at_eof()  # the launcher waits no longer
        warning = launcher.frame(launcher.ERR, f"error: {error}\n".encode()) if error else b""
        output = launcher.frame(launcher.OUT, answer) if answer else b""
        await connection.send(warning + output + launcher.frame(launcher.EXIT, bytes([0])))
        if not is_late:
            on_delivered()

    async def _watch(self, connection: CallerConnection, reader: asyncio.StreamReader) -> None:
        """Pass on the caller's answers. Cancel the command if the caller cancels or disconnects."""
        try:
            while True:
                kind, payload = await frames.read(reader)
                if kind == launcher.CANCEL:
                    connection.cancel()
                elif kind in (launcher.INPUT, launcher.LINE):
                    connection.answer(payload)
        except (OSError, asyncio.IncompleteReadError, InvalidInput):
            connection.leave()

    def _command(
        self, run: CommandHandler, connection: CallerConnection, call: CommandCall
    ) -> None:
        """Run one command, in its own thread."""
        code = 1
        try:
            code = run(call, connection, connection.cancelled)
        except AgentMemoryError as exc:
            code = get_codes(exc).exit
        except Exception:
            # Without arguments: they may be private.
            log.exception("command.crashed", program=call.program)
            with contextlib.suppress(Cancelled):
                connection.err(b"error: the command failed in the daemon; its log says why\n")
        finally:
            connection.finish(code)
