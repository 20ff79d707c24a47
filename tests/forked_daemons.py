"""The process that has loaded the program, and forks daemons and commands."""

import ctypes
import gc
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from agent_memory import features
from agent_memory.bootstrap import build_server_store
from agent_memory.config import SecuritySettings
from agent_memory.daemon import daemon, doctor, serving, standalone
from agent_memory.features.secrets.core import build_log_cleaner
from agent_memory.interfaces.cli import completing, remote
from agent_memory.interfaces.cli.programs import PROGRAMS
from agent_memory.interfaces.http import application
from tests.fork_server import run_launcher, serve, set_environment

# By what needs them; here for all.
_LOADED_LATE = (application, build_server_store, doctor, remote, serving)
_EXECUTED = ["-I", "-m"]  # what the launcher passes to Python before a module of ours
_DESCRIPTORS = 64  # more than the launcher has open
_CLONE_NEWNET = 0x40000000


def main() -> None:
    """Load the program, and fork it."""
    completing.attach_sources(PROGRAMS)  # which loads every command
    for name in ("core", "feature"):  # a daemon of another user may read no library
        features.import_modules(name)
    # Compile the secret patterns, which all filters of a process share.
    build_log_cleaner(SecuritySettings())("password: hunter2")
    gc.freeze()  # or the first collection of a child copies the pages of all objects
    gc.enable()
    serve(_run_child)


def _run_child(
    words: Sequence[str], launches: bool, module: str, uid: int | None, network: str | None
) -> int:
    """Run the daemon, or a command if there are words. Return the exit code."""
    if network is not None:
        _enter_network(network)
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if module:
        _become([module, *words])
    if launches:
        return _launch(words)
    if words:
        return standalone.main(words[0], list(words[1:]))
    return daemon.run(daemon.DaemonOptions(flags={}))


def _launch(words: Sequence[str]) -> int:
    """Run the launcher, and our modules that it executes or spawns in forks."""
    execute, spawn = os.execv, os.posix_spawn

    def execute_forked(path: str, arguments: Sequence[str]) -> NoReturn:
        if list(arguments[1:3]) != _EXECUTED:
            execute(path, list(arguments))
        _become(arguments[3:])

    def spawn_forked(
        path: str, arguments: Sequence[str], environ: Mapping[str, str], **options: Any
    ) -> int:
        if list(arguments[1:3]) != _EXECUTED:
            return spawn(path, list(arguments), environ, **options)
        pid = os.fork()
        if pid == 0:
            if options.get("setsid"):
                os.setsid()
            for action, source, target in options["file_actions"]:
                assert action == os.POSIX_SPAWN_DUP2
                os.dup2(source, target)
            set_environment(dict(environ))
            _become(arguments[3:])
        return pid

    os.execv, os.posix_spawn = execute_forked, spawn_forked  # type: ignore[assignment]
    return run_launcher(words)


def _become(words: Sequence[str]) -> NoReturn:
    """Run a module of ours with arguments as if Python had been executed with them."""
    code: Any = 1
    try:
        for number in range(3, _DESCRIPTORS):
            with suppress(OSError):  # none has this number
                if not os.get_inheritable(number):
                    os.close(number)
        signal.set_wakeup_fd(-1)
        for caught in (signal.SIGALRM, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(caught) is not signal.SIG_IGN:
                signal.signal(caught, signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.modules.pop(words[0], None)  # else runpy warns of it
        sys.argv[1:] = words[1:]
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0)


def _enter_network(path: str) -> None:
    """Move this process into a network namespace. (os.setns comes with Python 3.12.)"""
    namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns", path)
    os.close(namespace)
