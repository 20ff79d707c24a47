"""The units for systemd and launchd: their content, and the quoting of paths."""

import plistlib
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_memory.interfaces.cli import service_unit
from agent_memory.interfaces.cli.service_unit import Unit
from agent_memory.interfaces.command_socket.calls import CommandCall
from agent_memory.launcher.environment import find_home

DAEMON = [
    sys.executable, "-I", "-m", "agent_memory.daemon.standalone", "memory-daemon",
    "--home", "/home/someone", "start", "--foreground", "--auto",
]  # fmt: skip
AWKWARD = [
    "/data/plain",
    "/data/with space",
    "/data/100%h",
    "/data/$HOME",
    "/data/${x}",
    '/data/"quoted"',
    "/data/o'brien",
    "/data/back\\slash",
    "/data/a&b<c>",
    "/data/日本 é",
    "/data/tab\there",
    "/data/;",
    "/data/# no comment",
]
REFUSED = set("\"'\\\t")  # by systemd, in the name of a program, however quoted
unhurried = settings(deadline=None)
paths = st.text(st.sampled_from("ab/ %$\"'\\&<>;#={}é日\t"), max_size=12).map(
    lambda text: "/" + text
)


def unit(
    platform: str,
    home: Path | str = "/home/someone",
    *,
    config_file: Path | None = None,
    **environ: str,
) -> Unit:
    call = CommandCall(
        program="memory-daemon",
        arguments=("service", "install"),
        cwd=Path("/"),
        environ={"HOME": str(home), **environ},
        input_is_terminal=False,
        output_is_terminal=False,
        errors_are_terminal=False,
    )
    return service_unit.for_platform(call, platform, config_file=config_file)


class TestSystemd:
    def test_it_goes_where_systemd_looks(self) -> None:
        assert unit("linux").path == Path("/home/someone/.config/systemd/user/agent-memory.service")
        assert unit("linux", XDG_CONFIG_HOME="/c").path == Path(
            "/c/systemd/user/agent-memory.service"
        )
        assert unit("linux", XDG_CONFIG_HOME="relative").path == unit("linux").path

    def test_it_starts_the_daemon_at_login_and_again_after_a_crash(self) -> None:
        found = settings_of(unit("linux").text)
        assert words(found["Service", "ExecStart"][0]) == DAEMON
        assert found["Service", "Restart"] == ["on-failure"]
        assert found["Install", "WantedBy"] == ["default.target"]
        assert found["Unit", "Description"]

    def test_it_is_activated_by_name(self) -> None:
        created = unit("linux")
        assert created.activate == (
            "systemctl", "--user", "enable", "--now", "agent-memory.service",
        )  # fmt: skip
        assert created.deactivate[2] == "disable"

    def test_it_has_nothing_of_the_environment(self) -> None:
        text = unit("linux", XDG_DATA_HOME="/d", XDG_SESSION_ID="7", MEMORY_X="hush").text
        assert text == unit("linux").text
        assert "Environment" not in text

    def test_the_users_own_home_needs_no_option(self) -> None:
        found = settings_of(unit("linux", find_home()).text)
        assert words(found["Service", "ExecStart"][0]) == [*DAEMON[:5], *DAEMON[7:]]

    @pytest.mark.parametrize("path", AWKWARD)
    def test_a_path_means_the_same_in_the_unit(self, path: str) -> None:
        found = settings_of(unit("linux", path).text)
        assert words(found["Service", "ExecStart"][0])[5:7] == ["--home", path]

    @unhurried
    @given(path=paths)
    def test_any_path_means_the_same_in_the_unit(self, path: str) -> None:
        found = settings_of(unit("linux", path).text)
        assert words(found["Service", "ExecStart"][0])[5:7] == ["--home", str(Path(path))]

    @pytest.mark.parametrize("path", AWKWARD)
    def test_it_reads_the_config_file_that_was_given(self, path: str) -> None:
        found = settings_of(unit("linux", config_file=Path(path)).text)
        assert words(found["Service", "ExecStart"][0]) == [*DAEMON, "--config", path]

    @pytest.mark.parametrize("path", [path for path in AWKWARD if not set(path) & REFUSED])
    def test_python_may_be_installed_anywhere_that_systemd_allows(
        self, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "executable", f"{path}/python")
        found = settings_of(unit("linux").text)
        assert words(found["Service", "ExecStart"][0]) == [f"{path}/python", *DAEMON[1:]]


class TestLaunchd:
    def test_it_goes_where_launchd_looks(self) -> None:
        created = unit("darwin")
        assert created.path == Path(
            "/home/someone/Library/LaunchAgents/dev.agent-memory.daemon.plist"
        )
        assert created.activate == ("launchctl", "load", "-w", str(created.path))
        assert created.deactivate == ("launchctl", "unload", "-w", str(created.path))

    def test_it_starts_the_daemon_at_login_and_again_after_a_crash(self) -> None:
        found = plistlib.loads(unit("darwin").text.encode())
        assert found == {
            "Label": "dev.agent-memory.daemon",
            "ProgramArguments": DAEMON,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
        }

    @pytest.mark.parametrize("path", AWKWARD)
    def test_it_reads_the_config_file_that_was_given(self, path: str) -> None:
        found = plistlib.loads(unit("darwin", config_file=Path(path)).text.encode())
        assert found["ProgramArguments"] == [*DAEMON, "--config", path]

    @pytest.mark.parametrize("path", AWKWARD)
    def test_a_path_means_the_same_in_the_unit(
        self, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "executable", f"{path}/python")
        found = plistlib.loads(unit("darwin").text.encode())
        assert found["ProgramArguments"] == [f"{path}/python", *DAEMON[1:]]

    @unhurried
    @given(path=paths)
    def test_any_path_means_the_same_in_the_unit(self, path: str) -> None:
        found = plistlib.loads(unit("darwin", path).text.encode())
        assert found["ProgramArguments"][5:7] == ["--home", str(Path(path))]


@pytest.mark.parametrize("platform", ["linux", "darwin"])
class TestWriting:
    def test_it_is_written_with_the_folders_it_needs(self, platform: str, tmp_path: Path) -> None:
        created = unit(platform, tmp_path)
        created.write()
        assert created.path.read_text() == created.text

    def test_it_is_removed_once(self, platform: str, tmp_path: Path) -> None:
        created = unit(platform, tmp_path)
        created.write()
        assert created.remove()
        assert not created.path.exists()
        assert not created.remove()


def settings_of(text: str) -> dict[tuple[str, str], list[str]]:
    """Return the settings of a unit by section and name. A setting may occur several times."""
    found: dict[tuple[str, str], list[str]] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            found.setdefault((section, name), []).append(value)
    return found


def environment(text: str) -> dict[str, str]:
    """Parse `Environment=`, where a dollar sign has no special meaning (systemd.exec)."""
    pairs = [
        word
        for value in settings_of(text).get(("Service", "Environment"), [])
        for word in unquoted(value)
    ]
    return dict(pair.replace("%%", "%").split("=", 1) for pair in pairs)


def words(command: str) -> list[str]:
    """Parse `ExecStart=`. Only its arguments may have variables, so that `$$` means a dollar sign
    in them, but not in the program (systemd.service)."""
    program, *arguments = (word.replace("%%", "%") for word in unquoted(command))
    return [program, *(argument.replace("$$", "$") for argument in arguments)]


def unquoted(text: str) -> list[str]:
    """Split a line into words by the rules of systemd.syntax: blanks separate, both quotes group,
    a backslash begins an escape."""
    escapes = {"t": "\t", "n": "\n", "s": " "}
    found: list[str] = []
    word: list[str] | None = None
    quote = ""
    letters = iter(text)
    for letter in letters:
        if letter == "\\":
            escaped = next(letters)
            word = [*(word or []), escapes.get(escaped, escaped)]
        elif quote:
            if letter == quote:
                quote = ""
            else:
                word = [*(word or []), letter]
        elif letter in "\"'":
            quote, word = letter, word or []
        elif letter in " \t":
            if word is not None:
                found.append("".join(word))
            word = None
        else:
            word = [*(word or []), letter]
    assert not quote, f"an open quote: {text}"
    return found if word is None else [*found, "".join(word)]
