"""A process with a real command server and programs for tests.

    python -m tests.e2e.command_programs DATA_FOLDER

The launcher finds it by the same link as the daemon. It prints `ready` and serves until its
standard input ends or it gets SIGTERM.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import click
import uvloop

from agent_memory import __version__
from agent_memory.features.maintenance.services.admin import Admin
from agent_memory.interfaces.cli.backend import Backend
from agent_memory.interfaces.cli.commands import Group, Invocation, global_options, invocation
from agent_memory.interfaces.cli.remote import RemoteDaemon
from agent_memory.interfaces.cli.rich_console import build_console
from agent_memory.interfaces.cli.runner import Runner
from agent_memory.interfaces.command_socket.calls import CommandCall, HookAnswer
from agent_memory.interfaces.command_socket.server import CommandServer, PipeHandler
from agent_memory.interfaces.mcp.lazy_server import LazyMcpServer, TransportServer
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import Cancelled, FeatureUnavailable

GRACE_SECONDS = 0.5
BATCH_SECONDS = 0.01
BEAT_SECONDS = 0.1
PATTERN = bytes(range(32, 127)) * 11 + b"\n"


@click.group(cls=Group)
@global_options
def programs() -> None:
    """Commands that do one thing each, to test the launcher.

    This paragraph is long enough to be wrapped at every width that a terminal of a test may have.
    """


@programs.command()
@click.argument("out")
@click.argument("err")
@click.argument("code", type=int)
@invocation
def say(run: Invocation, out: str, err: str, code: int) -> int:
    """Write to standard output and standard error, and exit with a code."""
    run.terminal.write(out)
    run.terminal.warn(err)
    return code


@programs.command()
@click.argument("words", nargs=-1)
@invocation
def echo(run: Invocation, words: tuple[str, ...]) -> None:
    """Write the arguments, each followed by a zero byte."""
    run.terminal.write("".join(f"{word}\0" for word in words))


@programs.command()
@invocation
def cat(run: Invocation) -> None:
    """Write standard input to standard output."""
    run.terminal.write(run.terminal.read(limit=1 << 30).decode(errors="surrogateescape"))


@programs.command()
@invocation
def facts(run: Invocation) -> None:
    """Show the caller's folder, environment and terminals."""
    call = run.terminal.call
    run.show(
        {
            "cwd": str(call.cwd),
            "environ": call.environ,
            "terminals": [
                call.input_is_terminal,
                call.output_is_terminal,
                call.errors_are_terminal,
            ],
            "columns": run.terminal.columns,
            "color": run.terminal.color,
        },
        lambda: "",
    )


@programs.command()
@invocation
def red(run: Invocation) -> None:
    """Write a red word to each stream."""
    build_console(run.terminal).print("[red]out[/red]")
    run.terminal.warn("error: err\n")


@programs.command()
@click.option("--hidden", is_flag=True)
@invocation
def prompt(run: Invocation, hidden: bool) -> None:
    """Ask for a word, and write it."""
    word = run.terminal.ask("Word: ", hidden=hidden)
    run.terminal.write(f"<{word}>\n")


@programs.command()
@invocation
def confirm(run: Invocation) -> None:
    """Ask for yes or no."""
    run.terminal.write("yes\n" if run.terminal.confirm("Sure?") else "no\n")


@programs.command()
@click.argument("count", type=int)
@click.argument("until", type=click.Path(path_type=Path))
@click.option("--warn", is_flag=True)
@invocation
def progress(run: Invocation, count: int, until: Path, warn: bool) -> None:
    """Show a progress bar until a file exists."""
    with run.terminal.progress("Working", count) as advance:
        for done in range(1, count + 1):
            advance(done)
        _wait_for(until)
        if warn:
            run.terminal.warn("warning: careful\n")
        # The server's own output must not appear on the caller's terminal.
        sys.stdout.write("of the server\n")
        sys.stderr.write("of the server\n")
    run.terminal.write("done\n")


@programs.command()
@click.argument("until", type=click.Path(path_type=Path))
@invocation
def think(run: Invocation, until: Path) -> None:
    """Write nothing until a file exists."""
    _wait_for(until)
    run.terminal.write("done\n")


def _wait_for(path: Path) -> None:
    pause = threading.Event()
    while not path.exists():
        pause.wait(BATCH_SECONDS)


@programs.command()
@click.argument("count", type=int)
@invocation
def page(run: Invocation, count: int) -> None:
    """Page a long text."""
    run.terminal.page("".join(f"line {number}\n" for number in range(count)))


@programs.command()
@click.argument("size", type=int)
@invocation
def flood(run: Invocation, size: int) -> None:
    """Write a known pattern of this size, in pieces."""
    piece = PATTERN * 64
    while size > 0:
        run.terminal.write(piece[:size].decode())
        size -= len(piece)


@programs.command()
@click.argument("record", type=click.Path(path_type=Path))
@invocation
def work(run: Invocation, record: Path) -> None:
    """Run until cancelled, and write into `record` when it begins and when it is cancelled."""
    batch = threading.Event()
    run.terminal.write("working\n")
    record.write_text("working")
    try:
        with run.terminal.progress("Working", None) as advance:
            while True:
                advance(1)
                batch.wait(BATCH_SECONDS)
    except Cancelled:
        record.write_text("cancelled")
        raise


@programs.command()
@click.argument("seconds", type=float)
@invocation
def ponder(run: Invocation, seconds: float) -> None:
    """Wait without output."""
    threading.Event().wait(seconds)
    run.terminal.write("done\n")


@programs.command()
@click.argument("seconds", type=float)
@invocation
def ignore(run: Invocation, seconds: float) -> None:
    """Run for a while, even if cancelled."""
    run.terminal.write("working\n")
    threading.Event().wait(seconds)


@programs.command()
@invocation
def crash(_run: Invocation) -> None:
    """Raise an unexpected exception."""
    raise ZeroDivisionError("a fault")


def main(data: Path) -> None:
    os.umask(0o077)
    data.mkdir(parents=True, exist_ok=True)
    uvloop.run(_serve(data))


async def _serve(data: Path) -> None:
    backend = Backend(services=None, control=None, open_offline=_offline, connect_remote=_remote)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    entrance = _entrance(data)
    server = CommandServer(
        lambda _call, given: HookAnswer(given),
        version=__version__,
        on_newer=stop.set,
        beat_seconds=BEAT_SECONDS,
    )
    server.open(
        Runner({"memory": programs}, backend, __version__, Observer()).run,
        busy=entrance.is_busy,
        pipe=_pipe(entrance),
    )
    socket = data / "commands.sock"
    await server.listen(socket)
    (data / "daemon.sock").symlink_to(socket)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    asyncio.get_running_loop().add_reader(0, stop.set)
    await stop.wait()
    (data / "daemon.sock").unlink()
    await server.stop(GRACE_SECONDS)
    sys.stdout.write("stopped\n")


def _entrance(data: Path) -> LazyMcpServer:
    def load() -> Callable[[], TransportServer]:
        # Late, as in the daemon: most tests here need none of it.
        from agent_memory.interfaces.mcp.transports import McpTransportServer  # noqa: PLC0415
        from tests.stub_mcp_server import StubTools  # noqa: PLC0415

        return lambda: McpTransportServer(StubTools(data), max_body_bytes=1 << 20, most_streams=8)

    return LazyMcpServer(load, data / "mcp-used")


def _pipe(entrance: LazyMcpServer) -> PipeHandler:
    async def pipe(
        call: CommandCall,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ending: asyncio.Event,
        /,
    ) -> None:
        caller = Caller(folder=str(call.cwd), environ=call.environ)
        await entrance.serve_pipe(caller, reader, writer, ending)

    return pipe


def _offline(path: Path, /) -> AbstractContextManager[Admin]:
    raise FeatureUnavailable(f"no database at {path}")


def _remote(endpoint: str, _key: str | None, /) -> AbstractContextManager[RemoteDaemon]:
    raise FeatureUnavailable(f"no daemon at {endpoint}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
