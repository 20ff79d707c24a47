"""A bounded walk through folders by their descriptors."""

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent_memory.features.runs.model.workspaces import (
    GIT,
    EntryKind,
    FolderEntry,
    Truncated,
    quote_path,
)
from agent_memory.features.runs.services.workspaces import safe_paths
from agent_memory.features.runs.services.workspaces.safe_paths import FOLDER, Identity, ResolvedPath
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import ToolFailed
from agent_memory.kernel.text import gitignore
from agent_memory.kernel.text.gitignore import IgnoreFile

MAX_NAMES = 20_000  # of one folder: all are held in memory to be sorted
MAX_DEPTH = 40  # each level holds an open descriptor
_GLANCE = 1_000


@dataclass(slots=True, kw_only=True)
class Walk:
    forbidden: frozenset[Identity]
    cancel_token: CancelToken
    left: int  # entries
    until: float  # monotonic time
    deep: bool

    def entries(
        self, folder: int, parts: Sequence[str], rules: Sequence[IgnoreFile]
    ) -> Iterator[FolderEntry | Truncated]:
        """Yield the entries. `rules` are those of the folders above this one."""
        if self.deep:
            rules = [*rules, _rules(folder)]
        names, more = self._names(folder)
        for name, kind in names:
            if not self.left:
                yield Truncated("there are too many files: give a path")
                return
            self.left -= 1
            self.cancel_token.check()
            if time.monotonic() > self.until:
                self.left = 0
                yield Truncated("the walk takes too long: give a path")
                return
            path = (*parts, name)
            is_folder = kind is EntryKind.FOLDER
            if self.deep and gitignore.is_ignored(rules, path, folder=is_folder):
                continue
            inner = self._open_folder(folder, name) if is_folder else None
            try:
                if is_folder and inner is None:
                    continue  # forbidden, removed or not readable
                yield FolderEntry(path="/".join(path), kind=kind)
                if inner is None or not self.deep:
                    continue
                if len(path) >= MAX_DEPTH:
                    yield Truncated(f"{quote_path('/'.join(path))} is too deep to list")
                    continue
                for entry in self.entries(inner, path, rules):
                    yield entry
                    if isinstance(entry, Truncated) and not self.left:
                        return
            finally:
                if inner is not None:
                    os.close(inner)
        if more:
            name = quote_path("/".join(parts)) or "this folder"
            yield Truncated(f"{name} has more than {MAX_NAMES:,} entries")

    def _names(self, folder: int) -> tuple[list[tuple[str, EntryKind]], bool]:
        names: list[tuple[str, EntryKind]] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if len(names) == MAX_NAMES:
                        return sorted(names), True
                    if not len(names) % _GLANCE:
                        self.cancel_token.check()
                    if entry.name != GIT:
                        names.append((entry.name, _kind(entry)))
        except OSError as exc:
            raise ToolFailed(f"a folder cannot be read: {exc.strerror}") from exc
        return sorted(names), False

    def _open_folder(self, folder: int, name: str) -> int | None:
        try:
            inner = os.open(name, FOLDER, dir_fd=folder)
        except OSError:
            return None
        if safe_paths.identity(os.fstat(inner)) in self.forbidden:
            os.close(inner)
            return None
        return inner


def _kind(entry: "os.DirEntry[str]") -> EntryKind:
    if entry.is_symlink():
        return EntryKind.LINK
    if entry.is_dir(follow_symlinks=False):
        return EntryKind.FOLDER
    return EntryKind.FILE if entry.is_file(follow_symlinks=False) else EntryKind.OTHER


def _rules(folder: int) -> IgnoreFile:
    try:
        descriptor = safe_paths.open_file(
            ResolvedPath(folder=folder, name=gitignore.NAME, path=gitignore.NAME)
        )
    except ToolFailed:
        return IgnoreFile()
    if descriptor is None:
        return IgnoreFile()
    with os.fdopen(descriptor, "rb") as file:
        try:
            data = file.read(gitignore.MAX_BYTES)
        except OSError:
            return IgnoreFile()
    return IgnoreFile.parse(data.decode("utf-8", "replace"))
