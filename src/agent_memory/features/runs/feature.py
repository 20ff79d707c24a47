"""Agent runs. What a run needs is loaded with the first one."""

import os
import secrets

import structlog

from agent_memory.config import Settings
from agent_memory.features.knowledge.ports import KnowledgeStore
from agent_memory.features.knowledge.services.facts import Facts
from agent_memory.features.log.ports import Events
from agent_memory.features.log.services.ingest import Ingest
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.recall.services.context import ContextBuilder
from agent_memory.features.recall.services.recall import Recall
from agent_memory.features.runs.adapters.line_patterns import compile_pattern
from agent_memory.features.runs.adapters.programs import SupervisedPrograms
from agent_memory.features.runs.services.agent_catalog import AgentCatalog
from agent_memory.features.runs.services.agent_folder import AgentCatalogFolder
from agent_memory.features.runs.services.recorder import RunMemory
from agent_memory.features.runs.services.runs import RunDependencies, RunEnvironment, RunRules, Runs
from agent_memory.features.runs.services.toolset import ToolsetBuilder
from agent_memory.features.runs.services.workspaces.folders import GuardedFolders
from agent_memory.kernel import futures, ulids
from agent_memory.kernel.composition import Composition
from agent_memory.platform.base import Platform
from agent_memory.platform.environment import NON_INTERACTIVE

logger = structlog.get_logger()

CLOSE_SECONDS = 2.0  # less than the daemon waits: clients that wait for a run learn how it ended


def build(context: Composition) -> None:
    platform, settings = context[Platform], context[Settings]
    folders, clock = platform.folders, platform.clock
    catalog = AgentCatalog(AgentCatalogFolder(folders.own_files))
    memory = RunMemory(
        ingest=context[Ingest], log=context[Events], knowledge=context[KnowledgeStore], clock=clock
    )
    closed = (folders.data, folders.own_files, folders.db_path, *folders.private)

    def load() -> RunDependencies:
        from agent_memory.features.runs.adapters.completions import Completions
        from agent_memory.features.runs.adapters.web.pages import HttpPages

        model = Completions(
            platform.model,
            model=settings.llama.model,
            context_size=settings.llama.context_size,
            turn_seconds=settings.runs.turn_seconds,
        )
        platform.closing.callback(model.close)
        return RunDependencies(
            model=model,
            agent_catalog=catalog,
            toolset_builder=ToolsetBuilder(
                workspaces=GuardedFolders(tuple(str(folder) for folder in closed)),
                compile_pattern=compile_pattern,
                pages=HttpPages(private=settings.runs.web_private),
                programs=SupervisedPrograms(os.environ),
                worker=platform.worker,
                recall=context[Recall],
                facts=context[Facts],
                clock=clock,
                skills=catalog.render,
                seconds=settings.runs.tool_seconds,
            ),
            memory=memory,
            context=context[ContextBuilder],
            resolver=context[ProjectResolver],
            clock=clock,
            rules=RunRules(
                max_turns=settings.runs.max_turns,
                context_size=settings.llama.context_size,
                commands=tuple(settings.runs.commands),
            ),
            environ={**os.environ, **NON_INTERACTIVE},
        )

    runs = Runs(
        RunEnvironment(
            load=futures.once(load),
            new_id=lambda: ulids.derive_ulid(clock.now(), secrets.token_hex()),
            on_crash=_log_crash,
            max_runs=settings.runs.max_runs,
        )
    )
    context.add(runs, memory, catalog)
    context.is_busy.append(lambda: bool(runs.list_active()))
    context.on_stop.append(lambda: runs.close(CLOSE_SECONDS))


def _log_crash(exc: BaseException) -> None:
    logger.error("run.crashed", exc_info=exc)
