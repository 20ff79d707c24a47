"""GGUF models and the program that runs them, as they are found on the disk."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent_memory.kernel.errors import FeatureUnavailable

PROGRAM = "llama-server"
MAX_DEPTH = 3
MAX_LISTED = 20
_MAX_FOLDERS = 2000
_SUFFIX = ".gguf"
_SHARD = re.compile(r"-(\d{5})-of-\d{5}\.gguf$", re.IGNORECASE)


def find_program(server: str, environ: Mapping[str, str]) -> Path:
    """The program meant by `llama.server`, or the one on PATH."""
    name = str(Path(server.strip()).expanduser()) if server.strip() else PROGRAM
    found = shutil.which(name, path=environ.get("PATH", os.defpath))
    if found is None:
        told = f"{server} is no program" if server.strip() else f"there is no {PROGRAM} on PATH"
        raise FeatureUnavailable(
            f"no model can be run: {told}. Install llama.cpp's {PROGRAM}, or set llama.server to"
            " where it is; or set llama.endpoint to a server that runs already"
        )
    return Path(found).absolute()


def find_model(folder: Path, name: str) -> Path:
    """The model meant by `llama.model`, or the only one of the folder."""
    if name:
        for direct in (folder / name, folder / f"{name}{_SUFFIX}"):
            if direct.is_file():
                return direct
    found = sorted(_models(folder))
    if not found:
        raise FeatureUnavailable(
            f"there is no model in {folder}: put a GGUF file there, or set llama.model_dir to where"
            " it is; or set llama.endpoint to a server that runs already"
        )
    meant = [each for each in found if not name or name in (each.name, each.stem)]
    if len(meant) == 1:
        return meant[0]
    found = meant or found
    names = [str(each.relative_to(folder)) for each in found]
    listed = ", ".join(names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")
    told = f"llama.model is {name}, and" if name else "llama.model is not set, and"
    raise FeatureUnavailable(
        f"{told} {folder} has {listed}: choose one with `memory config set llama.model NAME`"
    )


def _models(folder: Path) -> Iterator[Path]:
    """Those below the folder, without the projectors and further parts of others."""
    for seen, (at, folders, files) in enumerate(os.walk(folder)):
        if seen >= _MAX_FOLDERS:
            return
        if len(Path(at).relative_to(folder).parts) >= MAX_DEPTH - 1:
            folders.clear()
        for name in files:
            shard = _SHARD.search(name)
            if (
                name.lower().endswith(_SUFFIX)
                and not name.lower().startswith("mmproj")
                and (shard is None or int(shard[1]) == 1)
            ):
                yield Path(at, name)
