"""Handling: record a hook call, and build the context that the agent gets back.

Recording and the lookup run side by side; the answer waits for both. Work that takes longer than an
agent should wait (captures at the end of a session, the network) is done after the answer.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field

from agent_memory.features.hooks.model import notices
from agent_memory.features.hooks.model.consent import ConsentReason
from agent_memory.features.hooks.model.exclusions import ExcludedFolder
from agent_memory.features.hooks.model.hooks import HookCall, HookKind, withhold_call
from agent_memory.features.hooks.model.installations import Agent
from agent_memory.features.hooks.model.last_contexts import LastContext
from agent_memory.features.hooks.model.preferences import HookOptions, ReplyFormat
from agent_memory.features.hooks.ports import HookLog, LoadOptions, ProjectPaths
from agent_memory.features.hooks.services.auto_capture import AutoCapture
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.features.hooks.services.context_injection import ContextInjection
from agent_memory.features.hooks.services.draining import SpoolDrainer
from agent_memory.features.hooks.services.last_contexts import ContextKeeping
from agent_memory.features.hooks.services.recent_calls import RecentCalls
from agent_memory.features.hooks.services.recording import HookRecorder
from agent_memory.features.injections.model.injections import NOTHING, Injection
from agent_memory.features.injections.services.injections import Injections
from agent_memory.features.log.model.events import check_session_id
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services import sync
from agent_memory.features.memories.services.remote_sync import RemoteSync
from agent_memory.features.recall.model.contexts import ContextRequest
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import AgentMemoryError, ContentBlocked
from agent_memory.kernel.ids import PROJECT, SessionId
from agent_memory.kernel.progress import ignore_progress

FETCH_SECONDS = 1.2  # the longest that the start of a session waits for a remote
RESUMED = "resume"  # the source of a session's start
ASKPASS = ("SSH_ASKPASS", "GIT_ASKPASS")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookTask:
    """A hook call with the place it happened in and the options that apply there."""

    call: HookCall
    place: MemoryLocation
    caller: Caller
    options: HookOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class HookReply:
    """The context for the agent. Call `on_delivered` once the agent has it; it does not wait."""

    context: str
    on_delivered: Callable[[], None]


SILENCE = HookReply(context="", on_delivered=lambda: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookHandling:
    """Handles hook calls, at once or from the spool. Its threads end with `close`."""

    recording: HookRecorder
    injection: ContextInjection
    injections: Injections
    auto_capture: AutoCapture
    remote_sync: RemoteSync
    drainer: SpoolDrainer
    keeping: ContextKeeping
    load_options: LoadOptions
    folders: ProjectPaths
    consent: RecordingConsent
    log: HookLog
    environ: Mapping[str, str]  # of the daemon: the spool keeps none
    excluded: ExcludedFolder = field(default_factory=ExcludedFolder)
    recent: RecentCalls = field(default_factory=RecentCalls)
    background: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(2, "after-hook")
    )
    held_by_pause: threading.Event = field(default_factory=threading.Event)  # calls in the spool

    def handle(self, call: HookCall, caller: Caller, reply: ReplyFormat) -> HookReply:
        """Record the call and return the context for the agent, which may be empty.

        Raises InvalidInput, ContentBlocked, Overloaded and StorageFailed if it is not recorded.
        """
        folder = self.folders.find_existing(call.folder, caller.folder)
        if self._is_excluded(call, folder):
            return SILENCE
        options = self.load_options(caller.environ, folder)
        consent = self.consent.check_call(call, caller.folder, caller.environ, options.consent)
        if not consent.is_given:
            return SILENCE
        if self.held_by_pause.is_set():
            self.held_by_pause.clear()
            self.drain_soon()
        caller = Caller(folder=folder, environ=caller.environ)
        if call.kind is HookKind.SESSION_START:
            for reason in options.ignored:
                self.log.warning("hook.settings_ignored", reason=reason)
        if call.kind not in options.enabled:
            return SILENCE
        check_session_id(call.session)
        if self.recent.is_repeat(call):
            return SILENCE
        task = self._build_task(call, caller, options)
        recorded = self._record(task)
        injection = self._build_context(task, reply)
        if not options.gives(call.kind):  # what was captured meanwhile stays
            injection = NOTHING
        recorded.result()
        if not (call.kind is HookKind.COMPACTION and reply.is_simple):
            self._schedule_rest(task)
        return HookReply(
            context=injection.text,
            on_delivered=lambda: self._run_logged(lambda: self._record_injection(task, injection)),
        )

    def drain_soon(self) -> None:
        """Drain the spool in the background, once for any number of requests."""
        self.drainer.request(lambda: self._run_logged(self.drain))

    def drain(self) -> None:
        """Record the calls that hooks left in the spool while no daemon answered.

        Calls from before a pause stay there, and for some days those from folders where recording
        is off by now.
        """
        self.drainer.drain(self._record_late)

    def close(self) -> None:
        """Finish the work that has begun and drop the rest.

        Nothing is lost: the next daemon drains the spool, and the log has the text of every
        capture that was not made.
        """
        self.drainer.close()
        self.background.shutdown(cancel_futures=True)

    def _record_late(self, call: HookCall) -> bool:
        """Record a call from the spool, if it may be by now. Return whether it is done with."""
        folder = self.folders.find_existing(call.folder)
        caller = Caller(folder=folder, environ=self.environ)
        options = self.load_options(caller.environ, folder)
        consent = self.consent.check_call(call, caller.folder, caller.environ, options.consent)
        if consent.reason is ConsentReason.PAUSED:
            self.held_by_pause.set()
        if not consent.is_given:
            return not consent.may_wait(self.consent.clock.now() - call.at_ms)
        if not self._is_excluded(call, folder) and not self.recent.is_repeat(call):
            task = self._build_task(call, caller, options)
            self._record(task).result()
            self._schedule_rest(task)
        return True

    def _is_excluded(self, call: HookCall, folder: str) -> bool:
        """Return whether an agent that the daemon runs made this call. Its environment switches
        hooks off as well, but an agent need not pass it on to its hooks."""
        return self.excluded.contains(call.folder) or self.excluded.contains(folder)

    def _build_task(self, call: HookCall, caller: Caller, options: HookOptions) -> HookTask:
        place = self.recording.place(call, caller)
        return HookTask(call=call, place=place, caller=caller, options=options)

    def _record(self, task: HookTask) -> "Future[list[bool]]":
        try:
            return self.recording.record(task.call, task.place)
        except ContentBlocked as exc:
            self.log.warning("hook.withheld", error=str(exc))
            return self.recording.record(withhold_call(task.call), task.place)

    def _build_context(self, task: HookTask, reply: ReplyFormat) -> Injection:
        """Return the context for the agent. A failure here must not keep the call unrecorded."""
        call = task.call
        try:
            if call.kind in (HookKind.TOOL, HookKind.TOOL_FAILURE):
                self.injection.note_result(call)
            match call.kind:
                case HookKind.SESSION_START:
                    return self._answer_start(task, reply)
                case HookKind.PROMPT:
                    return self._answer_prompt(task)
                case HookKind.BEFORE_TOOL:
                    return self.injection.build_before_tool(call, task.place, task.caller.folder)
                case HookKind.TOOL_FAILURE | HookKind.TOOL if task.options.gives(
                    call.kind
                ) and _may_have_failed(call):
                    return self.injection.moments.build_after_failure(
                        call.session, task.place.name, call.text, call.call_id
                    )
                case HookKind.TOOL if task.options.is_triggered(call.use, task.caller.folder):
                    return self.injection.build_for_file(call.session, task.place, call.use.file)
                case HookKind.COMPACTION if reply.is_simple:
                    return self._capture(task)
                case _:
                    return NOTHING
        except AgentMemoryError as exc:
            self.log.warning("hook.no_context", error=str(exc))
        except Exception:
            self.log.exception("hook.no_context")
        return NOTHING

    def _answer_start(self, task: HookTask, reply: ReplyFormat) -> Injection:
        options = task.options
        if options.fetch_remote:
            fetching = self.background.submit(
                self._run_logged, lambda: self._sync(task, push=False)
            )
            try:
                fetching.result(FETCH_SECONDS)
            except NotYet:
                self.log.info("hook.fetch_goes_on")
        tokens = min(options.context_tokens, reply.max_tokens)
        if not tokens:
            return NOTHING
        # A resumed session has its own words already; one that was compacted has lost them.
        own = task.call.session if task.call.about.get("source") == RESUMED else ""
        request = ContextRequest(
            guidance=options.guidance, tokens=tokens, session=own, plain=not reply.is_simple
        )
        epoch = self.keeping.get_epoch()
        injection = self.injection.build_for_start(task.call.session, task.place, request)
        if reply.is_kept and not own:
            context = LastContext(
                folder=task.caller.folder,
                environ=task.caller.environ,
                agent=task.call.about.get("agent", ""),
                simple=reply.is_simple,
                text=injection.text,
            )
            self.background.submit(self._run_logged, lambda: self.keeping.keep(context, epoch))
        return injection

    def _answer_prompt(self, task: HookTask) -> Injection:
        call, options = task.call, task.options
        signals = self.auto_capture.capture_prompt(
            call,
            task.place,
            options.markers,
            capture=options.capture_prompts,
            status=options.capture_status,
        )
        self.injection.moments.note_prompt(call.session, call.own_text)
        helping = related = NOTHING
        if options.gives(call.kind):
            helping = self.injection.moments.build_for_prompt(
                call.session, task.place.name, call.own_text
            )
        if options.recall_for_prompts:
            related = self.injection.build_for_prompt(call.session, task.place, call.own_text)
        parts = (
            notices.render_captured(signals.captured, "captured from the prompt"),
            notices.render_suggested(signals.suggested),
            helping.text,
            related.text,
        )
        return Injection(
            text="\n".join(filter(None, parts)),
            items=(*(memory.urn for memory in signals.captured), *helping.items, *related.items),
        )

    def _capture(self, task: HookTask) -> Injection:
        """Capture from a session before its context is compacted."""
        call = task.call
        captured = [
            *self.auto_capture.capture_summary(
                call.text,
                call.decisions,
                task.place,
                call.session,
                task.options.capture_status,
                call.about.get("agent", ""),
            ),
            *self._capture_session(task),
        ]
        self.injection.history.forget(call.session)
        return Injection(
            text=notices.render_captured(captured, "auto-saved before context compaction"),
            items=tuple(memory.urn for memory in captured),
        )

    def _record_injection(self, task: HookTask, injection: Injection) -> None:
        """Record what the agent was given, without waiting for the disk."""
        call = task.call
        self.injections.record(
            injection,
            session_id=SessionId(call.session),
            event_id=call.event_id,
            agent=call.about.get("agent", ""),
            project=task.place.name,
            hook=call.kind.value,
        )
        self.injection.moments.note_given(injection.items)

    def _capture_session(self, task: HookTask) -> list[Memory]:
        return self.auto_capture.capture_session(
            task.call.session,
            task.place,
            task.options.confidence_threshold,
            task.options.markers,
            task.options.capture_status,
            task.call.about.get("agent", ""),
        )

    def _schedule_rest(self, task: HookTask) -> None:
        """Schedule the work that the agent does not wait for."""
        call = task.call
        # Cursor does not report the end of a session.
        cursor_stop = call.kind is HookKind.STOP and call.about.get("agent") == Agent.CURSOR
        if call.kind is HookKind.COMPACTION:
            self.background.submit(self._run_logged, lambda: self._capture(task))
        elif call.kind is HookKind.SESSION_END or cursor_stop:
            self.background.submit(self._run_logged, lambda: self._end_session(task))

    def _end_session(self, task: HookTask) -> None:
        """Capture, then push, so that the new captures are pushed too."""
        if task.options.analyze_session:
            self._capture_session(task)
        if task.options.push_remote:
            self._sync(task, push=True)

    def _sync(self, task: HookTask, *, push: bool) -> None:
        # Hooks are non-interactive: disable askpass.
        environ = {
            name: value for name, value in task.caller.environ.items() if name not in ASKPASS
        }
        outcomes = self.remote_sync.sync_domains(
            PROJECT,
            sync.SyncOptions(fetch=True, push=push),
            Caller(folder=task.caller.folder, environ={**environ, "SSH_ASKPASS_REQUIRE": "never"}),
            ignore_progress,
            task.options.remote,
        )
        for outcome in outcomes:
            if outcome.failure is not None:
                raise outcome.failure
        self.log.info("hook.synced", push=push)

    def _run_logged(self, work: Callable[[], object]) -> None:
        try:
            work()
        except AgentMemoryError as exc:
            self.log.warning("hook.afterwards", error=str(exc))
        except Exception:
            self.log.exception("hook.afterwards_failed")


def _may_have_failed(call: HookCall) -> bool:
    """Return whether a tool failed. Codex does not say it of a command: its output may."""
    shell = call.use.is_shell and call.about.get("agent") == Agent.CODEX
    return call.kind is HookKind.TOOL_FAILURE or shell
