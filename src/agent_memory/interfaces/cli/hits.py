"""Search hits as text and markdown: the passage that answers, and a line about it."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from rich.console import Console
from rich.text import Text

from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.index.model.queries import TEAM, Passage
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.recall.search_operations import HitAnswer
from agent_memory.features.toc.model import short_ids
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.rich_console import build_console
from agent_memory.interfaces.cli.terminal import Terminal
from agent_memory.kernel.ids import Millis

INDENT = "    "
LEAD_CHARS = 120  # of the call of a tool
TITLE_CHARS = 300
_MORE = "..."
_SPACE = re.compile(r"\s+")
_MARKUP = re.compile(r"[\\`*_\[\]<>#|~&]|^[-+](?=\s)|(?<=^\d)[.)]")


def format_hits(
    hits: Sequence[HitAnswer], detail: str, terminal: Terminal, team: str
) -> Iterator[str]:
    """Yield the lines of hits, with an empty line before each. `team` is what the user calls the
    team's server."""
    console = build_console(terminal)
    for number, hit in enumerate(hits, 1):
        yield ""
        yield from _format_hit(number, hit, detail, terminal, console, team)


def _format_hit(
    number: int, hit: HitAnswer, detail: str, terminal: Terminal, console: Console, team: str
) -> Iterator[str]:
    label = hit.id
    if rendering.is_on_screen():
        label = short_ids.abbreviate(label)
    if hit.kind not in (DocumentKind.MEMORY, DocumentKind.GRIP, DocumentKind.SEGMENT):
        label = f"{hit.kind} {label}"
    score = f" ({hit.score:.2f} similarity)" if hit.score_parts else ""
    mark = f" {rendering.TO_REVIEW}" if hit.status == MemoryStatus.PENDING else ""
    name = rendering.paint(rendering.plain(label), rendering.ID)
    yield f"[{number}] {name}{rendering.paint(mark, rendering.CAREFUL)}{score}"
    for text in islice(_list_excerpts(hit), 1 if detail == "minimal" else None):
        yield from _wrap(text, terminal, console)
    if detail == "minimal":
        return
    yield f"{INDENT}{' | '.join(map(rendering.join_words, _about(hit, team)))}"
    brief = rendering.is_on_screen() and detail != "full"
    for name, value in (
        ("URI", "" if brief else hit.uri),  # the id opens it, too
        ("Event", "" if hit.kind == DocumentKind.EVENT else hit.event_id),
        ("To event", hit.last_event_id if hit.last_event_id != hit.event_id else ""),
        ("Grip", "" if hit.kind == DocumentKind.GRIP else hit.grip_id),
        ("Segment", "" if hit.kind == DocumentKind.SEGMENT else hit.node_id),
    ):
        if value:
            shown = short_ids.abbreviate(value) if brief else value
            yield f"{INDENT}{name}: {rendering.plain(shown)}"
    if detail == "full":
        parts = ", ".join(f"{name} {part:.3f}" for name, part in hit.score_parts.items())
        yield f"{INDENT}Score: {parts}"
        yield from (f"{INDENT}> {rendering.plain(line)}" for line in hit.text.splitlines())
        if hit.truncated:
            yield f"{INDENT}{_cut_note(hit)}"


def format_markdown(hit: HitAnswer, team: str) -> str:
    """Return a hit as a section."""
    head = rendering.plain(hit.format_summary())
    score = [f"Score: {hit.score:.2f}"] if hit.score_parts else []  # a listing has no scores
    about = " | ".join([*_about(hit, team), *score])
    if hit.status == MemoryStatus.PENDING:
        head = f"{head} {rendering.TO_REVIEW}"
    parts = [f"## {head}", about, f"`{rendering.plain(hit.uri or hit.id)}`"]
    passage = _read_passage(hit)
    if passage is not None and passage.text:
        quoted = "".join(
            f"**{_escape(piece)}**" if marked else _escape(piece)
            for piece, marked in _split_marks(passage)
        )
        before, after = _has_more(hit, passage)
        parts.append(f"> {_MORE + ' ' if before else ''}{quoted}{' ' + _MORE if after else ''}")
    if passage is None or passage.text != hit.text.strip() or hit.truncated:
        parts.append(rendering.plain(hit.text))
    if hit.truncated:
        parts.append(_cut_note(hit))
    return "\n\n".join(parts) + "\n"


def _list_excerpts(hit: HitAnswer) -> Iterator[Text]:
    """Yield what is shown of a hit: its title or a tool's call, and the passage."""
    passage = _read_passage(hit)
    fact = hit.kind == DocumentKind.FACT
    if hit.title and not fact:
        yield Text(rendering.excerpt(hit.title, TITLE_CHARS))
        if passage is None:
            return
    if passage is None:  # a daemon that sends no passages
        passage = Passage(text=hit.text[:TITLE_CHARS])
    before, after = _has_more(hit, passage)
    if hit.tool_name and before:
        call = hit.text[: passage.start].lstrip().partition("\n")[0]
        yield Text(rendering.excerpt(call, LEAD_CHARS))
    elif hit.tool_name and "\n" in passage.text:
        call_end = passage.text.index("\n")
        yield _mark(_narrow(passage, 0, call_end))
        passage = _narrow(passage, call_end + 1, len(passage.text))
    text = _mark(passage)
    if hit.kind == DocumentKind.GRIP:
        yield Text.assemble('"', text, '"')
        return
    key = f"{rendering.plain(hit.title)}: " if fact else ""
    yield Text.assemble(key, f"{_MORE} " if before else "", text, f" {_MORE}" if after else "")


def _read_passage(hit: HitAnswer) -> Passage | None:
    passage = hit.passage
    if passage is None:
        return None
    return Passage(text=passage.text, start=passage.start, marks=tuple(passage.marks))


def _narrow(passage: Passage, start: int, end: int) -> Passage:
    """Return a part of a passage."""
    inside = (mark for mark in passage.marks if start <= mark[0] and mark[1] <= end)
    marks = tuple((first - start, last - start) for first, last in inside)
    return Passage(text=passage.text[start:end], start=passage.start + start, marks=marks)


def _mark(passage: Passage) -> Text:
    """Return the passage with its matches in bold."""
    text = Text()
    for piece, marked in _split_marks(passage):
        text.append(piece, "bold" if marked else None)
    return text


def _split_marks(passage: Passage) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of a passage, on one line and without control characters, and whether each
    is marked."""
    at = 0
    for start, end in (*passage.marks, (len(passage.text), len(passage.text))):
        for piece, marked in ((passage.text[at:start], False), (passage.text[start:end], True)):
            if piece:
                yield rendering.plain(_SPACE.sub(" ", piece)), marked
        at = end


def _has_more(hit: HitAnswer, passage: Passage) -> tuple[bool, bool]:
    """Tell whether the text goes on before and after the passage."""
    if hit.kind == DocumentKind.SEGMENT:
        return False, False  # a bullet is whole
    before = bool(hit.text[: passage.start].strip())
    after = bool(hit.text[passage.end :].strip())
    return before, after or hit.truncated


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\\\g<0>", text)


def _wrap(text: Text, terminal: Terminal, console: Console) -> Iterator[str]:
    """Yield the lines of a text on a terminal of this width; in a pipe a text is one line."""
    wide = console.width - len(INDENT) if terminal.call.output_is_terminal else 0
    for line in text.wrap(console, wide) if wide > 0 else [text]:
        line.rstrip()
        with console.capture() as captured:
            console.print(line, soft_wrap=True, end="")
        yield f"{INDENT}{captured.get()}"


def _about(hit: HitAnswer, team: str) -> Iterator[str]:
    if hit.origin == TEAM:
        yield rendering.plain(f"{team} \N{MIDDLE DOT} {hit.person}" if hit.person else team)
        if hit.person and hit.kind in (DocumentKind.MEMORY, DocumentKind.FACT):
            yield "not reviewed by you"
    yield rendering.format_with_age(Millis(hit.timestamp_ms))
    for name, value in (
        ("", hit.speaker or hit.role),
        ("", hit.status),
        ("Session: ", "" if hit.kind == DocumentKind.MEMORY else hit.session_id),
        ("Project: ", hit.project),
        ("Tool: ", hit.tool_name),
        ("Domain: ", hit.domain.partition(":")[0]),
        ("Tags: ", ", ".join(hit.tags)),
    ):
        if value:
            yield f"{name}{rendering.plain(value)}"


def _cut_note(hit: HitAnswer) -> str:
    """Say how to see the whole text: a remote daemon sends only its beginning."""
    command = rendering.plain(hit.format_command())
    return f"[cut; to see all of it, run there: {command}]"
