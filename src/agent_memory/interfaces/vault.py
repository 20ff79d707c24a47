"""The notes of an exported vault: one for each day, session and memory, with links between them."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import NamedTuple

from agent_memory.features.hooks.model import transcripts, vault_notes
from agent_memory.features.log.model.events import Event
from agent_memory.features.log.model.metadata import get_main_session
from agent_memory.features.log.model.outlines import SessionOutline
from agent_memory.features.memories.model.memories import Memory
from agent_memory.interfaces.conversation_files import format_heading, format_time, is_shown

DAYS, SESSIONS, MEMORIES = "Days", "Sessions", "Memories"
FOLDERS = (DAYS, SESSIONS, MEMORIES)
_MARK_CHARS = 8  # at the end of a name: of a hash of the record's id
_MARKED = re.compile(rf".* \(([0-9a-f]{{{_MARK_CHARS}}})\)\.md")


def list_names(root: Path) -> dict[str, str]:
    """Return the notes that exist by the marks in their names: records keep their names."""
    found: dict[str, str] = {}
    for folder in (SESSIONS, MEMORIES):
        try:
            notes = sorted((root / folder).iterdir())
        except OSError:
            continue
        for note in notes:
            if marked := _MARKED.fullmatch(note.name):
                found[f"{folder}:{marked[1]}"] = note.stem
    return found


class VaultNote(NamedTuple):
    """A note: its path in the vault without the suffix, and a function that writes its pieces."""

    path: str
    build: Callable[[], Iterator[str]]


@dataclass(slots=True)
class VaultPlan:
    """The names of all notes, so that each can link to others, whatever is written first."""

    zone: tzinfo
    names: Mapping[str, str]  # of notes that exist
    sessions: Sequence[SessionOutline]
    memories: Sequence[Memory]
    _paths: dict[str, str] = field(default_factory=dict)
    _days: dict[str, tuple[list[SessionOutline], list[Memory]]] = field(
        default_factory=lambda: defaultdict(lambda: ([], []))
    )
    _related: dict[str, list[Memory]] = field(default_factory=lambda: defaultdict(list))
    _subagents: dict[str, list[SessionOutline]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for session in self.sessions:
            began = format_time(session.start_ms, self.zone, "%Y-%m-%d %H%M")
            title = f"{began} {session.title}"
            self._paths[session.session_id] = self._name(SESSIONS, session.session_id, title)
            self._days[self._find_day(session.start_ms)][0].append(session)
            main = get_main_session(session.session_id)
            if main != session.session_id:
                self._subagents[main].append(session)
        for memory in self.memories:
            path = self._name(MEMORIES, memory.urn, memory.summary)
            self._paths[memory.urn] = self._paths[memory.id] = path
            self._days[self._find_day(memory.created_ms)][1].append(memory)
            if memory.session_id:
                self._related[memory.session_id].append(memory)

    def list_notes(self, read: Callable[[SessionOutline], Iterable[Event]]) -> list["VaultNote"]:
        """Return all notes. `read` reads the events of a session."""
        return [
            *(VaultNote(_get_day_path(day), partial(self._build_day, day)) for day in self._days),
            *(
                VaultNote(
                    self._paths[session.session_id], partial(self._build_session, session, read)
                )
                for session in self.sessions
            ),
            *(
                VaultNote(self._paths[memory.urn], partial(self._build_memory, memory))
                for memory in self.memories
            ),
        ]

    def _build_day(self, day: str) -> Iterator[str]:
        sessions, memories = self._days[day]
        yield vault_notes.format_front(vault_notes.DAY, {"date": day})
        yield f"# {day}\n\n"
        if sessions:
            yield "## Sessions\n\n"
        for session in sessions:
            at = format_time(session.start_ms, self.zone, "%H:%M")
            of = f" ({session.project})" if session.project else ""
            yield f"- {at} {self._link(session.session_id, session.title)}{of}\n"
        if memories:
            yield "\n## Memories\n\n" if sessions else "## Memories\n\n"
            yield vault_notes.join_links(
                f"{memory.namespace}: {self._link(memory.urn, memory.summary)}"
                for memory in memories
            )

    def _build_session(
        self, session: SessionOutline, read: Callable[[SessionOutline], Iterable[Event]]
    ) -> Iterator[str]:
        """Write a session. The import reads its events again from the comments."""
        day = self._find_day(session.start_ms)
        yield vault_notes.format_front(
            vault_notes.SESSION,
            {
                "session": session.session_id,
                "date": day,
                "project": session.project,
                "agent": session.agent,
                "aliases": [session.title],
            },
        )
        yield f"# {session.title}\n\n{vault_notes.format_link(_get_day_path(day), day)}\n\n"
        links = [
            self._link(memory.urn, memory.summary)
            for memory in self._related.get(session.session_id, ())
        ]
        links += [
            self._link(subagent.session_id, subagent.title)
            for subagent in self._subagents.get(session.session_id, ())
        ]
        main = get_main_session(session.session_id)
        if main != session.session_id and main in self._paths:
            links.append(self._link(main, "main session"))
        if links:
            yield vault_notes.join_links(links) + "\n"
        for event in read(session):
            if is_shown(event):
                yield f"{format_heading(event, self.zone)}\n\n"
            yield from vault_notes.format_event(event, is_shown=is_shown(event))

    def _build_memory(self, memory: Memory) -> Iterator[str]:
        day = self._find_day(memory.created_ms)
        yield vault_notes.format_front(
            vault_notes.MEMORY,
            {
                "id": memory.id,
                "uri": memory.urn,
                "namespace": memory.namespace,
                "domain": memory.domain,
                "status": memory.status.value,
                "date": day,
                "tags": sorted(memory.tags),
                "aliases": [memory.summary],
            },
        )
        yield f"# {memory.summary}\n\n"
        if memory.content:
            yield f"{memory.content}\n\n"
        links = [vault_notes.format_link(_get_day_path(day), day)]
        if memory.session_id in self._paths:
            links.append(self._link(memory.session_id, "session"))
        links += [self._link(name, name) for name in memory.relates_to if name in self._paths]
        yield vault_notes.join_links(links)

    def _link(self, record_id: str, words: str) -> str:
        return vault_notes.format_link(self._paths[record_id], words)

    def _find_day(self, at_ms: int) -> str:
        return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(self.zone).date().isoformat()

    def _name(self, folder: str, record_id: str, title: str) -> str:
        mark = transcripts.fingerprint(record_id)[:_MARK_CHARS]
        made = f"{vault_notes.to_file_name(title)} ({mark})".strip()
        return f"{folder}/{self.names.get(f'{folder}:{mark}', made)}"


def _get_day_path(day: str) -> str:
    return f"{DAYS}/{day}"
