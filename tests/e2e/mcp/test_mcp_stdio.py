"""`memory serve`: MCP through the launcher, from its start to its end."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_memory import __version__
from agent_memory.interfaces.mcp.stdio_lines import MAX_LINE_BYTES, MAX_RUNNING
from tests.command_runner import SECONDS, Home, ProgramServer, patch_launcher, wait_until
from tests.mcp_clients import ERAS, LineClient, over_stdio
from tests.stub_mcp_server import CANCELLED, TOOLS, WAITING

CROWD = 50
CALLS = 20
STATUS = "memory_status"


@pytest.fixture(scope="module")
def errands() -> Iterator[ProgramServer]:
    """Run the real daemon with the tools of `mcp_offer`."""
    with Home() as home, ProgramServer(home) as server:
        yield server


@pytest.fixture
def own_errands() -> Iterator[ProgramServer]:
    with Home() as home, ProgramServer(home) as server:
        yield server


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as created:
        yield created


def waiting(server: ProgramServer) -> str:
    record = server.home.data / "waiting"
    return record.read_text() if record.exists() else ""


def text_of(answer: dict[str, Any]) -> str:
    text: str = answer["result"]["structuredContent"]["text"]
    return text


class TestConversations:
    @pytest.mark.parametrize("era", ERAS)
    def test_the_official_client_lists_and_calls(self, errands: ProgramServer, era: str) -> None:
        folder = errands.home.work / "deeper"
        folder.mkdir(exist_ok=True)

        async def talk() -> None:
            async with over_stdio(errands.home, era, folder) as client:
                assert tuple(tool.name for tool in (await client.list_tools()).tools) == TOOLS
                told = await client.call_tool("where", {})
                assert told.structured_content == {"folder": str(folder), "project": ""}

        asyncio.run(talk())

    def test_what_is_no_message_is_passed_over(self, errands: ProgramServer) -> None:
        with LineClient(errands.home) as client:
            client.send_bytes(b"garbage\n\n\r\n{}\n[1]\n\xff\xfe\n" + b'{"jsonrpc": "2.0", "id"\n')
            client.call(1, "repeat", text="here")
            assert text_of(client.receive()) == "here"

    def test_a_request_that_cannot_be_read_is_refused(self, errands: ProgramServer) -> None:
        """Half a character, as a client writes it that cuts a text in an emoji."""
        half = rb'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"\ud83d"}}'
        with LineClient(errands.home) as client:
            client.send_bytes(half + b'\n{"jsonrpc":"2.0","id":8,"method":"ping","params":[1]}\n')
            refused = [client.receive(), client.receive()]
            assert [each["id"] for each in refused] == [7, 8]
            assert {each["error"]["code"] for each in refused} == {-32600}
            client.call(1, "repeat", text="here")
            assert text_of(client.receive()) == "here"

    def test_a_message_comes_in_pieces_and_many_at_once(self, errands: ProgramServer) -> None:
        call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"repeat"}}\n'
        data = "".join(call % number for number in range(1, 41)).encode()
        with LineClient(errands.home) as client:
            for start in range(0, len(data), 37):
                client.send_bytes(data[start : start + 37])
            assert sorted(client.receive()["id"] for _ in range(40)) == list(range(1, 41))

    def test_a_message_that_is_too_long_is_refused_and_the_next_one_heard(
        self, errands: ProgramServer
    ) -> None:
        with LineClient(errands.home) as client:
            client.send_bytes(b'{"x": "' + b"y" * (MAX_LINE_BYTES + 1) + b'"}\n')
            refused = client.receive()
            assert refused["error"]["code"] == -32600
            assert f"{MAX_LINE_BYTES:,}" in refused["error"]["message"]
            client.call(1, "repeat", text="here")
            assert text_of(client.receive()) == "here"

    def test_more_calls_at_once_than_are_run_are_refused(self, errands: ProgramServer) -> None:
        with LineClient(errands.home) as client:
            for number in range(1, MAX_RUNNING + 2):
                client.call(number, "wait")
            refused = client.receive()
            assert refused["id"] == MAX_RUNNING + 1
            assert "calls are running" in refused["error"]["message"]
            client.send(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/cancelled",
                    "params": {"requestId": 1},
                }
            )
            client.call(1000, "repeat", text="again")
            assert text_of(client.receive()) == "again"

    def test_who_reads_late_gets_everything(self, errands: ProgramServer) -> None:
        """Far more than the pipes between us take."""
        with LineClient(errands.home) as client, LineClient(errands.home) as other:
            for number in range(1, 21):
                client.call(number, "repeat", text="z", times=200_000)
            other.call(1, "repeat", text="meanwhile")
            assert text_of(other.receive()) == "meanwhile"
            answers = [client.receive() for _ in range(20)]
        assert {len(text_of(each)) for each in answers} == {200_000}


def test_a_daemon_is_busy_while_an_mcp_client_waits_for_an_answer(
    own_errands: ProgramServer, tmp_path: Path
) -> None:
    newer = patch_launcher(tmp_path, f'VERSION = "{__version__}"', 'VERSION = "9.9.9"')
    with LineClient(own_errands.home) as client:
        client.call(1, "wait")
        wait_until(lambda: waiting(own_errands) == WAITING, "the call has begun")
        answer = own_errands.run("say", "here", "", "0", launcher=newer)
        assert (answer.code, answer.out) == (0, b"here")
        assert "is busy; " in answer.errors
        assert own_errands.runs


class TestEnds:
    def test_a_client_that_leaves_is_answered_first(self, errands: ProgramServer) -> None:
        with LineClient(errands.home) as client:
            client.call(1, "pause", text="bye")
            code, out, err = client.leave()
        assert (code, err) == (0, b"")
        assert b'"bye"' in out

    def test_a_client_that_dies_takes_its_calls_along(self, errands: ProgramServer) -> None:
        (errands.home.data / "waiting").unlink(missing_ok=True)
        with LineClient(errands.home) as client:
            client.call(1, "wait")
            wait_until(lambda: waiting(errands) == WAITING, "the call runs")
            client.process.kill()
        wait_until(lambda: waiting(errands) == CANCELLED, "the call is cancelled")

    def test_who_no_longer_reads_is_left(self, errands: ProgramServer) -> None:
        (errands.home.data / "waiting").unlink(missing_ok=True)
        with LineClient(errands.home) as client:
            client.call(1, "wait")
            wait_until(lambda: waiting(errands) == WAITING, "the call runs")
            assert client.process.stdout is not None
            client.process.stdout.close()
            assert client.wait_exit() == (141, b"")
        wait_until(lambda: waiting(errands) == CANCELLED, "the call is cancelled")

    @pytest.mark.parametrize(
        ("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)]
    )
    def test_signals_end_it_quietly(
        self, errands: ProgramServer, number: signal.Signals, code: int
    ) -> None:
        with LineClient(errands.home) as client:
            client.process.send_signal(number)
            assert client.wait_exit() == (code, b"")

    def test_a_server_that_is_lost_is_told_of(self, own_errands: ProgramServer) -> None:
        with LineClient(own_errands.home) as client:
            own_errands.kill()
            assert client.wait_exit() == (1, b"error: the connection to the daemon was lost\n")

    def test_a_server_that_stops_answers_what_runs(self, own_errands: ProgramServer) -> None:
        with LineClient(own_errands.home) as client, LineClient(own_errands.home) as stuck:
            stuck.call(1, "wait")
            wait_until(lambda: waiting(own_errands) == WAITING, "the call runs")
            client.call(1, "linger", text="done")
            client.call(2, "repeat", text="heard")
            assert text_of(client.receive()) == "heard"
            own_errands.stop()
            assert text_of(client.receive()) == "done"
            assert client.wait_exit() == (0, b"")
            assert stuck.wait_exit() == (0, b"")
        assert waiting(own_errands) == CANCELLED


class TestDaemon:
    def test_where_none_runs_one_is_started(self, home: Home) -> None:
        async def talk() -> None:
            async with over_stdio(home) as client:
                assert STATUS in [tool.name for tool in (await client.list_tools()).tools]
                assert not (await client.call_tool(STATUS, {})).is_error

        asyncio.run(talk())
        assert home.pid() is not None
        assert (home.data / "mcp-used").stat().st_mode & 0o777 == 0o600

    def test_a_crowd_of_clients_is_answered_and_nothing_is_left(self, home: Home) -> None:
        async def talk() -> int:
            async with over_stdio(home, "legacy") as client:
                answers = [await client.call_tool(STATUS, {}) for _ in range(CALLS)]
            return sum(not answer.is_error for answer in answers)

        async def crowd() -> list[int]:
            async with asyncio.timeout(SECONDS * 2):
                return await asyncio.gather(*(talk() for _ in range(CROWD)))

        home.start_daemon()
        assert asyncio.run(crowd()) == [CALLS] * CROWD
        assert not [pid for pid in home.processes() if "serve" in _words(pid)]

    def test_a_daemon_that_clients_have_used_is_soon_ready_for_the_next(self, home: Home) -> None:
        home.data.mkdir(parents=True, exist_ok=True)
        (home.data / "mcp-used").touch(mode=0o600)
        home.stop()
        before = home.log().count('"mcp.loaded"')
        home.start_daemon()
        wait_until(
            lambda: home.log().count('"mcp.loaded"') > before, "it is loaded, for nobody yet"
        )

    def test_serving_takes_no_options_that_it_does_not_know(self, errands: ProgramServer) -> None:
        assert errands.run("serve", "--bogus").code == 2


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []
