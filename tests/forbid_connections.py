"""Run a program that may not connect to any socket: `forbid_connections.py PROGRAM ARGUMENT...`."""

import ctypes
import os
import platform
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
CONNECT = {"x86_64": 42, "aarch64": 203}
# Load the number of the system call; return EPERM for connect, and allow all others.
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
REFUSE, ALLOW = 0x00050001, 0x7FFF0000


def forbid_connections() -> None:
    """Forbid this process and its children to connect to a socket."""
    program = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (LOAD, 0, 0, 0),
            (IF_EQUAL, 0, 1, CONNECT[platform.machine()]),
            (RETURN, 0, 0, REFUSE),
            (RETURN, 0, 0, ALLOW),
        )
    )
    instructions = ctypes.create_string_buffer(program)
    description = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
        PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(description), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    forbid_connections()
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606
