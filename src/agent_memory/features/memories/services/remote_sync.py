"""Sharing: which domains are synced, each with the remote that is its own."""

from dataclasses import dataclass, replace

from agent_memory.features.memories.model.memories import family
from agent_memory.features.memories.model.projects import Place
from agent_memory.features.memories.services.project_resolver import Caller, Workplaces
from agent_memory.features.memories.services.sync import Done, Sync, Synced, Wanted
from agent_memory.kernel.errors import (
    AgentMemoryError,
    ConfigError,
    GitFailed,
    InvalidInput,
    RemoteUnavailable,
)
from agent_memory.kernel.ids import ORG, PROJECT, USER

ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one domain: synced, or failed. `alone` tells why no remote was asked."""

    place: Place
    synced: Synced | None = None
    failure: AgentMemoryError | None = None
    alone: str = ""


@dataclass(frozen=True, slots=True)
class Sharing:
    sync: Sync
    workplaces: Workplaces
    user_remote: str

    def share(
        self, domain: str, wanted: Wanted, caller: Caller, remote: str, done: Done
    ) -> list[Outcome]:
        """Sync one domain, or `all` of the caller. `remote` is that of projects; the others have
        their own. What fails in one domain keeps no other from being synced; that a single one
        has no remote is an error."""
        outcomes = []
        for place in self._places(domain, caller):
            own = replace(wanted, remote=self._remote(place, remote), environ=caller.environ)
            alone = ""
            if (own.fetch or own.push) and not own.remote:
                reason = _no_remote(place)
                if domain != ALL:
                    raise reason
                alone = str(reason) if family(place.domain) == PROJECT else ""
                own = Wanted(force=wanted.force)
            try:
                synced = self.sync.sync(place, own, done)
                outcomes.append(Outcome(place=place, synced=synced, alone=alone))
            except (GitFailed, RemoteUnavailable) as exc:
                outcomes.append(Outcome(place=place, failure=exc, alone=alone))
        return outcomes

    def _places(self, domain: str, caller: Caller) -> list[Place]:
        if domain == ALL:
            return self.workplaces.all(caller)
        return [self.workplaces.place(domain, caller)]

    def _remote(self, place: Place, remote: str) -> str:
        """The remote of a place; empty where it has none."""
        kind = family(place.domain)
        if kind == USER:
            return self.user_remote
        if kind == ORG:
            return self.workplaces.remote_of_org() or remote
        return remote if place.commit else ""


def _no_remote(place: Place) -> ConfigError | InvalidInput:
    if place.domain == USER:
        return ConfigError("your own memories have no remote: set memories.user_remote")
    return InvalidInput(
        f"{place.domain} is not shared: it needs a git repository with a commit checked out"
    )
