"""Spooling: what a hook is told while no daemon answers is kept clean, and recorded later, once."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_memory.domain import transcripts
from agent_memory.domain.errors import AgentMemoryError, ContentBlocked, InvalidInput
from agent_memory.domain.hooks import Told
from agent_memory.domain.ports import SecretsFilter, Spool


@dataclass(frozen=True, slots=True)
class Spooling:
    spool: Spool
    secrets: SecretsFilter
    turn: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, told: Told) -> None:
        """Durable once it returns. Raises ContentBlocked, Overloaded, StorageFailed."""
        self.spool.put(self._cleaned(told))

    def drain(
        self, record: Callable[[Told], None], failed: Callable[[AgentMemoryError], None]
    ) -> int:
        """Record what waits, the oldest first; each is removed once it is durable. How many."""
        count = 0
        with self.turn:
            for name in self.spool.waiting():
                told = self.spool.get(name)
                if told is not None:
                    try:
                        record(told)
                        count += 1
                    except (InvalidInput, ContentBlocked) as exc:
                        failed(exc)  # nor would it be recorded at any other time
                self.spool.remove(name)
        return count

    def _cleaned(self, told: Told) -> Told:
        use = told.use
        return replace(
            told,
            text=self._clean(transcripts.fitting(told.said)),
            use=replace(
                use,
                asked=self._clean(use.asked),
                written=self._clean(use.written),
                file=self._clean(use.file),
            ),
            decisions=tuple(self._clean(each) for each in told.decisions),
            about={name: self._clean(value) for name, value in told.about.items()},
        )

    def _clean(self, text: str) -> str:
        return self.secrets.clean(text, where="spool") if text else text
