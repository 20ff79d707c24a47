"""Backfill: whole transcripts become events, each once, however often they are imported."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from agent_memory.features.hooks.model import transcripts
from agent_memory.features.hooks.model.transcripts import TranscriptEntry, TranscriptSource
from agent_memory.features.hooks.ports import Transcripts
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.services.ingest import Clean, Ingest
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.services.project_resolver import Caller, ProjectResolver
from agent_memory.kernel.errors import ContentBlocked, GitFailed, InvalidInput
from agent_memory.kernel.ids import EventId, Millis, Position, SessionId

BATCH = 25  # so few that what others record does not wait for long
BATCH_CHARS = 1 << 20
REASONS = 100
_PAGE = 500
_TAIL_MS = 2 * transcripts.NEAR_MS

Done = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillResult:
    """What became of the lines. Of what was refused, the first reasons are told."""

    files: int = 0
    lines: int = 0
    sessions: int = 0
    created: int = 0
    known: int = 0
    noise: int = 0
    refused: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Backfill:
    transcripts: Mapping[str, Transcripts]  # by the agent that writes them
    ingest: Ingest
    workplaces: ProjectResolver
    lower_priority: Callable[[], None]  # to what others wait for; told in the thread that imports

    def sources(self, agent: str, place: str) -> list[TranscriptSource]:
        """The files with transcripts there. Raises InvalidInput where there are none."""
        found = self.transcripts[agent].list_sources(place)
        if not found:
            raise InvalidInput(f"there are no transcripts (*.jsonl) in {place}")
        return found

    def import_sources(
        self, agent: str, sources: Sequence[TranscriptSource], *, dry_run: bool, done: Done
    ) -> BackfillResult:
        """Store what is not there yet. `done` is told how many bytes were read, and may raise to
        stop: what is stored stays, and the next run passes over it."""
        self.lower_priority()
        run = _BackfillRun(self.ingest, self.workplaces, dry_run)
        before = 0
        done(0)
        for source in sources:
            size = 0
            for chunk in self.transcripts[agent].read_chunks(source):
                run.lines += chunk.lines
                run.noise += chunk.noise
                for each in chunk.refused:
                    run.refuse(source, each.line, each.reason)
                for recorded in chunk.recorded:
                    run.take(source, recorded)
                    if run.is_full:
                        run.flush()
                        done(before + size)
                size = min(size + chunk.size, source.size)  # it may have grown
                run.flush()
                done(before + size)
            before += source.size
            done(before)
        return run.result(files=len(sources))


@dataclass(slots=True)
class _Others:
    """What others than an import have recorded of one session: hooks, mostly."""

    until_ms: int = 0
    ids: set[EventId] = field(default_factory=set)
    starts: set[EventType] = field(default_factory=set)
    said: dict[tuple[EventRole, str], dict[EventId, int]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def add(self, event: Event) -> None:
        self.until_ms = max(self.until_ms, event.at_ms)
        if transcripts.is_imported(event):
            return
        if event.type in transcripts.STARTS:
            self.starts.add(event.type)
        elif event.text and event.event_id not in self.ids:
            self.ids.add(event.event_id)
            self.said[_words(event)][event.event_id] = event.at_ms

    def claim(self, event: Event) -> bool:
        """Whether one of them is this event. It then is no other one's any more: the same words
        twice are two events."""
        if event.type in transcripts.STARTS:
            return event.type in self.starts
        alike = self.said.get(_words(event), {})
        near = [(abs(at - event.at_ms), name) for name, at in alike.items()]
        distance, name = min(near, default=(transcripts.NEAR_MS + 1, EventId("")))
        if distance > transcripts.NEAR_MS:
            return False
        del alike[name]
        return True

    def exclude(self, event: Event) -> None:
        """This one is a line of the transcript by its id, so it is no other line's twin."""
        self.ids.add(event.event_id)
        self.said[_words(event)].pop(event.event_id, None)


@dataclass(slots=True)
class _BackfillRun:
    ingest: Ingest
    workplaces: ProjectResolver
    dry_run: bool
    lines: int = 0
    noise: int = 0
    created: int = 0
    known: int = 0
    refused: int = 0
    reasons: list[str] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    _batch: list[tuple[TranscriptSource, TranscriptEntry]] = field(default_factory=list)
    _chars: int = 0
    _others: dict[str, _Others] = field(default_factory=dict)
    _projects: dict[str, str] = field(default_factory=dict)
    _first: dict[str, str] = field(default_factory=dict)  # the project a session began in

    @property
    def is_full(self) -> bool:
        return len(self._batch) >= BATCH or self._chars >= BATCH_CHARS

    def take(self, source: TranscriptSource, recorded: TranscriptEntry) -> None:
        self._batch.append((source, recorded))
        self._chars += len(recorded.text)

    def refuse(self, source: TranscriptSource, line: int, reason: str) -> None:
        self.refused += 1
        if len(self.reasons) < REASONS:
            self.reasons.append(f"{source.path}, line {line}: {reason}")

    def flush(self) -> None:
        batch, self._batch, self._chars = self._batch, [], 0
        new: list[Clean] = []
        twins: list[tuple[EventId, Millis]] = []
        caught_up: set[str] = set()
        for source, recorded in batch:
            self.sessions.add(recorded.session)
            others = self._others.setdefault(recorded.session, _Others())
            stored = self.ingest.log.get(EventId(recorded.event_id))
            if stored is not None:
                self.known += 1
                if not transcripts.is_imported(stored):
                    others.exclude(stored)
                continue
            try:
                event = transcripts.build_event(recorded, self._build_metadata(recorded))
                clean = self.ingest.clean(event)
            except (InvalidInput, ContentBlocked) as exc:
                self.refuse(source, recorded.line, str(exc))
                continue
            if recorded.session not in caught_up:
                caught_up.add(recorded.session)
                self._catch_up(clean.session_id, others)
            if others.claim(clean):
                self.known += 1
                twins.append((clean.event_id, clean.at_ms))
            else:
                new.append(clean)
        if twins and not self.dry_run:  # else they would come back once their twins are forgotten
            self.ingest.log.add_aliases(twins).result()
        if self.dry_run:
            self.created += len(new)
        elif new:
            created = sum(self.ingest.submit(new).result())
            self.created += created
            self.known += len(new) - created

    def result(self, files: int) -> BackfillResult:
        return BackfillResult(
            files=files,
            lines=self.lines,
            sessions=len(self.sessions),
            created=self.created,
            known=self.known,
            noise=self.noise,
            refused=self.refused,
            reasons=tuple(self.reasons),
        )

    def _catch_up(self, session: str, others: _Others) -> None:
        """Read what was recorded since we looked: hooks go on while their session is imported."""
        after: Position | None = Position(
            at_ms=Millis(max(0, others.until_ms - _TAIL_MS)), event_id=EventId("")
        )
        while after is not None:
            page = self.ingest.log.list_session(SessionId(session), after=after, limit=_PAGE)
            for event in page.events:
                others.add(event)
            after = page.next

    def _build_metadata(self, recorded: TranscriptEntry) -> Mapping[str, str]:
        """The project: of the repository it happened in, else that in which its session began."""
        folder = recorded.metadata.get("cwd", "")
        if not folder or "project" in recorded.metadata:
            return {}
        if folder not in self._projects:
            self._projects[folder] = self._project(folder)
        whole = event_metadata.get_main_session(recorded.session)
        began = self._first.setdefault(
            whole, self._projects[folder] or memories.to_project_name(PurePath(folder).name)
        )
        return {"project": self._projects[folder] or began}

    def _project(self, folder: str) -> str:
        """Empty where the folder is in no repository, or no longer there."""
        try:
            if self.workplaces.repositories.locate(folder, {}) is None:
                return ""
            place = self.workplaces.resolve_folder(Caller(folder=folder, environ={}))
        except (GitFailed, InvalidInput, OSError, ValueError):
            return ""
        return place.domain.partition(":")[2]


def _words(event: Event) -> tuple[EventRole, str]:
    return event.role, transcripts.fingerprint(event.text.strip())
