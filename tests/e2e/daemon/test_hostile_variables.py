"""Variables that a repository sets for its agents: they move nothing, run nothing, send nothing."""

import ast
import json
import os
import pwd
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import agent_memory
from agent_memory import config
from agent_memory.launcher import command_client, environment
from tests.command_runner import LAUNCHER, SECONDS, Home, wait_until
from tests.git_repositories import make_repository

# Processes that a daemon starts, with its own environment.
OF_THE_DAEMON = {"platform/worker/child.py", "platform/processes/supervisor.py"}


class Stranger:
    """A server of someone else, and a folder that came with a clone."""

    def __init__(self, folder: Path, listener: socket.socket) -> None:
        self.folder, self.calls = folder, 0
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.ran = folder / "ran"
        folder.mkdir()
        for name in ("git", "llama-server", "ssh", "claude"):
            program = folder / name
            program.write_text(f"#!/bin/sh\ntouch {self.ran}\nexit 1\n")
            program.chmod(0o700)
        (folder / "agent-memory").mkdir()
        (folder / "agent-memory/config.toml").write_text(
            f'[embedder]\nprovider = "openai"\nbase_url = "{self.url}"\n'
        )
        (folder / "gitconfig").write_text(f'[core]\nsshCommand = "{folder}/ssh"\n')
        self.before = self.list_files()

    def list_files(self) -> list[Path]:
        return sorted(self.folder.rglob("*"))

    def build_variables(self) -> dict[str, str]:
        """Return a value for each setting, and everything that names folders and programs."""
        program = str(self.folder / "ssh")
        values = {"on": "true", "off": "false", "url": self.url, "path": str(self.folder)}
        chosen = {
            "embedder.provider": "openai", "embedder.base_url": self.url,
            "summarizer.provider": "openai", "summarizer.base_url": self.url,
            "security.secrets": "off", "llama.server": str(self.folder / "llama-server"),
            "memories.user_remote": self.url, "backup.schedule": "* * * * * *",
            "http.allowed_hosts": "evil.example", "http.allowed_origins": self.url,
            "telemetry.otlp_endpoint": self.url, "upstream.url": self.url,
            "upstream.projects": "user", "grpc.require_key": "false", "log.level": "debug",
        }  # fmt: skip
        found = {}
        for key in config.KEYS.values():
            if key.project is None:
                default = values["path"] if key.type is str else "1"
                text = chosen.get(key.name, "true" if key.type is bool else default)
                found[f"MEMORY_{key.name.upper().replace('.', '__')}"] = text
        return found | {
            **{f"XDG_{name}": values["path"] for name in ("DATA_HOME", "CONFIG_HOME")},
            **{f"XDG_{name}": values["path"] for name in ("CACHE_HOME", "RUNTIME_DIR")},
            "HOME": str(self.folder), "TMPDIR": str(self.folder), "SHELL": program,
            "PATH": f"{self.folder}:{os.environ.get('PATH', os.defpath)}",
            "PYTHONPATH": str(self.folder), "PYTHONHOME": str(self.folder),
            "GIT_SSH_COMMAND": program, "GIT_SSH": program, "GIT_ASKPASS": program,
            "GIT_EXEC_PATH": str(self.folder), "SSH_ASKPASS": program,
            "GIT_CONFIG_GLOBAL": str(self.folder / "gitconfig"), "GIT_DIR": str(self.folder),
            "GIT_PROXY_COMMAND": program, "MEMORY_ENDPOINT": self.url, "MEMORY_KEY": "am_x",
        }  # fmt: skip


@contextmanager
def open_stranger(folder: Path) -> Iterator[Stranger]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stranger = Stranger(folder, listener)

        def count() -> None:
            while True:
                try:
                    listener.accept()[0].close()
                except OSError:
                    return
                stranger.calls += 1

        thread = threading.Thread(target=count, daemon=True)
        thread.start()
        yield stranger
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(SECONDS)


@pytest.mark.parametrize("way", ["hook", "command", "spooled hook", "mcp"])
def test_what_is_started_follows_the_users_file_alone(tmp_path: Path, way: str) -> None:
    with open_stranger(tmp_path / "clone") as stranger, Home(forks=False) as home:
        repository = make_repository(home.work / "app")
        repository.git("remote", "add", "origin", "ssh://nobody@localhost:1/app.git")
        home.settings["hooks.session_start.fetch_remote"] = True
        variables = stranger.build_variables()
        call = {"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(home.work / "app")}
        words = {
            "hook": home.command("memory", "hook", "auto", "--agent", "claude-code"),
            "spooled hook": home.command("memory", "hook", "auto", "--agent", "claude-code"),
            "command": home.command("memory-daemon", "admin", "stats"),
            "mcp": home.command("memory", "serve"),
        }[way]
        if way == "spooled hook":
            call |= {"hook_event_name": "UserPromptSubmit", "prompt": "My key is hunter2"}
        given = b"" if way in ("mcp", "command") else json.dumps(call).encode()
        answer = home.run_words(words, given=given, env=variables, cwd=home.work / "app")
        assert answer.code == 0, answer
        wait_until(lambda: home.pid() is not None and (home.data / "daemon.json").exists(), "it is")
        if way == "hook":  # the same call again, now to a daemon that runs
            home.run_words(words, given=given, env=variables, cwd=home.work / "app")
            wait_until(lambda: "hook.afterwards" in home.log(), "the remote was tried")

        status = home.status()
        own = {name for name, _ in (("grpc.port", 0), ("http.port", 0), ("embedder.provider", 0))}
        own |= {"hooks.session_start.fetch_remote", "storage.url", "storage.tenant"}
        assert set(status["sources"]) <= own
        assert set(status["sources"].values()) == {str(home.config_file)}
        assert status["warnings"] == []
        assert status["data_dir"] == str(home.data)
        inherited = Path(f"/proc/{home.pid()}/environ").read_bytes().split(b"\0")
        found = dict(each.decode().split("=", 1) for each in inherited if each)
        assert found.keys() - environment.INHERITED - {"PATH", "LC_ALL", "GRPC_VERBOSITY"} == set()
        assert found["HOME"] == str(home.folder)
        assert str(stranger.folder) not in str(found)
        assert stranger.calls == 0
        assert stranger.list_files() == stranger.before
        assert not stranger.ran.exists()


@pytest.mark.parametrize(("shell", "ran"), [("AI_AGENT", False), ("CLAUDECODE", False), ("", True)])
def test_in_the_shell_of_an_agent_git_runs_no_program_of_a_variable(
    tmp_path: Path, shell: str, ran: bool
) -> None:
    with open_stranger(tmp_path / "clone") as stranger, Home(forks=False) as home:
        repository = make_repository(home.work / "app")
        repository.git("remote", "add", "origin", "ssh://nobody@localhost:1/app.git")
        home.run("memory", "capture", "decisions", "We sync over ssh", cwd=home.work / "app")
        variables = {"GIT_SSH_COMMAND": stranger.build_variables()["GIT_SSH_COMMAND"]}
        if shell:
            variables[shell] = "1"
        words = home.command("memory", "sync", "--remote")
        assert home.run_words(words, env=variables, cwd=home.work / "app").code != 0
        assert stranger.ran.exists() == ran  # a person's own variables count


def test_a_person_who_starts_it_may_choose_ports_by_variables(tmp_path: Path) -> None:
    with open_stranger(tmp_path / "clone") as stranger, Home(forks=False) as home:
        variables = stranger.build_variables()
        marked = {
            f"MEMORY_{key.name.upper().replace('.', '__')}": key.name
            for key in config.KEYS.values()
            if key.variable
        }
        for name, key in marked.items():
            variables[name] = {"log.level": "debug"}.get(key, "" if "tls" in key else "0")
        home.settings = {"embedder.provider": "none"}
        home.run("memory", "config", "unset", "grpc.port")
        home.run("memory", "config", "unset", "http.port")
        answer = home.run_words(home.command("memory-daemon", "start"), env=variables)
        assert answer.code == 0, answer
        sources = home.status()["sources"]
        assert {name for name in sources if sources[name] in marked} == set(marked.values())
        assert stranger.calls == 0


def test_what_does_not_count_is_said_in_a_line_each(tmp_path: Path) -> None:
    (tmp_path / "agent-memory").mkdir()
    with Home(forks=False) as home:
        home.serve()
        ignored = {"MEMORY_SECURITY__SECRETS": "off", "XDG_DATA_HOME": str(tmp_path)}
        answer = home.run("memory", "list", env=ignored)
        assert answer.code == 0
        lines = answer.errors.splitlines()
        assert len(lines) == 2
        assert lines[0].startswith("note: ignored MEMORY_SECURITY__SECRETS: ")
        assert "set security.secrets in" in lines[0]
        assert lines[1].startswith(f"note: ignored XDG_DATA_HOME: to use {tmp_path}/agent-memory")
        found = home.run("memory", "doctor", "--format", "json", env=ignored).json()["findings"]
        said = [each["said"] for each in found if each["subject"] == "settings"]
        assert any("MEMORY_SECURITY__SECRETS" in each for each in said)
        assert any("XDG_DATA_HOME" in each for each in said)


class TestEntering:
    SHOW = (
        "import os, sys; sys.path.insert(0, {path!r}); from launcher import environment;"
        " rest = environment.enter(sys.argv[1:]); import json;"
        " print(json.dumps([rest, dict(os.environ), environment.home_option()]))"
    )

    def enter(
        self, *arguments: str, env: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str], list[str]]:
        code = self.SHOW.format(path=str(LAUNCHER.parent))
        out = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code, *arguments],
            env=dict(env),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        ).stdout
        rest, environ, option = json.loads(out)
        return rest, environ, option

    def test_the_home_is_that_of_the_password_database(self) -> None:
        rest, environ, option = self.enter(
            "status", "--home", "/x", env={"HOME": "/clone", "LD_AUDIT": "", "PYTHONPATH": "/clone"}
        )
        assert rest == ["status", "--home", "/x"]  # only the first argument counts
        assert environ["HOME"] == pwd.getpwuid(os.getuid()).pw_dir
        assert option == []
        assert not {name for name in environ if name.startswith(environment.LOADERS)}

    @pytest.mark.parametrize("words", [("--home", "/x/../y"), ("--home=/y",)])
    def test_or_that_of_the_first_argument(self, words: tuple[str, ...]) -> None:
        rest, environ, option = self.enter(*words, "status", env={"HOME": "/clone"})
        assert (rest, environ["HOME"], option) == (["status"], "/y", ["--home", "/y"])

    def test_every_process_of_ours_enters_first(self) -> None:
        """Each file that Python can be told to run, and the launcher that `launch.py` runs."""
        package = Path(agent_memory.__file__).parent
        runs = {
            str(path.relative_to(package))
            for path in package.rglob("*.py")
            if '__name__ == "__main__"' in path.read_text()
        } - OF_THE_DAEMON
        through = {"launch.py": "launcher/command_client.py", "local.py": "daemon/standalone.py"}
        for name in runs:
            tree = ast.parse((package / through.get(name, name)).read_text())
            calls = [
                ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)
            ]
            assert "environment.enter" in calls, name

    def test_hooks_and_servers_pass_on_nothing_that_names_a_program(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with open_stranger(tmp_path / "clone") as stranger:
            for name, value in stranger.build_variables().items():
                monkeypatch.setenv(name, value)
            monkeypatch.setenv("HOME", "/home/ada")
            monkeypatch.setenv("MEMORY_HOOKS__ENABLED", "false")  # which tightens
            frame = command_client.hello("hook", [], by_agent=True)
            assert str(stranger.folder).encode() not in frame
            assert b"MEMORY_HOOKS__ENABLED=false" in frame
