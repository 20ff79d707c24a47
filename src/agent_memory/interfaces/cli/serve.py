"""`memory serve`: MCP for a client that runs it, or a port of its own for streams and MCP."""

import click

from agent_memory.interfaces.cli.backend import ServeOptions
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.errors import FeatureUnavailable, ListenFailed

STDIO = "stdio"
TRANSPORTS = (STDIO, "sse", "websocket")
DEFAULT_PORT = 8080


@click.command(
    cls=Command,
    examples=(
        "memory serve",
        "memory serve --transport sse --port 8080",
        "memory serve --transport websocket --port 8081",
        "memory serve --transport sse --cors",
    ),
)
@click.option(
    "--transport",
    type=click.Choice(TRANSPORTS),
    default=STDIO,
    show_default=True,
    help="MCP over standard input and output, or streams over SSE or WebSocket.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port of a network transport; 0 takes a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address of a network transport.",
)
@click.option("--cors", is_flag=True, help="Let pages of other sites read what is answered.")
@invocation
def serve(run: Invocation, transport: str, port: int, host: str, cors: bool) -> None:
    """Serve MCP over standard input and output, or streams on a port of their own.

    Without options it is what an MCP client runs: messages come and go as lines of JSON until the
    client closes its end. `memory install AGENT` configures that.

    With --transport sse or websocket it serves until Ctrl-C. SSE is at /stream/consolidate,
    /stream/sync, /stream/recall and /stream/events, MCP at /mcp; WebSocket is at /ws and /. The
    daemon's own port has these too. Only here, for older MCP clients: /sse and /messages/. Programs
    need a key: `memory-daemon token create NAME`.
    """
    if transport == STDIO:
        raise click.UsageError(
            "MCP over standard input and output takes no such option: --host, --port and --cors"
            " go with --transport sse or websocket, settings come from the usual files"
        )
    opened = run.backend.serve
    if opened is None:
        raise FeatureUnavailable("this command needs a daemon, and none is running here")

    def listening(urls: list[str]) -> None:
        shown = [_stream_url(transport, each) for each in urls]
        run.show(
            {
                "transport": transport,
                "addresses": [each.partition("//")[2] for each in urls],
                "urls": shown,
            },
            lambda: f"Serving {', '.join(shown)} until Ctrl-C",
            essential=shown[0],
        )

    options = ServeOptions(transport=transport, host=host, port=port, cors=cors)
    try:
        opened(options, listening, run.terminal.cancelled)
    except ListenFailed as exc:
        raise ListenFailed(f"{exc}; give another --port, or 0 for a free one") from exc
    run.terminal.check_cancelled()


def _stream_url(transport: str, url: str) -> str:
    if transport == "websocket":
        return f"ws{url.removeprefix('http')}/ws"  # and wss where it is https
    return f"{url}/stream/events"
