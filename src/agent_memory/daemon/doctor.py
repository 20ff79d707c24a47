"""A check-up: the whole way from an agent to the store, walked as the agent walks it."""

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
from agent_memory.bootstrap import root
from agent_memory.features.hooks.model.installations import (
    Agent,
    AgentState,
    InstallStatus,
    ScopeState,
)
from agent_memory.features.memories.services.project_resolver import Caller
from agent_memory.interfaces import wire
from agent_memory.interfaces.hooks.inputs import CHECK
from agent_memory.kernel.errors import ConfigError, GitFailed, InvalidInput
from agent_memory.kernel.status import CheckResult, Damage, Health
from agent_memory.launcher import command_client, starting

SECONDS = 20.0  # for each program that is run
SLOW_MS = 200  # a hook that takes longer is felt
LEAST_FREE_BYTES = 500 << 20
# All that some agents leave of their environment to what they run.
AGENT_ENVIRONMENT = ("HOME", "PATH", "USER", "LOGNAME", "SHELL", "LANG")
_KEPT = ("XDG_", "MEMORY_")


def diagnose(
    environ: Mapping[str, str], config_file: Path | None, folder: Path
) -> Iterator[CheckResult]:
    yield from _check_settings(environ, config_file, folder)
    folders = config.folders(environ)
    yield _check_data(folders.data)
    yield _check_git(environ)
    serving = _check_daemon(environ, config_file, folders)
    yield serving
    if serving.health is not Health.PROBLEM:
        yield from _check_status(environ)
        yield from _check_jobs(environ)
    yield from _check_spool(folders.data / "spool")
    yield from _check_agents(environ, folder)


def _fine(subject: str, said: str) -> CheckResult:
    return CheckResult(subject=subject, health=Health.FINE, said=said)


def _warning(subject: str, said: str, advice: str = "") -> CheckResult:
    return CheckResult(subject=subject, health=Health.WARNING, said=said, advice=advice)


def _problem(subject: str, said: str, advice: str = "") -> CheckResult:
    return CheckResult(subject=subject, health=Health.PROBLEM, said=said, advice=advice)


def _check_settings(
    environ: Mapping[str, str], file: Path | None, folder: Path
) -> Iterator[CheckResult]:
    try:
        loaded = config.load(environ, file=file, project_dir=folder)
    except ConfigError as exc:
        advice = "correct it; `memory config path` tells where your settings are"
        yield _problem("settings", str(exc), advice)
        return
    for each in loaded.ignored:
        yield _warning("settings", each)
    for name, bad, said in (
        ("hooks.enabled", False, "hooks are switched off: nothing is recorded"),
        ("security.secrets", "off", "secrets are stored as they come"),
    ):
        if loaded.value(name) == bad:
            yield _warning("settings", said, f"see {name} in {loaded.sources[name]}")
    count = len(loaded.sources)
    told = f"{count} set, the others at their defaults" if count else "all at their defaults"
    yield _fine("settings", told)


def _check_data(folder: Path) -> CheckResult:
    if not folder.exists():
        return _fine("data", f"{folder} is not there yet")
    quoted = shlex.quote(str(folder))
    if not folder.is_dir():
        return _problem("data", f"{folder} is no folder", f"mv {quoted} {quoted}.old")
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        return _problem("data", f"others may enter {folder}", f"chmod 700 {quoted}")
    if not os.access(folder, os.W_OK | os.X_OK):
        return _problem("data", f"{folder} cannot be written", f"ls -ld {quoted}")
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        said = f"only {free >> 20} MiB are free on the disk of {folder}"
        return _problem("data", said, "make room")
    return _fine("data", str(folder))


def _check_git(environ: Mapping[str, str]) -> CheckResult:
    try:
        return _fine("git", root.git_version(environ, SECONDS))
    except GitFailed:
        pass
    said = "git cannot be run: memories are kept, and cannot be shared"
    return _warning("git", said, "install git, or add it to PATH")


def _check_daemon(
    environ: Mapping[str, str], config_file: Path | None, folders: config.Folders
) -> CheckResult:
    """Whether a hook is answered; a daemon is started if there is none."""
    running = command_client.connect(str(folders.data))
    if running is None:
        code = starting.start(None if config_file is None else str(config_file), by_hand=True)
        if code:
            advice = f"see the message above, and {folders.data / 'logs/daemon.log'}"
            return _problem("daemon", f"it does not start (exit code {code})", advice)
    else:
        running.close()
    return _check_hook("daemon", Agent.CLAUDE_CODE, environ)


def _check_hook(subject: str, agent: Agent, environ: Mapping[str, str]) -> CheckResult:
    """Run a hook of this installation as an agent does, with an event that is nobody's."""
    words = root.installing().launcher.hook_words(agent)
    ran = _run(words, environ, json.dumps({"hook_event_name": CHECK}))
    answer = _json(ran.out)
    said = answer.get("hookSpecificOutput", {}) if isinstance(answer, dict) else {}
    version = said.get("additionalContext", "") if isinstance(said, dict) else ""
    if ran.code != 0 or not version:
        reason = ran.err.strip() or ran.out.strip() or "nothing"
        advice = "memory-daemon status; and its log"
        return _problem(subject, f"a hook gets no answer: {reason}", advice)
    if version != f"Agent Memory {__version__}":
        return _warning(subject, f"{version} answers; this is {__version__}", "memory-daemon stop")
    told = f"{version} answers a hook in {ran.millis:.0f} ms"
    if ran.millis > SLOW_MS:
        return _warning(subject, told, "see what else the machine does")
    return _fine(subject, told)


def _check_status(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    told = _json(_run_launcher(("memory-daemon", "status", "--format", "json"), environ).out)
    if not isinstance(told, dict):
        return
    for each in told.get("warnings", []):
        yield _warning("daemon", str(each))
    health = told.get("store") or {}
    if not health.get("writable", True):
        said = f"the store cannot be written: {health.get('reason', '')}"
        yield _problem("store", said, "make room, or see the disk; it tries again by itself")
    for each in told.get("damages", []):
        damage = Damage(**each)
        advice = "memory-daemon stop && memory-daemon admin verify --repair"
        if damage.kept:
            advice = "import what is missing, or restore a backup; then remove the folder"
        yield _problem("store", wire.damage_text(damage), advice)
    indexes = told.get("indexes") or {}
    if trouble := indexes.get("trouble"):
        yield _warning("indexes", str(trouble), "memory-daemon admin rebuild-index")
    documents = indexes.get("words", {}).get("documents", 0)
    waiting = indexes.get("words_waiting", 0) + indexes.get("vectors_waiting", 0)
    events = told.get("events", 0)
    if health.get("writable", True) and not told.get("damages"):
        yield _fine("store", f"{events:,} events, {documents:,} documents, {waiting:,} waiting")


def _check_jobs(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    scheduler = ("memory-daemon", "scheduler", "status", "--format", "json")
    told = _json(_run_launcher(scheduler, environ).out)
    if not isinstance(told, dict):
        return
    for job in told.get("jobs", []):
        name = job.get("job_name", "")
        if error := job.get("last_error"):
            said = f"{name} failed: {error}"
            yield _warning("jobs", said, f"memory-daemon scheduler run {name}")
        elif job.get("is_paused"):
            advice = f"memory-daemon scheduler resume {name}"
            yield _warning("jobs", f"{name} is paused", advice)


def _check_spool(folder: Path) -> Iterator[CheckResult]:
    names = [each.name for each in folder.iterdir()] if folder.exists() else []
    waiting = sum(name.endswith(".json") for name in names)
    damaged = sum(name.endswith(".damaged") for name in names)
    if damaged:
        said = f"{damaged} calls of hooks in {folder} cannot be read"
        yield _warning("spool", said, "look at them, and remove them")
    if waiting:
        said = f"{waiting} calls of hooks wait for a daemon"
        yield _warning("spool", said, "a daemon records them: see whether they get fewer")
    if not damaged and not waiting:
        yield _fine("spool", "empty")


def _check_agents(environ: Mapping[str, str], folder: Path) -> Iterator[CheckResult]:
    caller = Caller(folder=str(folder), environ=environ)
    try:
        states = root.installing().state(caller, mcp=True)
    except (ConfigError, InvalidInput) as exc:
        yield _problem("agents", str(exc))
        return
    if not any(state.present or _is_installed(state) for state in states):
        yield _warning("agents", "none is installed", "memory install AGENT")
    for state in states:
        if not state.present and not _is_installed(state):
            continue
        if not _is_installed(state) and not any(each.problem for each in state.scopes):
            said = f"{state.title} is there, and does not call us"
            yield _warning(state.agent, said, f"memory install {state.agent}")
        for each in state.scopes:
            yield from _check_agent(state, each, environ)


def _check_agent(
    state: AgentState, each: ScopeState, environ: Mapping[str, str]
) -> Iterator[CheckResult]:
    repair = f"memory install {state.agent} --{each.scope}"
    if each.problem:
        yield _problem(state.agent, each.problem)
    if each.standing is InstallStatus.ABSENT:
        return
    if each.off:
        said = f"{each.off} in its {each.scope} settings switches all hooks off"
        yield _problem(state.agent, said, "remove that setting")
    if each.standing is InstallStatus.OUTDATED:
        yield _warning(state.agent, f"only a part is installed at {each.scope} level", repair)
    if each.standing is InstallStatus.ELSEWHERE:
        said = f"at {each.scope} level it calls another installation"
        yield _warning(state.agent, said, repair)
    # Nothing else is run: a repository can bring along a file that names any program.
    if root.installing().launcher.hook(state.agent) in each.commands:
        yield _check_hook(state.agent, state.agent, _strip_environment(environ))


def _strip_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in AGENT_ENVIRONMENT or name.startswith(_KEPT)
    }


def _is_installed(state: AgentState) -> bool:
    return any(each.standing is not InstallStatus.ABSENT for each in state.scopes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    code: int
    out: str
    err: str
    millis: float


def _run_launcher(arguments: Sequence[str], environ: Mapping[str, str]) -> _Ran:
    launcher = root.installing().launcher
    return _run([launcher.python, "-I", "-S", launcher.script, *arguments], environ)


def _run(command: Sequence[str], environ: Mapping[str, str], given: str = "") -> _Ran:
    started = time.monotonic()
    try:
        ran = subprocess.run(  # noqa: S603  our own; no shell
            command,
            input=given,
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        return _Ran(code=-1, out="", err=str(exc), millis=0.0)
    millis = (time.monotonic() - started) * 1000
    return _Ran(code=ran.returncode, out=ran.stdout, err=ran.stderr, millis=millis)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
