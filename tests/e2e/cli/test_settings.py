"""`memory config` with and without a daemon, and `memory-daemon restart`."""

import stat
from collections.abc import Iterator

import pytest

from agent_memory import config
from tests.command_runner import Home

CONFIG = 3


@pytest.fixture(scope="module")
def shared() -> Iterator[Home]:
    """A home for tests that leave no daemon."""
    with Home() as home:
        yield home


@pytest.fixture
def quiet(shared: Home) -> Iterator[Home]:
    shared.config_file.unlink(missing_ok=True)
    yield shared
    shared.stop()


@pytest.fixture(scope="module")
def running() -> Iterator[Home]:
    with Home() as home:
        home.start_daemon("--log-level", "debug")
        yield home


class TestWithoutADaemon:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("path",),
            ("list", "--format", "json"),
            ("get", "llama.server"),
            ("set", "llama.parallel", "2"),
            ("unset", "llama.parallel"),
        ],
    )
    def test_no_command_starts_one(self, quiet: Home, arguments: tuple[str, ...]) -> None:
        # The launcher knows `config`, and `config set`. The others take the same ways.
        run = quiet.run if arguments[0] in ("path", "set") else quiet.run_forked
        answer = run("memory", "config", *arguments)

        assert answer.code == 0, answer
        assert quiet.pid() is None
        assert not quiet.data.exists()

    def test_set_after_a_stop_acts_on_the_next_start(self) -> None:
        with Home() as home:
            program = home.folder / "my-llama-server"
            program.write_text("#!/bin/sh\nexit 1\n")
            program.chmod(stat.S_IRWXU)
            home.serve()
            assert home.run_forked("kontekst", "stop").code == 0

            done = home.run_forked("memory", "config", "set", "llama.server", str(program))

            assert "It takes effect at the next start of the daemon.\n" in done.text
            assert home.pid() is None
            home.serve()
            assert home.status()["sources"]["llama.server"] == str(home.config_file)

    def test_several_at_once_lose_nothing(self, quiet: Home) -> None:
        values = {"toc.max_tokens": 7, "log.files": 8, "backup.keep": 9, "llama.parallel": 3}
        running = [
            quiet.begin("memory", "config", "set", name, str(value))
            for name, value in values.items()
        ]

        for command in running:
            with command:
                command.communicate()
                assert command.returncode == 0

        loaded = config.load({}, file=quiet.config_file)
        assert {name: loaded.value(name) for name in values} == values

    def test_a_variable_that_tightens_it_is_named(self, quiet: Home) -> None:
        off = {"MEMORY_CLI__COLOR": "false"}
        answer = quiet.run_forked("memory", "config", "set", "cli.color", "true", env=off)

        assert (
            answer.errors == "note: MEMORY_CLI__COLOR is set here, and counts instead of the file\n"
        )

    def test_a_file_that_does_not_exist_is_noted(self, quiet: Home) -> None:
        answer = quiet.run_forked("memory", "config", "set", "llama.server", "/no/such/program")

        assert (answer.code, answer.errors) == (0, "note: there is no file /no/such/program\n")


class TestBrokenSettings:
    def test_a_wrong_tls_path_stops_the_daemon_but_not_config_set(self, quiet: Home) -> None:
        quiet.run_forked("memory", "config", "set", "http.tls_cert", "/wrong.pem")
        refused = quiet.run("memory", "status")
        assert refused.code == CONFIG
        assert "http.tls_cert" in refused.errors

        assert quiet.run_forked("memory", "config", "set", "http.tls_cert", "").code == 0

        assert quiet.run("memory", "status").code == 0

    @pytest.mark.parametrize(
        ("text", "mending"),
        [
            ("[grpc]\nport = 'x'\n", ("set", "grpc.port", "0")),
            ("[grpc]\nport = \n", ("set", "grpc.port", "0")),
            ("[grpc]\nport = 99999999\n", ("unset", "grpc.port")),
            ("[grpc]\nport = =\n", ("unset", "grpc.port")),
            ("grpc = 5\n", ("set", "grpc.port", "0")),
            ("[grcp]\nport = 5\n", ("unset", "grcp")),
            ("[grcp]\nport = 5\n", ("unset", "grcp.port")),
            ("[grpc]\nprt = 5\n", ("unset", "grpc.prt")),
            ("# my file\nnonsense\n", ("set", "grpc.port", "0", "--mend")),
        ],
    )
    def test_any_is_mended(self, quiet: Home, text: str, mending: tuple[str, ...]) -> None:
        quiet.configure(f"# kept\n{text}\n[cli]\ncolor = false  # kept too\n")
        asked = ("memory", "config", "get", "cli.color")
        assert quiet.run_forked(*asked).code == CONFIG

        mended = quiet.run_forked("memory", "config", *mending)

        assert mended.code == 0, mended
        assert quiet.run_forked(*asked).text == "false\n"
        assert "# kept\n" in quiet.config_file.read_text()
        assert "color = false  # kept too\n" in quiet.config_file.read_text()

    def test_lines_are_commented_out_only_if_asked_for(self, quiet: Home) -> None:
        quiet.configure("nonsense\n[cli]\ncolor = false\n")
        words = ("memory", "config", "set", "cli.pager", "off")

        refused = quiet.run_forked(*words)

        assert refused.code == CONFIG
        assert "is not valid TOML" in refused.errors
        assert "--mend" in refused.errors
        assert quiet.config_file.read_text() == "nonsense\n[cli]\ncolor = false\n"
        mended = quiet.run_forked(*words, "--mend")
        assert mended.errors == "note: commented out line 1, not valid TOML\n"
        expected = "# nonsense\n[cli]\ncolor = false\npager = false\n"
        assert quiet.config_file.read_text() == expected

    def test_on_a_terminal_it_asks(self, quiet: Home) -> None:
        quiet.configure("nonsense\n")
        with quiet.on_terminal("memory", "config", "set", "cli.pager", "off") as screen:
            screen.read_until("Comment out the lines that cannot be read? [y/N] ")
            screen.type("y\n")
            assert screen.finish() == 0

        assert quiet.config_file.read_text() == "# nonsense\n\n[cli]\npager = false\n"


class TestUnset:
    def test_the_default_applies_again(self, quiet: Home) -> None:
        quiet.configure("# mine\n[toc]\nmax_tokens = 5  # few\ntime_gap_ms = 9\n")

        answer = quiet.run_forked("memory", "config", "unset", "toc.max_tokens")

        assert answer.text.startswith("Removed toc.max_tokens; its default is 4096  (")
        assert quiet.read_config() == "# mine\n[toc]\ntime_gap_ms = 9\n"

    def test_what_is_not_set_stays_so(self, quiet: Home) -> None:
        answer = quiet.run_forked("memory", "config", "unset", "toc.max_tokens")

        assert (answer.code, answer.text) == (
            0,
            f"toc.max_tokens is not set in {quiet.config_file}.\n",
        )
        assert quiet.read_config() == ""

    def test_an_unknown_name_is_refused_with_the_nearest(self, quiet: Home) -> None:
        answer = quiet.run_forked("memory", "config", "unset", "grpc.prt")

        assert answer.code == CONFIG
        assert "did you mean 'grpc.port'?" in answer.errors

    def test_an_agent_may_not_lift_a_limit_of_its_user(self, quiet: Home) -> None:
        quiet.configure('[hooks]\nexclude = ["/secret"]\n')
        for name in ("hooks.exclude", "hooks"):
            answer = quiet.run_forked("memory", "config", "unset", name, env={"CLAUDECODE": "1"})
            assert "only you can" in answer.errors
        assert "/secret" in quiet.config_file.read_text()


class TestWithADaemon:
    def test_in_a_pipe_it_names_the_command_that_applies_the_change(self, running: Home) -> None:
        before = running.pid()

        answer = running.run_forked("memory", "config", "set", "toc.max_tokens", "5000")

        assert "It takes effect when the daemon restarts: `memory-daemon restart`\n" in answer.text
        assert running.pid() == before
        as_json = running.run_forked(
            "memory", "config", "set", "toc.max_tokens", "5000", "--format", "json"
        )
        assert as_json.json() == {
            "key": "toc.max_tokens",
            "value": 5000,
            "path": str(running.config_file),
            "restart_needed": True,
        }

    def test_a_live_setting_applies_at_once(self, running: Home) -> None:
        answer = running.run_forked("memory", "config", "set", "cli.default_format", "json")

        assert answer.json()["restart_needed"] is False
        listed = running.run("memory", "list")
        running.run_forked("memory", "config", "unset", "cli.default_format")
        assert listed.json() == {"memories": [], "total": 0}

    def test_on_a_terminal_it_offers_the_restart(self, running: Home) -> None:
        before = running.pid()
        words = ("memory", "config", "set", "toc.max_tokens", "6000")
        with running.on_terminal(*words) as screen:
            screen.read_until("Restart the daemon now? [y/N] ")
            screen.type("n\n")
            assert screen.finish() == 0
        assert running.pid() == before

        with running.on_terminal(*words) as screen:
            screen.read_until("Restart the daemon now? [y/N] ")
            screen.type("y\n")
            assert screen.finish() == 0

        assert running.pid() not in (None, before)
        assert f"Daemon restarted (PID {running.pid()})\n" in screen.text
        sources = running.status()["sources"]
        assert sources["toc.max_tokens"] == str(running.config_file)
        assert sources["log.level"] == "flag"  # as it was started

    def test_a_restart_that_would_fail_stops_nothing(self, running: Home) -> None:
        before = running.pid()
        running.run_forked("memory", "config", "set", "http.tls_cert", "/wrong.pem")

        answer = running.run_forked("memory-daemon", "restart")

        assert answer.code == CONFIG
        assert "http.tls_cert" in answer.errors
        assert running.pid() == before
        running.run_forked("memory", "config", "unset", "http.tls_cert")

    def test_a_daemon_with_another_file_is_not_restarted(self, running: Home) -> None:
        other = running.folder / "other.toml"

        answer = running.run_forked(
            "memory", "-c", str(other), "config", "set", "toc.max_tokens", "9"
        )

        assert f"The running daemon uses another file: {running.config_file}\n" in answer.text
        assert other.read_text() == "[toc]\nmax_tokens = 9\n"


def test_restart_starts_a_daemon_if_none_runs(quiet: Home) -> None:
    answer = quiet.run("memory-daemon", "restart")

    assert answer.text == f"Daemon started (PID {quiet.pid()})\n"


def test_a_daemon_in_the_foreground_is_left_to_its_terminal(quiet: Home) -> None:
    pid = quiet.serve()

    told = quiet.run_forked("memory", "config", "set", "toc.max_tokens", "9")
    refused = quiet.run_forked("memory-daemon", "restart")

    assert f"(PID {pid}) restarts: it runs in a terminal" in told.text
    assert refused.code != 0
    assert "restart it there" in refused.errors
    assert quiet.pid() == pid
