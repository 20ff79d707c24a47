"""`memory serve`: MCP over standard input and output, or streams and MCP on a port."""

import click

from agent_memory.interfaces.cli.backend import ServeOptions
from agent_memory.interfaces.cli.commands import Choice, Command, Invocation, invocation
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
    ),
)
@click.option(
    "--transport",
    type=Choice(TRANSPORTS),
    default=STDIO,
    show_default=True,
    help="stdio: MCP over standard input and output. sse, websocket: streams on a port.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port for sse and websocket; 0 picks a free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address for sse and websocket.",
)
@click.option("--cors", is_flag=True, help="Let web pages of other sites read the answers.")
@invocation
def serve(run: Invocation, transport: str, port: int, host: str, cors: bool) -> None:
    """Serve MCP to a client, or streams on a port.

    Without options, it serves MCP as lines of JSON until the client closes standard input. MCP
    clients run it like this; `memory install AGENT` configures them.

    With --transport sse or websocket, it serves until Ctrl-C. SSE is at /stream/consolidate,
    /stream/sync, /stream/recall and /stream/events, MCP at /mcp, and WebSocket at /ws and /. The
    daemon's own HTTP port serves these too. Only this port also serves /sse and /messages/, for
    older MCP clients. Programs need a key: `memory-daemon token create NAME`.
    """
    if transport == STDIO:
        raise click.UsageError(
            "--host, --port, --cors, --format and --config need --transport sse or websocket"
        )
    open_listener = run.backend.serve
    if open_listener is None:
        raise FeatureUnavailable("this command needs a running daemon: `memory-daemon start`")

    def listening(urls: list[str]) -> None:
        shown = [_stream_url(transport, url) for url in urls]
        run.show(
            {
                "transport": transport,
                "addresses": [url.partition("//")[2] for url in urls],
                "urls": shown,
            },
            lambda: f"Serving {', '.join(shown)} until Ctrl-C",
            essential=shown[0],
        )

    options = ServeOptions(transport=transport, host=host, port=port, cors=cors)
    try:
        open_listener(options, listening, run.terminal.cancelled)
    except ListenFailed as exc:
        raise ListenFailed(f"{exc}; use another --port, or 0 for a free one") from exc
    run.terminal.check_cancelled()


def _stream_url(transport: str, url: str) -> str:
    if transport == "websocket":
        return f"ws{url.removeprefix('http')}/ws"  # wss for https
    return f"{url}/stream/events"
