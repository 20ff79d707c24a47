"""Hooks with broken inputs: each gets a valid answer, and the daemon survives."""

import asyncio
import itertools
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvloop
from structlog.testing import capture_logs

from agent_memory import __version__, config
from agent_memory.bootstrap.core import Core, build_core
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.interfaces.command_socket.server import CommandServer
from agent_memory.interfaces.hooks import inputs
from agent_memory.interfaces.hooks.inputs import AUTO, Delivery
from agent_memory.kernel.errors import InvalidInput
from agent_memory.launcher import command_client
from tests.command_runner import Home
from tests.hook_inputs import SAMPLES, encode_input
from tests.hook_mutations import HOOKS, mutate

MUTATIONS = 2_000
SOME = 120  # of them, where there is no time for all
SPAWNED = range(660, 710)  # of them; one is large
FEW = 5  # of these, to each hook, where there is no time for all
SPOOLED = 100
AT_ONCE = 8
LAUNCHERS = 4
MAX_CONTEXT_CHARS = 10_000
AT_MS = 1_790_000_000_000
SECONDS = 60.0
NONCE = b"f" * 32
FAILED = b"failed in the daemon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call. A failure names it, so that it can be repeated."""

    hook: str
    given: bytes
    name: str

    @classmethod
    def of(cls, hook: str, number: int) -> "Case":
        name = f"python -m tests.hook_mutations {hook} {number} | memory hook {hook}"
        return cls(hook=hook, given=mutate(hook, number), name=name)


@pytest.mark.parametrize("count", [SOME, pytest.param(MUTATIONS, marks=pytest.mark.soak)])
@pytest.mark.parametrize("hook", HOOKS)
def test_mutations_are_answered_by_a_server_that_lives_on(
    hook: str, count: int, server: "Server"
) -> None:
    refused = server.ask_all(Case.of(hook, number) for number in range(count))

    assert len(refused) < count, "nothing was taken: it is not the mutations that are tested"
    real = [Case(hook=AUTO, given=encode_input(SAMPLES[name]), name=name) for name in SAMPLES]
    assert server.ask_all(iter(real)) == []


@pytest.mark.parametrize("field", ["tool_response", "tool_input", "error", "session_id"])
@pytest.mark.parametrize(
    ("before", "after"),
    [("[", "]"), ('{"a":', "}"), ('{"llmContent":', "}"), ('{"content":[{"text":', "}]}")],
    ids=["lists", "objects", "contents", "parts"],
)
def test_nesting_is_answered_right_up_to_where_it_cannot_be_read(
    field: str, before: str, after: str, server: "Server"
) -> None:
    event = "PostToolUseFailure" if field == "error" else "PostToolUse"

    def nested(depth: int) -> Case:
        head = f'{{"hook_event_name":"{event}","session_id":"deep","{field}":'
        given = f"{head}{before * depth}1{after * depth}}}"
        return Case(hook=AUTO, given=given.encode(), name=f"{depth} of {before} in {field}")

    limit = sys.getrecursionlimit() // (before.count("{") + before.count("["))
    refused = server.ask_all(nested(depth) for depth in range(limit - 60, limit + 1))

    assert refused, "all could be read: nothing was tried that is too deep"


@pytest.mark.parametrize("count", [SPOOLED // 4, pytest.param(SPOOLED, marks=pytest.mark.soak)])
@pytest.mark.parametrize("hook", HOOKS)
def test_mutations_left_in_the_spool_are_drained_to_the_last(
    hook: str, count: int, server: "Server"
) -> None:
    server.spool_all(Case.of(hook, number) for number in range(count))


@pytest.mark.parametrize("count", [FEW, pytest.param(len(SPAWNED), marks=pytest.mark.soak)])
@pytest.mark.parametrize("hook", HOOKS)
def test_mutations_are_answered_by_real_launchers(hook: str, count: int, home: Home) -> None:
    def launched(case: Case) -> None:
        answer = home.run("memory", "hook", case.hook, given=case.given)
        assert answer.code == 0, f"{case.name}: {answer}"
        assert b"Traceback" not in answer.out + answer.err, f"{case.name}: {answer}"
        assert FAILED not in answer.err, f"{case.name}: {answer.errors}"
        _check(answer.out, case)

    with ThreadPoolExecutor(LAUNCHERS) as launchers:
        # Spread over the hooks: together they have been sent all of them.
        first = HOOKS.index(hook) * FEW
        chosen = [SPAWNED[(first + n) % len(SPAWNED)] for n in range(count)]
        list(launchers.map(launched, (Case.of(hook, number) for number in chosen)))


class Server:
    """The command server of a daemon, in this process, with its own store."""

    def __init__(self, folder: Path) -> None:
        self._loop = uvloop.new_event_loop()
        self._loop.set_exception_handler(lambda _loop, context: self._faults.append(context))
        self._faults: list[dict[str, Any]] = []
        self._socket = folder / "daemon.sock"
        self._hellos = {
            hook: command_client.hello("hook", ["hook", hook], NONCE.decode()) for hook in HOOKS
        }
        self._nonces = itertools.count()
        self._core, self._commands = self._run(self._start(folder))

    def ask_all(self, cases: Iterator[Case]) -> list[str]:
        """Send cases in parallel until one fails; return the names of the refused ones."""
        refused: list[str] = []
        failures: list[AssertionError] = []

        async def one_after_another() -> None:
            for case in cases:
                try:
                    refused.extend([case.name] if await self._ask(case) else [])
                except AssertionError as exc:
                    failures.append(exc)
                if failures:
                    break

        async def all_of_them() -> None:
            await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))

        with capture_logs(processors=[structlog.processors.format_exc_info]) as logs:
            self._run(all_of_them())
            self._finish()
        faults = [each for each in logs if each["log_level"] in ("error", "critical")]
        assert not failures, f"{failures[0]}\n{_describe(faults)}"
        assert not faults, f"{len(faults)} faults after the answers, the first: {_describe(faults)}"
        assert not self._faults, self._faults[:1]
        return refused

    def spool_all(self, cases: Iterator[Case]) -> None:
        """Put the cases into the spool, as without a daemon, then drain it."""
        hooks = self._core.context[HookHandling]
        with capture_logs(processors=[structlog.processors.format_exc_info]) as logs:
            for number, case in enumerate(cases):
                delivery = Delivery(
                    name=case.hook,
                    agent="",
                    folder="/",
                    environ={},
                    nonce=f"{case.hook} {number}",
                    at_ms=AT_MS,
                    data=case.given,
                )
                with suppress(InvalidInput):
                    hooks.drainer.spooling.keep(inputs.parse_delivery(delivery).call)
            assert hooks.drainer.spooling.spool.list_pending()
            hooks.drainer.pool.submit(hooks.drain).result(SECONDS)
            self._finish()
        faults = [each for each in logs if each["log_level"] in ("error", "critical")]
        assert not faults, f"{len(faults)} faults, the first: {_describe(faults)}"
        assert hooks.drainer.spooling.spool.list_pending() == []

    def close(self) -> None:
        try:
            self._run(self._commands.stop(SECONDS))
        finally:
            self._core.close()
            self._loop.close()

    async def _start(self, folder: Path) -> tuple[Core, CommandServer]:
        settings = config.Settings(
            scheduler=config.SchedulerSettings(enabled=False),
            embedder=config.EmbedderSettings(provider="none"),
        )
        core = build_core(settings, folder / "db", folder, folder / "config")
        commands = CommandServer(
            core.hook_answerer.answer, version=__version__, on_newer=lambda: None
        )
        await commands.listen(self._socket)
        return core, commands

    async def _ask(self, case: Case) -> bool:
        """Check the answer; return whether the case was refused."""
        nonce = f"{next(self._nonces):032x}".encode()
        hello = self._hellos[case.hook].replace(NONCE, nonce)
        try:
            async with asyncio.timeout(SECONDS):
                reader, writer = await asyncio.open_unix_connection(self._socket)
                writer.write(
                    hello
                    + command_client.frame(command_client.HOOK_INPUT, b"%d\n" % AT_MS + case.given)
                )
                said = await reader.read()
                writer.close()
        except (TimeoutError, OSError) as exc:
            raise AssertionError(f"{case.name}: no answer: {exc!r}") from exc
        frames = list(_frames(said, case))
        err = b"".join(payload for kind, payload in frames if kind == command_client.ERR)
        assert FAILED not in err, f"{case.name}: it failed"
        assert b"Traceback" not in err, f"{case.name}: {err!r}"
        assert frames[-1:] == [(command_client.EXIT, b"\0")], f"{case.name}: {frames}"
        _check(b"".join(payload for kind, payload in frames if kind == command_client.OUT), case)
        return bool(err)

    def _finish(self) -> None:
        """Wait for the work after the answers, until both its threads meet; then index."""
        meeting = threading.Barrier(2)
        pool = self._core.context[HookHandling].background
        for each in [pool.submit(meeting.wait) for _ in range(2)]:
            each.result(SECONDS)
        while self._core.context[Indexes].keep_up(lambda: None):
            pass

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)


def _check(answer: bytes, case: Case) -> None:
    """Check that an answer is one line of JSON in a format that agents accept."""
    if answer == b"{}\n" or (answer == b"\n" and b'Compact"' in case.given):
        return
    assert answer.endswith(b"\n"), f"{case.name}: {answer[:500]!r}"
    assert answer.count(b"\n") == 1, f"{case.name}: {answer[:500]!r}"
    match json.loads(answer):
        case {"hookSpecificOutput": {**inner}, **rest}:
            assert inner.keys() == {"hookEventName", "additionalContext"}, f"{case.name}: {inner}"
            assert isinstance(inner["hookEventName"], str), f"{case.name}: {inner}"
            assert 0 < len(str(inner["additionalContext"])) <= MAX_CONTEXT_CHARS, case.name
        case {"additionalContext": str(), "suppressSystemPrompt": bool(), **rest}:
            pass
        case found:
            raise AssertionError(f"{case.name}: {found}")
    assert not rest, f"{case.name}: {rest}"


def _frames(said: bytes, case: Case) -> Iterator[tuple[bytes, bytes]]:
    while said:
        size = int.from_bytes(said[1:5], "big")
        assert len(said) >= 5 + size, f"{case.name}: cut short: {said[:500]!r}"
        yield said[:1], said[5 : 5 + size]
        said = said[5 + size :]


def _describe(faults: Sequence[Any]) -> str:
    return "\n".join(f"{each['event']}: {each.get('exception', each)}" for each in faults[:3])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("hooks")
    work = folder / "work"
    work.mkdir()
    with pytest.MonkeyPatch.context() as surroundings:
        surroundings.setenv("HOME", str(folder))
        for name in ("DATA", "CONFIG", "CACHE"):
            surroundings.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
        surroundings.chdir(work)
        running = Server(folder)
        try:
            yield running
        finally:
            running.close()


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as created:
        created.serve()
        yield created
