"""The folders that a daemon works in."""

from dataclasses import dataclass
from pathlib import Path

from agent_memory.launcher import last_context


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFolders:
    """Where a daemon keeps its files. `own_files` holds what users write (agents, skills);
    `private` lists what else agents must keep out of."""

    db_path: Path
    data: Path
    own_files: Path
    private: tuple[Path, ...] = ()

    @property
    def index(self) -> Path:
        return folder_beside(self.db_path, "index")

    @property
    def local(self) -> Path:
        """What a daemon derives for its indexes, if its database is on a server."""
        return folder_beside(self.db_path, "local")

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def spool(self) -> Path:
        return self.data / "spool"

    @property
    def last_contexts(self) -> Path:
        return self.data / last_context.FOLDER

    @property
    def summarizer(self) -> Path:
        """Where the programs of `summarizer.command` run. Nothing of them is recorded."""
        return self.data / "summarizer"


def folder_beside(db_path: Path, name: str) -> Path:
    """Return the path of a folder that belongs to a database."""
    return db_path.with_name(name if db_path.name == "db" else f"{db_path.name}-{name}")
