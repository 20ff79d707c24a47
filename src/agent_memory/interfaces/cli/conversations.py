"""`memory export --conversations`: past conversations as files to read, or to import again."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from agent_memory.features.hooks.model import vault_notes
from agent_memory.features.log.services.timeline import Timeline
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.interfaces import conversation_files, vault
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.interfaces.cli.filters import resolve_range
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import MAX_MILLIS
from agent_memory.platform import durable, files

_FORMATS_BY_SUFFIX = {
    ".md": conversation_files.MARKDOWN,
    ".jsonl": conversation_files.JSONL,
    ".ndjson": conversation_files.JSONL,
}
_MAX_NOTE_BYTES = 64 << 20
_MAX_NAMED = 10
_WRITTEN, _SAME, _KEPT = "written", "unchanged", "kept"


def export_conversations(
    run: Invocation,
    target: Path | None,
    format_: str | None,
    since: str | None,
    until: str | None,
) -> None:
    """Write the conversations of a time to a target, or to standard output."""
    if target is not None and str(target) == "-":
        target = None
    if format_ is None:
        suffix = "" if target is None else target.suffix.lower()
        format_ = _FORMATS_BY_SUFFIX.get(suffix, conversation_files.MARKDOWN)
    if format_ not in conversation_files.FORMATS:
        raise click.UsageError(
            f"--conversations are written as {', '.join(conversation_files.FORMATS)}, not {format_}"
        )
    start, end = resolve_range(run, since, until)
    if format_ == conversation_files.OBSIDIAN:
        if target is None:
            raise click.UsageError("--format obsidian needs a folder: its notes are many files")
        _export_vault(run, run.path(target), start, end)
        return
    write = _list_lines if format_ == conversation_files.JSONL else _list_sections
    if target is None:
        for piece in write(run, start, end):
            run.terminal.write(piece)
        return
    path = run.path(target)
    try:
        if path.exists():
            raise InvalidInput(f"{path} already exists: choose another name")
        with durable.open_atomic(path) as file:
            for piece in write(run, start, end):
                file.write(piece.encode())
    except OSError as exc:
        raise InvalidInput(f"cannot write {path}: {exc.strerror}") from exc
    run.terminal.warn(f"conversations written to {path}\n")


def _list_lines(run: Invocation, start: int, end: int) -> Iterator[str]:
    with run.terminal.progress("Exporting", None) as advance:
        for number, event in enumerate(run.services[Timeline].iter_events(start, end), 1):
            if number % 100 == 0:
                advance(number)
            yield conversation_files.dump_line(event)


def _list_sections(run: Invocation, start: int, end: int) -> Iterator[str]:
    timeline = run.services[Timeline]
    outlines = timeline.outline_sessions(start, end)
    with run.terminal.progress("Exporting", len(outlines)) as advance:
        for number, outline in enumerate(outlines, 1):
            events = timeline.iter_session(outline.session_id, start, end)
            yield from conversation_files.dump_markdown(outline, events, run.zone)
            advance(number)


def _export_vault(run: Invocation, root: Path, start: int, end: int) -> None:
    """Write the notes of whole days and sessions: a later export of another time replaces them."""
    start, end = _widen_to_days(run, start, end)
    timeline = run.services[Timeline]
    for folder in (root, *(root / name for name in vault.FOLDERS)):
        _make_folder(folder)
    memories = [
        memory
        for memory in run.services[MemoryEditor].list_all()
        if start <= memory.created_ms <= end
    ]
    plan = vault.VaultPlan(
        zone=run.zone,
        names=vault.list_names(root),
        sessions=timeline.outline_sessions(start, end),
        memories=sorted(memories, key=lambda memory: (memory.created_ms, memory.urn)),
    )
    notes = plan.list_notes(
        lambda session: timeline.iter_session(session.session_id, 0, MAX_MILLIS)
    )
    done: Counter[str] = Counter()
    with run.terminal.progress("Exporting notes", len(notes)) as advance:
        for number, note in enumerate(notes, 1):
            path = root / f"{note.path}.md"
            outcome = _write_note(path, note.build)
            done[outcome] += 1
            if outcome == _KEPT and done[_KEPT] <= _MAX_NAMED:
                shown = rendering.plain(str(path))
                run.terminal.warn(f"warning: {shown} was changed or is not ours: left as it is\n")
            advance(number)
    kept = f"; {rendering.count(done[_KEPT], 'note')} left alone" if done[_KEPT] else ""
    run.terminal.warn(
        f"{rendering.count(done[_WRITTEN], 'note')} written to {root},"
        f" {done[_SAME]:,} already current{kept}\n"
    )


def _widen_to_days(run: Invocation, start: int, end: int) -> tuple[int, int]:
    def find_day(at_ms: int) -> datetime:
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(run.zone)
        return moment.replace(hour=0, minute=0, second=0, microsecond=0)

    if start > 0:
        start = max(0, round(find_day(start).timestamp() * 1000))
    if end < MAX_MILLIS:
        end = round((find_day(end) + timedelta(days=1)).timestamp() * 1000) - 1
    return start, end


def _make_folder(folder: Path) -> None:
    """Create a folder of the vault. Raises InvalidInput if something else has its name."""
    try:
        if folder.is_symlink() and folder.name in vault.FOLDERS:
            raise InvalidInput(f"{folder} is a link: choose another folder")
        durable.make_folder(folder)
    except FileExistsError as exc:
        raise InvalidInput(f"{folder} is not a folder: choose another name") from exc
    except OSError as exc:
        raise InvalidInput(f"cannot write {folder}: {exc.strerror}") from exc


def _write_note(path: Path, build: Callable[[], Iterator[str]]) -> str:
    """Write a note unless it is current, or someone else's. Return what was done."""
    seal = vault_notes.NoteSeal()
    for piece in build():
        seal.add(piece)
    try:
        with contextlib.suppress(FileNotFoundError):
            present = files.read_regular(path, _MAX_NOTE_BYTES).decode("utf-8", "replace")
            if not vault_notes.is_unchanged(present):
                return _KEPT
            if present.endswith(seal.close()):
                return _SAME
    except OSError:
        return _KEPT  # a link, a folder, or longer than anything of ours
    seal = vault_notes.NoteSeal()
    try:
        with durable.open_atomic(path, mode=0o600) as file:
            for piece in build():
                file.write(seal.add(piece).encode())
            file.write(seal.close().encode())
    except OSError as exc:
        raise InvalidInput(f"cannot write {path}: {exc.strerror}") from exc
    return _WRITTEN
