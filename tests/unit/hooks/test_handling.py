"""Handling of hook calls: what is recorded, answered, logged, and done after the answer."""

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_memory import config
from agent_memory.features.hooks.hook_options import build_options
from agent_memory.features.hooks.model.consent import (
    GIVEN,
    MAX_WAIT_MS,
    Consent,
    ConsentReason,
)
from agent_memory.features.hooks.model.exclusions import ExcludedFolder
from agent_memory.features.hooks.model.hooks import HookCall, HookKind, build_events
from agent_memory.features.hooks.model.last_contexts import LastContext
from agent_memory.features.hooks.model.preferences import HookOptions, ReplyFormat
from agent_memory.features.hooks.services.draining import SpoolDrainer
from agent_memory.features.hooks.services.handling import SILENCE, HookHandling
from agent_memory.features.injections.model.injections import Injection
from agent_memory.features.memories.model.memories import Home
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import ContentBlocked, InvalidInput, Overloaded, StorageFailed
from agent_memory.kernel.ids import Domain
from tests.forgetting_parts import ManualClock

CALLER = Caller(folder="/home/ada/code", environ={})
REPLY = ReplyFormat(max_tokens=1_000, is_simple=False, is_kept=True)
LISTING = replace(REPLY, is_simple=True)
PLACE = MemoryLocation(domain=Domain("project:shop"), home=Home("/shop/.git"))
OPTIONS = build_options(config.Settings(), ignored=("a setting",))


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
    full: Exception | None = None  # of the ledger
    entered: list[tuple[Injection, dict[str, str]]] = field(default_factory=list)
    decisions: dict[str, Consent] = field(default_factory=dict)  # by session
    kept: list[tuple[LastContext, int]] = field(default_factory=list)
    loads: int = 0  # of the options
    now_ms: int = 1

    # Preferences.

    def find_existing(self, *folders: str) -> str:
        return next(filter(None, folders), "/")

    def load_options(self, _environ: Mapping[str, str], _folder: str, /) -> HookOptions:
        self.loads += 1
        return self.options

    # Consent.

    @property
    def clock(self) -> ManualClock:
        return ManualClock(self.now_ms)

    def check_call(self, call: HookCall, *_: object) -> Consent:
        return self.decisions.get(call.session, GIVEN)

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

    def build_for_start(self, _session: str, _place: MemoryLocation, wanted: Any) -> Injection:
        self.own = wanted.session
        if self.no_context is not None:
            raise self.no_context
        return Injection(text="<memory_context/>", items=("memory://grips/g1",))

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

    # The ledger.

    def record_injection(self, injection: Injection, **where: str) -> None:
        if self.full is not None:
            raise self.full
        self.entered.append((injection, where))

    # The last contexts.

    def get_epoch(self) -> int:
        return 7

    def keep(self, context: LastContext, epoch: int) -> None:
        self.kept.append((context, epoch))

    # The spool.

    def drain(self, record: Any, _on_failure: object, _is_closing: object) -> int:
        self.calls.append("drain")
        before = len(self.pending)
        self.pending = [call for call in self.pending if not record(call)]
        return before - len(self.pending)


@pytest.fixture
def parts() -> FakeParts:
    return FakeParts()


@pytest.fixture
def handling(parts: FakeParts) -> Iterator[HookHandling]:
    fake = cast("Any", parts)
    handling = HookHandling(
        recording=fake,
        injection=fake,
        injections=cast("Any", SimpleNamespace(record=parts.record_injection)),
        auto_capture=fake,
        remote_sync=fake,
        drainer=SpoolDrainer(spooling=fake, log=parts),
        keeping=fake,
        load_options=parts.load_options,
        folders=fake,
        consent=fake,
        log=parts,
        environ={},
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
        assert handling.handle(call, CALLER, REPLY).context == "<memory_context/>"
        assert parts.recorded == [call]
        assert parts.logged == ["hook.settings_ignored"]

    @pytest.mark.parametrize(("push", "context"), [("off", ""), ("start", "<memory_context/>")])
    def test_less_is_given_where_that_is_chosen(
        self, handling: HookHandling, parts: FakeParts, push: str, context: str
    ) -> None:
        hooks = config.HooksSettings(push=push)
        parts.options = build_options(replace(config.Settings(), hooks=hooks))
        start, compaction = make_call(HookKind.SESSION_START), make_call(HookKind.COMPACTION)
        assert handling.handle(start, CALLER, REPLY).context == context
        assert handling.handle(compaction, CALLER, LISTING).context == ""
        assert parts.recorded == [start, compaction]
        assert parts.calls == list(TestAfterTheAnswer.CAPTURES)

    @pytest.mark.parametrize(("source", "own"), [("resume", "s"), ("startup", ""), ("compact", "")])
    def test_only_a_resumed_session_has_its_own_words(
        self, handling: HookHandling, parts: FakeParts, source: str, own: str
    ) -> None:
        call = replace(make_call(HookKind.SESSION_START), session="s", about={"source": source})
        handling.handle(call, CALLER, REPLY)
        finish(handling)
        assert parts.own == own
        assert len(parts.kept) == (0 if own else 1)

    def test_the_context_of_a_session_is_kept_for_the_next_one(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        call = make_call(
            HookKind.SESSION_START, about={"agent": "codex"}, folder="/home/ada/code/lantern"
        )
        reply = handling.handle(call, CALLER, LISTING)
        finish(handling)
        ((stored, epoch),) = parts.kept
        assert (stored.text, stored.folder, stored.agent) == (
            reply.context,
            "/home/ada/code/lantern",
            "codex",
        )
        assert (stored.simple, epoch) == (True, 7)

    def test_one_that_could_not_be_given_again_is_not_kept(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        reply = replace(REPLY, is_kept=False)
        assert handling.handle(make_call(HookKind.SESSION_START), CALLER, reply).context
        finish(handling)
        assert parts.kept == []

    def test_a_kind_that_is_off_is_not_recorded(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        parts.options = replace(OPTIONS, enabled=frozenset({HookKind.STOP}))
        assert handling.handle(make_call(HookKind.SESSION_START), CALLER, REPLY).context == ""
        finish(handling)
        assert parts.recorded == []
        assert parts.kept == []

    def test_the_agents_that_the_daemon_runs_are_not_recorded(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        own = replace(handling, excluded=ExcludedFolder(frozenset({PurePath("/data/summarizer")})))
        inside = replace(make_call(HookKind.PROMPT), folder="/data/summarizer/toc")
        beside = replace(make_call(HookKind.PROMPT), folder="/data/summarizer-2")
        assert own.handle(inside, CALLER, REPLY).context == ""
        own.handle(beside, CALLER, REPLY)
        parts.pending = [inside, beside]
        own.drain()
        assert parts.recorded == [beside, beside]

    @pytest.mark.parametrize("kind", [kind for kind in HookKind if kind is not HookKind.OTHER])
    def test_without_consent_nothing_is_done(
        self, handling: HookHandling, parts: FakeParts, kind: HookKind
    ) -> None:
        parts.decisions["s1"] = Consent(reason=ConsentReason.EXCLUDED)
        assert handling.handle(make_call(kind), CALLER, LISTING) == SILENCE
        finish(handling)
        assert (parts.recorded, parts.calls, parts.logged) == ([], [], [])

    @pytest.mark.parametrize("failure", [StorageFailed("x"), ValueError("x")])
    def test_without_context_the_call_is_recorded(
        self, handling: HookHandling, parts: FakeParts, failure: Exception
    ) -> None:
        parts.no_context = failure
        assert handling.handle(make_call(HookKind.SESSION_START), CALLER, REPLY).context == ""
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


class TestLedger:
    def test_only_what_was_delivered_is_entered(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        call = make_call(HookKind.SESSION_START, about={"agent": "codex"})
        reply = handling.handle(call, CALLER, REPLY)
        assert parts.entered == []
        reply.on_delivered()
        ((injection, where),) = parts.entered
        assert injection.text == reply.context
        assert injection.items == ("memory://grips/g1",)
        (event,) = build_events(call, project="shop", branch="")
        assert where == {
            "session_id": "s1",
            "event_id": event.event_id,
            "agent": "codex",
            "project": "shop",
            "hook": "session-start",
        }

    def test_a_full_store_does_no_harm(self, handling: HookHandling, parts: FakeParts) -> None:
        parts.full = Overloaded("too much is waiting")
        handling.handle(make_call(HookKind.SESSION_START), CALLER, REPLY).on_delivered()
        assert parts.logged[-1] == "hook.afterwards"

    @pytest.mark.parametrize(
        "kind",
        [HookKind.SESSION_START, HookKind.PROMPT, HookKind.TOOL, HookKind.TOOL_FAILURE],
    )
    @pytest.mark.parametrize("call_id", ["", "call-1"])
    def test_an_entry_names_the_event_of_the_call(self, kind: HookKind, call_id: str) -> None:
        call = make_call(kind, call_id=call_id)
        assert call.event_id == build_events(call, project="", branch="")[0].event_id


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
        calls = [make_call(HookKind.PROMPT), make_call(HookKind.SESSION_END)]
        parts.pending = list(calls)
        handling.drain()
        finish(handling)
        assert parts.recorded == calls
        assert (parts.pending, parts.loads) == ([], 2)
        assert parts.calls == ["drain", "capture_session"]
        assert parts.logged == ["spool.drained"]

    def test_many_requests_are_one_drain(self, handling: HookHandling, parts: FakeParts) -> None:
        handling.drainer.requested.set()  # as while one waits for its thread
        handling.drain_soon()
        handling.drainer.requested.clear()
        handling.drain_soon()
        handling.drainer.pool.shutdown()
        assert parts.calls == ["drain"]

    def test_a_closed_one_leaves_the_spool(self, handling: HookHandling, parts: FakeParts) -> None:
        handling.close()
        handling.drain_soon()
        assert parts.calls == []

    def test_calls_without_consent_stay_in_the_spool(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        parts.decisions["off"] = Consent(reason=ConsentReason.EXCLUDED)
        held, ready = (replace(make_call(HookKind.PROMPT), session=name) for name in ("off", "s1"))
        parts.pending = [held, ready]
        handling.drain()
        assert parts.recorded == [ready]
        assert parts.pending == [held]
        assert not handling.held_by_pause.is_set()

    @pytest.mark.parametrize("reason", list(ConsentReason)[1:])
    def test_after_some_days_only_what_a_pause_or_an_error_holds_back_stays(
        self, handling: HookHandling, parts: FakeParts, reason: ConsentReason
    ) -> None:
        parts.decisions["s1"] = Consent(reason=reason)
        old, new = (replace(make_call(HookKind.PROMPT), at_ms=at_ms) for at_ms in (1, 2))
        parts.now_ms = MAX_WAIT_MS + 2
        parts.pending = [old, new]
        handling.drain()
        is_passing = reason in (ConsentReason.PAUSED, ConsentReason.UNREADABLE)
        assert parts.pending == ([old, new] if is_passing else [new])
        assert parts.recorded == []

    def test_after_a_pause_the_next_call_has_the_spool_recorded(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        call = make_call(HookKind.PROMPT)
        parts.pending = [call]
        parts.decisions["s1"] = Consent(reason=ConsentReason.PAUSED)
        handling.drain()
        assert parts.recorded == []
        del parts.decisions["s1"]
        for _ in range(2):
            handling.handle(make_call(HookKind.STOP), CALLER, REPLY)
        handling.drainer.pool.shutdown()
        assert parts.calls.count("drain") == 2
        assert call in parts.recorded

    def test_what_two_hooks_left_is_recorded_once(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        call = make_call(HookKind.SESSION_END)
        parts.pending = [call, replace(call, nonce="n2", plugin=True)]
        handling.drain()
        finish(handling)
        assert parts.recorded == [call]
        assert parts.calls == ["drain", "capture_session"]


class TestPluginBesideInstalledHooks:
    """An agent that has both makes each call twice."""

    @pytest.mark.parametrize("is_plugin_first", [True, False])
    def test_a_call_is_recorded_and_answered_once(
        self, handling: HookHandling, parts: FakeParts, is_plugin_first: bool
    ) -> None:
        first = make_call(HookKind.SESSION_START, plugin=is_plugin_first)
        second = replace(first, nonce="n2", at_ms=1_500, plugin=not is_plugin_first)
        answers = [handling.handle(call, CALLER, REPLY) for call in (first, second)]
        assert [answer.context for answer in answers] == ["<memory_context/>", ""]
        assert parts.recorded == [first]

    @pytest.mark.parametrize(
        "change",
        [
            {"plugin": False},
            {"text": "other words"},
            {"call_id": "t2"},
            {"session": "s2"},
            {"kind": HookKind.TOOL_FAILURE},
            {"at_ms": 10_000},
        ],
    )
    def test_another_call_is_recorded_too(
        self, handling: HookHandling, parts: FakeParts, change: dict[str, Any]
    ) -> None:
        installed = make_call(HookKind.TOOL)
        other = replace(installed, **{"nonce": "n2", "plugin": True, **change})
        for call in (installed, other):
            handling.handle(call, CALLER, REPLY)
        assert parts.recorded == [installed, other]

    def test_before_and_after_a_tool_are_two_calls(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        after = make_call(HookKind.TOOL, call_id="t1")
        before = replace(after, kind=HookKind.BEFORE_TOOL, text="")
        for call in (before, replace(before, plugin=True), after, replace(after, plugin=True)):
            handling.handle(call, CALLER, REPLY)
        assert parts.recorded == [before, after]

    def test_equal_calls_of_one_agent_are_paired(
        self, handling: HookHandling, parts: FakeParts
    ) -> None:
        """Two tools give the same result, and two hooks report each."""
        installed, plugin = make_call(HookKind.TOOL), make_call(HookKind.TOOL, plugin=True)
        for call in (installed, plugin, plugin, installed):
            handling.handle(call, CALLER, REPLY)
        assert len(parts.recorded) == 2
