"""Notes of an Obsidian vault: those of the user, and those that our export writes.

Ours begin with front matter that says so, and end with a hash of their text: a note that the user
has changed since is left alone. A note of a session has a comment before each event, which
Obsidian does not show, with all that the import needs to store the same event again.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent_memory.features.log.model import events
from agent_memory.features.log.model.events import Event
from agent_memory.kernel.errors import InvalidInput

OURS = "agent-memory"  # the key of our front matter; its value is the kind of note
DAY, SESSION, MEMORY = "day", "session", "memory"
MAX_NAME_CHARS = 80
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KIND = re.compile(rf"^{OURS}: (\w+)$", re.MULTILINE)
_SEAL = re.compile(rf"%% {OURS} sha256:([0-9a-f]{{64}}) %%\n?\Z")
_EVENT = re.compile(r"^%% (\{.*\}) %%\n", re.MULTILINE)
# Not allowed in names by some system, or with a meaning in links.
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f"*/\\<>:|?#^\[\]%]+')
_RESERVED = re.compile(r"(?i:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")


class NoteSeal:
    """Hashes the pieces of a note as they are written. The last piece is the seal."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, piece: str) -> str:
        self._hash.update(piece.encode())
        return piece

    def close(self) -> str:
        return f"%% {OURS} sha256:{self._hash.hexdigest()} %%\n"


def find_kind(text: str) -> str:
    """Return the kind of a note of ours, or an empty text for a note of the user."""
    front = _FRONT.match(text)
    kind = _KIND.search(front[1]) if front else None
    return kind[1] if kind else ""


def is_unchanged(text: str) -> bool:
    """Return whether a note of ours is as the export has written it."""
    seal = _SEAL.search(text)
    if seal is None or not find_kind(text):
        return False
    return hashlib.sha256(text[: seal.start()].encode()).hexdigest() == seal[1]


def split_front(text: str) -> tuple[str, str]:
    """Return the front matter of a note and what follows it."""
    front = _FRONT.match(text)
    return (front[1], text[front.end() :]) if front else ("", text)


def format_front(kind: str, values: Mapping[str, Any]) -> str:
    """Format front matter. JSON is YAML, and each value stays on its line."""
    lines = [f"{OURS}: {kind}"]
    lines += [f"{name}: {_json(value)}" for name, value in values.items() if value]
    return "---\n" + "\n".join(lines) + "\n---\n"


def format_event(event: Event, *, is_shown: bool) -> Iterator[str]:
    """Format an event so that `parse_events` reads it again, whatever its text is."""
    fields = events.to_fields(event)
    del fields["text"]
    own = {"length": len(event.text)} if is_shown else {"text": event.text}
    yield f"%% {_json(fields | own)} %%\n"
    if is_shown:
        yield f"{event.text}\n\n"


def parse_events(text: str) -> Iterator[dict[str, Any]]:
    """Yield the events of a note as objects with their texts. Raises InvalidInput."""
    at = 0
    while comment := _EVENT.search(text, at):
        at = comment.end()
        try:
            fields = json.loads(comment[1])
        except (ValueError, RecursionError) as exc:
            raise InvalidInput("a comment with an event is damaged") from exc
        length = fields.pop("length", None)
        if length is not None:
            if not isinstance(length, int) or not 0 <= length < len(text) - at:
                raise InvalidInput("the text of an event was changed")
            at += length
            if text[at] != "\n":
                raise InvalidInput("the text of an event was changed")
            fields["text"] = text[comment.end() : at]
        yield fields


def to_file_name(text: str) -> str:
    """Return a name for a file that every system and every link of Obsidian accepts."""
    name = " ".join(_FORBIDDEN.sub(" ", text).split())[:MAX_NAME_CHARS].strip(". ")
    encoded = name.encode("utf-8", "ignore")[:200].decode("utf-8", "ignore").strip(". ")
    return f"{encoded}_" if _RESERVED.fullmatch(encoded) else encoded


def format_link(path: str, words: str) -> str:
    """Format a link to a note, with words that cannot end it."""
    label = " ".join(re.sub(r"[\[\]|]+", " ", words).split())
    return f"[[{path}|{label}]]" if label else f"[[{path}]]"


def join_links(links: Iterable[str]) -> str:
    return "".join(f"- {link}\n" for link in links)


def _json(value: Any) -> str:
    # A percent sign could end the comment.
    return json.dumps(value, ensure_ascii=False).replace("%", "\\u0025")
