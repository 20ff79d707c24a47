"""The exchange with other machines, as one background job."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_memory.features.upstream.model.progress import RemoteSettings
from agent_memory.features.upstream.ports import TeamServer
from agent_memory.features.upstream.services.erasing import Erasing
from agent_memory.features.upstream.services.forwarding import MAX_BEHIND, Forwarding
from agent_memory.features.upstream.services.preview import SharingPreview
from agent_memory.features.upstream.services.project_names import ProjectNames
from agent_memory.features.upstream.services.receiving import Receiving
from agent_memory.features.upstream.services.shared_projects import SharedProjects


@dataclass(frozen=True, slots=True)
class TeamExchange:
    forwarding: Forwarding
    receiving: Receiving
    erasing: Erasing
    shared: SharedProjects
    preview: SharingPreview
    names: ProjectNames
    connect: Callable[[RemoteSettings], TeamServer]
    wake: Callable[[], None]  # the job that runs this, at once

    def run(self, check: Callable[[], None]) -> None:
        """Erase what others have forgotten, list changes for them, send and pull."""
        self.erasing.run(check)
        if self.receiving.get_cursor() is not None:
            self.receiving.catch_up(check)
        self.forwarding.run(check)
        self.erasing.run(check)

    def sync_now(self, check: Callable[[], None]) -> None:
        """Do the same at once. Raises RemoteUnavailable, Unauthorized and FeatureUnavailable."""
        self.erasing.run(check)
        self.forwarding.sync_now(check)
        self.erasing.run(check)

    def get_needed(self) -> int | None:
        """Return the last entry of the outbox that may be trimmed; None if all may."""
        needed = [self.forwarding.get_needed()]
        listed = self.receiving.get_cursor()
        if listed is not None:
            oldest = self.receiving.log.watermark() - MAX_BEHIND
            needed.append(max(listed, oldest))
        return min((number for number in needed if number is not None), default=None)
