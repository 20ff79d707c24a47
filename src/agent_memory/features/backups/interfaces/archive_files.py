"""`memory export --all`, and `memory import` of its file."""

import contextlib
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from agent_memory.features.backups.interfaces import archive
from agent_memory.features.backups.services.archiving import ArchiveRecord, FullExport
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.kernel.errors import InvalidInput, StorageFailed
from agent_memory.platform import files
from agent_memory.platform.ports import Clock

MAX_REFUSED = 100  # shown one by one


def export_all(run: Invocation, file: Path | None) -> None:
    """Write everything to standard output, or to a new file."""
    archiving = run.services[FullExport]
    counted: Counter[str] = Counter()

    def lines() -> Iterator[str]:
        yield archive.header(run.version, run.services[Clock].now())
        with run.terminal.progress("Exporting", None) as advance:
            for record in archiving.export_records():
                counted["records"] += 1
                if counted["records"] % 100 == 0:
                    advance(counted["records"])
                yield archive.line(record)

    if file is None or str(file) == "-":
        for line in lines():
            run.terminal.write(line)
        return
    path = run.path(file)
    try:
        if path.exists():
            raise InvalidInput(f"{path} already exists: choose another name")
        with archiving.open_whole(path) as whole:
            _write(whole, lines(), compressed=path.name.endswith(".gz"))
    except OSError as exc:
        raise InvalidInput(f"cannot write {path}: {exc.strerror}") from exc
    records = rendering.count(counted["records"], "record")
    run.terminal.warn(f"{records} written to {path}\n")


def _write(file: IO[bytes], lines: Iterator[str], *, compressed: bool) -> None:
    with contextlib.ExitStack() as opened:
        out: IO[bytes] | gzip.GzipFile = file
        if compressed:
            out = opened.enter_context(
                gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6)
            )
        for line in lines:
            out.write(line.encode(errors="surrogatepass"))


def is_archive(path: Path) -> bool:
    """Return whether a file is an archive. Raises StorageFailed if its compression is damaged."""
    try:
        with _open_archive(path) as file:
            return archive.is_archive(file.read(256))
    except OSError:
        return False


def import_all(run: Invocation, path: Path, *, dry_run: bool) -> None:
    """Import every record that does not exist yet."""
    archiving = run.services[FullExport]
    unread: list[str] = []
    counted: Counter[str] = Counter()

    def records() -> Iterator[tuple[str, ArchiveRecord]]:
        with _open_archive(path) as file:
            for place, record in archive.read(_lines(file)):
                if isinstance(record, InvalidInput):
                    counted["refused"] += 1
                    if len(unread) < MAX_REFUSED:
                        unread.append(f"{place}: {record}")
                else:
                    yield place, record

    try:
        if dry_run:
            for _ in records():
                run.terminal.check_cancelled()
                counted["readable"] += 1
            result: dict[str, Any] = {"readable": counted["readable"], "taken": {}, "known": 0}
        else:
            with run.terminal.progress("Importing", None) as advance:
                done = archiving.import_records(records(), advance)
            counted["refused"] += len(done.refused)
            unread += done.refused[: MAX_REFUSED - len(unread)]
            taken = {archive.name_of(kind): count for kind, count in done.taken.items()}
            result = {"taken": taken, "known": done.known, "derived": done.derived}
    except OSError as exc:
        raise InvalidInput(f"cannot read {path}: {exc.strerror}") from exc
    for reason in unread:
        run.terminal.warn(f"warning: {rendering.plain(reason)}\n")
    refused = counted["refused"]
    run.show(
        {"success": not refused, "dry_run": dry_run, **result, "refused": refused},
        lambda: _render_import(result, refused, dry_run),
    )
    if refused:
        raise InvalidInput(f"{rendering.count(refused, 'record')} could not be imported")


def _render_import(result: dict[str, Any], refused: int, dry_run: bool) -> str:
    if dry_run:
        text = f"{rendering.count(result['readable'], 'record')} can be read"
    else:
        records = rendering.count(sum(result["taken"].values()), "record")
        text = f"\N{CHECK MARK} Imported {records}, {result['known']:,} already existed"
        if result["derived"]:
            text += f"; {result['derived']:,} are derived and will be rebuilt"
    return text + (f"; refused {refused:,}" if refused else "")


@contextlib.contextmanager
def _open_archive(path: Path) -> Iterator[io.BufferedReader]:
    with files.open_regular(path, follow_link=True) as file:
        if path.name.endswith(".gz"):
            try:
                with gzip.GzipFile(fileobj=file) as inner:
                    yield io.BufferedReader(inner)
            except (EOFError, gzip.BadGzipFile, zlib.error) as exc:
                raise StorageFailed(f"{path} is damaged: {exc}") from exc
        else:
            yield file


def _lines(file: io.BufferedReader) -> Iterator[bytes]:
    for line in files.iter_lines(file, archive.MAX_LINE_BYTES + 1):
        if len(line) > archive.MAX_LINE_BYTES:
            raise InvalidInput(f"a line is longer than {archive.MAX_LINE_BYTES:,} bytes, the limit")
        yield line
