"""GGUF models on disk, and the program that runs them."""

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
    """Find the program of `llama.server`, or the one on PATH. Raises FeatureUnavailable."""
    name = str(Path(server.strip()).expanduser()) if server.strip() else PROGRAM
    program = shutil.which(name, path=environ.get("PATH", os.defpath))
    if program is None:
        reason = f"{server} is not a program" if server.strip() else f"no {PROGRAM} on PATH"
        raise FeatureUnavailable(
            f"cannot run a model: {reason}. Install {PROGRAM} of llama.cpp, or set llama.server to"
            " its path; or set llama.endpoint to a running server"
        )
    return Path(program).absolute()


def find_model(folder: Path, name: str) -> Path:
    """Find the model of `llama.model`, or the only one in the folder. Raises FeatureUnavailable."""
    if name:
        for direct in (folder / name, folder / f"{name}{_SUFFIX}"):
            if direct.is_file():
                return direct
    models = sorted(_models(folder))
    if not models:
        raise FeatureUnavailable(
            f"there is no model in {folder}: put a GGUF file there, or set llama.model_dir to its"
            " folder; or set llama.endpoint to a running server"
        )
    matches = [model for model in models if not name or name in (model.name, model.stem)]
    if len(matches) == 1:
        return matches[0]
    names = [str(model.relative_to(folder)) for model in matches or models]
    listed = ", ".join(names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")
    value = name or "not set"
    raise FeatureUnavailable(
        f"llama.model is {value}, and {folder} has {listed}: choose one with"
        " `memory config set llama.model NAME`"
    )


def _models(folder: Path) -> Iterator[Path]:
    """Yield the models below the folder, without projectors and later shards."""
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
