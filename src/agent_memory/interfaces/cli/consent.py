"""`memory on`, `off`, `pause` and `resume`: decide what hooks record."""

import re
from typing import Any

import click
import msgspec

from agent_memory.features.hooks.model.consent import Consent, ConsentReason, Pause
from agent_memory.features.hooks.operations import (
    Decision,
    FolderChange,
    FolderRecording,
    PauseLength,
    allow_folder,
    check_folder,
    exclude_folder,
    pause_recording,
    resume_recording,
)
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.agent_shells import check_person
from agent_memory.interfaces.cli.commands import Command, Invocation, invocation
from agent_memory.kernel.ids import Millis
from agent_memory.kernel.operations import Operation
from agent_memory.platform.clock import SystemClock

_LENGTH = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_MAX_PAUSE_MS = 3_660 * _UNIT_MS["d"]


class LengthType(click.ParamType[int]):
    """A length of time, in milliseconds: 30m, 1h30m, 2d."""

    name = "length"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        written = str(value).strip().lower()
        parts = _LENGTH.findall(written)
        if not parts or _LENGTH.sub("", written).strip():
            self.fail(f"{value!r} is not a length of time such as 30m, 1h or 2d", param, ctx)
        length = sum(int(number) * _UNIT_MS[unit] for number, unit in parts)
        if not 0 < length <= _MAX_PAUSE_MS:
            self.fail("a pause takes from 1s to 10 years; without --for it has no end", param, ctx)
        return length


@click.command(cls=Command, examples=("memory pause", "memory pause --for 1h"))
@click.option(
    "--for", "length_ms", type=LengthType(), help="End by itself after this time: 30m, 1h, 2d."
)
@invocation
def pause(run: Invocation, length_ms: int | None) -> None:
    """Record nothing on this machine until you resume.

    Hooks record, inject and capture nothing, in all projects, also after a restart. You can still
    capture, recall and import.
    """
    length = PauseLength(seconds=None if length_ms is None else length_ms // 1000)
    until = run.call(pause_recording, length).until_ms
    paused = Pause(until_ms=None if until is None else Millis(until))
    run.show(
        {"paused": True, "until_ms": until},
        lambda: f"\N{CHECK MARK} Recording is {describe_pause(paused)}; `memory resume` ends it",
    )


@click.command(cls=Command, examples=("memory resume",))
@invocation
def resume(run: Invocation) -> None:
    """Record again after `memory pause`. Only you can: it refuses in the shell of an agent."""
    check_person(run, "end a pause")
    was_paused = run.call(resume_recording).was_paused
    here = run.call(check_folder)
    run.show(
        {"paused": False, "was_paused": was_paused, "recording": consent_json(here)},
        lambda: (
            ("\N{CHECK MARK} The pause is over" if was_paused else "Recording was not paused")
            + f". Recording: {describe_consent(here)}"
        ),
    )


@click.command(cls=Command, examples=("cd ~/clients/acme && memory off",))
@invocation
def off(run: Invocation) -> None:
    """Record nothing in this project from now on.

    It adds the root of this project to `hooks.exclude`, for all worktrees of its repository. What
    was recorded before stays; `memory forget` removes it.
    """
    _switch(run, exclude_folder)


@click.command(cls=Command, examples=("cd ~/code/app && memory on",))
@invocation
def on(run: Invocation) -> None:
    """Record in this project from now on.

    It takes the root of this project out of `hooks.exclude` and, with opt-in, adds it to
    `hooks.projects`. Only you can: the command refuses in the shell of an agent.
    """
    check_person(run, "allow recording")
    _switch(run, allow_folder)


def _switch(run: Invocation, operation: Operation[FolderRecording]) -> None:
    path = str(run.find_config_file())
    changed = run.call(operation, FolderChange(config_file=path))
    folder, state = changed.folder, changed.recording
    run.show(
        {"folder": folder, "path": path, "recording": consent_json(state)},
        lambda: f"Recording in {rendering.plain(folder)}: {describe_consent(state)}",
    )


def consent_json(state: Decision) -> dict[str, Any]:
    """Render a decision for programs."""
    return {**msgspec.to_builtins(state), "text": describe_consent(state)}


def describe_pause(pause: Pause) -> str:
    if pause.problem:
        return f"paused, because {rendering.plain(pause.problem)}"
    if pause.until_ms is None:
        return "paused"
    time = rendering.moment(pause.until_ms)[:16]
    today = rendering.moment(SystemClock().now())[:10]
    return (
        f"paused until {time.removeprefix(today).strip()} {rendering.format_zone(pause.until_ms)}"
    )


def describe_consent(state: Consent | Decision) -> str:
    """Say whether hooks record, and if not why, and what would change it."""
    detail = rendering.plain(state.detail)
    match state.reason:
        case ConsentReason.GIVEN:
            return "on"
        case ConsentReason.PAUSED:
            until_ms = None if state.until_ms is None else Millis(state.until_ms)
            until = Pause(until_ms=until_ms, problem=state.detail)
            return f"{describe_pause(until)}; `memory resume` ends it"
        case ConsentReason.UNREADABLE:
            return f"off, because it may be excluded: {detail}"
        case ConsentReason.DISABLED:
            return "off: hooks.enabled is false"
        case ConsentReason.EXCLUDED:
            return f'off: excluded by hooks.exclude "{detail}"'
        case ConsentReason.NOT_CHOSEN:
            return "off: not in hooks.projects (hooks.mode is opt-in); `memory on` adds it"
        case ConsentReason.IGNORED:
            return f"off: ignored by {detail}"
