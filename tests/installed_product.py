"""Build the product and install it as its users do, offline: wheels are made of what `.venv` has.

Nothing is downloaded. The wheels, the cache of uv and the environment of the docs' tests are kept
in `build/`, and renewed when what they are made of changes.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
TOOLS = Path(sys.executable).parent
SECONDS = 300.0
_KEPT = ROOT / "build" / "installed"
_WHEELS = _KEPT / "wheels"
_SOURCES = ("src", "scripts", "pyproject.toml", "README.md", "LICENSE")
# What the product needs, what builds it, and what a fresh environment begins with.
_NEEDED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("agent-memory", ("langgraph", "otel")),
    ("hatchling", ()),
    ("pip", ()),
)


@dataclass(frozen=True, slots=True)
class Packages:
    """The two files of a release."""

    wheel: Path
    sdist: Path


def get_offline_environ() -> dict[str, str]:
    """Return the variables that make pip, pipx and uv install from our wheels alone."""
    wheels = str(_prepare_wheels())
    return {
        "PATH": os.pathsep.join(split_system_path()),
        "LC_ALL": "C.UTF-8",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_FIND_LINKS": wheels,
        "PIP_NO_INDEX": "1",
        "PIPX_DEFAULT_BACKEND": "uv",
        "UV_CACHE_DIR": str(_KEPT / "uv-cache"),
        "UV_FIND_LINKS": wheels,
        "UV_LINK_MODE": "hardlink",
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_PYTHON": getattr(sys, "_base_executable", sys.executable),
        "UV_PYTHON_DOWNLOADS": "never",
    }


def split_system_path() -> list[str]:
    """Return the folders of PATH without those that have our own commands."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return [folder for folder in folders if not Path(folder, "memory-daemon").exists()]


def run_tool(*words: str | Path, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> str:
    """Run a program to its end. Return what it wrote to standard output."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=get_offline_environ() | {"HOME": str(_KEPT)} | dict(env or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    shown = " ".join(str(word) for word in words)
    assert done.returncode == 0, (
        f"`{shown}` exits with {done.returncode}:\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def copy_sources(folder: Path) -> Path:
    """Copy the part of this tree that a build needs, to change it."""
    folder.mkdir(parents=True)
    for name in _SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            shutil.copy(source, folder)
    return folder


def build_packages(tree: Path, folder: Path) -> Packages:
    """Build sdist, and the wheel from it, with `python -m build`."""
    python = TOOLS / "python"
    run_tool(python, "-m", "build", "--no-isolation", "--outdir", folder, tree)
    return find_packages(folder)


def find_packages(folder: Path) -> Packages:
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Packages(wheel, sdist)


def create_environment(folder: Path, *packages: str | Path) -> Path:
    """Create a virtual environment with pip and these packages. Return its folder of programs."""
    run_tool(TOOLS / "uv", "venv", "--quiet", folder)
    programs = folder / "bin"
    uv_install(programs, "pip")
    if packages:
        uv_install(programs, *packages)
        load_once(programs / "python")
    return programs


def copy_environment(programs: Path, folder: Path) -> Path:
    """Copy the virtual environment of these programs, with the modules that are compiled there.
    Return the folder of its programs."""
    source = programs.parent
    shutil.copytree(source, folder, symlinks=True, copy_function=_link_or_copy)
    for program in (folder / programs.name).iterdir():
        if program.is_file() and not program.is_symlink():
            text = program.read_bytes().replace(os.fsencode(source), os.fsencode(folder))
            mode = program.stat().st_mode
            program.unlink()  # it may be a link to the other environment's
            program.write_bytes(text)
            program.chmod(mode)
    return folder / programs.name


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system
        shutil.copy2(source, target, follow_symlinks=False)


def uv_install(programs: Path, *packages: str | Path) -> None:
    python = programs / "python"
    run_tool(TOOLS / "uv", "pip", "install", "--quiet", "--python", python, *packages)


def load_once(python: Path) -> None:
    """Compile the modules of the daemon, which uv leaves to the first start: on a busy machine that
    takes longer than a command waits."""
    run_tool(python, "-c", "from agent_memory.daemon import daemon, doctor, serving, standalone")


@dataclass(frozen=True, slots=True)
class Product:
    """This tree's packages, and the programs of an environment in which the wheel is installed."""

    packages: Packages
    programs: Path


@cache
def get_product() -> Product:
    """Build and install this tree, once for all tests."""
    with _hold_lock("product.lock"):
        folder, stamp = _KEPT / "product", _KEPT / "product.stamp"
        tree, dist = _KEPT / "tree", _KEPT / "dist"
        digest = _hash_sources()
        if not (stamp.exists() and stamp.read_text() == digest):
            stamp.unlink(missing_ok=True)
            for old in (folder, tree, dist):
                shutil.rmtree(old, ignore_errors=True)
            build_packages(copy_sources(tree), dist)
            create_environment(folder, find_packages(dist).wheel)
            stamp.write_text(digest)
    return Product(find_packages(dist), folder / "bin")


@cache
def _prepare_wheels() -> Path:
    """Pack what is installed here into wheels again, where that is not done yet."""
    with _hold_lock("wheels.lock"):
        _WHEELS.mkdir(exist_ok=True)
        wanted = {}
        for found in _find_distributions():
            wanted[_name_wheel(found)] = found
        for stale in {path.name for path in _WHEELS.iterdir()} - wanted.keys():
            (_WHEELS / stale).unlink()
        for name, found in wanted.items():
            if not (_WHEELS / name).exists():
                _pack(found, _WHEELS / name)
    return _WHEELS


def _find_distributions() -> Iterator[metadata.Distribution]:
    """Yield what is needed, once each, without the product itself."""
    waiting = [(canonicalize_name(name), frozenset(extras)) for name, extras in _NEEDED]
    seen, packed = set(waiting), set()
    while waiting:
        name, extras = waiting.pop()
        found = metadata.distribution(name)
        if name != "agent-memory" and name not in packed:
            packed.add(name)
            yield found
        for line in found.requires or ():
            requirement = Requirement(line)
            marker = requirement.marker
            if marker and not any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
                continue
            needed = (canonicalize_name(requirement.name), frozenset(requirement.extras))
            if needed not in seen:
                seen.add(needed)
                waiting.append(needed)


def _name_wheel(found: metadata.Distribution) -> str:
    lines = (found.read_text("WHEEL") or "").splitlines()
    tags = [line.removeprefix("Tag: ").split("-") for line in lines if line.startswith("Tag: ")]
    parts = [".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True)]
    name = canonicalize_name(found.metadata["Name"]).replace("-", "_")
    return "-".join([name, found.version, *parts]) + ".whl"


def _pack(found: metadata.Distribution, path: Path) -> None:
    unfinished = path.with_suffix(".part")
    with zipfile.ZipFile(unfinished, "w") as wheel:
        for file in found.files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                wheel.write(str(file.locate()), str(file))
    unfinished.rename(path)


def _hash_sources() -> str:
    wheels = sorted(path.name for path in _prepare_wheels().iterdir())
    digest = hashlib.sha256("\n".join(wheels).encode() + Path(__file__).read_bytes())
    for name in _SOURCES:
        source = ROOT / name
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


@contextmanager
def _hold_lock(name: str) -> Iterator[None]:
    """Let one process at a time do this: tests run in several."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    with (_KEPT / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
