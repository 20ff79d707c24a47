"""Backfill: import transcripts as events. An event is stored once, however often it is imported."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_memory.features.hooks.model import tool_use, transcripts
from agent_memory.features.hooks.model.consent import ConsentRules
from agent_memory.features.hooks.model.exclusions import ExcludedFolder
from agent_memory.features.hooks.model.transcripts import TranscriptEntry, TranscriptSource
from agent_memory.features.hooks.ports import Transcripts
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.services import paging
from agent_memory.features.log.services.ingest import Clean, Ingest, Refusal
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import ConfigError, GitFailed, InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS, EventId, Millis, Position, SessionId
from agent_memory.kernel.progress import OnCount

BATCH = 25  # small, so that other writers do not wait long
BATCH_CHARS = 1 << 20
REASONS = 100
# Metadata that all events of a session have.
_SHARED = ("cwd", "branch", "project", event_metadata.REPOSITORY)
_NEWEST = 100  # events of a session that are looked at again; hooks are slower
_END = Position(at_ms=Millis(MAX_MILLIS), event_id=EventId("\U0010ffff"))
_ENDS = 10  # more than a session has at its end
_TAIL_MS = 2 * transcripts.NEAR_MS
_TURN_MS = 3_600_000  # the longest turn whose answers a hook tells at its end


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillResult:
    """The counts of an import, and the first reasons for refused lines. `skipped` counts sessions
    in folders where recording is off."""

    files: int = 0
    lines: int = 0
    sessions: int = 0
    skipped: int = 0
    created: int = 0  # what was said and done
    described: int = 0  # titles and summaries of sessions
    known: int = 0
    noise: int = 0
    refused: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Backfill:
    transcripts: Mapping[str, Transcripts]  # by agent
    ingest: Ingest
    resolver: ProjectResolver
    consent: RecordingConsent
    step_back: Callable[[], Callable[[], object]]
    """Makes the calling thread background work. It returns what to call often: it waits while
    requests are in flight."""
    excluded: ExcludedFolder = field(default_factory=ExcludedFolder)

    def list_sources(self, agent: str, *paths: str) -> list[TranscriptSource]:
        """Return the transcript files of all paths. Raises InvalidInput if there are none."""
        reader = self.transcripts[agent]
        sources = [source for path in paths for source in reader.list_sources(path)]
        if not sources:
            raise InvalidInput(f"there are no transcripts of {agent} in {', '.join(paths)}")
        return sources

    def import_sources(
        self,
        agent: str,
        sources: Sequence[TranscriptSource],
        *,
        environ: Mapping[str, str],
        include_excluded: bool = False,
        dry_run: bool,
        on_progress: OnCount,
    ) -> BackfillResult:
        """Store the events that are new.

        Leave out what hooks would leave out because of its folder or file, by the settings that
        the caller's `environ` leads to, unless `include_excluded`. Raises ConfigError if these
        cannot be read and may exclude something.

        `on_progress` gets the number of bytes read and may raise to stop: stored events stay,
        and the next run skips them.
        """
        give_way = self.step_back()
        run = _BackfillRun(self.ingest, self.resolver, dry_run)
        choice = None if include_excluded else _ImportConsent(self.consent, environ)
        if choice is not None:
            choice.check_readable()
        total = sum(source.size for source in sources)
        read = 0
        on_progress(0)
        for source, chunk in self.transcripts[agent].read_chunks(sources):
            run.lines += chunk.lines
            run.noise += chunk.noise
            for rejected in chunk.refused:
                run.refuse(source, rejected.line, rejected.reason)
            for entry in chunk.recorded:
                if self.excluded.contains(entry.metadata.get("cwd", "")):
                    run.noise += 1
                    continue
                if choice is not None and not choice.allows(entry):
                    continue
                give_way()
                run.take(source, entry)
                if run.is_full:
                    run.flush()
                    on_progress(read)
            read = min(read + chunk.size, total)  # a file may have grown
            on_progress(read)
        run.flush()
        on_progress(total)
        skipped = 0 if choice is None else len(choice.skipped)
        return run.result(files=len(sources), skipped=skipped)


@dataclass(slots=True)
class _ImportConsent:
    """Decides for each entry of an import, and remembers folders: a file has thousands of lines.

    A pause, or hooks that are switched off, do not count: an import is the user's own act.
    """

    consent: RecordingConsent
    environ: Mapping[str, str]
    skipped: set[str] = field(default_factory=set)  # sessions
    _began: dict[str, str] = field(default_factory=dict)  # the first folder of each session
    _rules: dict[str, ConsentRules | None] = field(default_factory=dict)  # None: nothing there

    def check_readable(self) -> None:
        """Raise ConfigError if it is unknown which folders are excluded."""
        if problem := self.consent.load_rules("/", self.environ).unreadable:
            raise ConfigError(
                f"cannot tell which folders are excluded from recording: {problem}; correct it, or"
                " import excluded folders as well (--include-excluded)"
            )

    def allows(self, entry: TranscriptEntry) -> bool:
        folder = entry.metadata.get("cwd", "")
        if not folder:
            return True
        session = event_metadata.get_main_session(entry.session_id)
        if self._find_rules(self._began.setdefault(session, folder)) is None:
            self.skipped.add(session)
            return False
        rules = self._find_rules(folder)
        if rules is None or entry.type is not EventType.TOOL_RESULT:
            return rules is not None
        use = tool_use.recover_use(
            entry.metadata.get("tool_name", ""), entry.metadata.get("file_path", ""), entry.text
        )
        return not self.consent.find_ignored(use, folder, self.environ, rules)

    def _find_rules(self, folder: str) -> ConsentRules | None:
        if folder not in self._rules:
            rules = self.consent.load_rules(folder, self.environ)
            given = self.consent.check_place(folder, rules).is_given
            self._rules[folder] = rules if given else None
        return self._rules[folder]


@dataclass(slots=True)
class _LiveEvents:
    """The events of one session that hooks or other programs recorded, not an import."""

    until_ms: int = 0
    ids: set[EventId] = field(default_factory=set)
    starts: set[EventType] = field(default_factory=set)
    texts: dict[tuple[EventRole, str], dict[EventId, int]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    turns: dict[EventId, tuple[int, str]] = field(default_factory=dict)  # answers not claimed yet

    def add(self, event: Event) -> None:
        self.until_ms = max(self.until_ms, event.at_ms)
        if transcripts.is_imported(event):
            return
        if event.type in transcripts.STARTS:
            self.starts.add(event.type)
        elif event.text and event.event_id not in self.ids:
            self.ids.add(event.event_id)
            self.texts[_key(event)][event.event_id] = event.at_ms
            if event.role is EventRole.ASSISTANT and "\n" in event.text:
                self.turns[event.event_id] = (event.at_ms, event.text.strip())

    def claim(self, event: Event) -> bool:
        """Return whether one of them is the same event, and use it up.

        The same words twice are two events.
        """
        if event.type in transcripts.STARTS:
            return event.type in self.starts
        alike = self.texts.get(_key(event), {})
        near = [(abs(at - event.at_ms), name) for name, at in alike.items()]
        distance, name = min(near, default=(transcripts.NEAR_MS + 1, EventId("")))
        if distance > transcripts.NEAR_MS:
            return self._claim_part(event)
        del alike[name]
        self.turns.pop(name, None)
        return True

    def _claim_part(self, event: Event) -> bool:
        """Return whether it is the next part of an answer, and use that up.

        The hooks of Gemini CLI tell at the end of a turn all that was said in it, as one text.
        """
        said = event.text.strip()
        for name, (at_ms, rest) in self.turns.items():
            if not -transcripts.NEAR_MS <= at_ms - event.at_ms <= _TURN_MS:
                continue
            if event.role is EventRole.ASSISTANT and f"{rest}\n".startswith(f"{said}\n"):
                self.turns[name] = (at_ms, rest[len(said) :].lstrip())
                return True
        return False

    def exclude(self, event: Event) -> None:
        """Exclude an event whose id is in the transcript: it cannot match another line."""
        self.ids.add(event.event_id)
        self.texts[_key(event)].pop(event.event_id, None)


@dataclass(slots=True)
class _BackfillRun:
    ingest: Ingest
    resolver: ProjectResolver
    dry_run: bool
    lines: int = 0
    noise: int = 0
    created: int = 0
    described: int = 0
    known: int = 0
    refused: int = 0
    reasons: list[str] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    _batch: list[tuple[TranscriptSource, TranscriptEntry]] = field(default_factory=list)
    _chars: int = 0
    _live: defaultdict[str, _LiveEvents] = field(default_factory=lambda: defaultdict(_LiveEvents))
    _attached: Counter[str] = field(default_factory=Counter)
    _places: dict[str, MemoryLocation | None] = field(default_factory=dict)
    _first: dict[str, str] = field(default_factory=dict)  # the first project of each session

    @property
    def is_full(self) -> bool:
        return len(self._batch) >= BATCH or self._chars >= BATCH_CHARS

    def take(self, source: TranscriptSource, entry: TranscriptEntry) -> None:
        if entry.detached and self._batch and not self._batch[-1][1].detached:
            self.flush()  # it is about a session that must be stored first
        self._batch.append((source, entry))
        self._chars += len(entry.text)

    def refuse(self, source: TranscriptSource, line: int, reason: str) -> None:
        self.refused += 1
        if len(self.reasons) < REASONS:
            self.reasons.append(f"{source.describe_record(line)}: {reason}")

    def flush(self) -> None:
        batch, self._batch, self._chars = self._batch, [], 0
        unknown: list[tuple[TranscriptSource, TranscriptEntry]] = []
        for source, read in batch:
            entry = self._attach(read)
            if entry is None:
                self.noise += 1
                continue
            self.sessions.add(entry.session_id)
            stored = self.ingest.log.get(EventId(entry.event_id))
            if stored is not None:
                self.known += 1
                if not transcripts.is_imported(stored):
                    self._live[stored.session_id].exclude(stored)
                continue
            unknown.append((source, entry))
        new: list[Clean] = []

        def select(clean: list[Clean]) -> list[Clean]:
            new.extend(self._leave_out_live(clean))
            return [] if self.dry_run else new

        recording = self.ingest.record_each(unknown, lambda each: self._build(each[1]), select)
        for (source, entry), outcome in zip(unknown, recording.outcomes, strict=True):
            if isinstance(outcome, Refusal):
                self.refuse(source, entry.line, str(outcome))
        fresh = [True] * len(new) if self.dry_run else recording.stored.result()
        for event, is_new in zip(new, fresh, strict=True):
            if not is_new:
                self.known += 1
            elif event_metadata.is_description(event):
                self.described += 1
            else:
                self.created += 1

    def _build(self, entry: TranscriptEntry) -> Event:
        return transcripts.build_event(entry, self._build_metadata(entry))

    def _leave_out_live(self, events: list[Clean]) -> list[Clean]:
        """Return the events that no hook has recorded."""
        for session in dict.fromkeys(event.session_id for event in events):
            self._catch_up(session, self._live[session])
        new: list[Clean] = []
        twins: list[tuple[EventId, Millis]] = []
        for event in events:
            if self._live[event.session_id].claim(event):
                twins.append((event.event_id, event.at_ms))
            else:
                new.append(event)
        self.known += len(twins)
        if twins and not self.dry_run:  # else forgetting a twin would bring the line back
            self.ingest.log.add_aliases(twins).result()
        return new

    def result(self, files: int, skipped: int) -> BackfillResult:
        return BackfillResult(
            files=files,
            skipped=skipped,
            lines=self.lines,
            sessions=len(self.sessions),
            created=self.created,
            described=self.described,
            known=self.known,
            noise=self.noise,
            refused=self.refused,
            reasons=tuple(self.reasons),
        )

    def _attach(self, entry: TranscriptEntry) -> TranscriptEntry | None:
        """Give a detached entry a time right after the last event before it, or after the first.

        Otherwise a title that was given a day later would be a conversation of its own. Return None
        if nothing is known of its session.
        """
        if not entry.detached or self.ingest.log.get(EventId(entry.event_id)) is not None:
            return entry
        session, log = SessionId(self.ingest.clean_session(entry.session_id)), self.ingest.log
        end = Position(at_ms=Millis(min(entry.at_ms + 1, MAX_MILLIS)), event_id=EventId(""))
        before = log.list_session(session, after=end, limit=_ENDS, reverse=True).events
        # What follows the end of a session is another conversation.
        events = [event for event in before if event.type is not EventType.SESSION_END]
        events += log.list_session(session, after=None, limit=1).events
        if events:
            self._attached[entry.session_id] += 1  # the newest title is the last
            about = {name: events[0].metadata.get(name, "") for name in _SHARED}
            return replace(
                entry,
                at_ms=events[0].at_ms + self._attached[entry.session_id],
                metadata={**entry.metadata, **{name: text for name, text in about.items() if text}},
            )
        return entry if self.dry_run and entry.session_id in self.sessions else None

    def _catch_up(self, session: str, live: _LiveEvents) -> None:
        """Read the events recorded since the last look: the session may still be running.

        The first look reads all of it, a later one only its newest events: a transcript may give
        all its lines one time, and to read them again for each batch would have no end.
        """
        log, name = self.ingest.log, SessionId(session)
        if not live.until_ms:
            for event in paging.iter_session(log, name):
                live.add(event)
            return
        since = max(0, live.until_ms - _TAIL_MS)
        newest = log.list_session(name, after=_END, limit=_NEWEST, reverse=True).events
        for event in reversed(newest):
            if event.at_ms >= since:
                live.add(event)

    def _build_metadata(self, entry: TranscriptEntry) -> Mapping[str, str]:
        """Add the project: that of the entry's repository, else that of the session's start."""
        folder = entry.metadata.get("cwd", "")
        if not folder or "project" in entry.metadata:
            return {}
        if folder not in self._places:
            self._places[folder] = self._find_place(folder)
        place = self._places[folder]
        session = event_metadata.get_main_session(entry.session_id)
        if session not in self._first:
            self._first[session] = (place or self.resolver.guess(folder)).name
        if place is None:
            return {"project": self._first[session]}
        return {"project": place.name, event_metadata.REPOSITORY: place.repository}

    def _find_place(self, folder: str) -> MemoryLocation | None:
        """Return the project of a folder; None if it is in no repository."""
        try:
            if self.resolver.repositories.locate(folder, {}) is None:
                return None
            return self.resolver.resolve_folder(Caller(folder=folder, environ={}))
        except (GitFailed, InvalidInput, OSError, ValueError):
            return None


def _key(event: Event) -> tuple[EventRole, str]:
    return event.role, transcripts.fingerprint(event.text.strip())
