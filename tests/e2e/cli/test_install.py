"""The wheel: its three programs run, from any place that links to them."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory import __version__
from agent_memory.launcher import command_client
from tests.command_runner import LAUNCHER, Answer, Home

REPOSITORY = LAUNCHER.parents[2]
BUILD_SECONDS = 120.0
PROGRAMS = ("memory", "memory-daemon", "kontekst")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a new environment, and return its bin folder."""
    folder = tmp_path_factory.mktemp("install")
    source = folder / "source"
    # Build from a copy: a build leaves files behind.
    source.mkdir()
    for name in ("src", "scripts", "pyproject.toml", "README.md", "LICENSE"):
        path = REPOSITORY / name
        if path.is_dir():
            shutil.copytree(
                path, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(path, source / name)
    _pip("wheel", str(source), "--no-deps", "-w", str(folder))
    (wheel,) = folder.glob("*.whl")
    environment = folder / "environment"
    _run([sys.executable, "-m", "venv", "--without-pip", str(environment)])
    python = environment / "bin/python"
    _pip("--python", str(python), "install", "--no-deps", str(wheel))
    # Use the dependencies of the environment that runs the tests.
    packages = Path(_run([str(python), "-c", "import site; print(site.getsitepackages()[0])"]))
    others = [path for path in sys.path if path.endswith("-packages")]
    (packages / "dependencies.pth").write_text("\n".join(others) + "\n")
    return environment / "bin"


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as created:
        yield created


def at(home: Home) -> tuple[str, str]:
    return "--home", str(home.folder)


def _pip(*arguments: str) -> None:
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("there is no pip")
    _run([*pip, "--disable-pip-version-check", "--quiet", *arguments])


def _run(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_installed_commands_start_their_own_daemon_and_stop_it(
    installed: Path, home: Home
) -> None:
    first = home.run_words([str(installed / "memory"), *at(home), "config", "get", "cli.color"])
    started = home.run_words([str(installed / "memory"), *at(home), "list"])
    second = home.run_words(
        [str(installed / "memory-daemon"), *at(home), "status", "--format", "json"]
    )
    third = home.run_words([str(installed / "kontekst"), *at(home), "stop"])

    assert (first.code, first.text, first.err) == (0, "true\n", b"")
    assert started.code == 0
    assert second.json()["running"] is True
    assert (third.code, third.text) == (0, "Daemon stopped\n")


def test_a_link_from_another_folder_runs_the_same(installed: Path, home: Home) -> None:
    links = home.folder / "bin"
    links.mkdir()
    for program in PROGRAMS:
        (links / program).symlink_to(installed / program)
    env = {"PATH": f"{links}:{home.environ['PATH']}"}

    versions = [home.run_words([each, *at(home), "--version"], env=env) for each in PROGRAMS]
    status = home.run_words(["memory-daemon", *at(home), "status"], env=env)
    value = home.run_words(["memory", *at(home), "config", "get", "cli.color"], env=env)

    assert versions == [
        Answer(0, f"{program} {__version__}\n".encode(), b"") for program in PROGRAMS
    ]
    assert (status.code, status.text) == (1, "Daemon Status: Not running\n")
    assert (value.code, value.text) == (0, "true\n")


def test_the_launcher_and_the_package_are_of_one_version() -> None:
    assert __version__ == command_client.VERSION


def test_every_kind_of_frame_has_a_letter_of_its_own() -> None:
    names = (
        *("HELLO", "INPUT", "LINE", "CANCEL", "HOOK_INPUT"),
        *("OUT", "ERR", "ASK", "ASK_HIDDEN", "ASK_KEY", "READ", "PAGE", "EDIT", "EXIT", "UPGRADE"),
        *("BRIDGE", "BEAT"),
    )
    kinds = [getattr(command_client, name) for name in names]

    assert len(set(kinds)) == len(names)
    assert all(len(kind) == 1 for kind in kinds)


def test_the_launcher_imports_next_to_nothing() -> None:
    """Each import slows down every command and hook."""
    show = (
        f"import os, sys; sys.path.insert(0, {str(LAUNCHER.parent)!r}); before = set(sys.modules);"
        "import launcher.command_client; print(*sorted(set(sys.modules) - before))"
    )

    assert _run([sys.executable, "-I", "-S", "-c", show]) == (
        "_socket launcher launcher.command_client launcher.environment pwd"
    )
