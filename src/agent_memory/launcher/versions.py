"""Versions of the launcher and the daemon."""

import json
import os

from .command_client import VERSION, connect, data_folder, write

OLDER = "the next command replaces it once it is idle"
NEWER = "it is newer than this command, and answers it"


def print_version(program: str) -> int:
    """Print our version, and the daemon's if it differs. Start and replace no daemon."""
    folder = data_folder()
    connection = connect(folder)
    text = f"{program} {VERSION}"
    if connection is not None:
        connection.close()
        running = daemon_version(folder)
        if running and running != VERSION:
            text += f" (daemon {running} is running{describe_outlook(running)})"
    write(1, f"{text}\n".encode())
    return 0


def describe_outlook(running: str) -> str:
    """Return what happens to a daemon of another version: only a newer release replaces it."""
    if release(running) == release(VERSION):
        return ""
    return f"; {OLDER if release(running) < release(VERSION) else NEWER}"


def release(version: str) -> tuple[int, ...]:
    """Return 1.2.3 as numbers, without what follows the release number."""
    numbers = []
    for part in version.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def daemon_version(folder: str) -> str:
    """Return the version in the daemon's record, or an empty string if that cannot be read."""
    try:
        with open(os.path.join(folder, "daemon.json"), encoding="utf-8") as file:
            return str(json.load(file)["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
