"""`memory import --from`: the transcripts of an agent, told as events."""

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


def import_transcripts(run: Invocation, agent: str, given: Path | None, *, dry_run: bool) -> None:
    _check_options(click.get_current_context())
    service = run.backend.require_services().backfill
    place = _place(run, agent, given)
    sources = service.list_sources(agent, str(place))
    size = sum(source.size for source in sources)
    with run.terminal.progress("Importing (KiB)", -(-size // _KIB)) as advance:
        found = service.import_sources(
            agent, sources, dry_run=dry_run, done=lambda read: advance(-(-read // _KIB))
        )
    _show_result(run, found, place, dry_run)


def _check_options(context: click.Context) -> None:
    for name, option in _FOREIGN.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} is for memories; --from records events")


def _place(run: Invocation, agent: str, given: Path | None) -> Path:
    environ = run.terminal.call.environ
    if given is not None:
        path = run.terminal.call.cwd / _expand_home(given, environ)
        if not path.exists():
            raise InvalidInput(f"there is no {path}")
        return path
    if agent == "jsonl":
        raise click.UsageError("give the FILE or folder: plain transcripts have no place of theirs")
    found = _default_source(agent, environ)
    if not found.is_dir():
        raise InvalidInput(
            f"there is no folder {found}: give the place of the transcripts of {agent}, a file or a"
            " folder"
        )
    return found


def _default_source(agent: str, environ: Mapping[str, str]) -> Path:
    """Where the agent itself would write, for this caller and not for the daemon."""
    home = _home(environ)
    if agent == "codex":
        return Path(environ.get("CODEX_HOME") or home / ".codex") / "sessions"
    return Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"


def _expand_home(given: Path, environ: Mapping[str, str]) -> Path:
    if given.parts[:1] == ("~",):
        return _home(environ).joinpath(*given.parts[1:])
    return given


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME", "")
    if not home:
        raise InvalidInput("HOME is not set: give the place of the transcripts")
    return Path(home)


def _show_result(run: Invocation, found: BackfillResult, place: Path, dry_run: bool) -> None:
    """Lines that cannot be read are told, and are no failure: transcripts have such."""
    for each in found.reasons[:_REASONS]:
        run.terminal.warn(f"warning: {rendering.plain(each)}\n")
    if found.refused > _REASONS:
        run.terminal.warn(f"warning: and {found.refused - _REASONS:,} more\n")
    verb = "Would record" if dry_run else "Recorded"
    run.show(
        {
            "success": True,
            "dry_run": dry_run,
            "path": str(place),
            "files": found.files,
            "lines": found.lines,
            "sessions": found.sessions,
            "recorded": found.created,
            "known": found.known,
            "noise": found.noise,
            "refused": found.refused,
            "reasons": list(found.reasons),
        },
        lambda: (
            f"\N{CHECK MARK} {verb} {found.created:,} events of {found.sessions:,} sessions from"
            f" {found.lines:,} lines in {found.files:,} files; {found.known:,} were there already"
            + (f"; lines refused: {found.refused:,}" if found.refused else "")
        ),
        essential=str(found.created),
    )
