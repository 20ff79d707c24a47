"""A `Disk` as a mounted file system: the protocol of /dev/fuse, spoken without a library.

`python -m tests.faults.fuse FOLDER BASE` mounts it and serves it until its input ends. A line of
input asks for something, and is answered by a line: `position` for the length of the log, `refuse
SUFFIX:NUMBER ...` for syncs that fail, `save PATH` for a pickle of the recording. Needs the right
to mount.
"""

import contextlib
import ctypes
import errno
import os
import pickle
import select
import stat
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.disk import ROOT, Disk, Image, Node, Recording

MAX_WRITE = 1 << 20
PAGE = 4096
BLOCK = 512
FOREVER = 1 << 30  # seconds for which the kernel may keep what it knows: nobody else changes it
MAX_NAME = 255
_MNT_DETACH = 2
_MS_NOSUID_NODEV = 6

_HEADER = struct.Struct("<IIQQIIIHH")
_ANSWER = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
_VALID = struct.Struct("<QII")
_NODE = struct.Struct("<QQQQII")
_SETATTR = struct.Struct("<IIQQQQQQIIIIIIII")
_TRANSFER = struct.Struct("<QQIIQII")
_DIRENT = struct.Struct("<QQII")
_ALLOCATE = struct.Struct("<QQQII")
_INIT = struct.Struct("<IIIIHHIIHHIIHHHHHHHHHHHH")

_SET_MODE, _SET_SIZE = 1, 8
_KEEP_SIZE = 1
_NO_REPLACE = 1
# Reads at once, big writes, lookups in parallel, no open and release, more than 32 pages.
_FLAGS = 1 << 0 | 1 << 5 | 1 << 18 | 1 << 17 | 1 << 22


class _Refused(Exception):
    """A request that ends in an error of the system."""

    def __init__(self, number: int) -> None:
        self.number = number


class Server:
    """Answers the kernel's requests, one after the other."""

    def __init__(self, disk: Disk, descriptor: int) -> None:
        self._disk = disk
        self._fuse = descriptor
        self._listings: dict[int, list[tuple[str, int]]] = {}
        self._handles = 0
        self._born_ns = time.time_ns()
        self._answers: dict[int, Callable[[int, bytes], bytes]] = {
            1: self._lookup,
            3: self._getattr,
            4: self._setattr,
            5: self._readlink,
            6: self._symlink,
            8: self._mknod,
            9: self._mkdir,
            10: self._unlink,
            11: self._rmdir,
            12: self._rename,
            13: self._link,
            15: self._read,
            16: self._write,
            17: self._statfs,
            20: self._fsync,
            26: self._init,
            27: self._opendir,
            28: self._readdir,
            29: self._releasedir,
            30: self._fsync,
            43: self._fallocate,
            45: self._rename2,
        }

    def answer_one(self) -> bool:
        """Answer the next request; False once the file system is unmounted."""
        try:
            request = os.read(self._fuse, MAX_WRITE + (64 << 10))
        except OSError as exc:
            if exc.errno == errno.ENODEV:
                return False
            if exc.errno in (errno.ENOENT, errno.EINTR):  # the request was withdrawn
                return True
            raise
        _, opcode, unique, inode, *_ = _HEADER.unpack_from(request)
        if opcode in (2, 36, 42):  # forget, interrupt: no answer is expected
            return True
        number, payload = 0, b""
        try:
            answer = self._answers.get(opcode)
            if answer is None:
                raise _Refused(errno.ENOSYS)
            payload = answer(inode, request[_HEADER.size :])
        except _Refused as exc:
            number = exc.number
        with contextlib.suppress(FileNotFoundError):  # whoever asked was killed meanwhile
            os.write(self._fuse, _ANSWER.pack(16 + len(payload), -number, unique) + payload)
        return True

    def _init(self, _inode: int, data: bytes) -> bytes:
        _, _, readahead, flags = struct.unpack_from("<IIII", data)
        pages = MAX_WRITE // PAGE
        return _INIT.pack(
            7, 31, readahead, _FLAGS & flags, 64, 48, MAX_WRITE, 1, pages, *([0] * 15)
        )

    def _lookup(self, inode: int, data: bytes) -> bytes:
        found = self._folder(inode).entries.get(_name(data))
        if found is None:
            raise _Refused(errno.ENOENT)
        return self._entry(found)

    def _getattr(self, inode: int, _data: bytes) -> bytes:
        return _VALID.pack(FOREVER, 0, 0) + self._attributes(inode)

    def _setattr(self, inode: int, data: bytes) -> bytes:
        valid, _, _, size, _, _, _, _, _, _, _, mode, *_ = _SETATTR.unpack_from(data)
        node = self._node(inode)
        if valid & _SET_MODE:
            self._disk.set_mode(inode, mode)
        if valid & _SET_SIZE and size != len(node.data):
            self._disk.resize(inode, size)
        node.changed_ns = time.time_ns()
        return self._getattr(inode, b"")

    def _readlink(self, inode: int, _data: bytes) -> bytes:
        return os.fsencode(self._node(inode).target)

    def _symlink(self, inode: int, data: bytes) -> bytes:
        name, target = data.split(b"\0")[:2]
        return self._create(inode, name, stat.S_IFLNK | 0o777, os.fsdecode(target))

    def _mknod(self, inode: int, data: bytes) -> bytes:
        mode, _, umask, _ = struct.unpack_from("<IIII", data)
        if not stat.S_ISREG(mode):
            raise _Refused(errno.EPERM)
        return self._create(inode, data[16:-1], stat.S_IFREG | (mode & 0o7777 & ~umask))

    def _mkdir(self, inode: int, data: bytes) -> bytes:
        mode, umask = struct.unpack_from("<II", data)
        return self._create(inode, data[8:-1], stat.S_IFDIR | (mode & 0o7777 & ~umask))

    def _create(self, inode: int, name: bytes, mode: int, target: str = "") -> bytes:
        folder, decoded = self._folder(inode), os.fsdecode(name)
        if len(name) > MAX_NAME:
            raise _Refused(errno.ENAMETOOLONG)
        if decoded in folder.entries:
            raise _Refused(errno.EEXIST)
        created = self._disk.create(inode, decoded, mode, target)
        self._node(created).changed_ns = folder.changed_ns = time.time_ns()
        return self._entry(created)

    def _unlink(self, inode: int, data: bytes) -> bytes:
        self._existing(inode, _name(data))
        return self._remove(inode, _name(data))

    def _rmdir(self, inode: int, data: bytes) -> bytes:
        if self._node(self._existing(inode, _name(data))).entries:
            raise _Refused(errno.ENOTEMPTY)
        return self._remove(inode, _name(data))

    def _remove(self, inode: int, name: str) -> bytes:
        self._disk.remove(inode, name)
        self._node(inode).changed_ns = time.time_ns()
        return b""

    def _rename(self, inode: int, data: bytes) -> bytes:
        return self._move(inode, struct.unpack_from("<Q", data)[0], data[8:])

    def _rename2(self, inode: int, data: bytes) -> bytes:
        new_folder, flags, _ = struct.unpack_from("<QII", data)
        if flags & ~_NO_REPLACE:
            raise _Refused(errno.EINVAL)
        new_name = os.fsdecode(data[16:].split(b"\0")[1])
        if flags and new_name in self._folder(new_folder).entries:
            raise _Refused(errno.EEXIST)
        return self._move(inode, new_folder, data[16:])

    def _move(self, inode: int, new_folder: int, names: bytes) -> bytes:
        name, new_name = (os.fsdecode(each) for each in names.split(b"\0")[:2])
        moved = self._existing(inode, name)
        replaced = self._folder(new_folder).entries.get(new_name)
        if replaced == moved:
            return b""
        if replaced is not None and self._node(replaced).entries:
            raise _Refused(errno.ENOTEMPTY)
        self._disk.rename(inode, name, new_folder, new_name)
        self._node(inode).changed_ns = self._node(new_folder).changed_ns = time.time_ns()
        return b""

    def _link(self, inode: int, data: bytes) -> bytes:
        (linked,) = struct.unpack_from("<Q", data)
        name = _name(data[8:])
        if name in self._folder(inode).entries:
            raise _Refused(errno.EEXIST)
        self._disk.link(linked, inode, name)
        return self._entry(linked)

    def _read(self, inode: int, data: bytes) -> bytes:
        _, offset, size, *_ = _TRANSFER.unpack_from(data)
        return bytes(self._node(inode).data[offset : offset + size])

    def _write(self, inode: int, data: bytes) -> bytes:
        _, offset, size, *_ = _TRANSFER.unpack_from(data)
        given = data[_TRANSFER.size : _TRANSFER.size + size]
        self._disk.write(inode, offset, given)
        self._node(inode).changed_ns = time.time_ns()
        return struct.pack("<II", size, 0)

    def _statfs(self, _inode: int, _data: bytes) -> bytes:
        room = 1 << 24  # blocks: 64 GiB
        return struct.pack("<QQQQQIIII24x", room, room, room, room, room, PAGE, MAX_NAME, PAGE, 0)

    def _fsync(self, inode: int, _data: bytes) -> bytes:
        self._node(inode)
        if not self._disk.sync(inode):
            raise _Refused(errno.EIO)
        return b""

    def _opendir(self, inode: int, _data: bytes) -> bytes:
        """A listing is of one moment: removing while reading skips nothing."""
        self._handles += 1
        entries = [(".", inode), ("..", ROOT), *self._folder(inode).entries.items()]
        self._listings[self._handles] = entries
        return struct.pack("<QII", self._handles, 0, 0)

    def _readdir(self, _inode: int, data: bytes) -> bytes:
        handle, offset, size, *_ = _TRANSFER.unpack_from(data)
        listed = b""
        for number, (name, inode) in enumerate(self._listings[handle][offset:], start=offset + 1):
            encoded = os.fsencode(name)
            node = self._disk.nodes.get(inode)
            kind = stat.S_IFMT(node.mode) >> 12 if node else 0
            entry = _DIRENT.pack(inode, number, len(encoded), kind) + encoded
            entry += bytes(-len(entry) % 8)
            if len(listed) + len(entry) > size:
                break
            listed += entry
        return listed

    def _releasedir(self, _inode: int, data: bytes) -> bytes:
        self._listings.pop(struct.unpack_from("<Q", data)[0], None)
        return b""

    def _fallocate(self, inode: int, data: bytes) -> bytes:
        _, offset, length, mode, _ = _ALLOCATE.unpack_from(data)
        if mode & ~_KEEP_SIZE:
            raise _Refused(errno.EOPNOTSUPP)
        if not mode and offset + length > len(self._node(inode).data):
            self._disk.resize(inode, offset + length)
        return b""

    def _node(self, inode: int) -> Node:
        node = self._disk.nodes.get(inode)
        if node is None:
            raise _Refused(errno.ENOENT)
        return node

    def _folder(self, inode: int) -> Node:
        node = self._node(inode)
        if not node.is_folder:
            raise _Refused(errno.ENOTDIR)
        return node

    def _existing(self, inode: int, name: str) -> int:
        found = self._folder(inode).entries.get(name)
        if found is None:
            raise _Refused(errno.ENOENT)
        return found

    def _entry(self, inode: int) -> bytes:
        return _NODE.pack(inode, 0, FOREVER, FOREVER, 0, 0) + self._attributes(inode)

    def _attributes(self, inode: int) -> bytes:
        node = self._node(inode)
        seconds, nanos = divmod(node.changed_ns or self._born_ns, 10**9)
        links = 2 if node.is_folder else max(node.links, 0)
        return _ATTRIBUTES.pack(
            *(inode, node.size, -(-node.size // BLOCK)),
            *(seconds, seconds, seconds, nanos, nanos, nanos),
            *(node.mode, links, os.getuid(), os.getgid(), 0, PAGE, 0),
        )


def _name(data: bytes) -> str:
    return os.fsdecode(data.partition(b"\0")[0])


def mount(folder: Path) -> int:
    """Mount a file system that this process serves: the descriptor of its requests. Raises
    OSError where that is not allowed, or there is no FUSE."""
    descriptor = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = (
        f"fd={descriptor},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},"
        f"default_permissions,max_read={MAX_WRITE}"
    )
    _system_call(
        "mount", b"forgetful", os.fsencode(folder), b"fuse.forgetful", _MS_NOSUID_NODEV,
        options.encode(),
    )  # fmt: skip
    return descriptor


def unmount(folder: Path) -> None:
    _system_call("umount2", os.fsencode(folder), _MNT_DETACH)


def _system_call(name: str, *arguments: bytes | int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main(folder: Path, base: Path) -> None:
    image: Image = pickle.loads(base.read_bytes())  # noqa: S301  our own
    disk = Disk(image)
    descriptor = mount(folder)
    try:
        _say("mounted")
        _serve(Server(disk, descriptor), disk, descriptor)
    finally:
        with contextlib.suppress(OSError):
            unmount(folder)


def _serve(server: Server, disk: Disk, descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.register(0, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready == descriptor:
                if not server.answer_one():
                    return
            elif not _answer_line(disk):
                return


def _answer_line(disk: Disk) -> bool:
    line = sys.stdin.readline()
    command, _, path = line.rstrip("\n").partition(" ")
    if command == "position":
        _say(str(len(disk.log)))
    elif command == "refuse":
        specs = (spec.partition(":") for spec in path.split())
        disk.refuse((kind, int(number)) for kind, _, number in specs)
        _say("refused")
    elif command == "save":
        Path(path).write_bytes(pickle.dumps(Recording(disk.base, disk.log)))
        _say("saved")
    return bool(line)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
