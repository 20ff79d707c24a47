"""`memory import --from`: record the events of past conversations."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from agent_memory.features.hooks.model.import_sources import ImportSource, list_default_paths
from agent_memory.features.hooks.services.backfill import Backfill, BackfillResult
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.kernel.errors import InvalidInput

PLAIN = ImportSource.JSONL.value
SOURCES = tuple(source.value for source in ImportSource)
_KIB = 1024
_REASONS = 10
_FOREIGN = {"from_format": "--from-format", "namespace": "--namespace", "domain": "--domain"}


def import_transcripts(
    run: Invocation, name: str, path: Path | None, *, dry_run: bool, include_excluded: bool
) -> None:
    """Record what is new in the files of a source: those at a path, else all of them."""
    _check_options(click.get_current_context())
    paths = _find_paths(run, ImportSource(name), path)
    record_files(run, name, paths, dry_run=dry_run, include_excluded=include_excluded)


def record_files(
    run: Invocation, name: str, paths: Sequence[Path], *, dry_run: bool, include_excluded: bool
) -> None:
    service = run.services[Backfill]
    sources = service.list_sources(name, *map(str, paths))
    size = sum(source.size for source in sources)
    with run.terminal.progress("Importing (KiB)", -(-size // _KIB)) as advance:
        result = service.import_sources(
            name,
            sources,
            environ=run.terminal.call.environ,
            dry_run=dry_run,
            include_excluded=include_excluded,
            on_progress=lambda read: advance(-(-read // _KIB)),
        )
    _show_result(run, result, paths, dry_run)


def _check_options(context: click.Context) -> None:
    for name, option in _FOREIGN.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} cannot be combined with --from, which records events")


def _find_paths(run: Invocation, source: ImportSource, path: Path | None) -> list[Path]:
    call = run.terminal.call
    if path is not None:
        path = call.cwd / _expand_home(path, call.environ)
        if not path.exists():
            raise InvalidInput(f"{path} does not exist")
        return [path]
    places = list_default_paths(source, call.environ, _home(call.environ), call.cwd)
    if not places:
        raise click.UsageError(f"--from {source} needs a FILE or folder")
    found = [place for place in places if place.is_dir()]
    if not found:
        others = f" (nor {len(places) - 1} other usual places)" if len(places) > 1 else ""
        raise InvalidInput(
            f"{places[0]} does not exist{others}: give the file or folder of the transcripts of"
            f" {source}"
        )
    return found


def _expand_home(path: Path, environ: Mapping[str, str]) -> Path:
    if path.parts[:1] == ("~",):
        return _home(environ).joinpath(*path.parts[1:])
    return path


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME", "")
    if not home:
        raise InvalidInput("HOME is not set: give the folder of the transcripts")
    return Path(home)


def _show_result(
    run: Invocation, result: BackfillResult, paths: Sequence[Path], dry_run: bool
) -> None:
    """Show what was recorded. Unreadable records are normal in transcripts, and a failure only if
    nothing else is there. Raises InvalidInput then."""
    for reason in result.reasons[:_REASONS]:
        run.terminal.warn(f"warning: {rendering.plain(reason)}\n")
    if result.refused > _REASONS:
        run.terminal.warn(f"warning: and {result.refused - _REASONS:,} more\n")
    if result.refused and not (result.created or result.described or result.known):
        raise InvalidInput(f"nothing in {', '.join(map(str, paths))} could be read")
    verb = "Would record" if dry_run else "Recorded"
    run.show(
        {
            "success": True,
            "dry_run": dry_run,
            "path": ", ".join(map(str, paths)),
            "files": result.files,
            "lines": result.lines,
            "sessions": result.sessions,
            "skipped_sessions": result.skipped,
            "recorded": result.created,
            "described": result.described,
            "known": result.known,
            "noise": result.noise,
            "refused": result.refused,
            "reasons": list(result.reasons),
        },
        lambda: (
            f"\N{CHECK MARK} {verb} {rendering.count(result.created, 'event')} of"
            f" {rendering.count(result.sessions, 'session')} from"
            f" {rendering.count(result.lines, 'record')} in"
            f" {rendering.count(result.files, 'file')}; {result.known:,} already existed"
            + (f"; titles and summaries: {result.described:,}" if result.described else "")
            + (f"; records refused: {result.refused:,}" if result.refused else "")
            + (_describe_skipped(result.skipped) if result.skipped else "")
        ),
        essential=str(result.created),
    )


def _describe_skipped(sessions: int) -> str:
    return (
        f"\nSkipped {rendering.count(sessions, 'session')} of folders where recording is off;"
        " --include-excluded imports them too"
    )
