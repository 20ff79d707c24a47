"""Read the options of hooks from the environment and the settings files of a folder."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path

from agent_memory import config
from agent_memory.features.hooks.model.consent import ConsentRules
from agent_memory.features.hooks.model.hooks import HookKind
from agent_memory.features.hooks.model.preferences import HookOptions, Push
from agent_memory.kernel.errors import ConfigError
from agent_memory.kernel.text import globs

# Settings of consent, in a file that is not valid TOML or has other faults.
_CONSENT = re.compile(r"\b(?:enabled|mode|projects|exclude)[\"']?\s*=")
# What agents may be given, if that is not all.
_PUSH = re.compile(r"\bpush[\"']?\s*=(?!\s*[\"']all[\"'])")
_VARIABLES = f"{config.ENVIRONMENT_PREFIX}HOOKS__"


def load_options(environ: Mapping[str, str], folder: str) -> HookOptions:
    """Load the options of hooks in a folder. Broken settings are left out."""
    settings, ignored, unreadable = _load(environ, folder)
    return build_options(settings, environ.get("HOME") or "/", ignored, unreadable)


def load_settings(environ: Mapping[str, str], folder: str) -> config.Settings:
    """Load the settings. Leave out broken sources: a broken file must not stop an agent."""
    return _load(environ, folder)[0]


def _load(environ: Mapping[str, str], folder: str) -> tuple[config.Settings, tuple[str, ...], str]:
    """Load the settings. List those that are not used, each with the reason, and say why the
    user's consent cannot be read, if so."""
    ignored: tuple[str, ...] = ()
    silent = {
        name: value
        for name, value in environ.items()
        if not name.startswith(config.ENVIRONMENT_PREFIX)
    }
    files = (None, Path(os.devnull))  # the user's own, or none
    for variables, file, project in product((environ, silent), files, (Path(folder), None)):
        try:
            loaded = config.load(variables, file=file, project_dir=project)
        except (ConfigError, OSError) as exc:
            ignored = ignored or (str(exc),)
            continue
        lost = "" if file is None else _find_lost_consent(environ)
        if not lost and variables is silent:
            lost = _find_lost_variables(environ)
        settings = loaded.settings
        if ignored and _finds_push(environ, folder):
            settings = replace(settings, hooks=replace(settings.hooks, push=Push.OFF.value))
        return settings, ignored or loaded.ignored, lost
    lost = _find_lost_consent(environ) or _find_lost_variables(environ)
    return config.Settings(), ignored, lost


def _finds_push(environ: Mapping[str, str], folder: str) -> bool:
    """Return whether any source of settings limits what agents are given. If one of them cannot be
    used, they are given nothing."""
    if f"{_VARIABLES}PUSH" in environ:
        return True
    for file in (config.folders(environ).config_file, config.find_project_file(Path(folder))):
        with suppress(ConfigError, OSError):
            if file is not None and _PUSH.search(config.read_text(file)):
                return True
    return False


def _find_lost_variables(environ: Mapping[str, str]) -> str:
    """Return why variables that cannot be used may forbid recording, or an empty text."""
    if not any(name.startswith(_VARIABLES) for name in environ):
        return ""
    return f"a variable that begins with {config.ENVIRONMENT_PREFIX} has an error"


def _find_lost_consent(environ: Mapping[str, str]) -> str:
    """Return why a file of the user that cannot be used may forbid recording, or an empty text."""
    file = config.folders(environ).config_file
    try:
        text = config.read_text(file)
    except (ConfigError, OSError) as exc:
        return str(exc)
    return f"{file} has an error: `memory doctor` names it" if _CONSENT.search(text) else ""


def build_options(
    settings: config.Settings,
    home: str = "/",
    ignored: tuple[str, ...] = (),
    unreadable: str = "",
) -> HookOptions:
    """Build the options of hooks from all settings."""
    hooks = settings.hooks
    push = Push(hooks.push)
    start, prompt, tool = hooks.session_start, hooks.user_prompt, hooks.post_tool_use
    return HookOptions(
        consent=ConsentRules(
            enabled=hooks.enabled,
            opt_in=hooks.mode == "opt-in",
            projects=_parse_folders(hooks.projects, home),
            exclude=_parse_folders(hooks.exclude, home),
            unreadable=unreadable,
        ),
        enabled=frozenset(kind for kind in HookKind if is_enabled(kind, hooks)),
        push=push,
        fetch_remote=start.fetch_remote,
        context_tokens=0 if push is Push.OFF else start.context_token_budget,
        guidance=start.guidance_detail if start.include_guidance else "",
        markers=prompt.signal_patterns,
        recall_for_prompts=prompt.recall and push is Push.ALL,
        capture_prompts=prompt.auto_capture,
        trigger_tools=tool.trigger_tools if push is Push.ALL else (),
        exclude_patterns=tool.exclude_patterns,
        confidence_threshold=hooks.pre_compact.confidence_threshold,
        review=hooks.review,
        analyze_session=hooks.stop.session_analysis,
        push_remote=hooks.stop.push_remote,
        remote=settings.memories.remote,
        ignored=ignored,
    )


def _parse_folders(patterns: Sequence[str], home: str) -> tuple[globs.FolderGlob, ...]:
    return tuple(globs.parse_folder_glob(each, home, os.path.realpath) for each in patterns)


def is_enabled(kind: HookKind, hooks: config.HooksSettings) -> bool:
    """Return whether calls of this kind are recorded and answered."""
    match kind:
        case HookKind.OTHER:
            return False
        case HookKind.BEFORE_TOOL:  # nothing of it is recorded
            section = hooks.post_tool_use.enabled and Push(hooks.push) is Push.ALL
        case HookKind.SESSION_START:
            section = hooks.session_start.enabled
        case HookKind.PROMPT:
            section = hooks.user_prompt.enabled
        case HookKind.TOOL | HookKind.TOOL_FAILURE:
            section = hooks.post_tool_use.enabled
        case HookKind.COMPACTION:
            section = hooks.pre_compact.enabled
        case HookKind.ANSWER | HookKind.STOP | HookKind.SESSION_END:
            section = hooks.stop.enabled
        case HookKind.SUBAGENT_START | HookKind.SUBAGENT_STOP | HookKind.SUMMARY:
            section = True
    return hooks.enabled and section
