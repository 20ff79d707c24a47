"""Build agent runs. What a run needs is loaded with the first one."""

import os
import secrets
from dataclasses import dataclass

import structlog

from agent_memory.bootstrap.build_knowledge import KnowledgeFeature
from agent_memory.bootstrap.build_log import LogFeature
from agent_memory.bootstrap.build_memories import MemoriesFeature
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.bootstrap.build_recall import RecallFeature
from agent_memory.features.runs.adapters.line_patterns import compile_pattern
from agent_memory.features.runs.adapters.programs import SupervisedPrograms
from agent_memory.features.runs.services.agent_catalog import AgentCatalog
from agent_memory.features.runs.services.agent_folder import AgentCatalogFolder
from agent_memory.features.runs.services.recorder import RunMemory
from agent_memory.features.runs.services.runs import (
    RunDependencies,
    RunEnvironment,
    RunRules,
    Runs,
)
from agent_memory.features.runs.services.toolset import ToolsetBuilder
from agent_memory.features.runs.services.workspaces.folders import GuardedFolders
from agent_memory.kernel import futures, ulids

logger = structlog.get_logger()

# Runs are non-interactive: git must not ask for a password.
GIT_ENVIRONMENT = {"SSH_ASKPASS_REQUIRE": "never"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsFeature:
    runs: Runs
    memory: RunMemory
    catalog: AgentCatalog


def build_runs(
    platform: Platform,
    log: LogFeature,
    memories: MemoriesFeature,
    knowledge: KnowledgeFeature,
    recall: RecallFeature,
) -> RunsFeature:
    settings, folders, clock = platform.settings, platform.folders, platform.clock
    catalog = AgentCatalog(AgentCatalogFolder(folders.own_files))
    memory = RunMemory(ingest=log.ingest, log=log.events, knowledge=knowledge.store, clock=clock)
    closed = (folders.data, folders.own_files, folders.db_path, *folders.private)

    def load() -> RunDependencies:
        from agent_memory.bootstrap import build_models

        model = build_models.build_chat_model(settings, platform.model)
        platform.closing.callback(model.close)
        return RunDependencies(
            model=model,
            agent_catalog=catalog,
            toolset_builder=ToolsetBuilder(
                workspaces=GuardedFolders(tuple(str(folder) for folder in closed)),
                compile_pattern=compile_pattern,
                pages=build_models.build_web_pages(settings),
                programs=SupervisedPrograms(os.environ),
                worker=platform.worker,
                recall=recall.recall,
                facts=knowledge.facts,
                clock=clock,
                skills=catalog.render,
                seconds=settings.runs.tool_seconds,
            ),
            memory=memory,
            context=recall.context,
            resolver=memories.resolver,
            clock=clock,
            rules=RunRules(
                max_turns=settings.runs.max_turns,
                context_size=settings.llama.context_size,
                commands=tuple(settings.runs.commands),
            ),
            environ={**os.environ, **GIT_ENVIRONMENT},
        )

    runs = Runs(
        RunEnvironment(
            load=futures.once(load),
            new_id=lambda: ulids.derive_ulid(clock.now(), secrets.token_hex()),
            on_crash=_log_crash,
            max_runs=settings.runs.max_runs,
        )
    )
    return RunsFeature(runs=runs, memory=memory, catalog=catalog)


def _log_crash(exc: BaseException) -> None:
    logger.error("run.crashed", exc_info=exc)
