"""Config files on disk: written atomically, through symbolic links."""

import os
import stat
from pathlib import Path

from agent_memory.features.hooks.model.installations import ConfigChange
from agent_memory.kernel.errors import ConfigError
from agent_memory.platform.durable import list_missing, write_atomic
from agent_memory.platform.files import FileTooLarge, NotRegularFile, read_regular

LIMIT = 8 << 20
_GIT = ".git"


class DiskFiles:
    def read(self, path: str, /) -> str | None:
        """Return the text of a file, or None if it does not exist."""
        try:
            return read_regular(Path(path), LIMIT, follow_link=True).decode()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except NotRegularFile:
            raise ConfigError(f"{path} is not a file") from None
        except FileTooLarge as exc:
            raise ConfigError(
                f"{path} has more than {LIMIT >> 20} MiB: it is not a config file"
            ) from exc
        except UnicodeDecodeError as exc:
            raise ConfigError(f"{path} is not UTF-8 text") from exc
        except (OSError, ValueError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) else exc
            raise ConfigError(f"cannot read {path}: {reason}") from exc

    def apply(self, change: ConfigChange, /) -> tuple[str, ...]:
        """Write a change atomically, and only if the file is unchanged since it was read. Return
        the folders that were made for it."""
        path = Path(change.path)
        if self.read(change.path) != change.before:
            raise ConfigError(f"{path} was changed by another program just now: try again")
        try:
            if change.after is not None:
                return _replace(path, change.after, executable=change.executable)
            if path.is_symlink():  # the file belongs to the user's dotfiles: keep it
                return _replace(path, change.emptied)
            path.unlink()
        except OSError as exc:
            raise ConfigError(f"cannot write {path}: {exc.strerror}") from exc
        except UnicodeEncodeError as exc:
            raise ConfigError(
                f"cannot write {path}: the path of this installation is not UTF-8"
            ) from exc
        return ()

    def remove_folder(self, path: str, /) -> bool:
        """Remove a folder if it is empty, and return whether it is gone."""
        try:
            Path(path).rmdir()  # never follows a link
        except FileNotFoundError:
            return True
        except OSError:  # it is not empty, or may not be removed
            return False
        return True

    def is_folder(self, path: str, /) -> bool:
        return os.path.isdir(path)  # noqa: PTH112  # never raises

    def is_file(self, path: str, /) -> bool:
        return os.path.isfile(path)  # noqa: PTH113  # never raises

    def find_root(self, folder: str, /) -> str:
        """Return the root of the repository around a folder, or the folder itself."""
        path = Path(folder)
        for parent in (path, *path.parents):
            try:
                if (parent / _GIT).exists():
                    return str(parent)
            except OSError:
                continue
        return folder


def _replace(path: Path, text: str, *, executable: bool = False) -> tuple[str, ...]:
    """Write a file, and return the folders that were made for it, innermost first."""
    raw = text.encode()
    target = path.resolve()
    missing = list_missing(target.parent)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mode = 0o600
    if executable:
        mode |= stat.S_IXUSR
    write_atomic(target, raw, mode=mode)
    return missing
