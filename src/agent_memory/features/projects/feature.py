"""The overview of projects."""

from agent_memory.config import Settings
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.log.ports import Events
from agent_memory.features.memories.adapters.memory_store import StoredNoteQueue
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.projects.services.projects import ProjectOverview
from agent_memory.features.secrets.core import build_strict_cleaner
from agent_memory.kernel.composition import Composition


def build(context: Composition) -> None:
    settings = context[Settings]
    clean = build_strict_cleaner(settings.security)
    context.add(
        ProjectOverview(
            projects=context[StoredProjects],
            resolver=context[ProjectResolver],
            outlines=context[MemoryEditor].outlines,
            notes=context[StoredNoteQueue],
            knowledge=context[KnowledgeStore],
            log=context[Events],
            consent=context[RecordingConsent],
            remote=clean(settings.memories.remote),
            user_remote=clean(settings.memories.user_remote),
            org_remote=clean(settings.memories.org_repository),
        )
    )
