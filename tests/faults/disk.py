"""A disk that forgets: a tree of files in memory, a log of every change, and the states in which a
power cut may leave it.

`Disk` is what programs see. `crash_image` is pure: the same base, log, position and seed give the
same state. What must survive is what was synced; what may survive is drawn by the seed from what
real file systems do, one `Temper` for each power cut:

- JOURNAL   names survive in the order in which they were given, as on ext4, XFS and btrfs; a sync
            of any file commits all names before it;
- FOLDERS   as little as POSIX promises: a name is durable once its own folder is synced, and
            folders are independent of each other;
- SYNCED    nothing survives but what was synced, in the sense of FOLDERS;
- NAMES     every name survives and no data but what was synced: the empty file after a rename.

Each write that was not synced is there, torn, or not there, independently of the others, and a file
may already have its new length without the bytes.
"""

import os
import random
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

ROOT = 1
ANY = "*"
SECTOR = 512


class Temper(Enum):
    """How kind a power cut is to what was not synced."""

    JOURNAL = "journal"
    FOLDERS = "folders"
    SYNCED = "synced"
    NAMES = "names"


class Create(NamedTuple):
    """A new file, folder or link under a name."""

    folder: int
    name: str
    inode: int
    mode: int
    target: str = ""


class Link(NamedTuple):
    """A further name of a file."""

    folder: int
    name: str
    inode: int


class Remove(NamedTuple):
    folder: int
    name: str


class Rename(NamedTuple):
    folder: int
    name: str
    new_folder: int
    new_name: str


class Write(NamedTuple):
    inode: int
    offset: int
    data: bytes


class Resize(NamedTuple):
    inode: int
    size: int


class Sync(NamedTuple):
    """`fsync` or `fdatasync` of a file, or `fsync` of a folder."""

    inode: int


class Refused(NamedTuple):
    """A sync that failed. The kernel takes what was to be synced for clean: a later sync of the
    file does not write it."""

    inode: int


Naming = Create | Link | Remove | Rename
DataChange = Write | Resize | Sync | Refused
Change = Naming | Write | Resize | Sync | Refused


@dataclass(slots=True)
class Node:
    """A file, a folder or a symbolic link, by its mode."""

    mode: int
    data: bytearray = field(default_factory=bytearray)
    entries: dict[str, int] = field(default_factory=dict)
    target: str = ""
    links: int = 1
    changed_ns: int = 0

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def size(self) -> int:
        return len(self.target) if self.target else len(self.data)


class Entry(NamedTuple):
    """What lies under a path of an image."""

    mode: int
    data: bytes = b""
    target: str = ""


Image = Mapping[str, Entry]  # by relative path; a folder comes before what is in it


class Disk:
    """The tree as programs see it. Every method that changes it appends to `log`."""

    def __init__(self, base: Image | None = None) -> None:
        self.base: Image = base or {}
        self.log: list[Change] = []
        self.nodes = _load(self.base)
        self._next = max(self.nodes) + 1
        self._suffixes: dict[int, str] = {}  # of the first names of files
        self._syncs: Counter[str] = Counter()
        self._refused: set[tuple[str, int]] = set()

    def create(self, folder: int, name: str, mode: int, target: str = "") -> int:
        inode = self._next
        self._next += 1
        self._suffixes[inode] = Path(name).suffix
        self._change(Create(folder, name, inode, mode, target))
        return inode

    def link(self, inode: int, folder: int, name: str) -> None:
        self._change(Link(folder, name, inode))

    def remove(self, folder: int, name: str) -> None:
        self._change(Remove(folder, name))

    def rename(self, folder: int, name: str, new_folder: int, new_name: str) -> None:
        self._change(Rename(folder, name, new_folder, new_name))

    def write(self, inode: int, offset: int, data: bytes) -> None:
        self._change(Write(inode, offset, data))

    def resize(self, inode: int, size: int) -> None:
        self._change(Resize(inode, size))

    def sync(self, inode: int) -> bool:
        """Return whether it succeeds."""
        kinds = (ANY, self._suffixes.get(inode, ""))
        self._syncs.update(kinds)
        refused = any((kind, self._syncs[kind]) in self._refused for kind in kinds)
        self._change(Refused(inode) if refused else Sync(inode))
        return not refused

    def refuse(self, syncs: Iterable[tuple[str, int]]) -> None:
        """Fail syncs from now on, by the suffix of the file, or ANY, and their number from 1."""
        self._refused = {(kind, self._syncs[kind] + number) for kind, number in syncs}

    def set_mode(self, inode: int, mode: int) -> None:
        """Survives at once: no program of ours relies on the opposite."""
        node = self.nodes[inode]
        node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)

    def _change(self, change: Change) -> None:
        _apply(self.nodes, change)
        self.log.append(change)


@dataclass(frozen=True, slots=True)
class Recording:
    """All that happened to a disk: the state it began with, and its log."""

    base: Image
    log: Sequence[Change]

    def crash_image(self, position: int, seed: int) -> Image:
        """The state after a power cut that followed the first `position` changes."""
        dice = random.Random(f"{seed}/{position}")
        temper = temper_of(seed)
        log = self.log[:position]
        stored = _kept_names(log, temper, dice)
        nodes = _load(self.base)
        for number, change in enumerate(log):
            if isinstance(change, Naming):
                if number in stored:
                    _apply(nodes, change)
                elif isinstance(change, Create):  # it may be kept under a later name
                    nodes.setdefault(change.inode, Node(mode=change.mode, target=change.target))
        by_inode: dict[int, list[DataChange]] = {}
        for change in log:
            if isinstance(change, DataChange):
                by_inode.setdefault(change.inode, []).append(change)
        for inode, changes in sorted(by_inode.items()):
            node = nodes.get(inode)
            if node is not None and stat.S_ISREG(node.mode):
                _replay_data(node, changes, temper, dice)
        return image_of(nodes)


def temper_of(seed: int) -> Temper:
    return random.Random(seed).choices(list(Temper), weights=(4, 3, 2, 2))[0]


def _kept_names(log: Sequence[Change], temper: Temper, dice: random.Random) -> set[int]:
    """The numbers of the changes of names that survive, closed under what they depend on."""
    names = [number for number, change in enumerate(log) if isinstance(change, Naming)]
    if temper is Temper.NAMES:
        return set(names)
    synced: dict[int, int] = {}  # by folder; under JOURNAL one for all
    for number, change in enumerate(log):
        if isinstance(change, Sync):
            synced[ROOT if temper is Temper.JOURNAL else change.inode] = number
    limits: dict[int, int] = {}

    def limit(folder: int) -> int:
        key = ROOT if temper is Temper.JOURNAL else folder
        if key not in limits:
            durable = synced.get(key, 0)
            lucky = temper is not Temper.SYNCED
            limits[key] = dice.randint(durable, len(log)) if lucky else durable
        return limits[key]

    stored: set[int] = set()
    needed: set[tuple[int, str]] = set()  # names on which something that is kept depends
    for number in reversed(names):
        change = log[number]
        assert isinstance(change, Naming)
        touched = _touched(change)
        if any(number < limit(folder) for folder, _ in touched) or needed.intersection(touched):
            stored.add(number)
            if isinstance(change, Rename):
                needed.update(touched)
    return stored


def _touched(change: Naming) -> list[tuple[int, str]]:
    own = [(change.folder, change.name)]
    if isinstance(change, Rename):
        own.append((change.new_folder, change.new_name))
    return own


def _replay_data(
    node: Node, changes: Sequence[DataChange], temper: Temper, dice: random.Random
) -> None:
    durable = _durable(changes)
    loose = [change for number, change in enumerate(changes) if number not in durable]
    if temper in (Temper.SYNCED, Temper.NAMES) or not loose:
        for number in sorted(durable):
            _apply_data(node, changes[number])
        return
    seen = _final_size(node, changes)
    how = dice.choice(("none", "all", "prefix", "some", "some"))
    ends = dice.randint(0, len(loose)) if how == "prefix" else len(loose)
    passed = 0  # of the loose ones
    for number, change in enumerate(changes):
        if number in durable:
            _apply_data(node, change)
            continue
        passed += 1
        if how == "none" or passed - 1 > ends:
            continue
        if how == "all" or (passed <= ends and (how == "prefix" or dice.random() < 0.5)):
            _apply_data(node, change)
        elif isinstance(change, Write) and dice.random() < 0.5:
            _tear(node, change, dice)
    if dice.random() < 0.25 and seen > len(node.data):
        node.data.extend(bytes(seen - len(node.data)))  # the length is there, the bytes are not


def _durable(changes: Sequence[DataChange]) -> set[int]:
    """The numbers of the changes that a sync has made durable."""
    durable: set[int] = set()
    waiting: list[int] = []
    for number, change in enumerate(changes):
        if isinstance(change, Sync):
            durable.update(waiting)
            waiting = []
        elif isinstance(change, Refused):
            waiting = []
        else:
            waiting.append(number)
    return durable


def _final_size(node: Node, changes: Iterable[DataChange]) -> int:
    size = len(node.data)
    for change in changes:
        if isinstance(change, Write):
            size = max(size, change.offset + len(change.data))
        elif isinstance(change, Resize):
            size = change.size
    return size


def _tear(node: Node, change: Write, dice: random.Random) -> None:
    """A part of a write: up to some byte, up to some sector, or any of its sectors."""
    length = len(change.data)
    if not length:
        return
    match dice.choice(("bytes", "sectors", "any")):
        case "bytes":
            _apply_data(node, change._replace(data=change.data[: dice.randrange(length)]))
        case "sectors":
            end = dice.randrange(change.offset, change.offset + length)
            end -= end % SECTOR
            if end > change.offset:
                _apply_data(node, change._replace(data=change.data[: end - change.offset]))
        case _:
            start = change.offset
            while start < change.offset + length:
                end = min(start - start % SECTOR + SECTOR, change.offset + length)
                if dice.random() < 0.5:
                    part = change.data[start - change.offset : end - change.offset]
                    _apply_data(node, Write(change.inode, start, part))
                start = end


def _apply(nodes: dict[int, Node], change: Change) -> None:
    match change:
        case Create(folder, name, inode, mode, target):
            nodes[inode] = Node(mode=mode, target=target)
            _enter(nodes, folder, name, inode)
        case Link(folder, name, inode):
            nodes[inode].links += 1
            _enter(nodes, folder, name, inode)
        case Remove(folder, name):
            _leave(nodes, folder, name)
        case Rename(folder, name, new_folder, new_name):
            if folder in nodes and name in nodes[folder].entries and new_folder in nodes:
                inode = nodes[folder].entries.pop(name)
                _enter(nodes, new_folder, new_name, inode)
        case Write() | Resize():
            _apply_data(nodes[change.inode], change)
        case Sync() | Refused():
            pass


def _enter(nodes: dict[int, Node], folder: int, name: str, inode: int) -> None:
    if folder in nodes:  # in an image its own folder may be lost
        _leave(nodes, folder, name)
        nodes[folder].entries[name] = inode


def _leave(nodes: dict[int, Node], folder: int, name: str) -> None:
    inode = nodes[folder].entries.pop(name, None) if folder in nodes else None
    if inode is not None:
        nodes[inode].links -= 1


def _apply_data(node: Node, change: DataChange) -> None:
    if isinstance(change, Write):
        if len(node.data) < change.offset:
            node.data.extend(bytes(change.offset - len(node.data)))
        node.data[change.offset : change.offset + len(change.data)] = change.data
    elif isinstance(change, Resize):
        if change.size < len(node.data):
            del node.data[change.size :]
        else:
            node.data.extend(bytes(change.size - len(node.data)))


def _load(image: Image) -> dict[int, Node]:
    nodes = {ROOT: Node(mode=stat.S_IFDIR | 0o700)}
    numbers = {"": ROOT}
    for path, entry in image.items():
        inode = numbers[path] = len(nodes) + 1
        nodes[inode] = Node(mode=entry.mode, data=bytearray(entry.data), target=entry.target)
        folder, _, name = path.rpartition("/")
        nodes[numbers[folder]].entries[name] = inode
    return nodes


def image_of(nodes: Mapping[int, Node]) -> Image:
    """Everything that can be reached by a path."""
    image: dict[str, Entry] = {}

    def walk(folder: Node, before: str) -> None:
        for name, inode in sorted(folder.entries.items()):
            node, path = nodes[inode], before + name
            image[path] = Entry(node.mode, bytes(node.data), node.target)
            if node.is_folder:
                walk(node, path + "/")

    walk(nodes[ROOT], "")
    return image


def read_folder(folder: Path) -> Image:
    """A folder of this machine as an image; sockets and pipes are left out."""
    image: dict[str, Entry] = {}

    def walk(inside: Path, before: str) -> None:
        for each in sorted(inside.iterdir(), key=lambda path: path.name):
            mode, path = each.lstat().st_mode, before + each.name
            if stat.S_ISLNK(mode):
                image[path] = Entry(mode, target=str(each.readlink()))
            elif stat.S_ISREG(mode):
                image[path] = Entry(mode, each.read_bytes())
            elif stat.S_ISDIR(mode):
                image[path] = Entry(mode)
                walk(each, path + "/")

    walk(folder, "")
    return image


def write_folder(image: Image, folder: Path) -> None:
    """The image as files in an empty folder of this machine."""
    for path, entry in image.items():
        place = folder / path
        if stat.S_ISDIR(entry.mode):
            place.mkdir(mode=stat.S_IMODE(entry.mode))
        elif stat.S_ISLNK(entry.mode):
            place.symlink_to(entry.target)
        else:
            mode = stat.S_IMODE(entry.mode)
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(entry.data)
