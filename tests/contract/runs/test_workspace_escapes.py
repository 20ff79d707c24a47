"""Ways out of the folder that an agent works in, each tried and none found: by the folder itself,
and by the tools that go through it."""

import contextlib
import itertools
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from agent_memory.features.runs.model.chats import ToolCall
from agent_memory.features.runs.model.workspaces import (
    MAX_FILE_BYTES,
    NOTHING,
    EntryKind,
    FolderEntry,
    Truncated,
    compute_digest,
)
from agent_memory.features.runs.services.toolset import Toolset
from agent_memory.features.runs.services.workspaces.folders import GuardedFolder, GuardedFolders
from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import Cancelled, InvalidInput, ToolFailed
from tests.processes import LONG
from tests.tool_harness import ToolHarness, call, get_refusal, open_harness

SECRET = b"the secret outside\n"


class Ground:
    """A working folder, and what lies around it."""

    def __init__(self, top: Path) -> None:
        self.outside = top / "outside"
        self.outside.mkdir()
        self.secret = self.outside / "secret.txt"
        self.secret.write_bytes(SECRET)
        self.inside = top / "inside"
        self.inside.mkdir()
        (self.inside / "plain.txt").write_bytes(b"plain\n")
        self.own = self.inside / "data"  # a folder of the product, within the user's
        self.own.mkdir()
        (self.own / "key").write_bytes(SECRET)
        self.folder = GuardedFolders([str(self.own)]).open(str(self.inside))

    def untouched(self) -> bool:
        return (
            names(self.outside) == ["secret.txt"]
            and self.secret.read_bytes() == SECRET
            and names(self.own) == ["key"]
            and (self.own / "key").read_bytes() == SECRET
        )


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    created = Ground(tmp_path)
    yield created
    created.folder.close()
    assert created.untouched()


@pytest.fixture
def desk(ground: Ground, tmp_path: Path) -> Iterator[ToolHarness]:
    place = tmp_path / "desk"
    place.mkdir()
    with open_harness(place, barred=[ground.own]) as created:
        yield created


@pytest.fixture
def tools(ground: Ground, desk: ToolHarness) -> Toolset:
    return desk.build_toolset(ground.inside)


SWAPPING = """
import os, select, shutil, sys
target, spare, link = sys.argv[1:]
swaps = 0
where = os.readlink(link) if os.path.islink(link) else ""
def renew():
    if os.path.isfile(link) and not os.path.islink(link):  # a tool has put it in its place
        os.unlink(link)
        os.symlink(where, link) if where else os.mkfifo(link)
def put(what):
    while True:
        try:
            return os.rename(what, target)
        except OSError:  # a tool has made something there meanwhile
            shutil.rmtree(target, ignore_errors=True)
print("begun", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:
    os.rename(target, spare)
    put(link)
    os.rename(target, link)
    renew()
    put(spare)
    swaps += 1
print(swaps)
"""


class Race:
    """Another process that swaps something for a link and back, as quickly as it can."""

    def __init__(self, target: Path, spare: Path, link: Path) -> None:
        self.swaps = 0
        self._arguments = [str(target), str(spare), str(link)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", SWAPPING, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "begun\n"
        return self

    def __exit__(self, *_: object) -> None:
        self.swaps = int(self._process.communicate()[0])


def names(folder: Path | str) -> list[str]:
    return sorted(each.name for each in Path(folder).iterdir())


def read(folder: GuardedFolder, path: str) -> bytes:
    found = folder.read(path, most=MAX_FILE_BYTES).data
    if found is None:
        raise ToolFailed("there is no file")
    folder.read_lines(path, first=1, lines=9, chars=999, cancel=CancelToken())
    return found


def write(folder: GuardedFolder, path: str) -> bytes:
    before = folder.read(path, most=MAX_FILE_BYTES)
    folder.replace(before.path, b"written", before.digest)
    return b""


def write_blindly(folder: GuardedFolder, path: str) -> bytes:
    """As if nothing was there."""
    folder.replace(path, b"written", NOTHING)
    return b""


def overwrite(folder: GuardedFolder, path: str) -> bytes:
    """As if it was known what is there."""
    folder.replace(path, b"written", compute_digest(SECRET))
    return b""


def listed(folder: GuardedFolder, path: str) -> bytes:
    found = list(folder.walk(path, deep=True, most=1_000, seconds=LONG, cancel=CancelToken()))
    return b" ".join(os.fsencode(each.path) for each in found if isinstance(each, FolderEntry))


def placed(folder: GuardedFolder, path: str) -> bytes:
    return os.fsencode(folder.resolve(path))


WAYS = (read, write, write_blindly, overwrite, listed, placed)


def ways_out(ground: Ground) -> list[str]:
    """Paths that lead out of the folder, into what is ours, or nowhere."""
    inside, outside = ground.inside, ground.outside
    (inside / "deep" / "er").mkdir(parents=True)
    (inside / "file-out").symlink_to(outside / "secret.txt")
    (inside / "folder-out").symlink_to(outside)
    (inside / "up").symlink_to("..")
    (inside / "deep" / "up-two").symlink_to("../..")
    (inside / "one").symlink_to("two")
    (inside / "two").symlink_to("deep/three")
    (inside / "deep" / "three").symlink_to("../../outside/secret.txt")
    (inside / "around").symlink_to(f"{inside}/../outside/secret.txt")
    (inside / "new-out").symlink_to(outside / "new.txt")
    (inside / "self").symlink_to("self")
    (inside / "ping").symlink_to("pong")
    (inside / "pong").symlink_to("ping")
    (inside / "top").symlink_to("/")
    (inside / "process").symlink_to("/proc/self/root")
    return [
        "..",
        "../outside/secret.txt",
        "../outside/new.txt",
        "deep/../../outside/secret.txt",
        "deep/er/../../../outside/secret.txt",
        "./../inside/../outside/secret.txt",
        "../inside/plain.txt",  # comes back, but was outside
        str(outside / "secret.txt"),
        str(outside / "new.txt"),
        f"{inside}/../outside/secret.txt",
        f"{inside}x/secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "/",
        "file-out",
        "folder-out/secret.txt",
        "folder-out/new.txt",
        "up/outside/secret.txt",
        "deep/up-two/outside/secret.txt",
        "one",
        "around",
        "new-out",
        "self",
        "ping",
        "top/etc/passwd",
        "process/etc/passwd",
        "process" + str(outside / "secret.txt"),
        "data/key",
        "data/new",
        "deep/../data/key",
        str(inside / "data" / "key"),
        "a\0b",
        "plain.txt/x",
        "a/" * 3_000,
        "x" * 300,
    ]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_leads_out(ground: Ground, way: Callable[[GuardedFolder, str], bytes]) -> None:
    for path in ways_out(ground):
        with pytest.raises(ToolFailed):
            way(ground.folder, path)


@pytest.mark.parametrize("path", ["..", "../..", "folder-out", "data", "file-out"])
def test_no_folder_out_there_is_listed(ground: Ground, path: str) -> None:
    (ground.inside / "folder-out").symlink_to(ground.outside)
    (ground.inside / "file-out").symlink_to(ground.secret)
    with pytest.raises(ToolFailed):
        listed(ground.folder, path)


def test_a_walk_goes_through_no_link_and_into_nothing_of_ours(ground: Ground) -> None:
    (ground.inside / "folder-out").symlink_to(ground.outside)
    (ground.inside / ".gitignore").symlink_to(ground.secret)
    assert listed(ground.folder, ".").split() == [b".gitignore", b"folder-out", b"plain.txt"]


def test_what_is_inside_is_reached_by_every_way(ground: Ground) -> None:
    (ground.inside / "deep").mkdir()
    (ground.inside / "link").symlink_to("plain.txt")
    (ground.inside / "deep" / "back").symlink_to("../link")
    (ground.inside / "whole").symlink_to(ground.inside / "deep" / "back")
    (ground.inside / "here").symlink_to(ground.inside)
    for path in (
        *("plain.txt", "./plain.txt", "deep/../plain.txt", "link", "deep/back", "whole"),
        *("here/here/plain.txt", str(ground.inside / "plain.txt"), f"{ground.inside}//link"),
    ):
        assert read(ground.folder, path) == b"plain\n"
        assert ground.folder.resolve(path) == "plain.txt"


def test_a_folder_is_known_by_the_path_that_was_given_and_by_the_one_it_has(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    (tmp_path / "alias").symlink_to(ground.inside)
    folder = GuardedFolders().open(str(tmp_path / "alias"))
    assert folder.resolve(str(tmp_path / "alias" / "plain.txt")) == "plain.txt"
    assert folder.resolve(str(ground.inside / "plain.txt")) == "plain.txt"
    folder.close()


def test_another_folder_under_its_path_is_not_it(ground: Ground) -> None:
    """The root is the folder that was opened, whatever its path leads to later."""
    moved = ground.inside.with_name("moved")
    ground.inside.rename(moved)
    ground.inside.symlink_to(ground.outside)
    assert read(ground.folder, "plain.txt") == b"plain\n"
    assert read(ground.folder, str(ground.inside / "plain.txt")) == b"plain\n"
    with pytest.raises(ToolFailed):
        read(ground.folder, "secret.txt")
    ground.inside.unlink()
    moved.rename(ground.inside)


@pytest.mark.parametrize("folder", ["", "relative", "/no/such", "plain.txt", "a\0b", "data"])
def test_not_every_folder_can_be_worked_in(ground: Ground, folder: str) -> None:
    path = str(ground.inside / folder) if folder in ("plain.txt", "data") else folder
    with pytest.raises(InvalidInput):
        GuardedFolders([str(ground.own)]).open(path)
    (ground.own / "deep").mkdir()
    with pytest.raises(InvalidInput, match="is closed to agents"):
        GuardedFolders([str(ground.own)]).open(str(ground.own / "deep"))
    (ground.own / "deep").rmdir()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")
def test_no_process_is_looked_into() -> None:
    """This one has an environment that is not for agents."""
    for folder in ("/proc", "/proc/self", "/proc/self/fd"):
        with pytest.raises(InvalidInput, match="choose another working folder"):
            GuardedFolders().open(folder)
    everywhere = GuardedFolders().open("/")
    for path in ("proc/self/environ", "/proc/self/environ", "/proc/1/mem", "/proc/version"):
        with pytest.raises(ToolFailed, match="is closed to agents"):
            everywhere.read(path, most=10)
    everywhere.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="whom nothing is closed to")
def test_folders_above_need_not_be_read(ground: Ground, tmp_path: Path) -> None:
    tmp_path.chmod(0o311)
    try:
        folder = GuardedFolders([str(ground.own)]).open(str(ground.inside))
        assert read(folder, "plain.txt") == b"plain\n"
        folder.close()
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_of_ours_that_comes_later_is_closed_too(ground: Ground) -> None:
    later = ground.inside / "later"
    folder = GuardedFolders([str(later)]).open(str(ground.inside))
    later.mkdir()
    (later / "key").touch()
    with pytest.raises(ToolFailed, match="is closed to agents"):
        folder.read("later/key", most=10)
    folder.close()


def test_no_device_pipe_or_socket_is_opened(ground: Ground) -> None:
    os.mkfifo(ground.inside / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(ground.inside)  # socket paths are short
        try:
            listener.bind("socket")
        finally:
            os.chdir(here)
        names = ["pipe", "socket"]
        with contextlib.suppress(OSError):  # not everyone may
            os.mknod(ground.inside / "zero", 0o600 | stat.S_IFCHR, os.makedev(1, 5))
            names.append("zero")
        for name in names:
            for way in (read, write):
                with pytest.raises(ToolFailed, match="not a regular file"):
                    way(ground.folder, name)
            with pytest.raises(ToolFailed):
                write_blindly(ground.folder, name)
            with pytest.raises(ToolFailed):
                listed(ground.folder, name)
    assert {b"pipe", b"socket"} <= set(listed(ground.folder, ".").split())


def test_ten_gigabytes_are_read_in_part(ground: Ground) -> None:
    large = ground.inside / "large"
    with large.open("wb") as file:
        file.write(b"line\n" * 10_000)
        file.truncate(10 << 30)
    found = ground.folder.read_lines("large", first=2, lines=2, chars=999, cancel=CancelToken())
    assert (found.text, found.more) == ("line\nline", True)
    assert len(ground.folder.read("large", most=100).data or b"") == 100
    assert not ground.folder.read("large", most=100).whole
    with pytest.raises(ToolFailed, match="more than 256 MiB into the file"):
        ground.folder.read_lines("large", first=10_002, lines=2, chars=999, cancel=CancelToken())
    with pytest.raises(ToolFailed, match="changed since the preview"):
        ground.folder.replace("large", b"", compute_digest(b"line\n"))
    with large.open("r+b") as file:
        file.write(b"\0")
    with pytest.raises(ToolFailed, match="binary"):
        ground.folder.read_lines("large", first=1, lines=2, chars=999, cancel=CancelToken())
    assert large.stat().st_size == 10 << 30


def test_a_line_without_end_is_told_in_its_beginning(ground: Ground) -> None:
    with (ground.inside / "line").open("wb") as file:
        file.write(b"first\n" + b"x" * 100_000)
        file.truncate(10 << 30)
    found = ground.folder.read_lines("line", first=1, lines=9, chars=9_999, cancel=CancelToken())
    first, second = found.text.split("\n")
    assert (first, second[:9], found.next, found.more) == ("first", "xxxxxxxxx", 3, True)
    assert second.endswith("[cut: the line has more than 2,000 characters]")
    with pytest.raises(ToolFailed, match="more than 256 MiB"):
        ground.folder.read_lines("line", first=3, lines=9, chars=9_999, cancel=CancelToken())


def test_writing_replaces_a_name_and_not_what_other_names_have(ground: Ground) -> None:
    os.link(ground.secret, ground.inside / "hard")
    folder = ground.folder
    folder.replace("hard", b"mine", compute_digest(SECRET))
    assert (ground.inside / "hard").read_bytes() == b"mine"
    assert ground.secret.read_bytes() == SECRET


def test_what_was_shown_in_one_place_is_not_written_to_another(ground: Ground) -> None:
    """Both are inside, and a link on the way has come since."""
    (ground.inside / "deep").mkdir()
    (ground.inside / "room").symlink_to("deep")
    (ground.inside / "name").symlink_to("plain.txt")
    for path, before in (("room/new", NOTHING), ("name", compute_digest(b"plain\n"))):
        with pytest.raises(ToolFailed, match="changed since the preview"):
            ground.folder.replace(path, b"written", before)
    assert names(ground.inside / "deep") == []
    assert (ground.inside / "plain.txt").read_bytes() == b"plain\n"


def test_what_git_obeys_is_not_written(ground: Ground) -> None:
    (ground.inside / ".git" / "hooks").mkdir(parents=True)
    (ground.inside / "g").symlink_to(".git")
    (ground.inside / "sub").mkdir()
    (ground.inside / "sub" / ".git").write_text("gitdir: elsewhere")
    for path in (".git/hooks/pre-commit", "g/config", ".GIT/config", "sub/.git", "new/.git/config"):
        for way in (write, write_blindly):
            with pytest.raises(ToolFailed, match=r"belongs to git|changed since"):
                way(ground.folder, path)
    assert names(ground.inside / ".git") == ["hooks"]
    assert not (ground.inside / "new").exists() or not names(ground.inside / "new")


def test_names_that_are_no_text_are_told_as_some(ground: Ground) -> None:
    for name in (b"new\nline", b"bad\xff", b"esc\x1b[2K", "ümlaut".encode()):
        Path(os.fsdecode(os.fsencode(ground.inside) + b"/" + name)).write_bytes(b"words")
    walked = ground.folder.walk(".", deep=True, most=99, seconds=LONG, cancel=CancelToken())
    found = [each.path for each in walked if isinstance(each, FolderEntry)]
    assert len(found) == 5
    for path in found:
        assert ground.folder.read(path, most=9).data


def test_huge_folders_are_cut(ground: Ground) -> None:
    many = ground.inside / "many"
    many.mkdir()
    descriptor = os.open(many, os.O_RDONLY)
    for number in range(300):
        os.mkdir(f"{number}", dir_fd=descriptor)
    os.close(descriptor)
    found = list(ground.folder.walk(".", deep=True, most=100, seconds=LONG, cancel=CancelToken()))
    assert len(found) == 100  # what is ours was looked at, and not told
    assert isinstance(found[-1], Truncated)
    deep = ground.inside
    for _ in range(60):
        deep = deep / "d"
        deep.mkdir()
    told = list(ground.folder.walk("d", deep=True, most=1_000, seconds=LONG, cancel=CancelToken()))
    assert len(told) <= 41
    assert isinstance(told[-1], Truncated)


def test_a_walk_ends_when_nobody_wants_it(ground: Ground) -> None:
    (ground.inside / "a").mkdir()
    (ground.inside / "a" / "b").touch()
    cancel = CancelToken()
    walk = ground.folder.walk(".", deep=True, most=99, seconds=LONG, cancel=cancel)
    assert next(walk) == FolderEntry(path="a", kind=EntryKind.FOLDER)
    cancel.set()
    with pytest.raises(Cancelled):
        next(walk)


@pytest.mark.parametrize("swap", ["folder", "file"])
def test_a_race_of_folder_and_link_is_never_won(ground: Ground, swap: str) -> None:
    """Somebody swaps what is on the way for a link that leads out, as quickly as they can."""
    room = ground.inside / "room"
    room.mkdir()
    (room / "secret.txt").write_bytes(b"the harmless one\n")
    spare, link = ground.inside / "spare", ground.inside / "spare-link"
    if swap == "folder":
        target = room
        link.symlink_to(ground.outside)
    else:
        target = room / "secret.txt"
        link.symlink_to(ground.secret)
    race = Race(target, spare, link)

    def overwriting(folder: GuardedFolder, path: str) -> bytes:
        folder.replace(
            path, b"written\n", compute_digest(SECRET)
        )  # were it there, it would be changed
        return b""

    seen: set[bytes] = set()
    refused = 0
    with race:
        for number in range(1_000):
            for way in (read, listed, write_blindly, overwriting):
                path = f"room/{'new' if way is write_blindly else 'secret.txt'}"
                if way is write_blindly:
                    path += str(number % 50)
                try:
                    seen.add(way(ground.folder, path))
                except ToolFailed:
                    refused += 1
    assert race.swaps > 50
    assert refused > 100
    assert b"the harmless one\n" in seen
    assert SECRET not in seen
    assert ground.untouched()


def test_a_race_while_writing_what_is_there(ground: Ground) -> None:
    room = ground.inside / "room"
    room.mkdir()
    (room / "secret.txt").write_bytes(b"0")
    spare, link = ground.inside / "spare", ground.inside / "spare-link"
    link.symlink_to(ground.outside)
    content, written, number = b"0", 0, 0
    deadline = time.monotonic() + 30
    with Race(room, spare, link):
        while written < 50 and time.monotonic() < deadline:
            number += 1
            new = str(number).encode()
            with contextlib.suppress(ToolFailed):
                ground.folder.replace("room/secret.txt", new, compute_digest(content))
                content = new
                written += 1
    assert written >= 50
    assert (room / "secret.txt").read_bytes() == content
    assert names(room) == ["secret.txt"]  # and no draft is left behind


def test_no_descriptor_is_left_open_and_a_closed_folder_stays_closed(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    (ground.inside / "a" / "b").mkdir(parents=True)
    before = len(names("/dev/fd"))
    for path in ("plain.txt", "a/b/../../plain.txt", "../x", "a/b/c/d", "data/key", "a/b"):
        for way in WAYS:
            with contextlib.suppress(ToolFailed):
                way(ground.folder, path)
    walk = ground.folder.walk(".", deep=True, most=99, seconds=LONG, cancel=CancelToken())
    next(walk)
    del walk  # and no further, as tools do
    assert len(names("/dev/fd")) == before
    with ground.folder.hold_descriptor() as descriptor:
        ground.folder.close()
        assert os.fstat(descriptor)  # until the last that uses it is done
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    with pytest.raises(ToolFailed, match="the run has ended"):
        read(ground.folder, "plain.txt")
    ground.folder.close()


def everything_on(path: str) -> list[ToolCall]:
    """What tools can be asked to do there."""
    return [
        call("read_file", path=path),
        call("write_file", path=path, content="written"),
        call("edit_file", path=path, old_string="secret", new_string="written"),
        call("list_files", path=path),
        call("list_files", path=path, recursive=True),
        call("search_files", path=path, pattern="."),
    ]


def tried(toolset: Toolset, wanted: ToolCall) -> tuple[str, str, bool]:
    """What was shown of it, what was told, and whether it was done."""
    shown = toolset.preview(wanted)
    try:
        return shown, toolset.run(wanted, CancelToken()), True
    except ToolFailed as exc:
        return shown, str(exc), False


def in_time(work: Callable[[], object]) -> None:
    """Whoever waits for a pipe waits for ever."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as exc:
            failed.append(exc)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(2 * LONG)
    assert not thread.is_alive()
    if failed:
        raise failed[0]


class TestByTools:
    def test_nothing_leads_out(self, ground: Ground, tools: Toolset) -> None:
        for path in ways_out(ground):
            for wanted in everything_on(path):
                shown, told, is_done = tried(tools, wanted)
                assert not is_done, wanted
                assert shown == f"cannot run: {told}"
                assert "secret outside" not in told

    def test_what_is_ours_or_outside_is_neither_listed_nor_searched(
        self, ground: Ground, tools: Toolset
    ) -> None:
        (ground.inside / "folder-out").symlink_to(ground.outside)
        (ground.inside / "file-out").symlink_to(ground.secret)
        listed = tools.run(call("list_files", recursive=True), CancelToken())
        assert listed.split("\n") == ["file-out (link)", "folder-out (link)", "plain.txt"]
        assert tools.run(call("search_files", pattern="."), CancelToken()) == "plain.txt:1: plain"

    def test_nobody_works_in_what_is_ours(self, ground: Ground, desk: ToolHarness) -> None:
        alias = ground.inside / "alias"
        alias.symlink_to(ground.own)
        for folder in (ground.own, alias, desk.own, ground.inside / "alias" / ".." / "data"):
            with pytest.raises(InvalidInput, match="is closed to agents: choose another"):
                desk.build_toolset(folder)

    def test_a_folder_that_is_a_link_stays_what_it_was(
        self, ground: Ground, desk: ToolHarness, tmp_path: Path
    ) -> None:
        alias = tmp_path / "alias"
        alias.symlink_to(ground.inside)
        tools = desk.build_toolset(alias)
        alias.unlink()
        alias.symlink_to(ground.outside)
        for path in ("plain.txt", f"{alias}/plain.txt", f"{ground.inside}/plain.txt"):
            assert tools.run(call("read_file", path=path), CancelToken()) == "plain"
        assert "there is no file secret.txt" in get_refusal(
            tools, call("read_file", path="secret.txt")
        )
        tools.run(call("write_file", path=f"{alias}/new", content="x"), CancelToken())
        assert (ground.inside / "new").read_text() == "x"

    def test_no_pipe_or_device_keeps_a_tool_waiting(
        self, ground: Ground, desk: ToolHarness
    ) -> None:
        for name in ("pipe", ".gitignore", "AGENTS.md"):
            os.mkfifo(ground.inside / name)
        (ground.inside / "to-pipe").symlink_to("pipe")
        (ground.inside / "zero").symlink_to("/dev/zero")

        def work() -> None:
            tools = desk.build_toolset(ground.inside)
            for path in ("pipe", "to-pipe", "zero", "pipe/x", "AGENTS.md"):
                for wanted in everything_on(path):
                    assert not tried(tools, wanted)[2]
            assert tools.instructions() == ""
            told = tools.run(call("list_files", recursive=True), CancelToken())
            assert "pipe (not a file)\n" in told
            assert (
                tools.run(call("search_files", pattern="."), CancelToken()) == "plain.txt:1: plain"
            )

        in_time(work)
        assert stat.S_ISFIFO((ground.inside / "pipe").stat().st_mode)

    def test_no_device_is_used_in_their_own_folder(self, desk: ToolHarness) -> None:
        def work() -> None:
            tools = desk.build_toolset("/dev")
            for name in ("zero", "null", "random", "stdin", "fd/0"):
                for wanted in everything_on(name)[:3]:
                    assert not tried(tools, wanted)[2]
            assert "not a regular file" in get_refusal(tools, call("read_file", path="zero"))

        in_time(work)

    def test_ten_gigabytes_take_no_more_than_little_ones(
        self, ground: Ground, tools: Toolset
    ) -> None:
        for name in ("large", "AGENTS.md"):
            with (ground.inside / name).open("wb") as file:
                file.write(b"needle\n" * 2_000)
                file.truncate(10 << 30)
        shown, told, is_done = tried(tools, call("read_file", path="large", limit=1_000))
        assert is_done
        assert told.endswith("[lines 1 to 1000; there is more: continue with offset 1001]")
        assert told.count("needle\n") == 1_000
        assert len(tools.run(call("read_file", path="large"), CancelToken())) <= 20_000
        for wanted in everything_on("large")[1:3]:
            shown, told, is_done = tried(tools, wanted)
            assert shown == f"cannot run: {told}"
            assert told == "large exceeds 2 MiB: too large to change"
        told = tools.run(call("search_files", pattern="^needle$", glob="large"), CancelToken())
        assert told.startswith("large:1: needle\nlarge:2: needle\n")
        assert tools.run(call("search_files", pattern="plain", glob="[lp]*"), CancelToken()) == (
            "[cut: large was searched only at its beginning]\nplain.txt:1: plain"
        )
        assert len(tools.instructions()) < 17_000
        assert (ground.inside / "large").stat().st_size == 10 << 30

    def test_writing_breaks_a_hard_link(self, ground: Ground, tools: Toolset) -> None:
        """What lies in the folder is what can be read there; what else has it stays as it is."""
        os.link(ground.secret, ground.inside / "hard")
        tools.run(
            call("edit_file", path="hard", old_string="secret", new_string="x"), CancelToken()
        )
        assert (ground.inside / "hard").read_bytes() == SECRET.replace(b"secret", b"x")
        assert ground.secret.read_bytes() == SECRET

    def test_what_git_obeys_is_not_written(self, ground: Ground, tools: Toolset) -> None:
        (ground.inside / ".git" / "hooks").mkdir(parents=True)
        (ground.inside / "g").symlink_to(".git")
        (ground.inside / "sub").mkdir()
        (ground.inside / "sub" / ".git").write_text("gitdir: secret")
        for path in (
            *(".git/config", "g/config", "sub/.git", "new/.git/hooks/x", "sub/../.git/hooks/x"),
            *(".GIT/config", ".Git/config", ".giT", f"{ground.inside}/.git/config"),
        ):
            for wanted in everything_on(path)[1:3]:
                shown, told, is_done = tried(tools, wanted)
                assert not is_done
                assert shown == f"cannot run: {told}"
                assert "belongs to git: writing to it is not allowed" in told
        assert names(ground.inside / ".git") == ["hooks"]
        assert names(ground.inside) == [".git", "data", "g", "plain.txt", "sub"]
        done = call("write_file", path=".gitignore", content="x")  # which only looks like it
        assert tools.run(done, CancelToken()).startswith("written")

    def test_odd_names_are_told_as_text_and_can_be_used(
        self, ground: Ground, tools: Toolset
    ) -> None:
        for name in (b"new\nline", b"bad\xff", b"esc\x1b[2K", "ümlaut".encode(), b'q"uote'):
            Path(os.fsdecode(os.fsencode(ground.inside) + b"/" + name)).write_bytes(b"words\n")
        (ground.inside / "link").symlink_to(os.fsdecode(b"bad\xff"))
        told = tools.run(call("list_files"), CancelToken())
        assert told.split("\n") == [
            *("bad\ufffd", '"esc\\u001b[2K"', "link (link)", '"new\\nline"', "plain.txt"),
            *('q"uote', "ümlaut"),
        ]
        found = tools.run(call("search_files", pattern="words"), CancelToken())
        assert found.encode().count(b":1: words") == 5
        assert found.count("\n") == 4
        assert tools.run(call("read_file", path="new\nline"), CancelToken()) == "words"
        assert tools.preview(call("read_file", path="link")) == "leads to bad\ufffd"
        assert tools.run(call("read_file", path="link"), CancelToken()) == "words"
        shown, told, is_done = tried(tools, call("write_file", path="a\nb", content="x\n"))
        assert (shown.split("\n")[1], is_done) == ('+++ b/"a\\nb"', True)
        assert told == 'written: "a\\nb", 2 characters'

    @pytest.mark.parametrize("swap", ["folder", "file", "pipe"])
    def test_a_race_is_never_won(self, ground: Ground, tools: Toolset, swap: str) -> None:
        """Somebody swaps what is on the way for a link that leads out, while tools are shown, and
        while they are used."""
        room = ground.inside / "room"
        room.mkdir()
        (room / "secret.txt").write_bytes(b"harmless\n")
        spare, link = ground.inside / "spare", ground.inside / "spare-link"
        target = room if swap == "folder" else room / "secret.txt"
        if swap == "pipe":
            os.mkfifo(link)
        else:
            link.symlink_to(ground.outside if swap == "folder" else ground.secret)
        told: list[str] = []
        done: set[str] = set()
        failed: set[str] = set()
        every = {each.name for each in everything_on("")}
        deadline = time.monotonic() + LONG

        def work() -> None:
            for number in itertools.count():
                if (number >= 150 and done == every) or time.monotonic() > deadline:
                    break
                for wanted in (
                    call("read_file", path="room/secret.txt"),
                    call("list_files", path="room"),
                    call("search_files", pattern="."),
                    call("write_file", path=f"room/new{number % 9}", content=f"harmless {number}"),
                    call(
                        "edit_file", path="room/secret.txt", old_string="harm", new_string="harm-"
                    ),
                    call("write_file", path="room/secret.txt", content="harmless\n"),
                ):
                    shown, text, is_done = tried(tools, wanted)
                    told.extend((shown, text))
                    (done if is_done else failed).add(wanted.name)

        race = Race(target, spare, link)
        with race:
            in_time(work)
        assert race.swaps > 50
        assert done == every
        assert failed >= {"read_file", "write_file", "edit_file"}
        assert not any("secret outside" in each for each in told)
        assert any("harmless" in each for each in told)
        assert not [each for each in room.iterdir() if each.name.endswith(".new")]


def test_a_walk_ends_when_it_takes_too_long(ground: Ground) -> None:
    for name in ("a", "b", "c"):
        (ground.inside / name / "d").mkdir(parents=True)
    told = list(ground.folder.walk(".", deep=True, most=99, seconds=-1.0, cancel=CancelToken()))
    assert told == [Truncated("the walk takes too long: give a path")]


def test_a_single_file_may_be_closed_too(tmp_path: Path) -> None:
    """The configuration says which programs may be run, and may lie anywhere."""
    stored, other = tmp_path / "config.toml", tmp_path / "other"
    stored.write_bytes(SECRET)
    (tmp_path / "link").symlink_to("config.toml")
    (tmp_path / "hard").hardlink_to(stored)
    other.write_text("fine")
    folder = GuardedFolders([str(stored)]).open(str(tmp_path))
    try:
        for name in ("config.toml", "link", "hard"):
            with pytest.raises(ToolFailed, match="closed to agents"):
                folder.read(name, most=100)
            with pytest.raises(ToolFailed, match="closed to agents"):
                folder.replace(name, b"new", compute_digest(SECRET))
        assert folder.read("other", most=100).data == b"fine"
    finally:
        folder.close()
    assert stored.read_bytes() == SECRET
