"""Contexts: what an agent is given of its memory, as XML that never exceeds its budget."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from agent_memory.domain.documents import Kind, iso
from agent_memory.domain.errors import InvalidInput
from agent_memory.domain.queries import Hit
from agent_memory.domain.segments import estimate_tokens

DEFAULT_TOKENS = 2_000
MAX_TOKENS = 100_000
SUMMARY_CHARS = 400
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the context is for. What is not known is empty."""

    project: str = ""
    branch: str = ""
    prompt: str = ""
    file: str = ""
    tokens: int = DEFAULT_TOKENS

    def __post_init__(self) -> None:
        if not 1 <= self.tokens <= MAX_TOKENS:
            raise InvalidInput(
                f"the budget is {self.tokens} tokens; it must be from 1 to {MAX_TOKENS:,}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """`text` is empty where nothing is known, or nothing fits."""

    text: str
    tokens: int
    hits: tuple[Hit, ...]  # those that are in it


def build(wanted: Wanted, hits: Iterable[Hit]) -> Context:
    """The hits in their order, as many as fit; one that is too long makes room for later ones."""
    head = ["<memory_context>"]
    head += [
        f"  <{name}>{_text(value)}</{name}>"
        for name, value in (
            ("project", wanted.project),
            ("branch", wanted.branch),
            ("file", wanted.file),
        )
        if value
    ]
    head.append("  <resources>")
    foot = ["  </resources>", "</memory_context>"]
    chosen: list[Hit] = []
    lines: list[str] = []
    for hit in hits:
        more = [*lines, *_resource(hit)]
        if estimate_tokens("\n".join((*head, *more, *foot))) <= wanted.tokens:
            lines = more
            chosen.append(hit)
    text = "\n".join((*head, *lines, *foot)) if chosen else ""
    return Context(text=text, tokens=estimate_tokens(text), hits=tuple(chosen))


def _resource(hit: Hit) -> Sequence[str]:
    document = hit.document
    attributes = [("uri", hit.uri)] if hit.uri else [("kind", document.kind), ("id", document.id)]
    if hit.score:  # what was not asked for has none
        attributes.append(("relevance", f"{hit.score:.2f}"))
    if document.kind is Kind.MEMORY:
        attributes.append(("namespace", document.namespace))
    attributes.append(("time", iso(document.at_ms)))
    shown = " ".join(f"{name}={quoteattr(_clean(value))}" for name, value in attributes)
    return (
        f"    <resource {shown}>",
        f"      <summary>{_text(_summary(hit))}</summary>",
        "    </resource>",
    )


def _summary(hit: Hit) -> str:
    document = hit.document
    said = document.title if document.kind is Kind.MEMORY else document.text
    line = " ".join(said[: 2 * SUMMARY_CHARS].split())
    return line if len(line) <= SUMMARY_CHARS else line[: SUMMARY_CHARS - 3] + "..."


def _text(value: str) -> str:
    return escape(_clean(" ".join(value.split())))


def _clean(value: str) -> str:
    """Without characters that XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)
