"""The sessions that are not recorded: those of agents that the daemon itself runs."""

from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class ExcludedFolder:
    """The folder in which the daemon runs agents, for example to summarize. Agents call hooks and
    write transcripts there as everywhere. `paths` are its names: its path, and where links lead.
    """

    paths: frozenset[PurePath] = frozenset()

    def contains(self, folder: str) -> bool:
        """Return whether a folder is this one, or below it."""
        path = PurePath(folder)
        return any(path.is_relative_to(own) for own in self.paths)
