"""Build memories: capture, editing, git notes, sync, consolidation."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

from agent_memory.bootstrap.build_index import IndexFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.wake_ups import WakeUps
from agent_memory.features.memories.adapters.git import programs as git_programs
from agent_memory.features.memories.adapters.git.repositories import TORN, GitRepositories
from agent_memory.features.memories.adapters.guarded_memories import (
    GuardedMemories,
    GuardedOutlines,
)
from agent_memory.features.memories.adapters.journal import StoredChangeLog, StoredJournal
from agent_memory.features.memories.adapters.memory_store import (
    MemoryOutlines,
    StoredMemories,
    StoredNoteQueue,
    StoredUses,
)
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.model.memories import Home
from agent_memory.features.memories.ports import Memories, Reasoner
from agent_memory.features.memories.services.bulk_editing import BulkEditor
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.consolidation import Consolidation
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.note_writer import NoteWriter
from agent_memory.features.memories.services.project_resolver import (
    OrgRepository,
    ProjectResolver,
)
from agent_memory.features.memories.services.remote_sync import RemoteSync
from agent_memory.features.memories.services.sync import Sync
from agent_memory.features.memories.services.transfer import Transfer
from agent_memory.features.memories.services.undo import ChangeHistory
from agent_memory.features.memories.services.versions import MemoryVersions
from agent_memory.features.toc.adapters.token_budget import StoredTokenBudget
from agent_memory.kernel.errors import GitFailed

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoriesFeature:
    store: Memories
    outlines: MemoryOutlines  # of all, which must hear of every change
    uses: StoredUses
    note_queue: StoredNoteQueue
    projects: StoredProjects
    repositories: GitRepositories
    journal: StoredJournal
    notes: NoteWriter
    resolver: ProjectResolver
    capture: Capture
    editor: MemoryEditor
    remote_sync: RemoteSync
    consolidation: Consolidation
    transfer: Transfer
    change_log: StoredChangeLog
    history: ChangeHistory
    bulk_editor: BulkEditor
    versions: MemoryVersions
    reasoner: Reasoner | None


def build_memories(
    platform: Platform, log: LogFeature, index: IndexFeature, wake_ups: WakeUps
) -> MemoriesFeature:
    store, clock, secrets = platform.store, platform.clock, platform.secrets
    settings, on_change = platform.settings.memories, wake_ups.on_memory_changed
    team = platform.settings.team.enabled
    outlines = MemoryOutlines(store)
    daemon = "" if platform.sharing is None else platform.sharing.daemon
    stored = StoredMemories(store, outlines, daemon=daemon)
    memories = GuardedMemories(stored) if team else stored
    uses, queue = StoredUses(store, outlines), StoredNoteQueue(store, daemon=daemon)
    projects, journal = StoredProjects(store), StoredJournal(store)
    repositories = GitRepositories(platform.folders.data, platform.worker)
    repositories.tidy()
    reasoner = _build_reasoner(platform)
    notes = NoteWriter(
        memories=memories, queue=queue, repositories=repositories, on_failure=_log_note_failure
    )
    resolver = ProjectResolver(
        repositories=repositories,
        projects=projects,
        shared=OrgRepository(org=settings.org, repository=settings.org_repository),
        secrets=secrets,
        team=team,
    )
    capture = Capture(
        memories=memories, log=log.events, secrets=secrets, clock=clock, on_capture=on_change
    )
    editor = MemoryEditor(
        memories=memories,
        uses=uses,
        outlines=GuardedOutlines(outlines) if team else outlines,
        resolver=resolver,
        capture=capture,
        clock=clock,
        on_change=on_change,
    )
    sync = Sync(
        memories=memories,
        projects=projects,
        repositories=repositories,
        notes=notes,
        secrets=secrets,
        clock=clock,
        on_import=on_change,
    )
    consolidation = Consolidation(
        editor=editor,
        capture=capture,
        uses=uses,
        journal=journal,
        vectors=None if index.vectors is None else index.vectors.index,
        reasoner=reasoner,
        worker=platform.worker,
        clock=clock,
    )
    transfer = Transfer(memories=memories, repositories=repositories, capture=capture)
    change_log = StoredChangeLog(store)
    history = ChangeHistory(
        log=change_log,
        capture=capture,
        editor=editor,
        transfer=transfer,
        consolidation=consolidation,
        clock=clock,
    )
    return MemoriesFeature(
        store=memories,
        outlines=outlines,
        uses=uses,
        note_queue=queue,
        projects=projects,
        repositories=repositories,
        journal=journal,
        notes=notes,
        resolver=resolver,
        capture=capture,
        editor=editor,
        remote_sync=RemoteSync(sync=sync, resolver=resolver, user_remote=settings.user_remote),
        consolidation=consolidation,
        transfer=transfer,
        change_log=change_log,
        history=history,
        bulk_editor=BulkEditor(history),
        versions=MemoryVersions(editor),
        reasoner=reasoner,
    )


def locate_torn_objects(data: Path) -> Path:
    """Return the folder for objects of git that a crash left incomplete."""
    return data / TORN


def git_version(environ: Mapping[str, str], seconds: float) -> str:
    """Return the version of the caller's git. Raises GitFailed where none runs."""
    return git_programs.version(environ, seconds=seconds)


def _build_reasoner(platform: Platform) -> Reasoner | None:
    """Build the model that merges and answers: the one that summarizes, if it is a model."""
    if platform.settings.summarizer.provider == "extractive":
        return None
    from agent_memory.bootstrap import build_models

    return build_models.build_reasoner(platform, StoredTokenBudget(platform.store))


def _log_note_failure(home: Home, exc: GitFailed) -> None:
    logger.warning("notes.not_written", home=home, error=str(exc))
