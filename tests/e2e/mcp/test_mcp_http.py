"""MCP over HTTP: at the daemon's port behind its gate, and on a port of `memory serve`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from agent_memory.interfaces import listening
from agent_memory.interfaces.http.asgi import Application
from agent_memory.interfaces.http.lazy_app import LazyApp
from agent_memory.interfaces.http.server import HttpServer
from agent_memory.interfaces.mcp.transports import McpTransportServer
from tests.command_runner import SECONDS, Home
from tests.mcp_clients import ERAS, INITIALIZE, over_http, over_sse
from tests.streaming import ServedDaemon, start_serve
from tests.stub_mcp_server import StubTools

STATUS = "memory_status"
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def served() -> Iterator[ServedDaemon]:
    with Home() as home:
        yield ServedDaemon(home)


def posted(served: ServedDaemon, address: str = "", **headers: str) -> httpx.Response:
    return httpx.post(
        f"http://{address or served.address}/mcp",
        json=INITIALIZE,
        headers={**ACCEPT, **headers},
        timeout=SECONDS,
        trust_env=False,
    )


class TestDaemon:
    @pytest.mark.parametrize("era", ERAS)
    def test_the_official_client_lists_and_calls(self, served: ServedDaemon, era: str) -> None:
        async def talk() -> None:
            async with over_http(f"{served.base}/mcp", served.key, era) as client:
                assert STATUS in [tool.name for tool in (await client.list_tools()).tools]
                assert not (await client.call_tool(STATUS, {})).is_error

        asyncio.run(talk())

    def test_nobody_comes_in_without_a_key(self, served: ServedDaemon) -> None:
        assert posted(served).status_code == 401
        assert posted(served, Authorization="Bearer am_wrong").status_code == 401

    def test_pages_of_other_sites_do_not_come_in(self, served: ServedDaemon) -> None:
        refused = posted(served, **served.headers, Origin="https://evil.example")
        assert refused.status_code == 403

    def test_a_foreign_host_is_not_ours(self, served: ServedDaemon) -> None:
        assert posted(served, **served.headers, Host="evil.example").status_code == 421

    def test_a_body_that_is_too_large_is_refused(self, served: ServedDaemon) -> None:
        with served.http() as http:
            refused = http.post("/mcp", content=b" " * ((16 << 20) + 1), headers=ACCEPT)
        assert refused.status_code == 413

    def test_sessions_are_asked_for_by_their_id(self, served: ServedDaemon) -> None:
        opened = posted(served, **served.headers)
        assert opened.status_code == 200
        session = opened.headers["mcp-session-id"]
        with served.http() as http:
            there = {**ACCEPT, "Mcp-Session-Id": session}
            assert http.delete("/mcp", headers=there).status_code == 200
            assert http.delete("/mcp", headers=there).status_code == 404
            gone = http.post("/mcp", json={**INITIALIZE, "id": 1}, headers=there)
            assert gone.status_code == 404


class TestStand:
    def test_older_clients_and_newer_ones_are_served_beside_the_streams(
        self, served: ServedDaemon
    ) -> None:
        async def talk(address: str) -> None:
            async with over_sse(f"http://{address}/sse", served.key) as client:
                assert not (await client.call_tool(STATUS, {})).is_error
            async with over_http(f"http://{address}/mcp", served.key) as client:
                assert not (await client.call_tool(STATUS, {})).is_error

        with start_serve(served.home, "sse") as (_, address):
            asyncio.run(talk(address))
            assert posted(served, address).status_code == 401
            with httpx.Client(base_url=f"http://{address}", trust_env=False) as http:
                assert http.get("/sse").status_code == 401
                assert http.get("/health").status_code == 200
                http.headers.update(served.headers)
                assert http.post("/sse").status_code == 405
                assert http.get("/messages/").status_code == 405
                assert http.post("/messages/?session_id=12", json={}).status_code == 400

    def test_the_daemons_own_port_has_no_legacy(self, served: ServedDaemon) -> None:
        with served.http() as http:
            assert http.get("/sse").status_code == 404

    def test_a_daemon_stops_though_clients_listen(self) -> None:
        async def talk(served: ServedDaemon, address: str) -> None:
            async with (
                httpx.AsyncClient(headers=served.headers, trust_env=False) as http,
                http.stream("GET", f"http://{address}/sse", timeout=SECONDS) as stream,
            ):
                opened = await http.post(f"{served.base}/mcp", json=INITIALIZE, headers=ACCEPT)
                there = {**ACCEPT, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
                async with http.stream(
                    "GET", f"{served.base}/mcp", headers=there, timeout=SECONDS
                ) as listening:
                    assert (stream.status_code, listening.status_code) == (200, 200)
                    await asyncio.to_thread(served.home.stop)
                    assert b"endpoint" in await stream.aread()
                    await listening.aread()

        with Home() as home:
            served = ServedDaemon(home)
            with start_serve(home, "sse") as (_, address):
                asyncio.run(talk(served, address))


class TestProjects:
    """The project of a request, in every version of the protocol."""

    @pytest.mark.parametrize("era", ERAS)
    @pytest.mark.parametrize(("query", "project"), [("?project=my-app", "my-app"), ("", "")])
    def test_a_project_is_named_in_the_address(
        self, tmp_path: Path, era: str, query: str, project: str
    ) -> None:
        async def talk() -> None:
            async with (
                _listening(tmp_path) as base,
                over_http(f"{base}/mcp{query}", era=era) as client,
            ):
                told = await client.call_tool("where", {})
                assert told.structured_content == {"folder": "", "project": project}

        asyncio.run(talk())

    def test_older_clients_name_it_where_they_connect(self, tmp_path: Path) -> None:
        async def talk() -> None:
            async with (
                _listening(tmp_path) as base,
                over_sse(f"{base}/sse?project=my-app") as client,
            ):
                told = await client.call_tool("where", {})
                assert told.structured_content == {"folder": "", "project": "my-app"}

        asyncio.run(talk())

    def test_only_so_many_streams_are_open_at_once(self, tmp_path: Path) -> None:
        async def talk() -> None:
            async with (
                _listening(tmp_path, most_streams=1) as base,
                over_sse(f"{base}/sse"),
                httpx.AsyncClient(trust_env=False) as http,
            ):
                assert (await http.get(f"{base}/sse")).status_code == 503

        asyncio.run(talk())


@asynccontextmanager
async def _listening(folder: Path, most_streams: int = 8) -> AsyncIterator[str]:
    """Serve the transports on a port, without the gate."""

    def nothing() -> Application:
        raise AssertionError("no request here needs the application")

    mcp = McpTransportServer(StubTools(folder), max_body_bytes=1 << 20, most_streams=most_streams)
    mounts: dict[str, Application] = {"/mcp": mcp.serve_streamable}
    mounts |= dict.fromkeys(("/sse", "/messages/"), mcp.serve_legacy)
    sockets = listening.bind(("127.0.0.1",), 0)
    ended: list[BaseException | None] = []
    server = HttpServer()
    server.start(LazyApp(nothing, mounts), sockets, ended.append)
    try:
        yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    finally:
        await mcp.close()
        await server.stop()
    assert not ended
