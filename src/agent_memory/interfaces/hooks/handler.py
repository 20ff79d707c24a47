"""Answering hooks: record what was told, give what is known, and never fail.

Recording and looking up go on side by side; the answer waits for both. What takes longer than an
agent should wait (captures at the end of a session, the network) is done after the answer.
"""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import dataclass, field, replace

import structlog

from agent_memory import config
from agent_memory.features.hooks.model import notices
from agent_memory.features.hooks.model.hooks import HookCall, HookKind, withhold_call
from agent_memory.features.hooks.model.installations import Agent
from agent_memory.features.hooks.services.auto_capture import AutoCapture
from agent_memory.features.hooks.services.context_injection import ContextInjection
from agent_memory.features.hooks.services.recording import Recording
from agent_memory.features.hooks.services.spooling import Spooling
from agent_memory.features.log.model.events import check_session_id
from agent_memory.features.memories.model.memories import Memory
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services import sync
from agent_memory.features.memories.services.project_resolver import Caller
from agent_memory.features.memories.services.remote_sync import RemoteSync
from agent_memory.features.recall.model import contexts
from agent_memory.features.recall.model.contexts import ContextRequest
from agent_memory.features.toc.model.segments import estimate_tokens
from agent_memory.interfaces.hooks import inputs, outputs, preferences
from agent_memory.interfaces.hooks.inputs import Contract, Delivery, HookRequest
from agent_memory.interfaces.observing import FAILED, OK, REFUSED, Observer
from agent_memory.kernel import tracing
from agent_memory.kernel.errors import AgentMemoryError, ContentBlocked, InvalidInput
from agent_memory.kernel.ids import PROJECT
from agent_memory.kernel.tracing import Interface

log = structlog.get_logger()

FETCH_SECONDS = 1.2  # that the start of a session waits for a remote
ASKING = ("SSH_ASKPASS", "GIT_ASKPASS")
# Of what an agent takes without putting it into a file; the rest is room for what is around it.
MAX_TOKENS = estimate_tokens("x" * (outputs.MAX_CONTEXT_CHARS - 200))


@dataclass(frozen=True, slots=True)
class HookHandler:
    recording: Recording
    briefing: ContextInjection
    reflection: AutoCapture
    sharing: RemoteSync
    spooling: Spooling
    version: str
    observer: Observer
    afterwards: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(2, "after-hook")
    )
    draining: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "drain"))
    drain_is_due: threading.Event = field(default_factory=threading.Event)
    closing: threading.Event = field(default_factory=threading.Event)

    def answer(self, delivery: Delivery) -> tuple[bytes, str]:
        """What the agent is to read, and what went wrong. There is none where what was told could
        not be recorded now: then it is for the spool."""
        if delivery.name == inputs.DRAIN:
            self.drain_soon()
            return outputs.render_empty(Contract.AGENT), ""
        began = time.perf_counter()
        answer, trouble, told = self._answer(delivery)
        outcome = OK if not trouble else REFUSED if answer else FAILED
        self.observer.record(
            Interface.HOOK,
            "unread" if told is None else told.moment.value,
            outcome,
            time.perf_counter() - began,
            None if told is None else tracing.from_name(told.session),
        )
        return answer, trouble

    def _answer(self, delivery: Delivery) -> tuple[bytes, str, HookCall | None]:
        told: HookCall | None = None
        contract = inputs.contract_of(delivery.data)
        try:
            question = inputs.parse_delivery(delivery)
            question = replace(question, call=self.recording.clean_ids(question.call))
            contract, told = question.contract, question.call
            if question.event == inputs.CHECK:
                return outputs.render_check(self.version), "", told
            return (
                outputs.render_answer(question, self._record_and_brief(question, delivery)),
                "",
                told,
            )
        except (InvalidInput, ContentBlocked) as exc:
            log.warning("hook.refused", hook=delivery.name, error=str(exc))
            return outputs.render_failure(contract, str(exc)), str(exc), told
        except AgentMemoryError as exc:
            log.warning("hook.not_recorded", hook=delivery.name, error=str(exc))
            return b"", str(exc), told
        except Exception:
            log.exception("hook.failed", hook=delivery.name)
            return b"", "it failed in the daemon; its log says why", told

    def drain_soon(self) -> None:
        """Once, however many ask for it."""
        if not self.drain_is_due.is_set():
            self.drain_is_due.set()
            with suppress(RuntimeError):  # the daemon is stopping: the next one records it
                self.draining.submit(self._run_logged, self.drain)

    def drain(self) -> None:
        """Record what hooks have left while no daemon answered."""
        self.drain_is_due.clear()

        def record(told: HookCall) -> None:
            caller = Caller(folder=preferences.find_folder(told, "/"), environ=os.environ)
            settings = preferences.load_settings(os.environ, caller.folder)
            place = self.recording.place(told, caller)
            self._record(told, place).result()
            self._do_afterwards(told, place, caller, settings)

        def on_failure(exc: Exception) -> None:
            if isinstance(exc, AgentMemoryError | ValueError | OSError):
                log.warning("spool.refused", error=str(exc))
            else:
                log.error("spool.set_aside", exc_info=exc)

        count = self.spooling.drain(record, on_failure, self.closing.is_set)
        if count:
            log.info("spool.drained", count=count)

    def close(self) -> None:
        """What has not begun is left: the spool to the next daemon, captures to the log, in which
        all that was said still is."""
        self.closing.set()
        self.draining.shutdown(cancel_futures=True)
        self.afterwards.shutdown(cancel_futures=True)

    def _run_logged(self, work: Callable[[], object]) -> None:
        try:
            work()
        except AgentMemoryError as exc:
            log.warning("hook.afterwards", error=str(exc))
        except Exception:
            log.exception("hook.afterwards_failed")

    def _record_and_brief(self, question: HookRequest, delivery: Delivery) -> str:
        told = question.call
        folder = preferences.find_folder(told, delivery.folder)
        caller = Caller(folder=folder, environ=delivery.environ)
        chosen = preferences.load_settings(delivery.environ, folder)
        if told.moment is HookKind.SESSION_START:
            for each in preferences.list_ignored(delivery.environ, folder):
                log.warning("hook.settings_ignored", reason=each)
        if not preferences.is_enabled(told.moment, chosen.hooks):
            return ""
        check_session_id(told.session)
        place = self.recording.place(told, caller)
        recorded = self._record(told, place)
        context = self._context(question, place, caller, chosen)
        recorded.result()
        if not _is_answered_at_once(question):
            self._do_afterwards(told, place, caller, chosen)
        return context

    def _record(self, told: HookCall, place: MemoryLocation) -> "Future[list[bool]]":
        try:
            return self.recording.record(told, place)
        except ContentBlocked as exc:
            log.warning("hook.withheld", error=str(exc))
            return self.recording.record(withhold_call(told), place)

    def _context(
        self,
        question: HookRequest,
        place: MemoryLocation,
        caller: Caller,
        settings: config.Settings,
    ) -> str:
        """What the agent is given. It is recorded all the same where nothing can be."""
        told = question.call
        try:
            match told.moment:
                case HookKind.SESSION_START:
                    return self._answer_start(question, place, caller, settings)
                case HookKind.PROMPT:
                    return self._answer_prompt(told, place, settings.hooks.user_prompt)
                case HookKind.TOOL if preferences.is_triggered(told, caller.folder, settings.hooks):
                    return self.briefing.build_for_file(told.session, place, told.use.file)
                case HookKind.COMPACTION if _is_answered_at_once(question):
                    return self._capture(told, place, settings)
                case _:
                    return ""
        except AgentMemoryError as exc:
            log.warning("hook.no_context", error=str(exc))
        except Exception:
            log.exception("hook.no_context")
        return ""

    def _answer_start(
        self,
        question: HookRequest,
        place: MemoryLocation,
        caller: Caller,
        settings: config.Settings,
    ) -> str:
        chosen = settings.hooks.session_start
        if chosen.fetch_remote:
            fetching = self.afterwards.submit(
                self._run_logged, lambda: self._sync(caller, settings, push=False)
            )
            try:
                fetching.result(FETCH_SECONDS)
            except NotYet:
                log.info("hook.fetch_goes_on")
        limit = MAX_TOKENS if question.contract is not Contract.SIMPLE else contexts.MAX_TOKENS
        tokens = min(chosen.context_token_budget, limit)
        if not tokens:
            return ""
        wanted = ContextRequest(
            guidance=chosen.guidance_detail if chosen.include_guidance else "", tokens=tokens
        )
        return self.briefing.build_for_start(question.call.session, place, wanted)

    def _answer_prompt(
        self, told: HookCall, place: MemoryLocation, chosen: config.UserPromptHookSettings
    ) -> str:
        heard = self.reflection.capture_prompt(
            told, place, chosen.signal_patterns, capture=chosen.auto_capture
        )
        related = ""
        if chosen.recall:
            related = self.briefing.build_for_prompt(told.session, place, told.own_text)
        parts = (
            notices.render_captured(heard.captured, "captured from the prompt"),
            notices.render_suggested(heard.suggested),
            related,
        )
        return "\n".join(filter(None, parts))

    def _capture(self, told: HookCall, place: MemoryLocation, settings: config.Settings) -> str:
        """Before its context is lost."""
        kept = [
            *self.reflection.capture_summary(told.text, told.decisions, place),
            *self._reflect(told, place, settings),
        ]
        self.briefing.history.forget(told.session)
        return notices.render_captured(kept, "auto-saved before context compaction")

    def _reflect(
        self, told: HookCall, place: MemoryLocation, settings: config.Settings
    ) -> list[Memory]:
        chosen = settings.hooks
        return self.reflection.capture_session(
            told.session,
            place,
            chosen.pre_compact.confidence_threshold,
            chosen.user_prompt.signal_patterns,
        )

    def _do_afterwards(
        self, told: HookCall, place: MemoryLocation, caller: Caller, settings: config.Settings
    ) -> None:
        """What an agent does not wait for."""
        if told.moment is HookKind.COMPACTION:
            self.afterwards.submit(self._run_logged, lambda: self._capture(told, place, settings))
        elif told.moment is HookKind.SESSION_END or (
            told.moment is HookKind.STOP and told.about.get("agent") == Agent.CURSOR
        ):  # which does not tell when a session ends
            self.afterwards.submit(
                self._run_logged, lambda: self._end(told, place, caller, settings)
            )

    def _end(
        self, told: HookCall, place: MemoryLocation, caller: Caller, settings: config.Settings
    ) -> None:
        """One after the other: what is captured now is to be pushed now."""
        if settings.hooks.stop.session_analysis:
            self._reflect(told, place, settings)
        if settings.hooks.stop.push_remote:
            self._sync(caller, settings, push=True)

    def _sync(self, caller: Caller, settings: config.Settings, *, push: bool) -> None:
        # Nobody sits before a hook who could be asked for a password.
        environ = {name: each for name, each in caller.environ.items() if name not in ASKING}
        outcomes = self.sharing.sync_domains(
            PROJECT,
            sync.SyncOptions(fetch=True, push=push),
            Caller(folder=caller.folder, environ={**environ, "SSH_ASKPASS_REQUIRE": "never"}),
            settings.memories.remote,
            lambda _phase, _done, _of: None,
        )
        for each in outcomes:
            if each.failure is not None:
                raise each.failure
        log.info("hook.synced", push=push)


def _is_answered_at_once(question: HookRequest) -> bool:
    """Whether the answer tells what was captured."""
    return question.contract is Contract.SIMPLE and question.call.moment is HookKind.COMPACTION
