"""The command server while the daemon loads: hooks are answered, everything else waits."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_memory.interfaces.command_socket import frames
from agent_memory.interfaces.command_socket.calls import Channel, CommandCall, HookAnswer
from agent_memory.interfaces.command_socket.server import CommandServer
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.launcher import command_client
from agent_memory.launcher.command_client import BEAT, EXIT, OUT, UPGRADE
from tests.contract.documents import scratch

SECONDS = 30.0
HOOK = command_client.hello("hook", ["hook", "auto"]) + command_client.frame(
    command_client.HOOK_INPUT, b"1\n{}"
)
COMMAND = command_client.hello("memory", ["list"])


def run_command(call: CommandCall, channel: Channel, _cancelled: CancelToken) -> int:
    channel.out(" ".join(call.arguments).encode())
    return 7


@asynccontextmanager
async def call(socket: Path, sent: bytes) -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(sent)
    try:
        yield reader
    finally:
        writer.close()
        await writer.wait_closed()


async def read_frames(reader: asyncio.StreamReader) -> list[tuple[bytes, bytes]]:
    """Read all frames to the end, without heartbeats."""
    found = []
    try:
        while True:
            found.append(await asyncio.wait_for(frames.read(reader), SECONDS))
    except asyncio.IncompleteReadError:
        return [frame for frame in found if frame[0] != BEAT]


def serve(test: Callable[[CommandServer, Path], Awaitable[None]]) -> None:
    async def run(folder: Path) -> None:
        server = CommandServer(
            lambda _call, data: HookAnswer(b"answer to " + data),
            version=command_client.VERSION,
            on_newer=lambda: pytest.fail("there is no newer launcher"),
            beat_seconds=0.01,
        )
        await server.listen(folder / "daemon.sock")
        try:
            await test(server, folder / "daemon.sock")
        finally:
            await server.stop(SECONDS)

    with scratch() as folder:
        asyncio.run(run(folder))


async def wait_for_beat(reader: asyncio.StreamReader) -> None:
    kind, _ = await asyncio.wait_for(frames.read(reader), SECONDS)
    assert kind == BEAT


def test_a_hook_is_answered_while_a_command_waits_for_the_rest() -> None:
    async def test(server: CommandServer, socket: Path) -> None:
        async with call(socket, COMMAND) as waiting:
            await wait_for_beat(waiting)
            async with call(socket, HOOK) as hooked:
                answer = [(OUT, b"answer to 1\n{}"), (EXIT, b"\0")]
                assert await read_frames(hooked) == answer
            server.open(run_command)
            assert await read_frames(waiting) == [
                (OUT, b"list"),
                (EXIT, b"\7"),
            ]
        async with call(socket, COMMAND) as later:
            assert await read_frames(later) == [
                (OUT, b"list"),
                (EXIT, b"\7"),
            ]

    serve(test)


def test_a_command_that_waits_for_a_start_that_fails_starts_the_next_one() -> None:
    async def test(server: CommandServer, socket: Path) -> None:
        async with call(socket, COMMAND) as waiting:
            await wait_for_beat(waiting)
            ending = asyncio.create_task(server.stop(SECONDS))
            assert await read_frames(waiting) == [(UPGRADE, b"")]
        await ending

    serve(test)
