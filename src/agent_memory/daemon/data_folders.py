"""The folders with everything that we keep for a user, and how to delete them."""

import os
from collections.abc import Mapping
from pathlib import Path

from agent_memory import config
from agent_memory.daemon import runtime_files
from agent_memory.kernel.errors import ConfigError, InvalidInput, StorageFailed
from agent_memory.kernel.text.addresses import hide_credentials
from agent_memory.platform.files import measure_size
from agent_memory.platform.removing import remove_tree


def list_folders(environ: Mapping[str, str]) -> list[Path]:
    """Return the folders that exist: data, settings, cache and sockets."""
    folders = config.folders(environ)
    named = [folders.data, folders.config, folders.cache]
    if not folders.runtime.is_relative_to(folders.cache):
        named.append(folders.runtime)
    return [path for path in named if os.path.lexists(path)]


def measure(folders: list[Path]) -> int:
    """Return the size of all files below the folders, in bytes. A folder may be a link."""
    return sum(measure_size(path.resolve()) for path in folders)


def check_deletable(environ: Mapping[str, str]) -> None:
    """Raise InvalidInput if backups are among what would be deleted."""
    try:
        path = config.load(environ).settings.backup.path
    except ConfigError:
        return
    backups = Path(path).expanduser() if path else None
    for folder in list_folders(environ):
        if backups and backups.exists() and backups.resolve().is_relative_to(folder.resolve()):
            raise InvalidInput(f"your backups in {backups} would be deleted too: move them first")


def describe_server_memory(environ: Mapping[str, str]) -> str:
    """Return where the memory is if it is on a server, without credentials; else nothing."""
    try:
        storage = config.load(environ).settings.storage
    except ConfigError:
        return ""
    return f"{hide_credentials(storage.url)} (tenant {storage.tenant})" if storage.url else ""


def delete(environ: Mapping[str, str]) -> list[Path]:
    """Delete the folders, while no daemon can start. Return them."""
    folders = config.folders(environ)
    deleted = list_folders(environ)
    lock = None
    if folders.data.is_dir():
        lock = runtime_files.lock(folders, 0.0, lambda: False)
    try:
        for path in deleted:
            _delete(path, keep_target=path == folders.config)
    except OSError as exc:
        raise StorageFailed(f"cannot delete {exc.filename}: {exc.strerror}") from exc
    finally:
        if lock is not None:
            os.close(lock)
    return deleted


def _delete(path: Path, *, keep_target: bool) -> None:
    """Delete a folder. Of a link, delete the target too if it has our name or our lock: a link may
    lead to a folder that has more than ours, such as the user's dotfiles."""
    target = path.resolve()
    is_ours = target.name == path.name or (target / "daemon.lock").exists()
    if path.is_symlink() and not keep_target and is_ours:
        remove_tree(target)
    remove_tree(path)
