"""Keeping: store the context of a session's start, without secrets, as the last known one."""

from dataclasses import dataclass, replace

from agent_memory.features.hooks.model.last_contexts import LastContext
from agent_memory.features.hooks.ports import LastContexts
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import ContentBlocked


@dataclass(frozen=True, slots=True)
class ContextKeeping:
    contexts: LastContexts
    secrets: SecretsFilter

    def get_epoch(self) -> int:
        """Return a number to pass to `keep`, before the context is built."""
        return self.contexts.get_epoch()

    def keep(self, context: LastContext, epoch: int) -> None:
        """Keep a context in place of the one before. Raises StorageFailed."""
        try:
            text = self.secrets.clean(context.text, where="last context")
        except ContentBlocked:
            text = ""
        self.contexts.keep(replace(context, text=text), epoch)
