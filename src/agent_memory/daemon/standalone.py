"""Run a command in its own process: the daemon itself, and commands that work without one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_memory import __version__, config
from agent_memory.daemon import data_folders, runtime_files
from agent_memory.interfaces.cli.backend import (
    Backend,
    MigrateOptions,
    MigrateResult,
    RunningDaemon,
    StartOptions,
    StorePlace,
)
from agent_memory.interfaces.cli.programs import PROGRAMS
from agent_memory.interfaces.cli.runner import Runner
from agent_memory.interfaces.command_socket.calls import CommandCall
from agent_memory.interfaces.observing import Observer
from agent_memory.interfaces.wire.errors import get_codes
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import AgentMemoryError, FeatureUnavailable, StorageLocked
from agent_memory.launcher import command_client, environment, starting
from agent_memory.launcher.terminal import EditorFile, ask, ask_key, page

if TYPE_CHECKING:
    from agent_memory.features.hooks.services.installing import Installing
    from agent_memory.features.maintenance.services.admin import Admin
    from agent_memory.kernel.progress import OnProgress
    from agent_memory.kernel.status import CheckResult, StoreRepair

STOP_SECONDS = 15.0
WAKE_SECONDS = 5.0


class ProcessControl:
    """Control of the daemon of this user's data folder."""

    def start(self, options: StartOptions, say: Callable[[str], None], /) -> int:
        folders = config.folders(os.environ)
        if options.foreground:
            return _run_daemon(options)
        try:
            running = command_client.reach_daemon(str(folders.data))
        except command_client.ConnectionForbidden as exc:
            raise FeatureUnavailable(f"{exc.strerror}: start one outside of it") from exc
        if running is not None:
            running.close()
            starting.wait_until_ready(str(folders.data))
            say(f"Daemon is already running (PID {runtime_files.find_lock_holder(folders)})\n")
            if _as_arguments(options) or options.config is not None:
                command_client.complain(
                    "note: the running daemon keeps its settings; stop it to change them\n"
                )
            return 0
        code = starting.start(
            None if options.config is None else str(options.config),
            by_hand=True,
            options=_as_arguments(options),
        )
        if code == 0:
            say(f"Daemon started (PID {runtime_files.find_lock_holder(folders)})\n")
        return code

    def stop(self, say: Callable[[str], None], /) -> int:
        folders = config.folders(os.environ)
        pid = runtime_files.find_lock_holder(folders)
        if pid is None:
            say("No daemon is running\n")
            return 0
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)  # a stopped process gets no other signal
        deadline = time.monotonic() + STOP_SECONDS
        while runtime_files.find_lock_holder(folders) == pid:
            if time.monotonic() > deadline:
                raise AgentMemoryError(f"the daemon (PID {pid}) did not stop; see its log")
            time.sleep(runtime_files.POLL_SECONDS)
        say("Daemon stopped\n")
        return 0

    def restart(self, say: Callable[[str], None], /) -> int:
        from agent_memory.interfaces import listening  # loads `ssl`, which no other command needs

        folders = config.folders(os.environ)
        running = self.find_daemon()
        if running is not None and running.foreground:
            raise FeatureUnavailable(
                f"the daemon (PID {running.pid}) runs in the foreground, in a terminal or as a"
                " service: restart it there"
            )
        record = runtime_files.read_start(folders)
        options = StartOptions(
            grpc_port=record.flags.get("grpc.port"),
            http_port=record.flags.get("http.port"),
            db_path=Path(path) if (path := record.flags.get("storage.path")) else None,
            log_level=record.flags.get("log.level"),
            config=Path(record.config_file) if record.config_file else None,
        )
        settings = config.load(
            os.environ, file=options.config, flags=record.flags, started_by_hand=True
        ).settings
        listening.load_tls(settings.http.tls_cert, settings.http.tls_key)
        if running is not None:
            self.stop(lambda _: None)
        code = self.start(options, lambda _: None)
        if code == 0:
            pid = runtime_files.find_lock_holder(folders)
            say(f"Daemon {'started' if running is None else 'restarted'} (PID {pid})\n")
        return code

    def find_daemon(self) -> RunningDaemon | None:
        folders = config.folders(os.environ)
        pid = runtime_files.find_lock_holder(folders)
        if pid is None:
            return None
        record = runtime_files.read_start(folders)
        return RunningDaemon(
            pid=pid,
            config_file=Path(record.settings_file or folders.config_file),
            foreground=record.foreground,
        )

    def wake_team_sync(self) -> None:
        from agent_memory.features.hooks import feature as build_hooks

        if runtime_files.find_lock_holder(config.folders(os.environ)) is None:
            return
        launcher = build_hooks.build_installing().launcher
        words = ("memory", "remote", "status", "--format", "quiet")  # which wakes the job
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(  # noqa: S603  our own; no shell
                launcher.words(*words),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=WAKE_SECONDS,
                check=False,
            )

    def build_installing(self) -> Installing:
        from agent_memory.features.hooks import feature as build_hooks

        return build_hooks.build_installing()

    def measure_data(self) -> tuple[list[Path], int]:
        folders = data_folders.list_folders(os.environ)
        return folders, data_folders.measure(folders)

    def describe_server_memory(self) -> str:
        return data_folders.describe_server_memory(os.environ)

    def check_deletable(self) -> None:
        data_folders.check_deletable(os.environ)

    def delete_data(self) -> list[Path]:
        return data_folders.delete(os.environ)

    def state(self) -> str:
        folders = config.folders(os.environ)
        pid = runtime_files.find_lock_holder(folders)
        if pid is not None:
            return f"starting or stopping (PID {pid})"
        _, _, message = starting.read_failed_start(str(folders.data / starting.FAILED_START))
        return message.rstrip("\n")

    def repair(
        self, config_file: Path | None, on_progress: Callable[[int], None], /
    ) -> StoreRepair:
        from agent_memory.bootstrap import build_store

        folders = config.folders(os.environ)
        settings = config.load(os.environ, file=config_file).settings
        if settings.storage.url:
            raise FeatureUnavailable(
                "the database is on a server: check it with `pg_amcheck`, and restore what is"
                " damaged from a dump (`pg_restore`) or a replica"
            )
        # A daemon that starts now waits for this lock.
        lock = runtime_files.lock(folders, 0.0, lambda: True)
        try:
            repaired = build_store.repair(
                folders.data / Path(settings.storage.path or "db").expanduser(), on_progress
            )
            _forget_failed_start(folders)
            return repaired
        finally:
            runtime_files.unlock(lock)

    @contextlib.contextmanager
    def lock_data(self, data: Path, /) -> Iterator[None]:
        folders = replace(config.folders(os.environ), data=data)
        _refuse_daemon(folders)
        runtime_files.prepare(folders.data)
        # A daemon that starts now waits for this lock.
        lock = runtime_files.lock(folders, 0.0, lambda: False)
        try:
            yield
            _forget_failed_start(folders)
        finally:
            runtime_files.unlock(lock)

    def migrate(self, options: MigrateOptions, on_progress: OnProgress, /) -> MigrateResult:
        from agent_memory.bootstrap import build_migration

        folders = config.folders(os.environ)
        storage = config.load(os.environ, file=options.config).settings.storage
        tenant = options.tenant or storage.tenant

        def to_place(place: StorePlace) -> build_migration.Place:
            if isinstance(place, Path):
                return place
            return build_migration.ServerPlace(url=place, tenant=tenant)

        source, target = to_place(options.source), to_place(options.target)
        build_migration.refuse_same(source, target)
        data = {folders.data, *(it.parent for it in _list_paths(options))}
        for folder in sorted(data):
            _refuse_daemon(replace(folders, data=folder))
        with self.lock_data(folders.data):
            report = build_migration.migrate(
                source,
                target,
                folders.data / Path(storage.path or "db").expanduser(),
                folders.data,
                on_progress,
            )
        return MigrateResult(
            report=report,
            target=target
            if isinstance(target, Path)
            else build_migration.hide_password(target.url),
            tenant=tenant,
            set_tenant=storage.tenant,
        )

    def examine(self, config_file: Path | None, folder: Path, /) -> Iterator[CheckResult]:
        from agent_memory.daemon import doctor

        return doctor.diagnose(dict(os.environ), config_file, folder)


class ProcessChannel:
    """The terminal of this process."""

    def out(self, data: bytes, /) -> None:
        command_client.write(1, data)

    def err(self, data: bytes, /) -> None:
        command_client.write(2, data)

    def ask(self, prompt: bytes, /, *, hidden: bool) -> bytes:
        return ask(prompt, hidden)

    def ask_key(self, prompt: bytes, /) -> bytes:
        return ask_key(prompt)

    def read(self) -> bytes:
        return os.read(0, command_client.CHUNK)

    def page(self, data: bytes, /) -> None:
        page(data)

    def edit(self, data: bytes, /) -> bytes:
        file = EditorFile()
        try:
            return file.edit(data)
        finally:
            file.close()


def main(program: str, arguments: list[str], *, read_only: bool = False) -> int:
    os.umask(0o077)
    arguments = environment.enter(arguments)
    columns, lines = command_client.terminal_size()
    call = CommandCall(
        program=program,
        arguments=tuple(arguments),
        cwd=Path(command_client.working_folder()),
        environ=dict(os.environ),
        input_is_terminal=os.isatty(0),
        output_is_terminal=os.isatty(1),
        errors_are_terminal=os.isatty(2),
        columns=columns,
        lines=lines,
    )
    if command_client.is_completing(program):
        from agent_memory.interfaces.cli import completing

        completing.attach_sources(
            {program: PROGRAMS[program]}, [program, *os.environ.get("COMP_WORDS", "").split()]
        )
    try:
        with _open_reader() if read_only else contextlib.nullcontext(_backend()) as backend:
            runner = Runner(PROGRAMS, backend, __version__, Observer())
            return runner.run(call, ProcessChannel(), CancelToken())
    except AgentMemoryError as exc:
        code = get_codes(exc).exit
        command_client.complain(f"error: {exc}\n", code)
        return code
    except KeyboardInterrupt:
        return command_client.INTERRUPTED
    except BrokenPipeError:
        return command_client.BROKEN_PIPE


def _backend() -> Backend:
    return Backend(services=None, control=ProcessControl(), open_offline=_offline, own_db=None)


@contextlib.contextmanager
def _open_reader() -> Iterator[Backend]:
    """Build the services over the files of a daemon that this process may not connect to."""
    from agent_memory.bootstrap import root

    folders = config.folders(os.environ)
    settings = config.load(os.environ).settings
    db_path = folders.data / Path(settings.storage.path or "db").expanduser()
    try:
        place = tempfile.TemporaryDirectory(prefix="agent-memory-")
    except OSError as exc:
        raise FeatureUnavailable(
            "this sandbox allows neither connections nor temporary files: use the MCP tools"
        ) from exc
    with place as folder:
        app = root.build_reader(settings, db_path, folders.data, folders.config, Path(folder))
        yield replace(_backend(), services=app.services, calls=app.calls, own_db=db_path.resolve())


# Loading the daemon with its adapters and gRPC takes longer than most of these commands run (1.1 s
# of 1.6), so only the functions that need them import them.


def _run_daemon(options: StartOptions) -> int:
    from agent_memory.daemon import daemon

    return daemon.run(
        daemon.DaemonOptions(
            config_file=options.config,
            flags={
                "grpc.port": options.grpc_port,
                "http.port": options.http_port,
                "storage.path": None if options.db_path is None else str(options.db_path),
                "log.level": options.log_level,
            },
            by_itself=options.auto,
        )
    )


@contextlib.contextmanager
def _offline(db_path: Path) -> Iterator[Admin]:
    from agent_memory.bootstrap import build_store

    with build_store.offline_admin(db_path) as admin:
        yield admin


def _as_arguments(options: StartOptions) -> tuple[str, ...]:
    """Return the options as arguments of the background process."""
    arguments: list[str] = []
    for name, value in (
        ("--port", options.grpc_port),
        ("--http-port", options.http_port),
        ("--db-path", options.db_path),
        ("--log-level", options.log_level),
    ):
        if value is not None:
            arguments += [name, str(value)]
    return tuple(arguments)


def _refuse_daemon(folders: config.Folders) -> None:
    """Raise StorageLocked if a daemon uses a data folder."""
    pid = runtime_files.find_lock_holder(folders)
    if pid is not None:
        raise StorageLocked(
            f"a daemon (PID {pid}) is running on {folders.data}: run `memory-daemon stop` first"
        )


def _list_paths(options: MigrateOptions) -> list[Path]:
    return [place for place in (options.source, options.target) if isinstance(place, Path)]


def _forget_failed_start(folders: config.Folders) -> None:
    """Let the next command start a daemon at once: what made earlier starts fail is mended."""
    (folders.data / starting.FAILED_START).unlink(missing_ok=True)


if __name__ == "__main__":
    words = sys.argv[1:]
    reads = words[0] == command_client.READ_ONLY
    program, *rest = words[1:] if reads else words
    sys.exit(main(program, rest, read_only=reads))
