"""The memories of one domain as git notes of one repository."""

import contextlib
import functools
import hashlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path

import pygit2
import structlog
from pygit2.enums import FileMode

from agent_memory.features.memories.adapters.git import (
    commits,
    opening,
    pruning,
    reading,
    records,
    ref_repair,
    refs,
    syncing,
    trees,
)
from agent_memory.features.memories.adapters.git.file_modes import FileModes
from agent_memory.features.memories.adapters.git.index import NoteIndex, NoteIndexes
from agent_memory.features.memories.adapters.git.note_edits import NoteEdit
from agent_memory.features.memories.adapters.git.pruning import Pruner
from agent_memory.features.memories.adapters.git.reading import NoteReader
from agent_memory.features.memories.adapters.git.remotes import Remotes
from agent_memory.features.memories.adapters.git.torn_objects import TornObjects
from agent_memory.features.memories.model import memories as memory_rules
from agent_memory.features.memories.model.memories import Draft, Home, Memory
from agent_memory.features.memories.model.notes import NotebookContents, NoteProblem
from agent_memory.kernel.errors import GitFailed, InvalidInput
from agent_memory.kernel.ids import Domain, MemoryKey
from agent_memory.platform.ports import Worker

TRIES = 20

log = structlog.get_logger()


class GitNotebook:
    """A Notebook. Each call opens the repository: handles are for one thread and go stale."""

    def __init__(
        self,
        home: Home,
        domain: Domain,
        *,
        modes: FileModes,
        indexes: NoteIndexes,
        remotes: Remotes,
        torn: TornObjects,
        worker: Worker | None = None,
    ) -> None:
        self._home = home
        self._domain = domain
        self._modes = modes
        self._indexes = indexes
        self._remotes = remotes
        self._torn = torn
        self._reader = NoteReader(home, domain, worker)
        self._pruning = Pruner(
            modes=modes, scratch=remotes.scratch, is_cancelled=remotes.closed.is_set
        )

    def read_state(self) -> str:
        with self._open_repository(alone=False) as repository:
            present = [(name, str(commit.id)) for name, commit in refs.list_tips(repository)]
        return hashlib.sha256(repr(present).encode()).hexdigest() if present else ""

    def read(self) -> NotebookContents:
        memories: dict[MemoryKey, Memory] = {}
        problems: list[NoteProblem] = []
        with self._open_repository(alone=False) as repository:
            for namespace, commit in refs.list_tips(repository):
                blobs = trees.read_leaves(commit.tree).blobs
                ref = refs.name_of(namespace)
                for path in _find_sealed(repository, blobs):
                    target = trees.parse_path(path).commit
                    problems.append(NoteProblem(ref=ref, target=target, reason=records.TOO_LONG))
                    del blobs[path]
                texts = (_blob(repository, oid) for oid in blobs.values())
                read = self._reader.read(records.parse_contents, texts, namespace)
                for path, contents in zip(blobs, read, strict=True):
                    for memory in contents.memories:
                        known = memories.get(memory.key)
                        memories[memory.key] = (
                            memory if known is None else memory_rules.merge_copies(known, memory)
                        )
                    problems.extend(
                        NoteProblem(
                            ref=ref,
                            target=trees.parse_path(path).commit,
                            reason=reason,
                        )
                        for reason in contents.reasons
                    )
        if any(p.reason == records.EARLIER for p in problems) and self._has_all_legacy(memories):
            problems = [p for p in problems if p.reason != records.EARLIER]
        return NotebookContents(memories=tuple(memories.values()), problems=tuple(problems))

    def _has_all_legacy(self, keys: Container[MemoryKey]) -> bool:
        """Return whether all entries in legacy formats have been imported."""
        return all(
            MemoryKey(self._domain, draft.namespace, draft.digest) in keys
            for draft in self.read_legacy()
        )

    def write(self, memories: Sequence[Memory], /) -> None:
        by_namespace: dict[str, list[Memory]] = {}
        for memory in memories:
            if memory.domain != self._domain:
                raise InvalidInput(f"{memory.id} is of {memory.domain}, not of {self._domain}")
            by_namespace.setdefault(memory.namespace, []).append(memory)
        with self._open_repository() as repository:
            find_target = functools.cache(functools.partial(commits.find_target, repository))
            for namespace, group in by_namespace.items():

                def change(edit: NoteEdit, group: list[Memory] = group) -> str:
                    for memory in group:
                        edit.keep(memory, find_target(memory.commit))
                    return _message(edit)

                self._change(repository, namespace, change)

    def rehome(self) -> int:
        moved = 0
        with self._open_repository() as repository:
            head = opening.head_commit(repository)
            if not head:
                return 0
            annotated = {
                namespace: self._index(repository, namespace).commits()
                for namespace, _ in refs.list_tips(repository)
            }
            lost = commits.find_lost(repository, set().union(*annotated.values()))
            for namespace, present in annotated.items():
                gone = present & lost
                gone -= commits.find_shared(repository, namespace, gone)
                if not gone:
                    continue
                count = 0

                def change(
                    edit: NoteEdit, gone: set[str] = gone, namespace: str = namespace
                ) -> str:
                    nonlocal count
                    index = self._index(repository, namespace)
                    count = edit.move(
                        [path for path in index.paths_of(gone) if index.outlines[path].count],
                        head,
                    )
                    return f"memory: {count} moved"

                self._change(repository, namespace, change)
                moved += count
        return moved

    def find_torn(self) -> list[str]:
        with self._open_repository(alone=False):
            return self._torn.find()

    def repair(self) -> int:
        with self._open_repository() as repository:
            moved = self._torn.move(self._torn.find())
            if moved:
                log.warning("notes.torn_objects_set_aside", home=self._home, objects=moved[:20])
            damaged = ref_repair.find_damaged(repository, self._torn)
            return len(moved) + sum(self._repair(repository, name) for name in damaged)

    def _repair(self, repository: pygit2.Repository, name: str) -> bool:
        commit = ref_repair.find_last_whole(repository, name, self._torn)
        ref_repair.reset_ref(repository, name, commit)
        self._modes.fix_ref(name)
        if commit:
            self._modes.fix_objects([commit])
        log.warning("notes.mended", repository=self._home, ref=name, commit=commit or "removed")
        return True

    def erase(self, keys: Sequence[MemoryKey], /) -> int:
        """Remove all but tombstones, which keep forgotten memories from coming back by fetch."""
        changed = 0
        past: set[str] = set()
        # A concurrent fetch might rely on objects that are about to be removed.
        with self._indexes.get_remote_lock(self._home), self._open_repository() as repository:
            for namespace in dict.fromkeys(key.namespace for key in keys):
                name = refs.name_of(namespace)
                before = refs.get_tip(repository, name)
                copies = [
                    (copy, commit)
                    for copy in refs.list_tracking(repository, namespace)
                    if (commit := refs.get_tip(repository, copy)) is not None
                ]
                if before is None and not copies:
                    continue
                starts = [commit for _, commit in copies] + ([before] if before else [])
                known = [
                    oid
                    for ref in (name, *(copy for copy, _ in copies))
                    for oid in pruning.read_reflog(repository, ref)
                ]
                if before is not None and self._rewrite(repository, namespace, keys):
                    changed += 1
                elif not any(commit.parents for commit in starts) and not copies and not known:
                    continue
                past |= pruning.find_reachable(
                    repository, [str(start.id) for start in starts] + known
                )
                for copy, _ in copies:
                    refs.remove(repository, copy)
                    self._modes.fix_ref(copy)
                    changed += 1
                pruning.drop_reflog(repository, name)
            past -= pruning.find_reachable(
                repository, [str(tip.id) for _, tip in refs.list_tips(repository)]
            )
            if past and (left := self._pruning.prune(past)):
                # Other refs, reflogs, kept packs or alternates still have them.
                log.warning("notes.erase_left", repository=self._home, count=len(left))
        return changed

    def read_legacy(self) -> list[Draft]:
        ordered: dict[Draft, None] = {}
        with self._open_repository(alone=False) as repository:
            for namespace in memory_rules.NAMESPACES:
                ours = refs.name_of(namespace)
                names = (
                    ours,
                    refs.EARLIER_PREFIX + namespace,
                    *refs.list_tracking(repository, namespace),
                )
                tips = [tip for name in names if (tip := refs.get_tip(repository, name))]
                blobs = {oid for tip in tips for oid in trees.read_leaves(tip.tree).blobs.values()}
                small = (oid for oid in sorted(blobs) if not _is_sealed(repository, oid))
                texts = (_blob(repository, oid) for oid in small)
                for drafts in self._reader.read(reading.parse_drafts, texts, namespace):
                    ordered |= dict.fromkeys(drafts)
        return sorted(ordered, key=lambda draft: draft.created_ms or 0)

    def fetch(self, remote: str, environ: Mapping[str, str], /) -> bool:
        changed = False
        with self._indexes.get_remote_lock(self._home):
            with self._open_repository() as repository:
                place = self._remotes.resolve(repository, remote, self._modes.umask)
                for namespace in memory_rules.NAMESPACES:
                    refs.check_links(repository, place.tracking + namespace)
                    refs.release(repository, place.tracking + namespace, self._indexes.since)
            with syncing.syncing_objects(place.home):
                self._remotes.fetch(place, environ)
        with self._open_repository() as repository:
            for namespace in memory_rules.NAMESPACES:
                theirs = refs.get_tip(repository, place.tracking + namespace)
                if theirs is not None and self._merge(repository, namespace, theirs):
                    changed = True
        return changed

    def push(self, remote: str, environ: Mapping[str, str], /) -> bool | None:
        with self._indexes.get_remote_lock(self._home):
            return self._push(remote, environ)

    def _push(self, remote: str, environ: Mapping[str, str]) -> bool | None:
        with self._open_repository() as repository:
            place = self._remotes.resolve(repository, remote, self._modes.umask)
            due = {
                namespace: str(commit.id)
                for namespace, commit in refs.list_tips(repository)
                if (known := refs.get_tip(repository, place.tracking + namespace)) is None
                or known.id != commit.id
            }
        if not due:
            return False
        pushed = self._remotes.push(place, due, environ)
        with self._open_repository() as repository:
            for namespace in pushed:
                name = place.tracking + namespace
                known = refs.get_tip(repository, name)
                self._advance(
                    repository,
                    name,
                    None if known is None else str(known.id),
                    due[namespace],
                    "memory: pushed",
                )
        return True if len(pushed) == len(due) else None

    def _advance(
        self, repository: pygit2.Repository, name: str, old: str | None, new: str, message: str
    ) -> bool:
        moved = refs.advance(repository, name, old, new, message, self._indexes.since)
        if moved:
            self._modes.fix_ref(name)
            if old is None:
                syncing.sync_new_ref(Path(self._home), name)
        return moved

    @contextlib.contextmanager
    def _open_repository(self, *, alone: bool = True) -> Iterator[pygit2.Repository]:
        """Open the repository. `alone` excludes other threads that write or use the indexes."""
        lock = self._indexes.get_write_lock(self._home) if alone else contextlib.nullcontext()
        with lock, opening.open_repository(self._home) as repository:
            try:
                yield repository
            except (pygit2.GitError, KeyError, OSError, ValueError) as exc:
                raise GitFailed(f"the notes of {self._home}: {exc}") from exc

    def _index(self, repository: pygit2.Repository, namespace: str) -> NoteIndex:
        ref = refs.name_of(namespace)
        known = self._indexes.get(self._home, self._domain, ref)
        commit = refs.get_tip(repository, ref)
        tip = None if commit is None else str(commit.id)
        if known is not None and known.tip == tip:
            return known
        index = NoteIndex(tip=tip)
        if commit is not None:
            self._fill(repository, index, commit.tree, known or NoteIndex(), namespace)
        self._indexes.keep(self._home, self._domain, ref, index)
        return index

    def _fill(
        self,
        repository: pygit2.Repository,
        index: NoteIndex,
        tree: pygit2.Tree,
        known: NoteIndex,
        namespace: str,
    ) -> None:
        leaves = trees.read_leaves(tree)
        index.others = frozenset(leaves.others)
        outlines = {known.blobs[path]: outline for path, outline in known.outlines.items()}
        new = [oid for oid in dict.fromkeys(leaves.blobs.values()) if oid not in outlines]
        outlines |= {oid: records.SEALED for oid in new if _is_sealed(repository, oid)}
        new = [oid for oid in new if oid not in outlines]
        texts = (_blob(repository, oid) for oid in new)
        outlines |= zip(
            new, self._reader.read(records.parse_outlines, texts, namespace), strict=True
        )
        for path, oid in leaves.blobs.items():
            index.put(path, oid, outlines[oid])

    def _edit(self, repository: pygit2.Repository, index: NoteIndex, namespace: str) -> NoteEdit:
        return NoteEdit(
            index,
            lambda oid: _blob(repository, oid),
            lambda text: self._reader.parse_text(text, namespace),
        )

    def _change(
        self, repository: pygit2.Repository, namespace: str, change: Callable[[NoteEdit], str]
    ) -> bool:
        """Apply a change to the latest notes. Return whether they changed."""
        for _ in range(TRIES):
            index = self._index(repository, namespace)
            edit = self._edit(repository, index, namespace)
            message = change(edit)
            if not edit.texts:
                return False
            parents = [] if index.tip is None else [index.tip]
            if self._write(repository, namespace, index, edit, parents, message):
                return True
        raise GitFailed(f"the notes of {self._home} change too often: try again")

    def _write(
        self,
        repository: pygit2.Repository,
        namespace: str,
        index: NoteIndex,
        edit: NoteEdit,
        parents: list[str],
        message: str,
        others: Mapping[str, trees.Entry] | None = None,
    ) -> bool:
        """Commit these changes and move the ref. Return False if the ref has moved meanwhile."""
        blobs = {
            path: str(repository.create_blob(text)) if text else None
            for path, text in edit.texts.items()
        } | edit.held
        tree = None if index.tip is None else commits.get_commit(repository, index.tip).tree
        free = {path: entry for path, entry in (others or {}).items() if trees.is_free(tree, path)}
        changes: dict[str, trees.Change] = {**free}
        for path, blob in blobs.items():
            changes[path] = None if blob is None else (blob, FileMode.BLOB)
        oids = trees.write_trees(repository, tree, changes)
        who = commits.get_signature(repository)
        commit = str(repository.create_commit(None, who, who, message + "\n", oids[-1], [*parents]))
        self._modes.fix_objects([*filter(None, blobs.values()), *map(str, oids), commit])
        syncing.sync_objects_folder(Path(self._home))
        if not self._advance(repository, refs.name_of(namespace), index.tip, commit, message):
            return False
        index.tip = commit
        index.others |= frozenset(free)
        for path, blob in blobs.items():
            if blob is None:
                index.remove(path)
            else:
                index.put(path, blob, edit.outlines[path])
        return True

    def _rewrite(
        self, repository: pygit2.Repository, namespace: str, keys: Sequence[MemoryKey]
    ) -> bool:
        """Drop these memories and all history. Return False if there is nothing to drop."""
        for _ in range(TRIES):
            index = self._index(repository, namespace)
            if index.tip is None:
                return False
            edit = self._edit(repository, index, namespace)
            dropped = [
                edit.drop(key.digest)
                for key in keys
                if key.namespace == namespace and key.domain == self._domain
            ]
            if not any(dropped) and not commits.get_commit(repository, index.tip).parents:
                return False
            if self._write(repository, namespace, index, edit, [], "memory: history rewritten"):
                return True
        raise GitFailed(f"the notes of {self._home} change too often: try again")

    def _merge(self, repository: pygit2.Repository, namespace: str, theirs: pygit2.Commit) -> bool:
        name = refs.name_of(namespace)
        other = str(theirs.id)
        for _ in range(TRIES):
            ours = refs.get_tip(repository, name)
            if ours is None:
                done = self._advance(repository, name, None, other, "memory: fetched")
            elif ours.id == theirs.id or repository.descendant_of(ours.id, theirs.id):
                return False
            elif repository.descendant_of(theirs.id, ours.id):
                done = self._advance(repository, name, str(ours.id), other, "memory: fetched")
            else:
                done = self._unite(repository, namespace, theirs)
            if done:
                return True
        raise GitFailed(f"the notes of {self._home} change too often: try again")

    def _unite(self, repository: pygit2.Repository, namespace: str, theirs: pygit2.Commit) -> bool:
        """Merge what is new in theirs into ours, memory by memory."""
        index = self._index(repository, namespace)
        if index.tip is None:
            return False
        edit = self._edit(repository, index, namespace)
        leaves = trees.read_leaves(theirs.tree)
        known = set(index.blobs.values())
        new = {path: oid for path, oid in leaves.blobs.items() if oid not in known}
        sealed = set(_find_sealed(repository, new))
        paths = [path for path in new if path not in sealed]
        texts = [_blob(repository, leaves.blobs[path]) for path in paths]
        read = self._reader.read(reading.parse_parts, texts, namespace)
        for path, text, parts in zip(paths, texts, read, strict=True):
            edit.merge_text(path, text, parts)
        for path in sorted(sealed):
            edit.add_sealed(path, leaves.blobs[path])
        others = {name: entry for name, entry in leaves.others.items() if name not in index.others}
        parents = [index.tip, str(theirs.id)]
        return self._write(
            repository, namespace, index, edit, parents, "memory: notes merged", others
        )


def _find_sealed(repository: pygit2.Repository, blobs: Mapping[str, str]) -> list[str]:
    return [path for path, oid in blobs.items() if _is_sealed(repository, oid)]


def _is_sealed(repository: pygit2.Repository, oid: str) -> bool:
    """Return whether the blob is too long to read."""
    try:
        _, size = repository.odb.read_header(oid)
    except KeyError:  # reading it reports that it is missing
        return False
    return size > records.MAX_TEXT_BYTES


def _blob(repository: pygit2.Repository, oid: str) -> bytes:
    blob = repository.get(oid)
    if not isinstance(blob, pygit2.Blob):
        raise GitFailed(
            f"{repository.path} lacks the object {oid} of its notes; git fsck shows what else is"
            " missing, and a fetch may bring it back"
        )
    return blob.data


def _message(edit: NoteEdit) -> str:
    counts = [f"{edit.added} captured"] if edit.added else []
    counts += [f"{edit.updated} updated"] if edit.updated else []
    return "memory: " + ", ".join(counts)
