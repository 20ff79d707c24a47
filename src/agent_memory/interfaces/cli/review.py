"""`memory review`: accept, reword or discard what was noted automatically, memories and lessons."""

from collections.abc import Iterator, Sequence
from typing import Literal

import click
import msgspec

from agent_memory.features.forgetting.operations import (
    WORDS_CHARS,
    InboxAnswer,
    InboxDecision,
    InboxDecisions,
    ReviewAnswer,
    decide,
)
from agent_memory.features.forgetting.services import review as reviewing
from agent_memory.features.forgetting.services.review import (
    PendingLesson,
    PendingMemory,
    ReviewInbox,
)
from agent_memory.features.lessons.operations import LessonAnswer
from agent_memory.features.lessons.services import verdicts
from agent_memory.features.log.model.events import Event
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.agent_shells import check_person, find_agent
from agent_memory.interfaces.cli.capture import (
    DOMAIN_HELP,
    format_memories,
    resolve_domains,
    resolve_location,
)
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.errors import InvalidInput, NotFound

QUESTION = "[a]ccept  [e]dit  [d]iscard  [s]kip  [b]ack  [q]uit: "
_KEYS = {word[0]: word for word in ("accept", "edit", "discard", "skip", "back", "quit")}
LISTED_CHARS = 300  # of the words of a lesson in a list
_ACCEPT = "accept what was noted automatically"
_YES = ("\r", "\n", "y")
_END_OF_INPUT = "\x04"  # Ctrl-D, as a key

Pending = PendingMemory | PendingLesson


@click.command(
    cls=Command,
    examples=(
        "memory review",
        "memory review --domain project",
        "memory review --accept decisions:abc123def456:0 learnings:98e3d5759073:0",
        "memory review --discard abc123",
        "memory review --format json | jq '.memories[].summary'",
    ),
)
@click.argument("memory_ids", nargs=-1)
@click.option("--accept", is_flag=True, help="Accept these memories without asking.")
@click.option("--discard", is_flag=True, help="Discard these memories without asking.")
@click.option("--accept-all", is_flag=True, help="Accept all of the domain without asking.")
@click.option("--domain", default="all", show_default=True, help=f"all, {DOMAIN_HELP}")
@invocation
def review(
    run: Invocation,
    memory_ids: tuple[str, ...],
    accept: bool,
    discard: bool,
    accept_all: bool,
    domain: str,
) -> int:
    """Go through the memories and rules that were noted automatically.

    What hooks capture from your sessions waits here. It is found by recall with a mark, and is
    shared with nobody, until you accept it. Discarded memories are forgotten and not noted again.
    Rules from your words come last. They hold already; discarded ones are rejected for good. So are
    lessons that an agent has rejected for you: accept one, and it holds again.

    On a terminal, each is shown with the words that it comes from, and one key decides: a accepts
    it, e accepts it with a summary that you type, d discards it, s skips it, b goes back to the one
    before. At the end, or with q, your decisions are carried out; Ctrl-C drops them. In a pipe, the
    memories are listed.

    Only you can accept: the command refuses to in the shell of an agent, or without a terminal.
    """
    if accept + discard + accept_all > 1:
        raise click.UsageError("give one of --accept, --discard and --accept-all")
    if accept_all and memory_ids:
        raise click.UsageError("--accept-all takes no ids")
    if (accept or discard) and not memory_ids:
        raise click.UsageError("give the ids of the memories: `memory review` lists them")
    inbox, here = run.services[ReviewInbox], resolve_location(run)
    if memory_ids:
        # Fail before changing any.
        found: list[Pending] = [_find(inbox, name, here) for name in memory_ids]
        total = len(found)
    else:
        domains = resolve_domains(run, domain)
        memories, waiting = inbox.list_newest(domains)
        lessons = inbox.list_lessons(domains)
        found = [*memories, *lessons]
        total = waiting + len(lessons)
    if accept or accept_all:
        _check_user(run)
    if discard:
        check_person(run, "discard what was noted automatically")
    if accept or discard or accept_all:
        decisions = [_decide(each, is_accepted=not discard) for each in found]
        if total > len(found):
            run.terminal.warn(f"note: {total - len(found):,} more to review: run it again\n")
        return _carry_out(run, decisions)
    if run.chosen_format != "text" or not _is_person(run) or not found:
        _show_list(run, found, total)
        return 0
    decisions = _Review(run, found, total).ask_all()
    if not decisions:
        run.terminal.write(f"Nothing changed; {_count(found, total)} to review.\n")
        return 0
    return _carry_out(run, decisions)


def _find(inbox: ReviewInbox, name: str, here: MemoryLocation) -> Pending:
    """Return the memory of this name, or else the lesson."""
    try:
        return inbox.find(name, here)
    except (NotFound, InvalidInput) as problem:
        try:
            return inbox.find_lesson(name)
        except NotFound:
            raise problem from None


def _count(found: Sequence[Pending], total: int) -> str:
    lessons = any(isinstance(each, PendingLesson) for each in found)
    return rendering.count(
        total, "record" if lessons else "memory", "records" if lessons else "memories"
    )


def _check_user(run: Invocation) -> None:
    """Raise InvalidInput for a caller that may be an agent: it must not accept its own notes."""
    check_person(run, _ACCEPT)
    if not run.terminal.call.input_is_terminal:
        raise InvalidInput(
            f"only you can {_ACCEPT}, and standard input is not a terminal: run `memory review` in"
            " a terminal"
        )


def _is_person(run: Invocation) -> bool:
    call = run.terminal.call
    terminal = call.input_is_terminal and call.output_is_terminal and call.errors_are_terminal
    return terminal and not find_agent(call.environ)


def _decide(pending: Pending, *, is_accepted: bool, summary: str = "") -> InboxDecision:
    decision: Literal["accept", "discard"] = "accept" if is_accepted else "discard"
    name = pending.uri if isinstance(pending, PendingLesson) else pending.memory.urn
    return InboxDecision(id=name, decision=decision, summary=summary)


class _Review:
    """One pass over what awaits review. Nothing changes before its end."""

    def __init__(self, run: Invocation, pending: Sequence[Pending], total: int) -> None:
        self._run = run
        self._terminal = run.terminal
        self._pending = pending
        self._total = total
        self._decisions: dict[int, InboxDecision] = {}

    def ask_all(self) -> list[InboxDecision]:
        """Ask about each. Return the decisions at the end, or when the user quits."""
        number = 0
        while number < len(self._pending):
            pending = self._pending[number]
            with self._run.set_screen():
                text = rendering.arrange("\n".join(self._describe(number)))
            self._terminal.write(f"\n{text}\n")
            key = self._ask_key()
            if key == "q":
                break
            if key == "b":
                number = max(0, number - 1)
                continue
            summary = self._ask_summary(pending) if key == "e" else ""
            if key == "e" and not summary:
                continue
            self._decisions.pop(number, None)
            if key != "s":
                self._decisions[number] = _decide(pending, is_accepted=key != "d", summary=summary)
            number += 1
            if number == len(self._pending) and not self._confirm():
                number -= 1
        return [self._decisions[number] for number in sorted(self._decisions)]

    def _confirm(self) -> bool:
        """Ask before the decisions are carried out, so that the last one can be changed too."""
        accepted = sum(each.decision == "accept" for each in self._decisions.values())
        discarded = len(self._decisions) - accepted
        if not self._decisions:
            return True
        question = f"Accept {accepted:,}, discard {discarded:,}? [Enter] yes  [b]ack: "
        while True:
            key = self._terminal.ask_key(question).lower()
            if key in _YES:
                self._terminal.write("yes\n")
                return True
            if key == "b":
                self._terminal.write("back\n")
                return False
            question = ""

    def _ask_key(self) -> str:
        """Return one of the keys of QUESTION; others do nothing."""
        question = QUESTION
        while True:
            key = self._terminal.ask_key(question).lower()
            word = _KEYS.get("q" if key == _END_OF_INPUT else key)
            if word is not None:
                self._terminal.write(f"{word}\n")
                return word[0]
            question = ""

    def _ask_summary(self, pending: Pending) -> str:
        """Ask for other words until they are valid. Return nothing if the user goes back."""
        is_lesson = isinstance(pending, PendingLesson)
        while True:
            what = "words" if is_lesson else "summary"
            words = self._terminal.ask(f"New {what} (Enter goes back): ").strip()
            try:
                if isinstance(pending, PendingLesson):
                    verdicts.check_text(words)
                elif words:
                    reviewing.reword(pending.memory, words)
                return words
            except InvalidInput as exc:
                self._terminal.warn(f"{exc}\n")

    def _describe(self, number: int) -> Iterator[str]:
        more = f" of {self._total:,}" if self._total > len(self._pending) else ""
        place = f"[{number + 1}/{len(self._pending)}{more}]"
        pending = self._pending[number]
        if isinstance(pending, PendingLesson):
            yield from self._describe_lesson(place, pending)
        else:
            yield from self._describe_memory(place, pending)
        if number in self._decisions:
            decision = self._decisions[number]
            done = "accepted" if decision.decision == "accept" else "discarded"
            new = f": {rendering.plain(decision.summary)}" if decision.summary else ""
            yield f"  Your decision so far: {done}{new}"

    def _describe_memory(self, place: str, pending: PendingMemory) -> Iterator[str]:
        memory = pending.memory
        when = rendering.format_with_age(memory.created_ms)
        yield f"{place} {memory.namespace} | {memory.domain} | {when}"
        yield self._style(rendering.plain(memory.summary))
        if memory.content not in ("", memory.summary):
            yield f"  Details: {rendering.excerpt(memory.content, WORDS_CHARS)}"
        yield from (f"  {line}" for line in _describe_source(pending))

    def _describe_lesson(self, place: str, pending: PendingLesson) -> Iterator[str]:
        lesson = pending.known.lesson
        when = rendering.format_with_age(lesson.at_ms)
        yield rendering.plain(f"{place} {lesson.kind} | {lesson.project} | {when}")
        yield self._style(rendering.plain(pending.known.text))
        yield f"  Session: {rendering.plain(lesson.session_id)}"
        if pending.event is not None:
            yield f"  {_quote(pending.event)}"
        if pending.known.is_rejected:
            told = verdicts.tell_rejection(pending.known)
            yield f"  It was {told}: discard it to confirm, accept it to keep it"

    def _style(self, text: str) -> str:
        return click.style(text, bold=True) if self._terminal.color else text


def _describe_source(pending: PendingMemory) -> Iterator[str]:
    memory, event = pending.memory, pending.event
    if memory.session_id:
        yield f"Session: {rendering.plain(memory.session_id)}"
    if event is not None:
        yield _quote(event)
    if pending.home is None:
        yield "If you accept: it stays on this machine, because its repository is gone"
    else:
        home = rendering.plain(pending.home)
        yield f"If you accept: a git note in {home}, which `memory sync` shares"


def _show_list(run: Invocation, found: Sequence[Pending], total: int) -> None:
    memories = [each for each in found if isinstance(each, PendingMemory)]
    lessons = [each for each in found if isinstance(each, PendingLesson)]
    answer = InboxAnswer.from_pending(memories, total - len(lessons), lessons)
    run.show(
        msgspec.to_builtins(answer),
        lambda: "\n".join(_list_lines(run, found, total)),
        essential="\n".join(
            [each.id for each in answer.memories] + [e.uri for e in answer.lessons]
        ),
        page=True,
    )


def _list_lines(run: Invocation, found: Sequence[Pending], total: int) -> Iterator[str]:
    memories = [each.memory for each in found if isinstance(each, PendingMemory)]
    lessons = [each for each in found if isinstance(each, PendingLesson)]
    if memories:
        yield format_memories(run, memories, lambda _: True)
    if lessons:
        yield "\nLessons:" if memories else "Lessons:"
    for each in lessons:
        yield from _list_lesson(each)
    if not found:
        yield "Nothing to review."
    if total > len(found):
        yield f"... and {total - len(found):,} more"


def _list_lesson(pending: PendingLesson) -> Iterator[str]:
    lesson, told = pending.known.lesson, verdicts.tell_rejection(pending.known)
    state = f" ({told})" if told else ""
    yield f"  - {rendering.plain(pending.known.text)}{state}"
    day = rendering.format_day(lesson.at_ms)
    yield rendering.plain(f"    {lesson.kind}  {lesson.project}  {day}  {pending.uri}")
    if pending.event is not None and pending.event.text.strip() != pending.known.text:
        yield f"    {_quote(pending.event, LISTED_CHARS)}"


def _quote(event: Event, chars: int = WORDS_CHARS) -> str:
    who = event.role.name.lower()
    return f"Said ({who}): {rendering.excerpt(event.text, chars)}"


def _carry_out(run: Invocation, decisions: list[InboxDecision]) -> int:
    with run.terminal.progress("Reviewing", None) as advance:
        result = run.call(
            decide,
            InboxDecisions(decisions=decisions),
            on_progress=lambda _phase, count, _total: advance(count),
        )
    for reason in result.skipped:
        run.terminal.warn(f"warning: {reason}\n")
    for place in result.found_in:
        run.terminal.warn(f"warning: something of a discarded memory is still in {place}\n")
    run.show(
        msgspec.to_builtins(result),
        lambda: "\n".join(_result_lines(result)),
        essential="\n".join(memory.id for memory in result.accepted),
    )
    return 1 if result.skipped or result.found_in else 0


def _result_lines(result: ReviewAnswer) -> Iterator[str]:
    yield from (f"\N{CHECK MARK} Accepted: {memory.id}" for memory in result.accepted)
    yield from (f"\N{CHECK MARK} Discarded: {name}" for name in result.discarded)
    yield from (f"\N{CHECK MARK} {_say(lesson)}" for lesson in result.lessons)
    if not (result.accepted or result.discarded or result.lessons):
        yield "Nothing changed."


def _say(lesson: LessonAnswer) -> str:
    done = "Rejected" if lesson.state == "rejected" else "Accepted"
    return f"{done}: {rendering.plain(lesson.text)}"
