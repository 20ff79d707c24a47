"""Moments: which lessons an agent is given when a session starts, with a prompt, before a tool
runs and after one failed. At the moment, or not at all; each once per session and moment."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, field
from datetime import tzinfo
from enum import StrEnum

from agent_memory.features.index.model.documents import LESSONS, format_uri, parse_uri
from agent_memory.features.index.model.embeddings import Vector
from agent_memory.features.injections.model.injections import NOTHING, Injection
from agent_memory.features.lessons.model import telling
from agent_memory.features.lessons.model.gate import PromptGate, RatedLesson, build_gate
from agent_memory.features.lessons.model.lessons import (
    KnownLesson,
    Lesson,
    LessonId,
    LessonKind,
    Trust,
)
from agent_memory.features.lessons.model.objections import find_objected
from agent_memory.features.lessons.model.outcomes import (
    NO_CALL,
    JudgedCall,
    LessonOutcome,
    judge_command,
    judge_edit,
)
from agent_memory.features.lessons.model.retired import list_retired
from agent_memory.features.lessons.model.tool_gate import ToolGate, build_tool_gate
from agent_memory.features.log.model.metadata import get_main_session
from agent_memory.features.recall.model.repeats import RetiredText
from agent_memory.features.toc.model.segments import estimate_tokens
from agent_memory.kernel.errors import EmbedderFailed

PROMPT_TOKENS = 250
TOOL_TOKENS = 100
MOST_GIVEN = 3
MORE_RULES = "memory lessons list --kind rule"
MOST_RULES, MOST_OPEN = 10, 5
RULES_SHARE = 0.7  # of the tokens of a start: what is open must fit, too
LONGEST_AT_START = 190  # characters of a line
EMBEDDING_SECONDS = 0.3  # after that, words alone: the agent waits
MAX_SESSIONS = 500
MAX_LATEST = 10  # times that something was given, for what a user objects to
MAX_GATES = 50  # of projects

ListLessons = Callable[[str], tuple[KnownLesson, ...]]  # of a project; the same until one changes
NoteOutcome = Callable[[LessonId, LessonOutcome | None], None]  # None: it was given
Embed = Callable[[str], "Future[Vector] | None"]


class Moment(StrEnum):
    START = "start"
    PROMPT = "prompt"
    TOOL = "tool"
    FAILURE = "failure"


@dataclass(slots=True)
class _UnjudgedLesson:
    """A lesson that was given, of which it is not known yet what came of it."""

    known: KnownLesson
    moment: Moment
    call: JudgedCall  # that it was given for
    has_ended: bool = False  # that call


@dataclass(frozen=True, slots=True)
class _Gates:
    """What is derived from the lessons of a project."""

    lessons: tuple[KnownLesson, ...]
    prompts: PromptGate
    tools: ToolGate
    retired: tuple[RetiredText, ...]


class GivenLessons:
    """Which lessons each session was given, at which moment, and of which it is not known yet
    what came of them."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, set[tuple[Moment, LessonId]]] = OrderedDict()
        self._unjudged: dict[str, dict[LessonId, _UnjudgedLesson]] = {}
        self._latest: dict[str, list[list[KnownLesson]]] = {}
        self._lock = threading.Lock()

    def list_new(
        self, session: str, moment: Moment, rated: Iterable[RatedLesson], call: str = ""
    ) -> list[RatedLesson]:
        """Return those that the session was not given at such a moment, nor for this call."""
        with self._lock:
            known = self._sessions.get(session, set())
            unjudged = self._unjudged.get(session, {})
            for_call = {
                name for name, given in unjudged.items() if call and given.call.name == call
            }
            return [
                each
                for each in rated
                if (moment, each.known.lesson.id) not in known
                and each.known.lesson.id not in for_call
            ]

    def add(
        self,
        session: str,
        moment: Moment,
        lessons: Iterable[KnownLesson],
        call: JudgedCall = NO_CALL,
    ) -> None:
        """Note that lessons are given, and for which tool call."""
        given = list(lessons)
        with self._lock:
            known = self._sessions.setdefault(session, set())
            self._sessions.move_to_end(session)
            if given:
                self._latest[session] = [*self._latest.get(session, ())[-MAX_LATEST:], given]
            for each in given:
                known.add((moment, each.lesson.id))
                unjudged = self._unjudged.setdefault(session, {})
                if moment is not Moment.PROMPT or each.lesson.id not in unjudged:
                    unjudged[each.lesson.id] = _UnjudgedLesson(each, moment, call)
            if len(self._sessions) > MAX_SESSIONS:
                oldest, _ = self._sessions.popitem(last=False)
                self._unjudged.pop(oldest, None)
                self._latest.pop(oldest, None)

    def judge(
        self, session: str, call: str, rule: Callable[[Lesson, JudgedCall], LessonOutcome | None]
    ) -> list[tuple[LessonId, LessonOutcome]]:
        """Judge by a call that has ended what came of what the session was given before, each
        once. The call that a lesson was given for had begun already, and says nothing."""
        with self._lock:
            judged: list[tuple[LessonId, LessonOutcome]] = []
            unjudged = self._unjudged.get(session, {})
            for name, given in unjudged.items():
                if call and given.call.name == call and not given.has_ended:
                    given.has_ended = True
                    continue
                given_for = given.call if given.moment is Moment.TOOL else NO_CALL
                outcome = rule(given.known.lesson, given_for)
                if outcome is not None:
                    judged.append((name, outcome))
            for name, _ in judged:
                del unjudged[name]
            return judged

    def forget(self, session: str) -> None:
        """Forget a session that has lost its context: it may be given all of them again."""
        with self._lock:
            for each in (self._sessions, self._unjudged, self._latest):
                each.pop(session, None)

    def list_latest(self, session: str) -> list[list[KnownLesson]]:
        """List what a session was given of late, each time by itself."""
        with self._lock:
            return list(self._latest.get(session, ()))


@dataclass(frozen=True, slots=True)
class LessonMoments:
    list_lessons: ListLessons
    embed: Embed  # returns None while no model is loaded
    note_outcome: NoteOutcome
    retire: Callable[[LessonId], None]
    zone: tzinfo
    given: GivenLessons = field(default_factory=GivenLessons)
    _gates: "OrderedDict[str, _Gates]" = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def build_for_start(self, session: str, project: str, tokens: int) -> Injection:
        """Return lines with the rules of a project, and what is open or failed without a fix."""
        self.given.forget(session)
        gates = self._get_gates(project)
        active = [known for known in reversed(gates.tools.lessons) if not _is_own(known, session)]
        rules = sorted(  # the newest of those that are as clear
            (each for each in active if _is(each, LessonKind.RULE, Trust.USER)),
            key=lambda each: -each.lesson.weight,
        )
        open_ends = [each for each in active if _is(each, LessonKind.OPEN, Trust.AGENT)]
        lines: list[str] = []
        told: list[KnownLesson] = []
        for some, most, share in ((rules, MOST_RULES, RULES_SHARE), (open_ends, MOST_OPEN, 1.0)):
            left = tokens - estimate_tokens("\n".join(lines))
            more, also = telling.tell_lines(
                some, self.zone, most=most, tokens=int(left * share), longest=LONGEST_AT_START
            )
            lines += more
            told += also
            if some is rules and (hidden := len(rules) - len(told)) and told:
                lines += _tell_hidden(hidden, left - estimate_tokens("\n".join(more)))
        self.given.add(session, Moment.START, told)
        return _build_injection("\n".join(lines), told)

    def count_to_review(self, project: str) -> int:
        """Count the lessons of a project that await review."""
        return sum(each.awaits_review for each in self.list_lessons(project))

    def list_retired(self, project: str) -> tuple[RetiredText, ...]:
        """List what the lessons of a project said that does not hold any more."""
        return self._get_gates(project).retired

    def build_for_prompt(self, session: str, project: str, prompt: str) -> Injection:
        """Return the lessons that help with a prompt."""
        gates = self._get_gates(project)
        if not gates.lessons:
            return NOTHING
        forbidding = gates.tools.rate_request(prompt)
        named = {each.known.lesson.id for each in forbidding}
        helping = gates.prompts.rate(prompt, self._embed(prompt))
        rated = [*forbidding, *(each for each in helping if each.known.lesson.id not in named)]
        return self._give(session, Moment.PROMPT, rated, PROMPT_TOKENS)

    def build_before_command(
        self, session: str, project: str, command: str, call: str = "", folder: str = ""
    ) -> Injection:
        """Return what is known of a command that is about to run."""
        rated = self._get_gates(project).tools.rate_command(command, folder)
        given_for = JudgedCall(call or command, command=command)
        return self._give(session, Moment.TOOL, rated, TOOL_TOKENS, given_for)

    def build_before_edit(
        self,
        session: str,
        project: str,
        files: Sequence[str],
        written: str,
        folder: str,
        call: str = "",
    ) -> Injection:
        """Return what is known of files that are about to be changed, or of what comes into
        them."""
        rated = self._get_gates(project).tools.rate_edit(files, written, folder)
        given_for = JudgedCall(call or written, files=tuple(files))
        return self._give(session, Moment.TOOL, rated, TOOL_TOKENS, given_for)

    def build_before_read(
        self, session: str, project: str, files: Sequence[str], folder: str
    ) -> Injection:
        rated = self._get_gates(project).tools.rate_files(files, folder)
        given_for = JudgedCall(files=tuple(files))
        return self._give(session, Moment.TOOL, rated, TOOL_TOKENS, given_for)

    def build_after_failure(
        self, session: str, project: str, output: str, call: str = ""
    ) -> Injection:
        """Return how the error of a command that failed was mended before."""
        rated = self._get_gates(project).tools.rate_failure(output)
        return self._give(session, Moment.FAILURE, rated, PROMPT_TOKENS, JudgedCall(call))

    def note_command(
        self, session: str, command: str, output: str, call: str = "", *, failed: bool
    ) -> None:
        """Learn from a command that has run what came of what was given before it."""
        ran = JudgedCall(call or command, command=command)
        self._judge(
            session,
            ran,
            lambda lesson, given_for: judge_command(lesson, given_for, ran, output, failed=failed),
        )

    def note_edit(self, session: str, files: Sequence[str], written: str, call: str = "") -> None:
        """Learn from an edit what came of what was given before it."""
        edited = JudgedCall(call or written, files=tuple(files))
        self._judge(
            session,
            edited,
            lambda lesson, given_for: judge_edit(lesson, given_for, edited, written),
        )

    def note_given(self, uris: Iterable[str]) -> None:
        """Count what has reached an agent."""
        for uri in uris:
            area, name = parse_uri(uri)
            if area == LESSONS:
                self.note_outcome(LessonId(name), None)

    def note_prompt(self, session: str, prompt: str) -> None:
        """Retire the lesson that a user objects to ("that's outdated"), until it is reviewed."""
        objected = find_objected(prompt, self.given.list_latest(session))
        if objected is not None:
            self.retire(objected.lesson.id)

    def _judge(
        self,
        session: str,
        call: JudgedCall,
        rule: Callable[[Lesson, JudgedCall], LessonOutcome | None],
    ) -> None:
        for name, outcome in self.given.judge(session, call.name, rule):
            self.note_outcome(name, outcome)

    def _give(
        self,
        session: str,
        moment: Moment,
        rated: Sequence[RatedLesson],
        tokens: int,
        call: JudgedCall = NO_CALL,
    ) -> Injection:
        others = [each for each in rated if not _is_own(each.known, session)]
        new = self.given.list_new(session, moment, others, call.name)
        text, told = telling.tell(
            [each.known for each in new], self.zone, most=MOST_GIVEN, tokens=tokens
        )
        self.given.add(session, moment, told, call)
        return _build_injection(text, told)

    def _embed(self, prompt: str) -> Vector | None:
        embedding = self.embed(prompt)
        try:
            return None if embedding is None else embedding.result(EMBEDDING_SECONDS)
        except (NotYet, EmbedderFailed):
            return None

    def _get_gates(self, project: str) -> _Gates:
        lessons = self.list_lessons(project)
        with self._lock:
            known = self._gates.get(project)
            if known is None or known.lessons is not lessons:
                known = _Gates(
                    lessons,
                    build_gate(lessons),
                    build_tool_gate(lessons),
                    tuple(list_retired(lessons)),
                )
                self._gates[project] = known
                if len(self._gates) > MAX_GATES:
                    self._gates.popitem(last=False)
            return known


def _build_injection(text: str, told: Iterable[KnownLesson]) -> Injection:
    return Injection(text=text, items=tuple(format_uri(LESSONS, each.lesson.id) for each in told))


def _tell_hidden(rules: int, tokens: int) -> list[str]:
    """Return a line that says how many rules are not shown, if it fits."""
    line = f"- {rules} more {'rule' if rules == 1 else 'rules'}: `{MORE_RULES}`"
    return [line] if estimate_tokens(line) < tokens else []


def _is_own(known: KnownLesson, session: str) -> bool:
    """Return whether a session, or one of its agents, said it itself."""
    return get_main_session(known.lesson.session_id) == get_main_session(session)


def _is(known: KnownLesson, kind: LessonKind, least: Trust) -> bool:
    return known.lesson.kind is kind and known.lesson.trust >= least
