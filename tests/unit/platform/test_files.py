"""Regular files are read; links, pipes, sockets and folders are refused."""

import os
import socket
import tempfile
from pathlib import Path

import pytest

from agent_memory.platform.files import FileTooLarge, NotRegularFile, open_regular, read_regular


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
