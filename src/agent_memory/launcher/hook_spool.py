"""Store a hook's input in the spool when no daemon answers."""

import os
import sys

from . import environment
from .command_client import CHUNK, HookDeadline, try_write_error, write


def store(
    arguments: list[str], nonce: str, at_ms: int, data: bytes, deadline: HookDeadline
) -> None:
    """Have another process remove secrets from the input, store it, and start a daemon that records
    it.

    The process starts even after the deadline. If we cannot wait for it, it continues alone: it has
    all its input, and holds no descriptor that our caller waits for.
    """
    errors, errors_end = os.pipe()
    child = _spawn("hook_fallback", [nonce, str(at_ms), *arguments], data, errors_end)
    os.close(errors_end)

    def copy_errors() -> None:
        while part := os.read(errors, CHUNK):
            try_write_error(part)
        os.waitpid(child, 0)

    deadline.wait(copy_errors)


def ask_consent(arguments: list[str], nonce: str, at_ms: int, data: bytes) -> bool:
    """Have another process read the settings, and return whether the hook may be recorded."""
    child = _spawn("hook_consent", [nonce, str(at_ms), *arguments], data)
    _, status = os.waitpid(child, 0)
    return status == 0


def _spawn(module: str, arguments: list[str], data: bytes, errors: int | None = None) -> int:
    """Start a module of the daemon in a session of its own, with this input, and return its id."""
    source = make_input_file(data)
    null = os.open(os.devnull, os.O_WRONLY)
    words = [*environment.home_option(), *arguments]
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-m", f"agent_memory.daemon.{module}", *words],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, source, 0),
            (os.POSIX_SPAWN_DUP2, null, 1),
            (os.POSIX_SPAWN_DUP2, null if errors is None else errors, 2),
        ],
        setsid=True,
    )
    os.close(source)
    os.close(null)
    return child


def make_input_file(data: bytes) -> int:
    """Return a file that only its descriptor reaches, with these bytes. A pipe would make us wait
    for its reader."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("hook")
    else:
        import tempfile

        file, path = tempfile.mkstemp()
        os.unlink(path)
    write(file, data)
    os.lseek(file, 0, os.SEEK_SET)
    return file
