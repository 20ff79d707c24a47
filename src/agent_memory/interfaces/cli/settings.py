"""`memory config`: show and change settings. It works without a daemon and with broken settings."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from agent_memory import config
from agent_memory.interfaces.cli.agent_shells import check_person
from agent_memory.interfaces.cli.backend import RunningDaemon
from agent_memory.interfaces.cli.commands import Group, Invocation, invocation
from agent_memory.kernel.errors import ConfigError, InvalidInput

RESTART = "memory-daemon restart"
PROJECTS, CONVERSATIONS = "upstream.projects", "upstream.conversations"  # that are shared

mend_option = click.option(
    "--mend", is_flag=True, help="Comment out the lines of a file that is not valid TOML."
)


@click.group(
    "config",
    cls=Group,
    examples=(
        "memory config list",
        "memory config set hooks.enabled false",
        "memory config unset grpc.port",
        "$EDITOR $(memory config path)",
    ),
)
def config_group() -> None:
    """Show and change settings. No daemon is started for it."""


@config_group.command("get", examples=("memory config get grpc.port",))
@click.argument("key")
@invocation
def get_config(run: Invocation, key: str) -> None:
    """Show the value of a setting that applies in this folder."""
    value = run.loaded.value(key)
    run.show(value, lambda: _as_text(value))


@config_group.command(
    "set",
    needs_config=False,  # it mends them
    examples=(
        "memory config set cli.color false",
        'memory config set llama.args "--n-gpu-layers,99"',
    ),
    context_settings={"ignore_unknown_options": True},  # a value may begin with a dash
)
@click.argument("key")
@click.argument("value")
@mend_option
@invocation
def set_config(run: Invocation, key: str, value: str, mend: bool) -> int:
    """Change a setting in your config file.

    Separate the items of a list with commas. Comments and the order of the file stay as they are.
    Some settings take effect when the daemon restarts: the command then offers to restart it.
    """
    # Late: loading the TOML editor takes a twentieth of the start time of every command.
    from agent_memory import config_file  # noqa: PLC0415

    known = config.find_key(key)
    if known.applies == "personal":
        check_person(run, f"change {key}")
    parsed = config.parse(key, value)
    if key in (PROJECTS, CONVERSATIONS):
        _check_not_added(run, key, parsed)
    if known.file:
        _note_missing_file(run, parsed)
    path = run.find_config_file()
    _edit(run, lambda mends: config_file.change(path, key, parsed, mend=mends), mend=mend)
    return _report(run, known, {"key": key, "value": parsed}, f"{key} = {_as_text(parsed)}")


@config_group.command("unset", needs_config=False, examples=("memory config unset llama.server",))
@click.argument("key")
@mend_option
@invocation
def unset_config(run: Invocation, key: str, mend: bool) -> int:
    """Remove a setting from your config file.

    Its default applies again. A name in the file that is no setting can be removed too.
    """
    from agent_memory import config_file  # noqa: PLC0415  # late, as above

    known = config.KEYS.get(key)
    if known is None or known.applies == "personal":  # a section has settings of both kinds
        check_person(run, f"change {key}")
    path = run.find_config_file()
    removed = False

    def remove(mends: bool) -> tuple[int, ...]:
        nonlocal removed
        removed, mended = config_file.remove(path, key, mend=mends)
        return mended

    _edit(run, remove, mend=mend)
    if not removed:
        known = known or config.find_key(key)
        run.show(
            {"key": key, "removed": False, "path": str(path)},
            lambda: f"{key} is not set in {path}.",
        )
        return 0
    if known is None:
        run.show(
            {"key": key, "removed": True, "path": str(path)},
            lambda: f"Removed {key}, which is no setting  ({path})",
        )
        return 0
    default = _as_text(known.default) or "empty"
    return _report(
        run, known, {"key": key, "removed": True}, f"Removed {key}; its default is {default}"
    )


@config_group.command("list", examples=("memory config list --format json",))
@invocation
def list_config(run: Invocation) -> None:
    """List all settings, with their values and where those come from."""
    loaded = run.loaded
    rows = [
        {
            "key": key.name,
            "value": loaded.value(key.name),
            "source": loaded.sources.get(key.name, config.DEFAULT),
            "applies": key.applies,
        }
        for key in config.KEYS.values()
    ]
    width = max(len(str(row["key"])) for row in rows)
    run.show(
        rows,
        lambda: "\n".join(
            f"{row['key']:<{width}}  {_as_text(row['value'])}  ({row['source']})" for row in rows
        ),
        page=True,
    )


@config_group.command("path", needs_config=False, examples=("$EDITOR $(memory config path)",))
@invocation
def config_path(run: Invocation) -> None:
    """Print the path of your config file. The file may not exist yet."""
    run.terminal.write(f"{run.find_config_file()}\n")


def _check_not_added(run: Invocation, key: str, entries: Sequence[str]) -> None:
    """Raise InvalidInput if a setting would share more: what leaves is to be seen first."""
    if added := sorted(set(entries) - set(run.loaded.value(key))):
        option = " --conversations" if key == CONVERSATIONS else ""
        raise InvalidInput(
            f"{', '.join(added)} would be shared unseen. `memory remote add --project"
            f" FOLDER{option}` shows what would leave, and shares it"
        )


def _edit(run: Invocation, change: Callable[[bool], tuple[int, ...]], *, mend: bool) -> None:
    """Change the file. If it is not valid TOML, ask whether to mend it."""
    try:
        lines = change(mend)
    except config.BrokenConfigFile as exc:
        if not run.terminal.call.input_is_terminal:
            raise ConfigError(f"{exc}; --mend comments out what cannot be read") from exc
        run.terminal.warn(f"error: {exc}\n")
        if not run.terminal.confirm("Comment out the lines that cannot be read?"):
            raise
        lines = change(True)
    if lines:
        numbers = ", ".join(map(str, lines))
        run.terminal.warn(
            f"note: commented out line{'s'[: len(lines) > 1]} {numbers}, not valid TOML\n"
        )


def _report(run: Invocation, known: config.Key, changed: dict[str, Any], text: str) -> int:
    """Show a change and when it takes effect. Offer a restart on a terminal."""
    path = run.find_config_file()
    control = run.backend.require_control()
    if known.name.startswith("upstream."):
        control.wake_team_sync()
    daemon = control.find_daemon() if known.applies == "restart" else None
    effect = _describe_effect(known, daemon, path)
    restart_needed = daemon is not None and _is_same_file(daemon.config_file, path)
    run.show(
        {**changed, "path": str(path), "restart_needed": restart_needed},
        lambda: f"{text}  ({path})" + (f"\n{effect}" if effect else ""),
    )
    _note_variable(run, known)
    if not restart_needed or daemon is None or daemon.foreground or run.quiet:
        return 0
    call = run.terminal.call
    if not (call.input_is_terminal and call.output_is_terminal and run.chosen_format == "text"):
        return 0
    if not run.terminal.confirm("Restart the daemon now?"):
        return 0
    try:
        return control.restart(run.terminal.write)
    except ConfigError:
        run.terminal.warn("note: the setting is written, and the daemon runs on without it\n")
        raise


def _describe_effect(known: config.Key, daemon: RunningDaemon | None, path: Path) -> str:
    if known.applies != "restart":
        return ""  # the next command or hook reads it
    if daemon is None:
        return "It takes effect at the next start of the daemon."
    if not _is_same_file(daemon.config_file, path):
        return f"The running daemon uses another file: {daemon.config_file}"
    if daemon.foreground:
        return (
            f"It takes effect when the daemon (PID {daemon.pid}) restarts: it runs in a terminal"
            " or as a service, so restart it there."
        )
    return f"It takes effect when the daemon restarts: `{RESTART}`"


def _is_same_file(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _note_missing_file(run: Invocation, text: str) -> None:
    if text and not Path(text).expanduser().is_file():
        run.terminal.warn(f"note: there is no file {text}\n")


def _note_variable(run: Invocation, known: config.Key) -> None:
    variable = config.find_variable(run.terminal.call.environ, known)
    if variable:
        run.terminal.warn(f"note: {variable} is set here, and counts instead of the file\n")


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)
