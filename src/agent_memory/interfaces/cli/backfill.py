"""`memory import --from`: record the events of an agent's transcripts."""

from collections.abc import Mapping
from pathlib import Path

import click
from click.core import ParameterSource

from agent_memory.features.hooks.services.backfill import BackfillResult
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.kernel.errors import InvalidInput

AGENTS = ("claude-code", "codex", "jsonl")
_KIB = 1024
_REASONS = 10
_FOREIGN = {"format_": "--format", "namespace": "--namespace", "domain": "--domain"}


def import_transcripts(
    run: Invocation, agent: str, path: Path | None, *, dry_run: bool, include_excluded: bool
) -> None:
    _check_options(click.get_current_context())
    service = run.services.backfill
    folder = _find_transcripts(run, agent, path)
    sources = service.list_sources(agent, str(folder))
    size = sum(source.size for source in sources)
    with run.terminal.progress("Importing (KiB)", -(-size // _KIB)) as advance:
        result = service.import_sources(
            agent,
            sources,
            dry_run=dry_run,
            include_excluded=include_excluded,
            on_progress=lambda read: advance(-(-read // _KIB)),
        )
    _show_result(run, result, folder, dry_run)


def _check_options(context: click.Context) -> None:
    for name, option in _FOREIGN.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} cannot be combined with --from, which records events")


def _find_transcripts(run: Invocation, agent: str, path: Path | None) -> Path:
    environ = run.terminal.call.environ
    if path is not None:
        path = run.terminal.call.cwd / _expand_home(path, environ)
        if not path.exists():
            raise InvalidInput(f"{path} does not exist")
        return path
    if agent == "jsonl":
        raise click.UsageError("--from jsonl needs a FILE or folder")
    folder = _default_folder(agent, environ)
    if not folder.is_dir():
        raise InvalidInput(
            f"{folder} does not exist: give the file or folder of the transcripts of {agent}"
        )
    return folder


def _default_folder(agent: str, environ: Mapping[str, str]) -> Path:
    """Return the folder where the agent writes transcripts in the caller's environment."""
    home = _home(environ)
    if agent == "codex":
        return Path(environ.get("CODEX_HOME") or home / ".codex") / "sessions"
    return Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"


def _expand_home(path: Path, environ: Mapping[str, str]) -> Path:
    if path.parts[:1] == ("~",):
        return _home(environ).joinpath(*path.parts[1:])
    return path


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME", "")
    if not home:
        raise InvalidInput("HOME is not set: give the folder of the transcripts")
    return Path(home)


def _show_result(run: Invocation, result: BackfillResult, folder: Path, dry_run: bool) -> None:
    """Show what was recorded. Unreadable lines are normal in transcripts, and not a failure."""
    for reason in result.reasons[:_REASONS]:
        run.terminal.warn(f"warning: {rendering.plain(reason)}\n")
    if result.refused > _REASONS:
        run.terminal.warn(f"warning: and {result.refused - _REASONS:,} more\n")
    verb = "Would record" if dry_run else "Recorded"
    run.show(
        {
            "success": True,
            "dry_run": dry_run,
            "path": str(folder),
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
            f" {rendering.count(result.lines, 'line')} in"
            f" {rendering.count(result.files, 'file')}; {result.known:,} already existed"
            + (f"; titles and summaries: {result.described:,}" if result.described else "")
            + (f"; lines refused: {result.refused:,}" if result.refused else "")
            + (_describe_skipped(result.skipped) if result.skipped else "")
        ),
        essential=str(result.created),
    )


def _describe_skipped(sessions: int) -> str:
    return (
        f"\nSkipped {rendering.count(sessions, 'session')} of folders where recording is off;"
        " --include-excluded imports them too"
    )
