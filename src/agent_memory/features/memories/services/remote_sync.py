"""Choose the domains to sync, each with its own remote."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_memory.features.memories.model.memories import get_family
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.services.project_resolver import ProjectResolver
from agent_memory.features.memories.services.sync import Sync, SyncOptions, SyncResult
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import (
    AgentMemoryError,
    ConfigError,
    GitFailed,
    InvalidInput,
    RemoteUnavailable,
)
from agent_memory.kernel.ids import ALL, ORG, PROJECT, USER
from agent_memory.kernel.progress import OnProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSyncOutcome:
    """The result for one domain: synced, or failed. `alone` says why no remote was used."""

    place: MemoryLocation
    synced: SyncResult | None = None
    failure: AgentMemoryError | None = None
    alone: str = ""


@dataclass(frozen=True, slots=True)
class RemoteSync:
    sync: Sync
    resolver: ProjectResolver
    user_remote: str
    find_remote: Callable[[Caller], str]  # of projects, by the settings that apply to a caller

    def sync_domains(
        self,
        domain: str,
        options: SyncOptions,
        caller: Caller,
        on_progress: OnProgress,
        remote: str | None = None,
    ) -> list[DomainSyncOutcome]:
        """Sync one domain, or `all` of the caller. `remote` is that of projects, or None for that
        of the caller's settings; the others have their own. A failure in one domain does not stop
        the others. A single domain without a remote is an error."""
        outcomes = []
        if remote is None:
            remote = self.find_remote(caller)
        for location in self._list_locations(domain, caller):
            own = replace(options, remote=self._remote(location, remote), environ=caller.environ)
            alone = ""
            if (own.fetch or own.push) and not own.remote:
                reason = _explain_no_remote(location)
                if domain != ALL:
                    raise reason
                alone = str(reason) if get_family(location.domain) == PROJECT else ""
                own = SyncOptions(force=options.force)
            try:
                synced = self.sync.sync(location, own, on_progress)
                outcomes.append(DomainSyncOutcome(place=location, synced=synced, alone=alone))
            except (GitFailed, RemoteUnavailable) as exc:
                outcomes.append(DomainSyncOutcome(place=location, failure=exc, alone=alone))
        return outcomes

    def _list_locations(self, domain: str, caller: Caller) -> list[MemoryLocation]:
        if domain == ALL:
            return self.resolver.list_locations(caller)
        return [self.resolver.resolve(domain, caller)]

    def _remote(self, location: MemoryLocation, remote: str) -> str:
        """Return the remote of a location; empty if it has none."""
        kind = get_family(location.domain)
        if kind == USER:
            return self.user_remote
        if kind == ORG:
            return self.resolver.remote_of_org() or remote
        return remote if location.commit else ""


def _explain_no_remote(location: MemoryLocation) -> ConfigError | InvalidInput:
    if location.domain == USER:
        return ConfigError("your own memories have no remote: set memories.user_remote")
    return InvalidInput(
        f"{location.domain} is not shared: it needs a git repository with a commit checked out"
    )
