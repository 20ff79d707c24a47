"""Build the overview of projects."""

from agent_memory.bootstrap import build_secrets
from agent_memory.bootstrap.build_hooks import HooksFeature
from agent_memory.bootstrap.build_knowledge import KnowledgeFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.features.projects.services.projects import ProjectOverview


def build_projects(
    platform: Platform,
    log: LogFeature,
    memories: MemoriesFeature,
    knowledge: KnowledgeFeature,
    hooks: HooksFeature,
) -> ProjectOverview:
    settings = platform.settings
    clean = build_secrets.build_strict_cleaner(settings.security)
    return ProjectOverview(
        projects=memories.projects,
        resolver=memories.resolver,
        outlines=memories.editor.outlines,
        notes=memories.note_queue,
        knowledge=knowledge.store,
        log=log.events,
        consent=hooks.consent,
        remote=clean(settings.memories.remote),
        user_remote=clean(settings.memories.user_remote),
        org_remote=clean(settings.memories.org_repository),
    )
