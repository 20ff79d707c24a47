"""Completion in real shells: bash and zsh on a terminal, fish by its own engine."""

import json
import shutil
import sys
from collections.abc import Iterator

import pytest

from tests.command_runner import LAUNCHER, Home, Screen
from tests.git_repositories import make_repository

SHELLS = ("bash", "zsh", "fish")
BARE = {"bash": ("--noprofile", "--norc", "-i"), "zsh": ("-f", "-i")}
# Go to the start of the line and let the shell print its words instead of running them.
PRINT_WORDS = "\x01printf '<%s>' \n"


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    """A home with our programs on PATH, a repository and a running daemon that has memories."""
    with Home() as home:
        programs = home.folder / "bin"
        programs.mkdir()
        for name in ("memory", "memory-daemon", "kontekst"):
            script = programs / name
            script.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" -I -S "{LAUNCHER}" {name}'
                f' --home "{home.folder}" "$@"\n'
            )
            script.chmod(0o700)
        home.environ["PATH"] = f"{programs}:{home.environ['PATH']}"
        home.environ["INPUTRC"] = "/dev/null"
        home.work.rmdir()
        make_repository(home.work)
        home.serve()
        for words in (
            ("decisions", "Use PostgreSQL", "--tags", "database,storage"),
            ("blockers", "The build is slow", "--tags", "storage"),
        ):
            assert home.run("memory", "capture", *words).code == 0
        yield home


@pytest.fixture(scope="module")
def quiet() -> Iterator[Home]:
    """A home without a daemon."""
    with Home() as quiet:
        yield quiet


def find_shell(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed: its completion is not tested")
    return path


def complete(home: Home, shell: str, line: str, env: dict[str, str] | None = None) -> str:
    """Type a line and TAB in a real shell. Return the words of the completed line, in <>."""
    environ = {**home.environ, **(env or {})}
    if shell == "fish":
        script = f"memory completion fish | source\ncomplete -C '{line}'"
        words = ["fish", "--no-config", "-c", script]
        answer = home.run_words(words, env=env)
        assert answer.code == 0, answer
        (found,) = {each.partition("\t")[0] for each in answer.text.splitlines()}
        return "".join(f"<{word}>" for word in [*line.split()[:-1], found])
    with Screen([find_shell(shell), *BARE[shell]], environ, home.work, 200, 24, None) as screen:
        screen.type(f'eval "$(memory completion {shell})"; printf "re%s\\n" ady\n')
        screen.read_until("ready\n")
        screen.type(f"{line}\t{PRINT_WORDS}")
        first = f"<{line.split(maxsplit=1)[0]}>"
        screen.read_until(first)
        begun = screen.text.rindex(first)
        expected = len(line.split())
        while screen.text[begun:].count(">") < expected:
            screen.read_until(">", times=screen.text.count(">") + 1)
        return screen.text[begun:].partition("\n")[0].rpartition(">")[0] + ">"


def list_offers(home: Home, program: str, line: str) -> dict[str, str]:
    """Return what the program offers to fish, with its descriptions."""
    word = "" if line.endswith(" ") else line.rsplit(maxsplit=1)[-1]
    variable = f"_{program.upper().replace('-', '_')}_COMPLETE"
    answer = home.run(
        program, env={variable: "fish_complete", "COMP_WORDS": line, "COMP_CWORD": word}
    )
    assert (answer.code, answer.errors) == (0, "")
    lines = [each.removeprefix("plain,") for each in answer.text.splitlines()]
    return {value: about for value, _, about in (each.partition("\t") for each in lines)}


class TestShells:
    @pytest.mark.parametrize("shell", SHELLS)
    def test_commands_of_all_programs_and_what_the_daemon_knows(
        self, home: Home, shell: str
    ) -> None:
        find_shell(shell)
        decision = home.run(
            "memory", "list", "--format", "quiet", "--namespace", "decisions"
        ).text.strip()

        assert complete(home, shell, "memory conf") == "<memory><config>"
        assert complete(home, shell, "memory-daemon sched") == "<memory-daemon><scheduler>"
        assert complete(home, shell, "kontekst sk") == "<kontekst><skills>"
        # An id has colons, at which bash splits words.
        assert complete(home, shell, "memory show dec") == f"<memory><show><{decision}>"
        begun = decision[:-3]
        assert complete(home, shell, f"memory show {begun}") == f"<memory><show><{decision}>"
        tags = complete(home, shell, "memory list --tags storage,data")
        assert tags == "<memory><list><--tags><storage,database>"

    @pytest.mark.parametrize("shell", SHELLS)
    def test_without_a_daemon_fixed_words_complete_and_none_is_started(
        self, home: Home, quiet: Home, shell: str
    ) -> None:
        find_shell(shell)
        env = {"PATH": home.environ["PATH"]}

        done = complete(quiet, shell, "memory config get cli.default_f", env)

        assert done == "<memory><config><get><cli.default_format>"
        assert quiet.pid() is None

    @pytest.mark.parametrize("shell", SHELLS)
    def test_it_is_installed_once_works_in_a_new_shell_and_is_removed(
        self, home: Home, shell: str
    ) -> None:
        find_shell(shell)
        startup = home.folder / f".{shell}rc"
        if shell != "fish":
            startup.write_text("# mine\nPS1='$ '\n")

        first = home.run("memory", "completion", shell, "--install")
        again = home.run("memory", "completion", shell, "--install")

        assert "Open a new shell to use it.\n" in first.text
        assert again.text == "Nothing to change.\n"
        if shell == "fish":
            answer = home.run_words(["fish", "-c", "complete -C 'memory conf'"])
            assert answer.text.startswith("config\t")
        else:
            with Screen(
                [find_shell(shell), "-i"], home.environ, home.work, 200, 24, None
            ) as screen:
                screen.type('printf "re%s\\n" ady\n')
                screen.read_until("ready\n")
                screen.type(f"memory conf\t{PRINT_WORDS}")
                screen.read_until("<memory><config>")
        assert home.run("memory", "completion", shell, "--remove").code == 0
        if shell != "fish":
            assert startup.read_text() == "# mine\nPS1='$ '\n"
        assert not list(home.folder.glob("config/**/*agent-memory.fish"))
        assert not list(home.folder.glob(".config/agent-memory/completion*"))

    def test_a_line_of_the_documentation_is_removed_too(self, home: Home) -> None:
        startup = home.folder / ".zshrc"
        startup.write_text('autoload -U zmv\neval "$(memory completion zsh)"\nalias ll="ls -l"\n')

        home.run("memory", "completion", "zsh", "--remove")

        assert startup.read_text() == 'autoload -U zmv\nalias ll="ls -l"\n'


class TestOffers:
    @pytest.mark.parametrize(
        ("program", "line", "offered"),
        [
            ("memory", "memory edit ", {"Use PostgreSQL", "The build is slow"}),
            ("memory", "memory list --tags ", {"2 memories", "1 memory"}),
            ("memory", "memory config set hooks.mo", {"Where hooks record"}),
        ],
    )
    def test_ids_tags_and_settings_are_described(
        self, home: Home, program: str, line: str, offered: set[str]
    ) -> None:
        found = list_offers(home, program, line)

        for text in offered:
            assert any(about.startswith(text) for about in found.values()), found

    @pytest.mark.parametrize(
        ("program", "line", "offered"),
        [
            ("memory", "memory config set hooks.enabled ", {"true", "false"}),
            ("memory", "memory config set log.level ", {"info", "debug"}),
            ("memory", "memory recall x --agent ", {"claude-code", "default"}),
            ("memory", "memory capture ", {"decisions", "blockers"}),
            ("memory", "memory list --domain ", {"project", "user", "org", "project:work"}),
            ("memory", "memory install cl", {"claude-code", "cline"}),
            ("memory-daemon", "memory-daemon scheduler pause ", {"hourly-rollup"}),
            ("kontekst", "kontekst --agent ", {"default"}),
            ("kontekst", "kontekst --a", {"--agent", "--auto-approve"}),
            ("kontekst", "kontekst s", {"sessions", "skills", "start", "stop"}),
            ("memory", "memory list --tags=stor", {"--tags=storage"}),
        ],
    )
    def test_names_are_offered(
        self, home: Home, program: str, line: str, offered: set[str]
    ) -> None:
        assert offered <= list_offers(home, program, line).keys()

    def test_keys_are_offered(self, home: Home) -> None:
        assert home.run("memory-daemon", "token", "create", "ci").code == 0
        assert "ci" in list_offers(home, "memory-daemon", "memory-daemon token revoke ")

    def test_what_is_given_already_is_not_offered_again(self, home: Home) -> None:
        first, *_ = list_offers(home, "memory", "memory resolve ")

        assert first not in list_offers(home, "memory", f"memory resolve {first} ")
        assert "storage" not in list_offers(home, "memory", "memory list --tags storage,")

    def test_sessions_and_projects_that_were_recorded(self, home: Home) -> None:
        common = {"session_id": "session-of-today", "cwd": str(home.work)}
        for more in (
            {"hook_event_name": "UserPromptSubmit", "prompt": "why is the build slow?"},
            {"hook_event_name": "SessionEnd", "reason": "exit"},
        ):
            given = json.dumps({**common, **more}).encode()
            assert home.run("memory", "hook", "auto", given=given).code == 0
        home.run("memory-daemon", "scheduler", "run", "segment-summarizer")

        assert "session-of-today" in list_offers(home, "memory", "memory recall x --session ")
        assert "session-of-today" in list_offers(home, "memory", "memory show sess")
        assert "work" in list_offers(home, "memory", "memory log --project ")
