"""Files of the data folder that are not as we left them: no reason not to start."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_memory.launcher import command_client
from tests.command_runner import SECONDS, Home


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as created:
        yield created


def _replaced(path: Path) -> Path:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return path


def _moved(index: Path) -> None:
    """To another disk, with a link in its place."""
    elsewhere = index.with_name("elsewhere")
    index.rename(elsewhere)
    index.symlink_to(elsewhere)
    (elsewhere / "store").write_text("another")


ODD: dict[str, Callable[[Path], object]] = {
    "no UTF-8": lambda index: _replaced(index / "store").write_bytes(b"\xff\xfe\x80"),
    "nothing": lambda index: _replaced(index / "store").write_bytes(b""),
    "much": lambda index: os.truncate(_created(index / "store"), 1 << 40),
    "a folder": lambda index: (_replaced(index / "store") / "deep").mkdir(parents=True),
    "a pipe": lambda index: os.mkfifo(_replaced(index / "store")),
    "a link to nowhere": lambda index: _replaced(index / "store").symlink_to("/nowhere"),
    "a link to a file": lambda index: _replaced(index / "store").symlink_to("/etc/passwd"),
    "gone": lambda index: _replaced(index / "store"),
    "no folder but a file": lambda index: _replaced(index).write_text("x"),
    "no folder but a link to nowhere": lambda index: _replaced(index).symlink_to("/nowhere/else"),
    "a folder elsewhere": _moved,
}


def _created(path: Path) -> Path:
    _replaced(path).touch()
    return path


def test_the_mark_of_an_index(home: Home) -> None:
    """Whatever it is: the index is taken for another store's, and made anew."""
    captured = home.run("memory", "capture", "decisions", "The lantern is in the attic")
    assert captured.code == 0, captured
    home.stop()
    for number, (what, spoil) in enumerate(ODD.items(), 1):
        spoil(home.data / "index")

        home.serve()

        found = home.run("memory", "recall", "lantern", "--format", "json")
        assert "The lantern is in the attic" in found.text, what
        mark = home.data / "index/store"
        assert mark.is_file(), what
        assert not mark.is_symlink(), what
        # Where the index is no folder, a daemon on a server cannot tell the history of it either.
        assert home.log().count('"event": "index.of_another_') == number, what
        home.stop()


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_link_where_the_key_was_once_drafted(
    home: Home, link: Callable[[Path, Path], None]
) -> None:
    victim = home.folder / "victim"
    victim.write_text("of someone else")
    home.data.mkdir(parents=True)
    for name in ("key.new", "daemon.json.new", "key.pending.new"):
        link(victim, home.data / name)

    home.serve()

    assert victim.read_text() == "of someone else"
    assert (home.data / "key").read_text().startswith("am_")


def test_the_link_of_a_copied_folder_leads_to_no_daemon_of_another(home: Home) -> None:
    captured = home.run("memory", "capture", "decisions", "The lantern is in the attic")
    assert captured.code == 0, captured
    with Home() as copy:
        copy.data.mkdir(parents=True)
        (copy.data / "daemon.sock").symlink_to((home.data / "daemon.sock").readlink())

        found = copy.run("memory", "recall", "lantern")

        assert "attic" not in found.text
        assert copy.pid() != home.pid()
    # However the folder is spelled, it is the same.
    (home.folder / "linked").symlink_to(home.data)
    connection = command_client.reach_daemon(str(home.folder / "linked"))
    assert connection is not None
    connection.close()


LISTEN = """
import os, socket, sys
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as server:
    server.bind(sys.argv[1])
    os.chmod(sys.argv[1], 0o777)
    server.listen()
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.getuid() != 0 or sys.platform != "linux", reason="becomes another user")
def test_a_socket_of_another_user_is_told_nothing(home: Home) -> None:
    home.data.mkdir(parents=True)
    theirs = home.folder / "theirs"
    theirs.mkdir()
    for folder in (home.folder, theirs):
        folder.chmod(0o777)
    socket = theirs / "daemon.sock"
    with subprocess.Popen(
        [sys.executable, "-I", "-c", LISTEN, str(socket)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        (home.data / "daemon.sock").symlink_to(socket)
        try:
            assert command_client.reach_daemon(str(home.data)) is None
        finally:
            server.communicate(timeout=SECONDS)
