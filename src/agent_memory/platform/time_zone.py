"""The time zone of the user, in which days begin and end. All that is stored is in UTC."""

import os
from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

SYSTEM_FILE = Path("/etc/localtime")


def find_zone(name: str, environ: Mapping[str, str] = os.environ) -> tzinfo:
    """Return the zone of this name; the system's, by TZ or its own file, if the name is empty.

    Without either, it is UTC. Raises ValueError if there is no zone of this name.
    """
    if name:
        return _load(name)
    written = environ.get("TZ", "").removeprefix(":")
    try:
        if written and not written.startswith("/"):
            return _load(written)
        with Path(written or SYSTEM_FILE).open("rb") as file:
            return ZoneInfo.from_file(file)
    except (ValueError, OSError):
        return UTC


def is_zone(name: str) -> bool:
    """Return whether this is empty or the name of a zone."""
    try:
        find_zone(name, {"TZ": "UTC"})
    except ValueError:
        return False
    return True


def _load(name: str) -> tzinfo:
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (
        KeyError,
        OSError,
    ) as exc:  # ZoneInfoNotFoundError is a KeyError; a folder is an OSError
        raise ValueError(f"there is no time zone {name!r}") from exc
