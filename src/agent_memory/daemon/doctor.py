"""`memory doctor`: check every step from an agent to the store, as the agent uses it."""

import json
import os
import shlex
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_memory import __version__, config
from agent_memory.features import import_modules
from agent_memory.features.hooks.consent_rule import build_consent
from agent_memory.features.hooks.feature import build_installing
from agent_memory.features.hooks.hook_options import load_options
from agent_memory.features.hooks.model.installations import (
    PROGRAM,
    Agent,
    AgentPlugin,
    AgentState,
    InstallStatus,
    Launcher,
    ScopeState,
)
from agent_memory.features.hooks.model.preferences import Push
from agent_memory.features.memories.core import git_version, locate_torn_objects
from agent_memory.features.toc.feature import describe_summarizer
from agent_memory.interfaces.cli.consent import describe_consent
from agent_memory.interfaces.hooks.inputs import CHECK
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import ConfigError, FeatureUnavailable, GitFailed, InvalidInput
from agent_memory.kernel.status import CheckResult, Damage, Health
from agent_memory.launcher import command_client, starting

SECONDS = 20.0  # for each program that doctor runs
SLOW_MS = 200  # users notice a slower hook
LEAST_FREE_BYTES = 500 << 20
# Some agents pass only these variables to the programs that they run.
AGENT_ENVIRONMENT = ("HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG")
AGENT_ENVIRONMENT_PREFIX = "MEMORY_"
TRUST = "start it in a terminal and trust them: until then nothing is recorded"


def diagnose(
    environ: Mapping[str, str], config_file: Path | None, folder: Path
) -> Iterator[CheckResult]:
    yield from _check_settings(environ, config_file, folder)
    folders = config.folders(environ)
    yield _check_data(folders.data)
    yield _check_recording(environ, folders.data, folder)
    yield _check_git(environ)
    yield from _check_summarizer(environ, config_file)
    serving = _check_daemon(environ, config_file, folders)
    yield serving
    if serving.health is not Health.PROBLEM:
        yield from _check_status(environ)
        yield from _check_jobs(environ)
        yield from _check_features(environ)
    yield from _check_spool(folders.data / "spool")
    yield from _check_torn(locate_torn_objects(folders.data))
    yield from _check_agents(environ, folder)


def _fine(subject: str, text: str) -> CheckResult:
    return CheckResult(subject=subject, health=Health.FINE, said=text)


def _warning(subject: str, text: str, advice: str = "") -> CheckResult:
    return CheckResult(subject=subject, health=Health.WARNING, said=text, advice=advice)


def _problem(subject: str, text: str, advice: str = "") -> CheckResult:
    return CheckResult(subject=subject, health=Health.PROBLEM, said=text, advice=advice)


def _check_settings(
    environ: Mapping[str, str], file: Path | None, folder: Path
) -> Iterator[CheckResult]:
    try:
        loaded = config.load(environ, file=file, project_dir=folder)
    except ConfigError as exc:
        advice = "correct it; `memory config path` shows where your settings are"
        yield _problem("settings", str(exc), advice)
        if load_options(environ, str(folder)).push is Push.OFF:
            yield _warning("settings", "agents are given nothing unasked: hooks.push")
        return
    for reason in loaded.ignored:
        yield _warning("settings", reason)
    for name, bad, text in (
        ("hooks.enabled", False, "hooks are off: nothing is recorded"),
        ("security.secrets", "off", "the secrets filter is off: secrets are stored"),
    ):
        if loaded.value(name) == bad:
            yield _warning("settings", text, f"see {name} in {loaded.sources[name]}")
    count = len(loaded.sources)
    text = f"{count} set, the others at their defaults" if count else "all at their defaults"
    yield _fine("settings", text)


def _check_data(folder: Path) -> CheckResult:
    if not folder.exists():
        return _fine("data", f"{folder} (note: new; the daemon creates it)")
    quoted = shlex.quote(str(folder))
    if not folder.is_dir():
        return _problem("data", f"{folder} is not a folder", f"mv {quoted} {quoted}.old")
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        return _problem("data", f"other users can enter {folder}", f"chmod 700 {quoted}")
    if not os.access(folder, os.W_OK | os.X_OK):
        return _problem("data", f"{folder} cannot be written", f"ls -ld {quoted}")
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        text = f"only {free >> 20} MiB are free on the disk of {folder}"
        return _problem("data", text, "free some space")
    return _fine("data", str(folder))


def _check_recording(environ: Mapping[str, str], data: Path, folder: Path) -> CheckResult:
    """Say whether hooks record here. That they do not may be the user's choice."""
    state = build_consent(data).check_folder(str(folder), environ)
    text = f"{describe_consent(state)} ({folder})"
    return _fine("recording", text) if state.is_given else _warning("recording", text)


def _check_git(environ: Mapping[str, str]) -> CheckResult:
    try:
        return _fine("git", git_version(environ, SECONDS))
    except GitFailed:
        pass
    text = "git cannot be run: memories are stored but not shared"
    return _warning("git", text, "install git, or add it to PATH")


def _check_summarizer(environ: Mapping[str, str], file: Path | None) -> Iterator[CheckResult]:
    """Check what writes summaries, if it is not our own summarizer."""
    try:
        settings = config.load(environ, file=file).settings.summarizer
    except ConfigError:
        return  # the check of the settings reports it
    if settings.provider == "extractive":
        return
    try:
        yield _fine("summaries", describe_summarizer(settings, environ))
    except ConfigError as exc:
        yield _problem("summaries", str(exc))
    except FeatureUnavailable as exc:
        yield _warning("summaries", str(exc), "until then, they are written without a model")


def _check_daemon(
    environ: Mapping[str, str], config_file: Path | None, folders: config.Folders
) -> CheckResult:
    """Check that the daemon answers a hook. Start a daemon if none runs."""
    try:
        running = command_client.reach_daemon(str(folders.data))
    except command_client.ConnectionForbidden as exc:
        return _problem("daemon", str(exc.strerror), "run `memory doctor` outside of it")
    if running is None:
        code = starting.start(None if config_file is None else str(config_file), by_hand=False)
        if code:
            advice = f"see the message above, and {folders.data / 'logs/daemon.log'}"
            return _problem("daemon", f"it does not start (exit code {code})", advice)
    else:
        running.close()
    launcher = build_installing().launcher
    return _check_hook("daemon", Agent.CLAUDE_CODE, launcher, environ)


def _check_hook(
    subject: str, agent: Agent, launcher: Launcher, environ: Mapping[str, str]
) -> CheckResult:
    """Run a hook as an agent does, with an event that is not recorded."""
    words = launcher.hook_words(agent)
    ran = _run(words, environ, json.dumps({"hook_event_name": CHECK}))
    answer = _json(ran.out)
    output = answer.get("hookSpecificOutput", {}) if isinstance(answer, dict) else {}
    version = output.get("additionalContext", "") if isinstance(output, dict) else ""
    if ran.code != 0 or not version:
        reason = ran.err.strip() or ran.out.strip() or "no output"
        advice = "run `memory-daemon status`, and see its log"
        return _problem(subject, f"a hook gets no answer: {reason}", advice)
    if version != f"Agent Memory {__version__}":
        return _warning(subject, f"{version} answers; this is {__version__}", "memory-daemon stop")
    text = f"{version} answers a hook in {ran.millis:.0f} ms"
    if ran.millis > SLOW_MS:
        return _warning(subject, text, "slow: check what else runs on this machine")
    return _fine(subject, text)


def _check_status(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    status = _json(_run_launcher(("memory-daemon", "status", "--format", "json"), environ).out)
    if not isinstance(status, dict):
        return
    for warning in status.get("warnings", []):
        yield _warning("daemon", str(warning))
    health = status.get("store") or {}
    if not health.get("writable", True):
        text = f"the store cannot be written: {health.get('reason', '')}"
        advice = "free some space or check the disk; the daemon tries again by itself"
        if health.get("lost"):
            text = f"the database server cannot be used: {health.get('reason', '')}"
            advice = (
                "check that it runs and that this machine reaches it (storage.url); the daemon goes"
                " on by itself"
            )
        yield _problem("store", text, advice)
    for fields in status.get("damages", []):
        damage = Damage(**fields)
        advice = "memory-daemon stop && memory-daemon admin verify --repair"
        if damage.kept:
            advice = "import the missing data or restore a backup, then remove the folder"
        yield _problem("store", damage.description, advice)
    indexes = status.get("indexes") or {}
    if trouble := indexes.get("trouble"):
        yield _warning("indexes", str(trouble), "memory-daemon admin rebuild-index")
    documents = indexes.get("words", {}).get("documents", 0)
    waiting = indexes.get("words_waiting", 0) + indexes.get("vectors_waiting", 0)
    events = status.get("events", 0)
    if health.get("writable", True) and not status.get("damages"):
        indexed = f"texts in the search index: {documents:,}, to be indexed: {waiting:,}"
        yield _fine("store", f"events: {events:,}; {indexed}")


def _check_jobs(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    scheduler = ("memory-daemon", "scheduler", "status", "--format", "json")
    status = _json(_run_launcher(scheduler, environ).out)
    if not isinstance(status, dict):
        return
    for job in status.get("jobs", []):
        name = job.get("job_name", "")
        if error := job.get("last_error"):
            text = f"{name} failed: {error}"
            yield _warning("jobs", text, f"memory-daemon scheduler run {name}")
        elif job.get("is_paused"):
            advice = f"memory-daemon scheduler resume {name}"
            yield _warning("jobs", f"{name} is paused", advice)


def _check_features(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Let features judge what commands of theirs say: the module `interfaces.doctor` of each."""
    for module in import_modules("interfaces.doctor"):
        said = _json(_run_launcher((*module.COMMAND, "--format", "json"), environ).out)
        if isinstance(said, dict):
            yield from module.judge(said)


def _check_spool(folder: Path) -> Iterator[CheckResult]:
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    waiting = sum(name.endswith(".json") for name in names)
    damaged = sum(name.endswith(".damaged") for name in names)
    if damaged:
        text = f"{damaged} hook calls in {folder} cannot be read"
        yield _warning("spool", text, "inspect and remove them")
    if waiting:
        text = f"{waiting} hook calls wait to be recorded"
        advice = "the daemon records them, unless recording is off for their folders"
        yield _warning("spool", text, advice)
    if not damaged and not waiting:
        yield _fine("spool", "empty")


def _check_torn(folder: Path) -> Iterator[CheckResult]:
    if folder.exists() and (count := len(list(folder.iterdir()))):
        text = f"{count} git objects that a crash left incomplete were moved to {folder}"
        advice = "run `git fsck` in your repositories; the notes are whole again: remove the folder"
        yield _warning("notes", text, advice)


def _check_agents(environ: Mapping[str, str], folder: Path) -> Iterator[CheckResult]:
    caller = Caller(folder=str(folder), environ=environ)
    try:
        states = build_installing().state(caller, mcp=True)
    except (ConfigError, InvalidInput) as exc:
        yield _problem("agents", str(exc))
        return
    if not any(_is_used(state) or _is_installed(state) for state in states):
        yield _warning("agents", "no agent is set up", "memory install AGENT")
    for state in states:
        if not _is_used(state) and not _is_installed(state):
            continue
        if not _is_installed(state) and not any(scope.problem for scope in state.scopes):
            text = f"there is a {state.folder}, but nothing is installed for {state.title}"
            yield _warning(state.agent, text, f"memory install {state.agent}")
        for scope in state.scopes:
            yield from _check_agent(state, scope, environ)


def _check_agent(
    state: AgentState, installed: ScopeState, environ: Mapping[str, str]
) -> Iterator[CheckResult]:
    repair = f"memory install {state.agent} --scope {installed.scope}"
    if installed.problem:
        yield _problem(state.agent, installed.problem)
    if installed.plugin is not None:
        yield from _check_plugin(state, installed.plugin, environ)
    if installed.standing is InstallStatus.ABSENT:
        return
    if installed.off:
        text = f"{installed.off} in its {installed.scope} settings switches all hooks off"
        yield _problem(state.agent, text, "remove that setting")
    if installed.distrust:
        yield _warning(state.agent, installed.distrust, TRUST)
    if installed.standing is InstallStatus.OUTDATED:
        yield _warning(state.agent, f"its {installed.scope} settings are incomplete", repair)
    if installed.standing is InstallStatus.ELSEWHERE:
        text = f"its {installed.scope} settings call another installation"
        yield _warning(state.agent, text, repair)
    # Run no other command: a repository can contain a file that names any program.
    launcher = build_installing().launcher
    if launcher.hook(state.agent) in installed.commands:
        yield _check_hook(state.agent, state.agent, launcher, _strip_environment(environ))
    elif installed.standing is InstallStatus.INSTALLED:
        yield _fine(state.agent, f"its {installed.scope} settings are complete; it has no hooks")


def _check_plugin(
    state: AgentState, plugin: AgentPlugin, environ: Mapping[str, str]
) -> Iterator[CheckResult]:
    if any(scope.standing is not InstallStatus.ABSENT for scope in state.scopes):
        text = f"the plugin {plugin.name} and `memory install` have the same hooks"
        yield _warning(state.agent, text, plugin.removal)
    if shutil.which(PROGRAM, path=environ.get("PATH")) is None:
        text = f"the plugin {plugin.name} runs `{PROGRAM}`, which is not on PATH"
        advice = f"add the folder of `{PROGRAM}` to PATH where you start {state.title}"
        yield _problem(state.agent, text, advice)
        return
    if plugin.distrust:
        yield _warning(state.agent, plugin.distrust, TRUST)
    yield _check_hook(state.agent, state.agent, Launcher(), _strip_environment(environ))


def _strip_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in AGENT_ENVIRONMENT or name.startswith(AGENT_ENVIRONMENT_PREFIX)
    }


def _is_used(state: AgentState) -> bool:
    """Return whether the agent has files of its own: `memory uninstall` leaves an empty folder."""
    try:
        return state.present and any(Path(state.folder).iterdir())
    except OSError:
        return state.present


def _is_installed(state: AgentState) -> bool:
    return any(scope.standing is not InstallStatus.ABSENT or scope.plugin for scope in state.scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProcessResult:
    code: int
    out: str
    err: str
    millis: float


def _run_launcher(arguments: Sequence[str], environ: Mapping[str, str]) -> _ProcessResult:
    launcher = build_installing().launcher
    return _run(launcher.words(*arguments), environ)


def _run(command: Sequence[str], environ: Mapping[str, str], data: str = "") -> _ProcessResult:
    started = time.monotonic()
    try:
        ran = subprocess.run(  # noqa: S603  our own; no shell
            command,
            input=data,
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return _ProcessResult(code=-1, out="", err=str(exc), millis=0.0)
    millis = (time.monotonic() - started) * 1000
    return _ProcessResult(code=ran.returncode, out=ran.stdout, err=ran.stderr, millis=millis)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
