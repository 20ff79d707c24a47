"""Wheel and sdist install with the tools that people use, and versions can be exchanged."""

import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_memory import __version__
from tests.command_runner import Answer, Home
from tests.installed_product import (
    ROOT,
    TOOLS,
    Packages,
    build_packages,
    copy_environment,
    copy_sources,
    create_environment,
    get_offline_environ,
    get_product,
    load_once,
    run_tool,
    uv_install,
)

PROGRAMS = ["kontekst", "memory", "memory-daemon"]
OLDER, NEWER = "0.0.9", "9.0.0"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as fresh:
        yield fresh


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """What `python -m build` makes of this tree, as for a release."""
    return build_packages(ROOT, tmp_path_factory.mktemp("dist"))


def run(home: Home, programs: Path, *words: str) -> Answer:
    """Run an installed command, as a shell with these programs on its PATH does."""
    path = f"{programs}:{get_offline_environ()['PATH']}"
    program = programs / words[0]
    chosen = ("--home", str(home.folder)) if program.name in PROGRAMS else ()
    return home.run_words([str(program), *chosen, *words[1:]], env={"PATH": path})


def succeed(home: Home, programs: Path, *words: str) -> str:
    answer = run(home, programs, *words)
    assert answer.code == 0, (words, answer.text, answer.errors)
    return answer.text


def build_version(folder: Path, version: str, *, schema: int | None = None) -> Path:
    """Build a wheel of this tree as another version, perhaps with a further schema of the store."""
    tree = copy_sources(folder / version)
    replace_line(tree / "src/agent_memory/__init__.py", "__version__ = ", f'"{version}"')
    launcher = tree / "src/agent_memory/launcher/command_client.py"
    replace_line(launcher, "VERSION = ", f'"{version}"')
    if schema is not None:
        module = tree / "src/agent_memory/platform/store/schema.py"
        replace_line(module, "VERSION = ", str(schema))
        replace_line(
            module, "MIGRATIONS: Mapping[int, Migration] = ", f"{{{schema}: lambda _: None}}"
        )
    return build_packages(tree, folder / f"dist-{version}").wheel


def exchange(programs: Path, wheel: Path) -> None:
    """Install another version over the present one."""
    uv_install(programs, wheel)
    load_once(programs / "python")


def replace_line(path: Path, start: str, value: str) -> None:
    text, number = re.subn(
        f"^{re.escape(start)}.*$", lambda _: start + value, path.read_text(), flags=re.MULTILINE
    )
    assert number == 1, f"{path} has {number} lines that begin with {start!r}"
    path.write_text(text)


def test_twine_accepts_both(packages: Packages) -> None:
    run_tool(TOOLS / "twine", "check", "--strict", packages.wheel, packages.sdist)


def test_the_wheel_has_the_package_and_its_programs_alone(packages: Packages) -> None:
    with zipfile.ZipFile(packages.wheel) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(f"agent_memory-{__version__}.dist-info/METADATA").decode()
    folders = {name.split("/")[0] for name in names}
    data = f"agent_memory-{__version__}.data"
    assert folders == {"agent_memory", data, f"agent_memory-{__version__}.dist-info"}
    assert sorted(name for name in names if name.startswith(data)) == [
        f"{data}/scripts/{program}" for program in PROGRAMS
    ]
    assert "agent_memory/py.typed" in names
    # Other tests use the tree: the wheel has all of it.
    assert {name for name in names if name.startswith("agent_memory/")} == {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src/agent_memory").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "Requires-Python: >=3.11\n" in metadata
    for version in PYTHONS:
        assert f"Classifier: Programming Language :: Python :: {version}\n" in metadata


def test_the_sdist_has_the_sources_and_nothing_that_is_made_of_them(packages: Packages) -> None:
    with tarfile.open(packages.sdist) as sdist:
        names = [name.partition("/")[2] for name in sdist.getnames()]
    assert {"LICENSE", "Makefile", "pyproject.toml", "src/agent_memory/__init__.py"} <= {*names}
    created = re.compile(r"^(\.venv|build|dist|\.demo|\.git)/|__pycache__|\.egg-info")
    assert [name for name in names if created.search(name)] == []


@pytest.mark.soak  # uv installs the same wheel, pipx and pip those of the docs
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_pip_installs_it(kind: str, packages: Packages, tmp_path: Path, home: Home) -> None:
    programs = create_environment(tmp_path / "venv")
    package = packages.wheel if kind == "wheel" else packages.sdist
    run_tool(programs / "pip", "install", "--quiet", "--no-compile", package)
    assert succeed(home, programs, "memory", "--version") == f"memory {__version__}\n"
    run_tool(programs / "pip", "check")


def test_uv_tool_installs_what_works_and_removes_it(
    packages: Packages, tmp_path: Path, home: Home
) -> None:
    programs = tmp_path / "bin"
    env = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(programs)}
    run_tool(TOOLS / "uv", "tool", "install", "--quiet", packages.wheel, env=env)
    assert sorted(path.name for path in programs.iterdir()) == PROGRAMS

    load_once(tmp_path / "tools/agent-memory/bin/python")
    succeed(home, programs, "memory", "capture", "learnings", "Lamps flicker below 0.95")
    assert "Lamps flicker" in succeed(home, programs, "memory", "recall", "why do lamps flicker")
    doctor = succeed(home, programs, "memory", "doctor")
    assert f"Agent Memory {__version__} answers a hook" in doctor
    succeed(home, programs, "memory-daemon", "stop")

    run_tool(TOOLS / "uv", "tool", "uninstall", "agent-memory", env=env)
    assert [*programs.iterdir()] == []


@pytest.mark.parametrize(
    "backend", ["uv", pytest.param("pip", marks=pytest.mark.soak)]
)  # pip takes a minute
def test_pipx_installs_it_and_removes_it(
    backend: str, packages: Packages, tmp_path: Path, home: Home
) -> None:
    programs = tmp_path / "bin"
    env = {
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(programs),
        "PIPX_DEFAULT_BACKEND": backend,
        "PATH": f"{TOOLS}:{get_offline_environ()['PATH']}",
    }
    run_tool(TOOLS / "pipx", "install", packages.wheel, env=env)
    assert sorted(path.name for path in programs.iterdir()) == PROGRAMS
    assert succeed(home, programs, "memory", "--version") == f"memory {__version__}\n"
    run_tool(TOOLS / "pipx", "uninstall", "agent-memory", env=env)
    assert [*programs.iterdir()] == []


@pytest.mark.soak  # without another schema, the versions only differ in their names
def test_versions_with_the_same_schema_read_each_others_data(tmp_path: Path, home: Home) -> None:
    older, newer = build_version(tmp_path, OLDER), get_product().packages.wheel
    programs = copy_environment(get_product().programs, tmp_path / "venv")
    exchange(programs, older)
    succeed(home, programs, "memory", "capture", "decisions", "Written by the older version")

    exchange(programs, newer)
    said = succeed(home, programs, "memory", "--version")
    assert said.startswith(f"memory {__version__} (daemon {OLDER} is running")
    succeed(home, programs, "memory-daemon", "stop")
    assert "Written by the older" in succeed(home, programs, "memory", "list")
    succeed(home, programs, "memory", "capture", "decisions", "Written by the newer version")
    # It names a running daemon only if that is another version.
    assert succeed(home, programs, "memory", "--version") == f"memory {__version__}\n"

    exchange(programs, older)
    succeed(home, programs, "memory-daemon", "stop")
    listed = succeed(home, programs, "memory", "list")
    assert "Written by the older" in listed
    assert "Written by the newer" in listed
    assert succeed(home, programs, "memory", "--version") == f"memory {OLDER}\n"


@pytest.mark.soak
def test_an_older_version_refuses_a_newer_schema_and_goes_back_to_the_snapshot(
    tmp_path: Path, home: Home
) -> None:
    current, newer = get_product().packages.wheel, build_version(tmp_path, NEWER, schema=2)
    programs = copy_environment(get_product().programs, tmp_path / "venv")
    succeed(home, programs, "memory", "capture", "decisions", "Before the upgrade")
    succeed(home, programs, "memory-daemon", "stop")

    exchange(programs, newer)
    succeed(home, programs, "memory", "capture", "decisions", "After the upgrade")
    assert "Before the upgrade" in succeed(home, programs, "memory", "list")
    succeed(home, programs, "memory-daemon", "stop")
    (snapshot,) = (home.data / "upgrades").iterdir()

    exchange(programs, current)
    refused = run(home, programs, "memory", "list")
    assert refused.code != 0
    assert "the store has schema 2, but this version of Agent Memory supports 1" in refused.errors
    assert "upgrade it" in refused.errors
    succeed(home, programs, "memory-daemon", "admin", "restore", str(snapshot), "--force")
    listed = succeed(home, programs, "memory", "list")
    assert "Before the upgrade" in listed
    assert "After the upgrade" not in listed


@pytest.mark.soak
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("version", PYTHONS)
def test_every_dependency_has_a_wheel(version: str, platform: str) -> None:
    """Asks the package index, so it needs the network."""
    online = {"UV_OFFLINE": "", "UV_NO_INDEX": "", "MACOSX_DEPLOYMENT_TARGET": "14.0"}
    target = ("--python-version", version, "--python-platform", platform)
    wheels = ("--only-binary", ":all:", "--all-extras")
    run_tool(
        TOOLS / "uv", "pip", "compile", "--quiet", *target, *wheels, "pyproject.toml", env=online
    )
