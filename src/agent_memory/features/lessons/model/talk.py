"""The talk of a session as lessons read it: what was said, sentence by sentence, and what was run.

What nobody said here is left out: injected context, summaries, titles, quoted and pasted text.
In the session of a subagent another agent writes the prompts, so nobody there is the user.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from agent_memory.features.lessons.model.lessons import Trust
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.metadata import RECALLED, get_main_session, is_description
from agent_memory.features.toc.model.act_cues import MENTIONS, Act
from agent_memory.kernel.text import prose
from agent_memory.kernel.text.sentences import mask_quotations

MAX_TURNS = 4_000
_MAX_SAID = 12_000  # characters of an answer: its start and its end
_MAX_TYPED = 3_000  # characters of a prompt; of a longer one, which was pasted, the first ones
_HEAD = 800
_MAX_DICTATED, _TYPED_LINE = 6_000, 250  # characters of a prompt without short lines, and of a line
_MAX_SENTENCES = 120  # of a turn
_MAX_SENTENCE = 1_200
_WORD = re.compile(r"\w")
_ASKS = re.compile(
    r"(?:(?:ok(?:ay)?|so|and|but|also|hey|hi|hm+|then|now)[,.! ]+)*"
    r"(?!do (?:it|that)\b)(?:(?:can|could|would|will|do|does|did|is|are|was|were|has|have|shall"
    r"|should|may|isn't"
    r"|aren't"
    r"|don't|doesn't|won't) (?:you|u|we|i|it|they|he|she|this|that|there|the|our|my)\b"
    r"|(?:what|why|how|which|who|whose|where|when)(?:'s|s)? (?!ever))",
    re.IGNORECASE,
)
_REDACTED = "[REDACTED"
_ROLES = re.compile(  # a transcript, or what wants to pass for one
    r"\b(?:SYSTEM|ASSISTANT|DEVELOPER|HUMAN) ?:(?=\s|$)|^\W*(?:system|assistant|developer|human) ?:"
    rf"|(?:<|&lt;)/?(?:{'|'.join(prose.OWN_MARKERS)})\b",
    re.MULTILINE | re.IGNORECASE,
)
_OTHERS = re.compile(  # what introduces the words of somebody else
    r"(?<!\bcommit )(?<!\bone )(?<!\bmy )\b(?:e?-?mail|message|page|readme|comments?|sentence"
    r"|paragraph|text|article|post|letter|transcript|quote|spec|docs|documentation)"
    r"(?: (?:from|of|by|to|in|into|for|on|at|above|below|that|which|i got)\b[^.!?:\n]{0,60})?"
    r":(?=\s|$)"
    r"|(?<!\bi )(?<!\bwe )(?<!\byou )\b(?:says|said|wrote|writes|reads|states?|stated|claims?"
    r"|recommends?|suggests?|suggested|replied|answered|commented|posted|told (?:me|us))"
    r"(?: [^.!?:\n]{0,40})?:(?=\s|$)"
    r"|\b(?:add|put|insert|paste|append) [^.!?:\n]{0,60}\b(?:to|in|into|on|under)"
    r" (?!your\b|(?:(?:the|our|my) )?(?:rules|memory|conventions))[^.!?:\n]{1,40}:(?=\s|$)"
    r"|\b(?:customer|client|colleague|boss|manager|reviewer|vendor|user story|ticket)s?"
    r"(?: [^.!?:\n]{0,40})?:(?=\s|$)"
    r"|\b(?:summari[sz]e|translate|proof-?read|rephrase|rewrite|shorten|explain|review)\b"
    r"[^.!?:\n]{0,40}:(?=\s|$)"
    r"|\baccording to [^.!?:\n]{1,40}:(?=\s|$)"
    r"|[:.!?] > |^(?:From|To|Subject): |^-{3,} ?(?:Original|Forwarded) [Mm]essage",
    re.MULTILINE | re.IGNORECASE,
)
_OWN = re.compile(r"\b(?:you|please|pls|we|our|us|i|i'd|my)\b")  # of a long prompt
_CODE = re.compile(r"[{};=<>|\\]|\w\(|\)\.")
_READERS = frozenset({"Read", "read", "read_file", "readFile", "Grep", "Glob", "LS", "view_file"})
_SHELLS = re.compile(
    r"(?:local_)?(?:bash|shell|run_shell_command|exec(?:_command)?|shell_command)", re.I
)


@dataclass(slots=True, eq=False)
class Sentence:
    """A sentence on one line. `view` is in lower case, with quotations and code masked."""

    text: str
    view: str
    is_quoted: bool = False  # the words of somebody else, which rule nothing

    def has(self, act: Act) -> bool:
        cue = MENTIONS[act]
        return cue.is_in(self.view, self.view)

    @property
    def asks(self) -> bool:
        return self.view.rstrip(" )*_\"'").endswith("?") or bool(_ASKS.match(self.view))

    @property
    def size(self) -> int:
        return self.view.count(" ") + 1


@dataclass(eq=False)
class Turn:
    """What a person or an agent said at once."""

    event: Event
    place: int  # among all turns and runs
    trust: Trust
    sentences: list[Sentence]
    has_code: bool = False

    @property
    def is_user(self) -> bool:
        return self.trust is Trust.USER

    @cached_property
    def text(self) -> str:
        return " ".join(each.text for each in self.sentences)

    @cached_property
    def view(self) -> str:
        return " ".join(each.view for each in self.sentences)

    @property
    def size(self) -> int:
        return sum(each.size for each in self.sentences)

    def has(self, act: Act) -> bool:
        return any(each.has(act) for each in self.sentences)

    @property
    def asks(self) -> bool:
        """Whether it ends with a question."""
        return bool(self.sentences) and self.sentences[-1].asks


@dataclass(slots=True, eq=False)
class ToolRun:
    """A tool that was used."""

    event: Event
    place: int
    tool: str
    command: str  # of a shell, else nothing
    output: str
    failed: bool
    file: str = ""

    @property
    def changes(self) -> bool:
        """Whether it wrote its file."""
        return bool(self.file) and self.tool not in _READERS


@dataclass(slots=True, eq=False)
class Talk:
    turns: list[Turn]
    runs: list[ToolRun]
    is_inner: bool = False  # of a subagent

    def find_turn(self, place: int, step: int) -> Turn | None:
        """Return the turn before or after a place."""
        near = [t for t in self.turns if (t.place - place) * step > 0]
        return min(near, key=lambda turn: abs(turn.place - place), default=None)


def read_talk(events: Sequence[Event]) -> Talk:
    """Read the events of a session in their order."""
    talk = Talk(
        [], [], bool(events) and get_main_session(events[0].session_id) != events[0].session_id
    )
    for place, event in enumerate(events[-MAX_TURNS:]):
        about = event.metadata
        if is_description(event) or about.get(RECALLED):
            continue
        if event.type is EventType.TOOL_RESULT:
            talk.runs.append(_read_run(event, place))
        elif event.type is EventType.USER_MESSAGE and event.role is EventRole.USER:
            _add_turn(talk, event, place, Trust.AGENT if talk.is_inner else Trust.USER)
        elif event.type is EventType.ASSISTANT_MESSAGE and event.role is EventRole.ASSISTANT:
            _add_turn(talk, event, place, Trust.AGENT)
    return talk


def _read_run(event: Event, place: int) -> ToolRun:
    about = event.metadata
    tool = about.get("tool_name", "")
    head, _, output = event.text.partition("\n")
    is_shell = bool(_SHELLS.fullmatch(tool))
    command = head.partition(": ")[2] if is_shell else ""
    return ToolRun(
        event=event,
        place=place,
        tool=tool,
        command=command,
        output=output,
        failed=about.get("error") == "true" or about.get("outcome") == "failed",
        file=about.get("file_path", ""),
    )


def _add_turn(talk: Talk, event: Event, place: int, trust: Trust) -> None:
    text = event.text
    if trust is Trust.USER:
        if text.startswith(("! ", "<")):
            text = prose.clean_text(text) if text.startswith("<") else ""
    elif len(text) > _MAX_SAID:
        text = f"{text[: _MAX_SAID // 2]}\n\n{text[-_MAX_SAID // 2 :]}"
    sentences = _read_prompt(text) if trust is Trust.USER else split_sentences(text)
    if sentences:
        talk.turns.append(Turn(event, place, trust, sentences, "```" in text))


def _read_prompt(text: str) -> list[Sentence]:
    """Return the sentences of a prompt. What a user quotes may be an imperative, but it is none of
    theirs; and what passes for a system or an assistant says nothing."""
    rest = ""
    if len(text) > _MAX_TYPED:
        is_typed = len(text) <= _MAX_DICTATED and text.count("\n") * _TYPED_LINE < len(text)
        text, rest = text[:_HEAD], text[_HEAD:].partition(". ")[2] if is_typed else ""
    if _ROLES.search(prose.clean_text(text + rest)):
        return []
    others = _OTHERS.search(text)
    if others is not None:
        own = split_sentences(text[: others.end()])
        quoted = (replace(each, is_quoted=True) for each in split_sentences(text[others.end() :]))
        return [*own, *quoted][:_MAX_SENTENCES]
    more = split_sentences(_OTHERS.split(rest, maxsplit=1)[0])
    return [*split_sentences(text), *(each for each in more if _OWN.search(each.view))]


def split_sentences(text: str) -> list[Sentence]:
    """Return the sentences of prose in a text."""
    found: list[Sentence] = []
    for block in prose.split_blocks(prose.clean_text(text)):
        for line in block:
            view = mask_quotations(line)
            for start, end in prose.split_sentences(view):
                said = " ".join(prose.strip_markdown(line[start:end]).split())[:_MAX_SENTENCE]
                if line[end - 1] == ";":  # another clause follows
                    said += ";"
                if _WORD.search(said) and not _is_code(said) and _REDACTED not in said:
                    found.append(Sentence(said, mask_quotations(said).lower()))
        if len(found) >= _MAX_SENTENCES:
            break
    return found[:_MAX_SENTENCES]


def _is_code(text: str) -> bool:
    return len(_CODE.findall(text)) * 12 > len(text)
