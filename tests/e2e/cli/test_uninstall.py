"""`memory uninstall --all` and `--purge`: what they remove, what they ask, and what they keep."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chosen_store import DATABASE
from tests.command_runner import Home
from tests.git_repositories import make_repository

USAGE, INVALID = 2, 11
ALL = ("memory", "uninstall", "--all")
PURGE = (*ALL, "--purge")


class Machine:
    """A user who has everything installed: two agents, one in a project, service, completion."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.project = home.folder / "project"
        make_repository(self.project)
        home.environ["PATH"] = f"{home.folder / 'nothing'}:/usr/bin:/bin"
        (home.folder / ".bashrc").write_text("# mine\n")
        self.before = self.list_paths()
        home.start_daemon()
        for words, cwd in (
            (("install", "claude-code"), home.work),
            (("install", "codex"), home.work),
            (("install", "cursor", "--project"), self.project),
            (("completion", "bash", "--install"), home.work),
            (("capture", "decisions", "Use PostgreSQL", "--domain", "user"), home.work),
        ):
            answer = home.run("memory", *words, cwd=cwd)
            assert answer.code == 0, answer
        assert home.run_forked("memory-daemon", "service", "install").code == 0

    def list_paths(self) -> set[str]:
        """Return everything of the user, without data, cache, sockets and the inside of git."""
        ours = (self.home.data, self.home.folder / ".cache")
        return {
            str(path.relative_to(self.home.folder))
            for path in self.home.folder.rglob("*")
            if not any(path.is_relative_to(each) for each in ours) and ".git" not in path.parts
        }


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Home() as home:
        yield Machine(home)


def test_in_a_pipe_it_needs_yes_and_deletes_data_only_with_a_flag_of_its_own(
    machine: Machine,
) -> None:
    home = machine.home
    installed, pid = machine.list_paths(), home.pid()
    for words in (PURGE, (*PURGE, "--delete-data")):
        refused = home.run_forked(*words)
        assert refused.code == USAGE
        assert "--yes" in refused.errors
    shown = home.run_forked(*PURGE, "--dry-run")
    assert f"Would stop the daemon (PID {pid})\n" in shown.text
    assert f"Would ask twice before it deletes {home.data}" in shown.text
    assert f"Would remove the completion in {home.folder / '.bashrc'}" in shown.text
    assert (machine.list_paths(), home.pid()) == (installed, pid)

    done = home.run(*PURGE, "--yes")

    assert done.code == 0, done
    assert home.pid() is None
    assert machine.list_paths() - machine.before <= {"daemon.stderr", ".local", ".local/share"}
    assert machine.before <= machine.list_paths()
    assert (home.folder / ".bashrc").read_text() == "# mine\n"
    assert f"Kept {home.data}" in done.text
    assert (home.data / DATABASE).is_dir()

    gone = home.run_forked(*PURGE, "--yes", "--delete-data", "--format", "json")

    assert str(home.data) in gone.json()["deleted"]
    assert not home.data.exists()
    own = {".local", ".local/share", ".config/agent-memory", ".config/agent-memory/config.toml"}
    assert machine.list_paths() - own == machine.before - own


def test_on_a_terminal_it_asks_and_asks_twice_for_the_data(machine: Machine) -> None:
    home = machine.home
    pid = home.pid()
    with home.on_terminal(*PURGE) as screen:
        screen.read_until("Go on? [y/N] ")
        screen.type("n\n")
        assert screen.finish() != 0
    assert "Nothing was removed." in screen.text
    assert home.pid() == pid

    with home.on_terminal(*PURGE) as screen:
        screen.read_until("Go on? [y/N] ")
        screen.type("y\n")
        screen.read_until("Delete these too? They cannot be restored. [y/N] ")
        screen.type("y\n")
        screen.read_until("Type 'delete' to delete them: ")
        screen.type("yes\n")
        assert screen.finish() == 0
    assert home.pid() is None
    assert (home.data / DATABASE).is_dir()

    with home.on_terminal(*PURGE) as screen:
        screen.read_until("Go on? [y/N] ")
        screen.type("y\n")
        screen.read_until("[y/N] ", times=2)
        screen.type("y\n")
        screen.read_until("Type 'delete' to delete them: ")
        screen.type("delete\n")
        assert screen.finish() == 0
    assert not home.data.exists()
    assert not home.config_file.parent.exists()


@pytest.fixture(scope="module")
def quiet() -> Iterator[Home]:
    with Home() as home:
        yield home


class TestWithoutADaemon:
    def test_none_is_started(self, quiet: Home) -> None:
        answer = quiet.run(*ALL)

        assert (answer.code, answer.text) == (0, "No agent has entries of ours.\n")
        assert not quiet.data.exists()

    def test_broken_settings_do_not_matter(self, quiet: Home) -> None:
        quiet.configure("nonsense")

        answer = quiet.run_forked("memory", "uninstall", "codex")

        assert answer.code == 0, answer
        quiet.config_file.unlink()

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((), "name an agent, or use --all"),
            (("codex", "--all"), "cannot be combined"),
            (("--all", "--project"), "--all includes"),
            (("codex", "--purge"), "it needs --all"),
            (("--all", "--yes"), "belong to --purge"),
        ],
    )
    def test_options_that_contradict_each_other_are_refused(
        self, quiet: Home, words: tuple[str, ...], said: str
    ) -> None:
        answer = quiet.run_forked("memory", "uninstall", *words)

        assert answer.code == USAGE
        assert said in answer.errors

    def test_an_agent_may_not_remove_everything(self, quiet: Home) -> None:
        answer = quiet.run_forked(*PURGE, "--yes", "--delete-data", env={"CLAUDECODE": "1"})

        assert answer.code == INVALID
        assert "only you can remove everything" in answer.errors

    def test_backups_among_the_data_are_not_deleted(self, quiet: Home) -> None:
        backups = quiet.data / "backups"
        backups.mkdir(parents=True)
        quiet.configure(f'[backup]\npath = "{backups}"\n')

        answer = quiet.run_forked(*PURGE, "--yes", "--delete-data")

        assert answer.code == INVALID
        assert f"your backups in {backups} would be deleted too" in answer.errors
        assert backups.is_dir()

    def test_a_memory_on_a_server_is_said_to_stay_there(self, quiet: Home) -> None:
        address = "postgresql://ada:sesame@db.example/memory"
        quiet.configure(f'[storage]\nurl = "{address}"\ntenant = "night"\n')

        shown = quiet.run_forked(*PURGE, "--dry-run")
        done = quiet.run_forked(*PURGE, "--yes", "--delete-data")

        for answer in (shown, done):
            stays = "The memory in postgresql://db.example/memory (tenant night) stays there\n"
            assert (answer.code, stays in answer.text) == (0, True), answer
            assert "sesame" not in answer.text

    def test_settings_among_dotfiles_stay_there(self, quiet: Home, tmp_path: Path) -> None:
        dotfiles = tmp_path / "agent-memory"
        dotfiles.mkdir()
        (dotfiles / "config.toml").write_text("[cli]\ncolor = false\n")
        link = tmp_path / ".config/agent-memory"
        link.parent.mkdir()
        link.symlink_to(dotfiles)
        (tmp_path / ".local/share/agent-memory").mkdir(parents=True)  # and not that of `quiet`

        env = {"HOME": str(tmp_path)}
        answer = quiet.run_forked(*PURGE, "--yes", "--delete-data", env=env)

        assert answer.code == 0, answer
        assert not link.is_symlink()
        assert (dotfiles / "config.toml").read_text() == "[cli]\ncolor = false\n"
