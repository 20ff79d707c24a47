"""Sharing: which domains are synced, each with the remote that is its own."""

from dataclasses import dataclass, replace

from agent_memory.features.memories.model.memories import get_family
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.project_resolver import Caller, ProjectResolver
from agent_memory.features.memories.services.sync import Done, Sync, SyncOptions, SyncResult
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
class DomainSyncOutcome:
    """What became of one domain: synced, or failed. `alone` tells why no remote was asked."""

    place: MemoryLocation
    synced: SyncResult | None = None
    failure: AgentMemoryError | None = None
    alone: str = ""


@dataclass(frozen=True, slots=True)
class RemoteSync:
    sync: Sync
    workplaces: ProjectResolver
    user_remote: str

    def sync_domains(
        self, domain: str, wanted: SyncOptions, caller: Caller, remote: str, done: Done
    ) -> list[DomainSyncOutcome]:
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
                alone = str(reason) if get_family(place.domain) == PROJECT else ""
                own = SyncOptions(force=wanted.force)
            try:
                synced = self.sync.sync(place, own, done)
                outcomes.append(DomainSyncOutcome(place=place, synced=synced, alone=alone))
            except (GitFailed, RemoteUnavailable) as exc:
                outcomes.append(DomainSyncOutcome(place=place, failure=exc, alone=alone))
        return outcomes

    def _places(self, domain: str, caller: Caller) -> list[MemoryLocation]:
        if domain == ALL:
            return self.workplaces.list_locations(caller)
        return [self.workplaces.resolve(domain, caller)]

    def _remote(self, place: MemoryLocation, remote: str) -> str:
        """The remote of a place; empty where it has none."""
        kind = get_family(place.domain)
        if kind == USER:
            return self.user_remote
        if kind == ORG:
            return self.workplaces.remote_of_org() or remote
        return remote if place.commit else ""


def _no_remote(place: MemoryLocation) -> ConfigError | InvalidInput:
    if place.domain == USER:
        return ConfigError("your own memories have no remote: set memories.user_remote")
    return InvalidInput(
        f"{place.domain} is not shared: it needs a git repository with a commit checked out"
    )
