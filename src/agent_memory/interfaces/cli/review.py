"""`memory review`: accept, reword or discard the memories that were noted automatically."""

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
from agent_memory.features.forgetting.services.review import PendingMemory, ReviewInbox
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.agent_shells import check_person, find_agent
from agent_memory.interfaces.cli.capture import (
    DOMAIN_HELP,
    format_memories,
    resolve_domains,
    resolve_location,
)
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.errors import InvalidInput

QUESTION = "[a]ccept  [e]dit  [d]iscard  [s]kip  [b]ack  [q]uit: "
_KEYS = {word[0]: word for word in ("accept", "edit", "discard", "skip", "back", "quit")}
_ACCEPT = "accept what was noted automatically"
_YES = ("\r", "\n", "y")
_END_OF_INPUT = "\x04"  # Ctrl-D, as a key


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
    """Go through the memories that were noted automatically.

    What hooks capture from your sessions waits here. It is found by recall with a mark, and is
    shared with nobody, until you accept it. Discarded memories are forgotten and not noted again.

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
        found = [inbox.find(name, here) for name in memory_ids]  # fail before changing any
        total = len(found)
    else:
        found, total = inbox.list_newest(resolve_domains(run, domain))
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
        run.terminal.write(
            f"Nothing changed; {rendering.count(total, 'memory', 'memories')} to review.\n"
        )
        return 0
    return _carry_out(run, decisions)


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


def _decide(pending: PendingMemory, *, is_accepted: bool, summary: str = "") -> InboxDecision:
    decision: Literal["accept", "discard"] = "accept" if is_accepted else "discard"
    return InboxDecision(id=pending.memory.urn, decision=decision, summary=summary)


class _Review:
    """One pass over the memories. Nothing changes before its end."""

    def __init__(self, run: Invocation, pending: Sequence[PendingMemory], total: int) -> None:
        self._run = run
        self._terminal = run.terminal
        self._pending = pending
        self._total = total
        self._decisions: dict[int, InboxDecision] = {}

    def ask_all(self) -> list[InboxDecision]:
        """Ask about each memory. Return the decisions at the end, or when the user quits."""
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

    def _ask_summary(self, pending: PendingMemory) -> str:
        """Ask for other words until they are valid. Return nothing if the user goes back."""
        while True:
            words = self._terminal.ask("New summary (Enter goes back): ").strip()
            try:
                if words:
                    reviewing.reword(pending.memory, words)
                return words
            except InvalidInput as exc:
                self._terminal.warn(f"{exc}\n")

    def _describe(self, number: int) -> Iterator[str]:
        more = f" of {self._total:,}" if self._total > len(self._pending) else ""
        place = f"[{number + 1}/{len(self._pending)}{more}]"
        pending = self._pending[number]
        memory = pending.memory
        when = rendering.format_with_age(memory.created_ms)
        yield f"{place} {memory.namespace} | {memory.domain} | {when}"
        yield self._style(rendering.plain(memory.summary))
        if memory.content not in ("", memory.summary):
            yield f"  Details: {rendering.excerpt(memory.content, WORDS_CHARS)}"
        yield from (f"  {line}" for line in _describe_source(pending))
        if number in self._decisions:
            decision = self._decisions[number]
            done = "accepted" if decision.decision == "accept" else "discarded"
            new = f": {rendering.plain(decision.summary)}" if decision.summary else ""
            yield f"  Your decision so far: {done}{new}"

    def _style(self, text: str) -> str:
        return click.style(text, bold=True) if self._terminal.color else text


def _describe_source(pending: PendingMemory) -> Iterator[str]:
    memory, event = pending.memory, pending.event
    if memory.session_id:
        yield f"Session: {rendering.plain(memory.session_id)}"
    if event is not None:
        who = event.role.name.lower()
        yield f"Said ({who}): {rendering.excerpt(event.text, WORDS_CHARS)}"
    if pending.home is None:
        yield "If you accept: it stays on this machine, because its repository is gone"
    else:
        home = rendering.plain(pending.home)
        yield f"If you accept: a git note in {home}, which `memory sync` shares"


def _show_list(run: Invocation, found: Sequence[PendingMemory], total: int) -> None:
    run.show(
        msgspec.to_builtins(InboxAnswer.from_pending(found, total)),
        lambda: "\n".join(_list_lines(run, found, total)),
        essential="\n".join(each.memory.id for each in found),
        page=True,
    )


def _list_lines(run: Invocation, found: Sequence[PendingMemory], total: int) -> Iterator[str]:
    if found:
        yield format_memories(run, [each.memory for each in found], lambda _: True)
    else:
        yield "Nothing to review."
    if total > len(found):
        yield f"... and {total - len(found):,} more"


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
    if not result.accepted and not result.discarded:
        yield "Nothing changed."
