"""Change what hooks record, in the user's config file. A change applies to the next hook call."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_memory import config
from agent_memory.features.hooks.services.consent import RecordingConsent
from agent_memory.features.hooks.services.handling import HookHandling


def exclude_folders(consent: RecordingConsent, file: Path, folders: Iterable[str]) -> list[str]:
    """Record nothing in the projects of these folders. Return their roots."""
    pairs = [consent.build_pattern(folder) for folder in folders]
    patterns = [pattern for _, pattern in pairs]
    _revise(file, lambda hooks: {"exclude": _add(hooks.exclude, patterns)})
    return [root for root, _ in pairs]


def allow_folders(
    handling: HookHandling, file: Path, folders: Iterable[str], environ: Mapping[str, str]
) -> list[str]:
    """Record in the projects of these folders, also what waits in the spool. Return their roots.

    Raises InvalidInput if a pattern that covers other folders too excludes one.
    """
    choices = [handling.consent.choose(folder, environ) for folder in folders]
    unwanted = {text for choice in choices for text in choice.unwanted}
    _revise(
        file,
        lambda hooks: {
            "exclude": [text for text in hooks.exclude if text not in unwanted],
            "projects": _add(hooks.projects, [choice.missing for choice in choices]),
        },
    )
    handling.drain_soon()
    return [choice.root for choice in choices]


def resume(handling: HookHandling) -> bool:
    """End a pause, and record what waits in the spool. Return whether there was one."""
    was_paused = handling.consent.resume()
    handling.drain_soon()
    return was_paused


def set_mode(file: Path, mode: str) -> None:
    """Record in all folders, or only in those that the user chose."""
    _revise(file, lambda _hooks: {"mode": mode})


def _add(patterns: list[str], more: Iterable[str]) -> list[str]:
    return [*patterns, *(text for text in more if text and text not in patterns)]


def _revise(file: Path, edit: Callable[[config.HooksSettings], Mapping[str, Any]]) -> None:
    """Change settings of hooks in the user's file, if they differ."""
    # Late: loading the TOML editor takes a twentieth of the start time of every command.
    from agent_memory import config_file  # noqa: PLC0415

    def list_changes(settings: config.Settings) -> dict[str, Any]:
        return {
            f"hooks.{name}": value
            for name, value in edit(settings.hooks).items()
            if value != getattr(settings.hooks, name)
        }

    config_file.revise(file, list_changes)
