"""Store a hook's input in the spool when no daemon answers."""

import os
import sys

from .command_client import CHUNK, HookDeadline, try_write_error, write


def store(
    arguments: list[str], nonce: str, at_ms: int, data: bytes, deadline: HookDeadline
) -> None:
    """Have another process remove secrets from the input, store it, and start a daemon that records
    it.

    The process starts even after the deadline. If we cannot wait for it, it continues alone: it has
    all its input, and holds no descriptor that our caller waits for.
    """
    source = make_input_file(data)
    errors, errors_end = os.pipe()
    command = [
        sys.executable,
        "-I",
        "-m",
        "agent_memory.daemon.hook_fallback",
        nonce,
        str(at_ms),
        *arguments,
    ]
    null = os.open(os.devnull, os.O_WRONLY)
    child = os.posix_spawn(
        sys.executable,
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, source, 0),
            (os.POSIX_SPAWN_DUP2, null, 1),
            (os.POSIX_SPAWN_DUP2, errors_end, 2),
        ],
        setsid=True,
    )
    for descriptor in (source, errors_end, null):
        os.close(descriptor)

    def copy_errors() -> None:
        while part := os.read(errors, CHUNK):
            try_write_error(part)
        os.waitpid(child, 0)

    deadline.wait(copy_errors)


def ask_consent(arguments: list[str], nonce: str, at_ms: int, data: bytes) -> bool:
    """Have another process read the settings, and return whether the hook may be recorded."""
    source = make_input_file(data)
    null = os.open(os.devnull, os.O_RDWR)
    module = "agent_memory.daemon.hook_consent"
    child = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-m", module, nonce, str(at_ms), *arguments],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, source, 0),
            (os.POSIX_SPAWN_DUP2, null, 1),
            (os.POSIX_SPAWN_DUP2, null, 2),
        ],
        setsid=True,
    )
    os.close(source)
    os.close(null)
    _, status = os.waitpid(child, 0)
    return status == 0


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
