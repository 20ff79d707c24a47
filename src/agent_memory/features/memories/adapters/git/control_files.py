"""Control files of a repository: libgit2 reads them whole, and the whole process waits for it.

So they are looked at first. One that is no regular file, as a FIFO that nobody writes to, or that
is longer than any of its kind, comes from somebody who means harm. So are HEAD, all that
it leads to as far as its commit, and the refs of notes; not the objects behind those.
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
MAX_STEPS = 10  # from one symbolic ref to the next; the library follows five

_SMALL = ("HEAD", "config", "config.worktree", "commondir", "gitdir")
_LONG = ("packed-refs", "shallow", "objects/info/alternates")  # these grow with the repository
_NOTES = ("refs/notes/mem", "refs/notes/cs")
_OID = re.compile(r"[0-9a-f]{40}", re.ASCII)
_SECTION = re.compile(r"\s*\[\s*(?P<name>[A-Za-z0-9.-]*)[^\]]*\]?(?P<rest>.*)", re.DOTALL)
_PATH = re.compile(r"\s*path\s*=\s*(?P<value>.*?)\s*", re.IGNORECASE | re.DOTALL)


def check(folder: Path) -> None:
    """Raise GitFailed where a control file of the repository at `folder` is not one."""
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
        with contextlib.suppress(OSError), os.scandir(f"{common}/{notes}") as found:
            for each in found:
                if not each.is_file(follow_symlinks=False):  # known without another look at it
                    _check(each.path, MAX_BYTES)


def read(path: Path) -> str:
    """Read a small control file."""
    _check(str(path), MAX_BYTES)
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", "surrogateescape")
    except OSError as exc:
        raise GitFailed(f"{path} cannot be read: {exc.strerror}") from exc


def common_folder(own: Path) -> Path:
    """Where refs and objects are: a worktree has only its HEAD and index of its own."""
    return read_common_folder(own).resolve()


def read_common_folder(own: Path) -> Path:
    """The same as it is written: to resolve it takes a look at every folder on the way."""
    pointer = own / "commondir"
    return own / read(pointer).strip() if _check(str(pointer), MAX_BYTES) else own


def is_linked(home: Path, path: Path) -> bool:
    """Whether a link stands in the place of a file of the repository at `home`, or on the way to
    it: what is removed or replaced there is somebody else's."""
    while path != home:
        if path.is_symlink():
            return True
        path = path.parent
    return False


def _check(path: str, limit: int | None = None) -> bool:
    """Whether a file is there. Text, not a Path: this is done for every hook."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return False  # where it cannot be read, opening the repository says so
    if stat.S_ISDIR(found.st_mode):
        return False
    if not stat.S_ISREG(found.st_mode):
        raise GitFailed(f"{path} is not a regular file: it is not read")
    if limit is not None and found.st_size > limit:
        raise GitFailed(f"{path} is longer than {limit} bytes: it is not read")
    return True


def _check_head(folder: Path, common: Path) -> None:
    """Follow HEAD as the library will, as far as the file of its commit."""
    path = f"{folder}/HEAD"
    for _ in range(MAX_STEPS):
        if not _check(path, MAX_BYTES):
            return
        try:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123
                text = file.read(MAX_REF_BYTES).decode("utf-8", "surrogateescape").strip()
        except OSError:
            return  # opening the repository says so
        if _OID.fullmatch(text):
            _check(f"{common}/objects/{text[:2]}/{text[2:]}")
        if not text.startswith("ref:"):
            return
        path = f"{common}/{text.removeprefix('ref:').strip()}"


def _check_includes(config: Path) -> None:
    """Follow what a config includes, as the library will."""
    waiting, seen = [config], set[Path]()
    while waiting and len(seen) < MAX_INCLUDES:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for value in _includes(read(path)):
            if "\\" in value:
                raise GitFailed(f"{path} includes {value!r}, which is not supported")
            included = path.parent / Path(value.strip('"')).expanduser()
            if _check(str(included), MAX_BYTES):
                waiting.append(included)
    if waiting:
        raise GitFailed(f"{config} includes more than {MAX_INCLUDES} files")


def _includes(text: str) -> Iterator[str]:
    section = ""
    for line in text.split("\n"):
        rest = line
        while header := _SECTION.fullmatch(rest):
            section, rest = header["name"].lower(), header["rest"]
        if section.startswith("include") and (found := _PATH.fullmatch(rest)):
            yield found["value"]
