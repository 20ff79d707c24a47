"""Handling of hook calls: what is recorded, answered, logged, and done after the answer."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, cast

import pytest

from agent_memory import config
from agent_memory.features.hooks.model.exclusions import ExcludedFolder
from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.features.hooks.model.last_contexts import LastContext
from agent_memory.features.hooks.model.preferences import HookOptions, ReplyFormat
from agent_memory.features.hooks.services.handling import HookHandling
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.project_resolver import Caller
from agent_memory.interfaces.hooks.preferences import build_options
from agent_memory.kernel.errors import ContentBlocked, InvalidInput, StorageFailed

CALLER = Caller(folder="/work", environ={})
REPLY = ReplyFormat(max_tokens=1_000, lists_captures=False)
LISTING = replace(REPLY, lists_captures=True)
PLACE = cast("MemoryLocation", object())
OPTIONS = build_options(config.Settings())


def make_call(kind: HookKind, **more: Any) -> HookCall:
    return HookCall(kind=kind, session="s1", at_ms=1, nonce="n1", text="words", **more)


@dataclass
class FakeParts:
    """Everything that handling calls, in one object that notes the calls."""

    options: HookOptions = OPTIONS
    failure: Exception | None = None  # of recording
    no_context: Exception | None = None
    calls: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    recorded: list[HookCall] = field(default_factory=list)
    pending: list[HookCall] = field(default_factory=list)
    kept: list[tuple[LastContext, int]] = field(default_factory=list)

    # Preferences.

    def find_folder(self, call: HookCall, fallback: str, /) -> str:
        return call.folder or fallback

    def load_options(self, _environ: Mapping[str, str], _folder: str, /) -> HookOptions:
        return self.options

    def list_ignored(self, _environ: Mapping[str, str], folder: str, /) -> tuple[str, ...]:
        return (f"a setting in {folder}",)

    # The log.

    def info(self, event: str, /, **_facts: object) -> None:
        self.logged.append(event)

    warning = error = exception = info

    # Recording.

    def place(self, _call: HookCall, _caller: Caller) -> MemoryLocation:
        return PLACE

    def record(self, call: HookCall, _place: MemoryLocation) -> "Future[list[bool]]":
        if self.failure is not None and call.text == "words":
            raise self.failure
        self.recorded.append(call)
        future: Future[list[bool]] = Future()
        future.set_result([True])
        return future

    # Context and captures.

    def build_for_start(self, *_: object) -> str:
        if self.no_context is not None:
            raise self.no_context
        return "<memory_context/>"

    @property
    def history(self) -> "FakeParts":
        return self

    def forget(self, _session: str) -> None:
        self.calls.append("forget")

    def capture_summary(self, *_: object) -> list[object]:
        self.calls.append("capture_summary")
        return []

    def capture_session(self, *_: object) -> list[object]:
        self.calls.append("capture_session")
        return []

    def sync_domains(self, *_: object) -> list[object]:
        self.calls.append("sync")
        return []

    # The last contexts.

    def get_epoch(self) -> int:
        return 7

    def keep(self, context: LastContext, epoch: int) -> None:
        self.kept.append((context, epoch))

    # The spool.

    def drain(self, record: Any, _on_failure: object, _is_closing: object) -> int:
        self.calls.append("drain")
        for call in self.pending:
            record(call)
        return len(self.pending)


@pytest.fixture
def parts() -> FakeParts:
    return FakeParts()


@pytest.fixture
def handling(parts: FakeParts) -> Iterator[HookHandling]:
    fake = cast("Any", parts)
    handling = HookHandling(
        recording=fake,
        injection=fake,
        auto_capture=fake,
        remote_sync=fake,
        spooling=fake,
        keeping=fake,
        preferences=parts,
        log=parts,
    )
    yield handling
    handling.close()


def finish(handling: HookHandling) -> None:
    """Wait for the work after the answers."""
    handling.background.shutdown()


class TestAnswers:
    def test_the_start_of_a_session_gets_context(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        call = make_call(HookKind.SESSION_START)
        assert handling.handle(call, CALLER, REPLY) == "<memory_context/>"
        assert parts.recorded == [call]
        assert parts.logged == ["hook.settings_ignored"]

    def test_the_context_of_a_session_is_kept_for_the_next_one(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        call = make_call(HookKind.SESSION_START, about={"agent": "codex"}, folder="/work/lantern")
        text = handling.handle(call, CALLER, LISTING)
        finish(handling)
        ((kept, epoch),) = parts.kept
        assert (kept.text, kept.folder, kept.agent) == (text, "/work/lantern", "codex")
        assert (kept.simple, epoch) == (True, 7)

    def test_a_kind_that_is_off_is_not_recorded(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        parts.options = replace(OPTIONS, enabled=frozenset({HookKind.STOP}))
        assert handling.handle(make_call(HookKind.SESSION_START), CALLER, REPLY) == ""
        finish(handling)
        assert parts.recorded == []
        assert parts.kept == []

    def test_the_agents_that_the_daemon_runs_are_not_recorded(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        own = replace(handling, excluded=ExcludedFolder(frozenset({PurePath("/data/summarizer")})))
        inside = replace(make_call(HookKind.PROMPT), folder="/data/summarizer/toc")
        beside = replace(make_call(HookKind.PROMPT), folder="/data/summarizer-2")
        assert own.handle(inside, CALLER, REPLY) == ""
        own.handle(beside, CALLER, REPLY)
        parts.pending = [inside, beside]
        own.drain()
        assert parts.recorded == [beside, beside]

    @pytest.mark.parametrize("failure", [StorageFailed("x"), ValueError("x")])
    def test_without_context_the_call_is_recorded(
        self, handling: HookHandling, parts: FakeParts, failure: Exception
    ) -> None:
        parts.no_context = failure
        assert handling.handle(make_call(HookKind.SESSION_START), CALLER, REPLY) == ""
        assert len(parts.recorded) == 1
        assert parts.logged[-1] == "hook.no_context"

    def test_blocked_content_is_withheld(self, handling: HookHandling, parts: FakeParts) -> None:
        parts.failure = ContentBlocked("a secret")
        handling.handle(make_call(HookKind.STOP), CALLER, REPLY)
        (call,) = parts.recorded
        assert call.text != "words"
        assert parts.logged == ["hook.withheld"]

    def test_a_failure_to_record_is_raised(self, handling: HookHandling, parts: FakeParts) -> None:
        parts.failure = StorageFailed("the disk is full")
        with pytest.raises(StorageFailed):
            handling.handle(make_call(HookKind.STOP), CALLER, REPLY)

    def test_a_session_needs_an_id(self, handling: HookHandling, parts: FakeParts) -> None:
        with pytest.raises(InvalidInput):
            handling.handle(replace(make_call(HookKind.STOP), session=""), CALLER, REPLY)
        assert parts.recorded == []


class TestAfterTheAnswer:
    CAPTURES = ("capture_summary", "capture_session", "forget")

    @pytest.mark.parametrize("reply", [REPLY, LISTING])
    def test_a_compaction_captures_once(
        self, handling: HookHandling, parts: FakeParts, reply: ReplyFormat
    ) -> None:
        handling.handle(make_call(HookKind.COMPACTION), CALLER, reply)
        finish(handling)
        assert tuple(parts.calls) == self.CAPTURES

    @pytest.mark.parametrize(
        ("kind", "agent", "ends"),
        [
            (HookKind.SESSION_END, "claude-code", True),
            (HookKind.STOP, "claude-code", False),
            (HookKind.STOP, "cursor", True),
        ],
    )
    def test_the_end_of_a_session_captures_then_pushes(
        self, handling: HookHandling, parts: FakeParts, kind: HookKind, agent: str, ends: bool
    ) -> None:
        parts.options = replace(OPTIONS, push_remote=True)
        handling.handle(make_call(kind, about={"agent": agent}), CALLER, REPLY)
        finish(handling)
        assert parts.calls == (["capture_session", "sync"] if ends else [])


class TestDraining:
    def test_pending_calls_are_recorded_and_finished(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        parts.pending = [make_call(HookKind.PROMPT), make_call(HookKind.SESSION_END)]
        handling.drain()
        finish(handling)
        assert parts.recorded == parts.pending
        assert parts.calls == ["drain", "capture_session"]
        assert parts.logged == ["spool.drained"]

    def test_many_requests_are_one_drain(self, handling: HookHandling, parts: FakeParts) -> None:
        handling.drain_requested.set()  # as while one waits for its thread
        handling.drain_soon()
        handling.drain_requested.clear()
        handling.drain_soon()
        handling.drain_pool.shutdown()
        assert parts.calls == ["drain"]

    def test_a_closed_one_leaves_the_spool(self, handling: HookHandling, parts: FakeParts) -> None:
        handling.close()
        handling.drain_soon()
        assert parts.calls == []
