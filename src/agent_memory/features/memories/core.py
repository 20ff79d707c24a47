"""Memories: capture, editing, git notes, sync, consolidation."""

from collections.abc import Mapping
from pathlib import Path

import structlog

from agent_memory import config
from agent_memory.config import Settings
from agent_memory.features.index.core import VectorParts
from agent_memory.features.log.ports import Events
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
from agent_memory.features.memories.services.project_resolver import OrgRepository, ProjectResolver
from agent_memory.features.memories.services.remote_sync import RemoteSync
from agent_memory.features.memories.services.sync import Sync
from agent_memory.features.memories.services.transfer import Transfer
from agent_memory.features.memories.services.undo import ChangeHistory
from agent_memory.features.memories.services.versions import MemoryVersions
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.features.toc.adapters.token_budget import StoredTokenBudget
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.errors import GitFailed
from agent_memory.kernel.signals import DaemonSignal
from agent_memory.platform.base import Platform

logger = structlog.get_logger()


def build_core(context: Composition) -> None:
    platform, events, secrets = context[Platform], context[Events], context[SecretsFilter]
    store, clock = platform.store, platform.clock
    settings, team = context[Settings].memories, context[Settings].team.enabled
    on_change = context.signals.build_sender(DaemonSignal.MEMORY_CHANGED)
    vectors = context.find(VectorParts)
    outlines = MemoryOutlines(store)
    daemon = "" if platform.sharing is None else platform.sharing.daemon
    stored = StoredMemories(store, outlines, daemon=daemon)
    memories: Memories = GuardedMemories(stored) if team else stored
    uses, queue = StoredUses(store, outlines), StoredNoteQueue(store, daemon=daemon)
    projects, journal = StoredProjects(store), StoredJournal(store)
    repositories = GitRepositories(platform.folders.data, platform.worker)
    repositories.tidy()
    reasoner = _build_reasoner(context)
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
        memories=memories, log=events, secrets=secrets, clock=clock, on_capture=on_change
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
        vectors=None if vectors is None else vectors.index,
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
    context.provide(Memories, memories)
    context.add(
        outlines,
        uses,
        queue,
        projects,
        repositories,
        journal,
        notes,
        resolver,
        capture,
        editor,
        RemoteSync(
            sync=sync,
            resolver=resolver,
            user_remote=settings.user_remote,
            find_remote=lambda caller: _find_remote(caller, settings.remote),
        ),
        consolidation,
        transfer,
        change_log,
        history,
        BulkEditor(history),
        MemoryVersions(editor),
    )
    if reasoner is not None:
        context.provide(Reasoner, reasoner)


def locate_torn_objects(data: Path) -> Path:
    """Return the folder for objects of git that a crash left incomplete."""
    return data / TORN


def git_version(environ: Mapping[str, str], seconds: float) -> str:
    """Return the version of the caller's git. Raises GitFailed where none runs."""
    return git_programs.version(environ, seconds=seconds)


def _build_reasoner(context: Composition) -> Reasoner | None:
    """Build the model that merges and answers: the one that summarizes, if it is a model."""
    platform, settings = context[Platform], context[Settings]
    if settings.summarizer.provider == "extractive":
        return None
    # Late: its libraries take long to load.
    from agent_memory.features.memories.adapters.reasoner import CONTEXT_TOKENS, LlmReasoner
    from agent_memory.features.toc.chat_models import build_chat

    local = settings.summarizer.provider == "llama"
    return LlmReasoner(
        build_chat(context, "questions", in_background=False),
        StoredTokenBudget(platform.store),
        platform.clock,
        context_tokens=settings.llama.context_size if local else CONTEXT_TOKENS,
        daily_tokens=settings.summarizer.daily_token_budget,
    )


def _log_note_failure(home: Home, exc: GitFailed) -> None:
    logger.warning("notes.not_written", home=home, error=str(exc))


def _find_remote(caller: Caller, default: str) -> str:
    """Return the git remote of projects that is set where the caller is."""
    if not caller.folder:
        return default
    loaded = config.load(caller.environ, project_dir=Path(caller.folder))
    return loaded.settings.memories.remote
