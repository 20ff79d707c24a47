"""The size of an index on disk."""

from pathlib import Path


def measure_folder(folder: Path) -> int:
    """Return the size of the files in a folder; a file that vanishes meanwhile counts as 0."""
    return sum(_file_bytes(path) for path in folder.iterdir())


def _file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
