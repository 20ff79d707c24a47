"""A forgetful disk under a folder, seen from a test."""

import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.faults import fuse
from tests.faults.disk import Image, Recording

_ROOT = Path(__file__).parents[2]
_SECONDS = 30.0


@cache
def obstacle() -> str:
    """Why nothing can be mounted here; empty where it can."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            descriptor = fuse.mount(folder)
        except OSError as exc:
            return f"cannot mount a FUSE file system: {exc}"
        fuse.unmount(folder)
        os.close(descriptor)
    return ""


class Mounted:
    """The folder is a forgetful disk, from entry to exit."""

    def __init__(self, folder: Path, base: Image) -> None:
        self.folder = folder
        self._base = base
        self._turn = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        with tempfile.NamedTemporaryFile() as file:
            file.write(pickle.dumps(self._base))
            file.flush()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.fuse", str(self.folder), file.name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=_ROOT,
            )
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == "mounted\n"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process is not None
        with contextlib.suppress(OSError):
            fuse.unmount(self.folder)
        try:
            self._process.communicate(timeout=_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()

    def position(self) -> int:
        """How many changes the disk has seen."""
        return int(self._ask("position"))

    def refuse(self, syncs: Iterable[tuple[str, int]]) -> None:
        """Fail syncs from now on, by the suffix of the file, or ANY, and their number from 1."""
        self._ask(" ".join(["refuse", *(f"{kind}:{number}" for kind, number in syncs)]))

    def recording(self) -> Recording:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "recording")
            self._ask(f"save {path}")
            found: Recording = pickle.loads(path.read_bytes())  # noqa: S301  our own
            return found

    def _ask(self, line: str) -> str:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        with self._turn:
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            return process.stdout.readline().rstrip("\n")
