"""How much room an index takes."""

from pathlib import Path


def folder_bytes(folder: Path) -> int:
    """Of the files in it; those that vanish meanwhile do not count."""
    return sum(_file_bytes(path) for path in folder.iterdir())


def _file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
