"""Answering hooks: record what was told, give what is known, and never fail.

Recording and looking up go on side by side; the answer waits for both. What takes longer than an
agent should wait (captures at the end of a session, the network) is done after the answer.
"""

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePath

import structlog

from agent_memory import config
from agent_memory.domain import contexts, signals
from agent_memory.domain.contexts import Wanted
from agent_memory.domain.errors import AgentMemoryError, ContentBlocked
from agent_memory.domain.events import check_session_id
from agent_memory.domain.hooks import Moment, Told
from agent_memory.domain.memories import PROJECT
from agent_memory.domain.projects import Place
from agent_memory.domain.segments import estimate_tokens
from agent_memory.interfaces.hooks import inputs, outputs, preferences
from agent_memory.interfaces.hooks.inputs import Contract, Delivery, Question
from agent_memory.services import sync
from agent_memory.services.briefing import Briefing
from agent_memory.services.recording import Recording
from agent_memory.services.reflection import Reflection
from agent_memory.services.sharing import Sharing
from agent_memory.services.spooling import Spooling
from agent_memory.services.workplaces import Caller

log = structlog.get_logger()

FETCH_SECONDS = 1.2  # that the start of a session waits for a remote
MAX_SUGGESTIONS = 5
# Of what an agent takes without putting it into a file; the rest is room for what is around it.
MAX_TOKENS = estimate_tokens("x" * (outputs.MAX_CONTEXT_CHARS - 200))


@dataclass(frozen=True, slots=True)
class Hooks:
    recording: Recording
    briefing: Briefing
    reflection: Reflection
    sharing: Sharing
    spooling: Spooling
    version: str
    afterwards: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(2, "after-hook")
    )

    def answer(self, delivery: Delivery) -> tuple[bytes, str]:
        """What the agent is to read, and what went wrong. The answer is valid whatever it was."""
        if delivery.name == inputs.DRAIN:
            self.later(self.drain)
            return outputs.failure(Contract.AGENT, ""), ""
        contract = inputs.contract_of(delivery.data)
        try:
            question = inputs.read(delivery)
            contract = question.contract
            if question.event == inputs.CHECK:
                return outputs.checked(self.version), ""
            return outputs.answer(question, self._taken(question, delivery)), ""
        except AgentMemoryError as exc:
            log.warning("hook.refused", hook=delivery.name, error=str(exc))
            return outputs.failure(contract, str(exc)), str(exc)
        except Exception:
            log.exception("hook.failed", hook=delivery.name)
            reason = "it failed in the daemon; its log says why"
            return outputs.failure(contract, reason), reason

    def drain(self) -> None:
        """Record what hooks have left while no daemon answered."""

        def record(told: Told) -> None:
            caller = Caller(folder=preferences.folder(told, "/"), environ=os.environ)
            settings = preferences.settings(os.environ, caller.folder)
            place = self.recording.place(told, caller)
            self.recording.record(told, place).result()
            self._reflect(told, place, caller, settings)

        def refused(exc: AgentMemoryError) -> None:
            log.warning("spool.refused", error=str(exc))

        count = self.spooling.drain(record, refused)
        if count:
            log.info("spool.drained", count=count)

    def later(self, work: Callable[[], object]) -> "Future[object]":
        def logged() -> object:
            try:
                return work()
            except AgentMemoryError as exc:
                log.warning("hook.afterwards", error=str(exc))
            except Exception:
                log.exception("hook.afterwards_failed")
            return None

        return self.afterwards.submit(logged)

    def close(self) -> None:
        """What has not begun is left; all of it is also done by a later hook or sync."""
        self.afterwards.shutdown(cancel_futures=True)

    def _taken(self, question: Question, delivery: Delivery) -> str:
        told = question.told
        folder = preferences.folder(told, delivery.folder)
        caller = Caller(folder=folder, environ=delivery.environ)
        chosen = preferences.settings(delivery.environ, folder)
        if not preferences.wanted(told.moment, chosen.hooks):
            return ""
        check_session_id(told.session)
        place = self.recording.place(told, caller)
        recorded = self._record(told, place)
        at_once = question.contract is Contract.SIMPLE and told.moment is Moment.COMPACTION
        try:
            if at_once:  # the answer tells what was captured
                return self._captured(told, place, chosen)
            return self._context(question, place, caller, chosen)
        finally:
            recorded.result()
            if not at_once:
                self._reflect(told, place, caller, chosen)

    def _record(self, told: Told, place: Place) -> "Future[list[bool]]":
        try:
            return self.recording.record(told, place)
        except ContentBlocked as exc:  # by the user's own setting: the answer is due all the same
            log.warning("hook.not_recorded", error=str(exc))
            refused: Future[list[bool]] = Future()
            refused.set_result([])
            return refused

    def _context(
        self, question: Question, place: Place, caller: Caller, settings: config.Settings
    ) -> str:
        told = question.told
        match told.moment:
            case Moment.SESSION_START:
                return self._start(question, place, caller, settings)
            case Moment.PROMPT:
                return self._prompted(told, place, settings.hooks.user_prompt)
            case Moment.TOOL if _triggers(told, caller, settings.hooks.post_tool_use):
                return self.briefing.about_file(told.session, place, told.use.file)
            case _:
                return ""

    def _start(
        self, question: Question, place: Place, caller: Caller, settings: config.Settings
    ) -> str:
        chosen = settings.hooks.session_start
        if chosen.fetch_remote:
            fetching = self.later(lambda: self._sync(caller, settings, fetch=True))
            try:
                fetching.result(FETCH_SECONDS)
            except NotYet:
                log.info("hook.fetch_goes_on")
        limit = MAX_TOKENS if question.contract is not Contract.SIMPLE else contexts.MAX_TOKENS
        tokens = min(chosen.context_token_budget, limit)
        if not tokens:
            return ""
        wanted = Wanted(
            guidance=chosen.guidance_detail if chosen.include_guidance else "", tokens=tokens
        )
        return self.briefing.start(question.told.session, place, wanted)

    def _prompted(self, told: Told, place: Place, chosen: config.UserPromptHook) -> str:
        prompt = told.said
        found = [
            each
            for each in signals.detect(prompt, chosen.signal_patterns)
            if each.confidence >= signals.SUGGESTED
        ][:MAX_SUGGESTIONS]
        captured = []
        if chosen.auto_capture:
            certain = [each for each in found if each.confidence >= signals.CERTAIN]
            found = [each for each in found if each not in certain]
            kept = [
                self.reflection.keep(each, place, told.prompt_event, told.session)
                for each in certain
            ]
            captured = [each for each in kept if each is not None]
        parts = [
            contexts.captured(captured, "captured from the prompt"),
            contexts.suggested(found),
            self.briefing.about_prompt(told.session, place, prompt) if chosen.recall else "",
        ]
        return "\n".join(filter(None, parts))

    def _captured(self, told: Told, place: Place, settings: config.Settings) -> str:
        kept = [
            *self.reflection.told(told.text, told.decisions, place),
            *self.reflection.session(
                told.session, place, settings.hooks.pre_compact.confidence_threshold
            ),
        ]
        self.briefing.given.forget(told.session)
        return contexts.captured(kept, "auto-saved before context compaction")

    def _reflect(self, told: Told, place: Place, caller: Caller, settings: config.Settings) -> None:
        """What is done once the agent has its answer."""
        if told.moment is Moment.COMPACTION:
            self.later(lambda: self._captured(told, place, settings))
        elif told.moment is Moment.SESSION_END:
            self.later(lambda: self._ended(told, place, caller, settings))

    def _ended(self, told: Told, place: Place, caller: Caller, settings: config.Settings) -> None:
        """One after the other: what is captured now is to be pushed now."""
        chosen = settings.hooks
        if chosen.stop.session_analysis:
            self.reflection.session(told.session, place, chosen.pre_compact.confidence_threshold)
        if chosen.stop.push_remote:
            self._sync(caller, settings, fetch=True, push=True)

    def _sync(
        self, caller: Caller, settings: config.Settings, *, fetch: bool, push: bool = False
    ) -> None:
        # Nobody sits before a hook who could be asked for a password.
        environ = {name: value for name, value in caller.environ.items() if name != "SSH_ASKPASS"}
        quiet = Caller(folder=caller.folder, environ={**environ, "SSH_ASKPASS_REQUIRE": "never"})
        outcomes = self.sharing.share(
            PROJECT,
            sync.Wanted(fetch=fetch, push=push),
            quiet,
            settings.memories.remote,
            lambda _phase, _done: None,
        )
        for each in outcomes:
            if each.failure is not None:
                raise each.failure


def _triggers(told: Told, caller: Caller, chosen: config.PostToolUseHook) -> bool:
    """Whether memories about the file are wanted."""
    if told.use.names.isdisjoint(chosen.trigger_tools) or not told.use.file:
        return False
    path = PurePath(told.use.file)
    with contextlib.suppress(ValueError):
        path = path.relative_to(caller.folder)
    names = {str(path), path.name, *("/".join(path.parts[n:]) for n in range(len(path.parts)))}
    return not any(
        fnmatchcase(name, pattern) for name in names for pattern in chosen.exclude_patterns
    )
