"""Regular files are read; links, pipes, sockets and folders are refused."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from agent_memory.platform.files import (
    FileTooLarge,
    NotRegularFile,
    iter_lines,
    open_regular,
    read_regular,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    return path


def _count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if Path("/proc").exists() else 0  # noqa: PTH208


def test_a_regular_file_is_read_up_to_the_limit(file: Path) -> None:
    assert read_regular(file, 5) == b"12345"
    with pytest.raises(FileTooLarge, match="longer than 4 bytes"):
        read_regular(file, 4)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"one\n\n\ntwo\n \n\t\r\n  three\n\n",
        b"\n" * 1_000_000 + b"  end",
        b"one\n" + b" \n" * 500_000 + b" " * 20_000 + b"two\n",
    ],
    ids=lambda data: f"{len(data)} bytes",
)
def test_empty_lines_come_together_and_others_one_by_one(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with open_regular(file) as opened:
        pieces = list(iter_lines(opened, 1 << 20))
    assert b"".join(pieces) == data
    lines = [line.strip() for line in data.split(b"\n") if line.strip()]
    assert [piece.strip() for piece in pieces if not piece.isspace()] == lines
    assert len(pieces) <= 2 * len(lines) + len(data) // 1_000 + 6


def test_a_link_is_followed_on_request_only(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)

    with pytest.raises(OSError, match="symbolic link"):
        read_regular(link, 5)
    assert read_regular(link, 5, follow_link=True) == b"12345"


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(NotRegularFile, match="not a regular file"):
        open_regular(tmp_path / "pipe")


def test_folders_devices_and_sockets_are_refused(tmp_path: Path) -> None:
    before = _count_descriptors()
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as bound:
        bound.bind(f"{short}/socket")
        for path in (tmp_path, Path(os.devnull), Path(short, "socket")):
            with pytest.raises(OSError, match=r"."):
                open_regular(path)

    assert _count_descriptors() == before
