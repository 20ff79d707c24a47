"""Build what every feature stands on: the store, the clock, the worker, the model server."""

import os
from contextlib import ExitStack
from pathlib import Path

import structlog

from agent_memory.bootstrap.build_store import loading_driver, open_for_reading, open_store
from agent_memory.config import LlamaSettings, Settings, StorageSettings
from agent_memory.features import import_modules
from agent_memory.kernel.status import StoreHealth
from agent_memory.platform import time_zone
from agent_memory.platform.base import HealthWatcher, LeasedServer, Platform
from agent_memory.platform.clock import SystemClock
from agent_memory.platform.folders import DaemonFolders
from agent_memory.platform.foreground import Foreground
from agent_memory.platform.llm.api_keys import read_api_key
from agent_memory.platform.llm.external import ExternalServer
from agent_memory.platform.llm.llama import LlamaOptions, LlamaServer
from agent_memory.platform.opened_store import OpenStore
from agent_memory.platform.worker.process import ProcessWorker

log = structlog.get_logger()


def build_platform(
    settings: Settings, folders: DaemonFolders, *, read_only: bool = False
) -> Platform:
    if not read_only:
        for module in import_modules("store_opening"):
            module.prepare(folders)
    clock = SystemClock()
    watchers: list[HealthWatcher] = [_log_health]

    def watch(health: StoreHealth) -> None:
        for watcher in watchers:
            watcher(health)

    if settings.storage.url:
        opened = _open_server_store(settings.storage, folders, watch)
    elif read_only:
        opened = open_for_reading(folders.db_path, watch)
    else:
        opened = open_store(folders.db_path, watch, clock, folders.data)
    return Platform(
        folders=folders,
        read_only=read_only,
        clock=clock,
        zone=time_zone.find_zone(settings.cli.timezone),
        opened=opened,
        worker=ProcessWorker(),
        foreground=Foreground(),
        model=_build_model_server(settings.llama),
        watchers=watchers,
        programs=ExitStack(),
        closing=ExitStack(),
    )


def _open_server_store(
    settings: StorageSettings, folders: DaemonFolders, watch: HealthWatcher
) -> OpenStore:
    with loading_driver():  # late: it takes time to load
        from agent_memory.bootstrap.build_server_store import open_server_store
    return open_server_store(settings.url, settings.tenant, folders, watch)


def _build_model_server(settings: LlamaSettings) -> LeasedServer:
    model_dir = Path(settings.model_dir).expanduser()
    if settings.endpoint:
        return ExternalServer(
            endpoint=settings.endpoint,
            api_key=read_api_key(settings),
            model_dir=str(model_dir),
        )
    options = LlamaOptions(
        server=settings.server,
        model_dir=model_dir,
        model=settings.model,
        context_size=settings.context_size,
        parallel=settings.parallel,
        args=tuple(settings.args),
        start_seconds=settings.start_seconds,
        idle_minutes=settings.idle_minutes,
    )
    return LlamaServer(options, os.environ)


def _log_health(health: StoreHealth) -> None:
    if health.writable:
        log.warning("store.works_again")
    else:
        log.error("store.failing", readable=health.readable, reason=health.reason)
