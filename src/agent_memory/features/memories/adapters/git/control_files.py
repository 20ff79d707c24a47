"""Check the control files of a repository before libgit2 reads them.

libgit2 reads them whole, and the whole process waits for it. A file that is not regular, such as a
FIFO without a writer, or that is longer than any of its kind, is an attack. Checked are the control
files, HEAD with all that it leads to as far as its commit, and the notes refs; not the objects
behind those.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from agent_memory.kernel.errors import GitFailed

MAX_BYTES = 1 << 20
MAX_INCLUDES = 20
MAX_REF_BYTES = 4096
MAX_STEPS = 10  # symbolic refs in a row; libgit2 follows five

_SMALL = ("HEAD", "config", "config.worktree", "commondir", "gitdir")
_LONG = ("packed-refs", "shallow", "objects/info/alternates")  # these grow with the repository
_NOTES = ("refs/notes/mem", "refs/notes/cs")
_OID = re.compile(r"[0-9a-f]{40}", re.ASCII)
_SECTION = re.compile(r"\s*\[\s*(?P<name>[A-Za-z0-9.-]*)[^\]]*\]?(?P<rest>.*)", re.DOTALL)
_PATH = re.compile(r"\s*path\s*=\s*(?P<value>.*?)\s*", re.IGNORECASE | re.DOTALL)


def check(folder: Path) -> None:
    """Raise GitFailed if a control file of the repository at `folder` is unsafe to read."""
    pointer = folder / ".git"
    if pointer.is_file():
        folder /= read(pointer).removeprefix("gitdir:").strip()
    elif pointer.is_dir():
        folder = pointer
    common = read_common_folder(folder)
    for home in dict.fromkeys((folder, common)):
        for name in _SMALL:
            if _check(f"{home}/{name}", MAX_BYTES) and name.startswith("config"):
                _check_includes(home / name)
        for name in _LONG:
            _check(f"{home}/{name}")
    _check_head(folder, common)
    for notes in _NOTES:
        with contextlib.suppress(OSError), os.scandir(f"{common}/{notes}") as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):  # no further stat needed
                    _check(entry.path, MAX_BYTES)


def read(path: Path) -> str:
    """Read a small control file."""
    _check(str(path), MAX_BYTES)
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", "surrogateescape")
    except OSError as exc:
        raise GitFailed(f"{path} cannot be read: {exc.strerror}") from exc


def read_common_folder(folder: Path) -> Path:
    """Return the folder of refs and objects: a worktree has only its own HEAD and index. It is not
    resolved, which would stat every folder on the way."""
    pointer = folder / "commondir"
    return folder / read(pointer).strip() if _check(str(pointer), MAX_BYTES) else folder


def is_linked(home: Path, path: Path) -> bool:
    """Return whether the file, or a folder between it and `home`, is a link: its target must be
    neither removed nor replaced."""
    while path != home:
        if path.is_symlink():
            return True
        path = path.parent
    return False


def _check(path: str, limit: int | None = None) -> bool:
    """Return whether the file exists. Takes text, not a Path, as every hook calls this."""
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return False  # opening the repository reports it
    if stat.S_ISDIR(status.st_mode):
        return False
    if not stat.S_ISREG(status.st_mode):
        raise GitFailed(f"{path} is not a regular file and is not read")
    if limit is not None and status.st_size > limit:
        raise GitFailed(f"{path} is longer than {limit} bytes and is not read")
    return True


def _check_head(folder: Path, common: Path) -> None:
    """Follow HEAD as libgit2 will, as far as the file of its commit."""
    path = f"{folder}/HEAD"
    for _ in range(MAX_STEPS):
        if not _check(path, MAX_BYTES):
            return
        try:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123
                text = file.read(MAX_REF_BYTES).decode("utf-8", "surrogateescape").strip()
        except OSError:
            return  # opening the repository reports it
        if _OID.fullmatch(text):
            _check(f"{common}/objects/{text[:2]}/{text[2:]}")
        if not text.startswith("ref:"):
            return
        path = f"{common}/{text.removeprefix('ref:').strip()}"


def _check_includes(config: Path) -> None:
    """Follow the includes of a config, as libgit2 will."""
    pending, seen = [config], set[Path]()
    while pending and len(seen) < MAX_INCLUDES:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        for value in _includes(read(path)):
            if "\\" in value:
                raise GitFailed(f"{path} includes {value!r}, which is not supported")
            included = path.parent / Path(value.strip('"')).expanduser()
            if _check(str(included), MAX_BYTES):
                pending.append(included)
    if pending:
        raise GitFailed(f"{config} includes more than {MAX_INCLUDES} files")


def _includes(text: str) -> Iterator[str]:
    section = ""
    for line in text.split("\n"):
        rest = line
        while header := _SECTION.fullmatch(rest):
            section, rest = header["name"].lower(), header["rest"]
        if section.startswith("include") and (match := _PATH.fullmatch(rest)):
            yield match["value"]
