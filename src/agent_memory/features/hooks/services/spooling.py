"""Spooling: what a hook is told while no daemon answers is kept clean, and recorded later, once."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_memory.features.hooks.model import hooks, transcripts
from agent_memory.features.hooks.model.hooks import Told, withheld
from agent_memory.features.hooks.ports import Spool
from agent_memory.features.log.model.events import MAX_SESSION_ID_CHARS
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import ContentBlocked, InvalidInput, Overloaded, StorageFailed


@dataclass(frozen=True, slots=True)
class Spooling:
    spool: Spool
    secrets: SecretsFilter
    turn: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, told: Told) -> None:
        """Durable once it returns. Raises Overloaded, StorageFailed."""
        try:
            clean = self._cleaned(told)
        except ContentBlocked:
            clean = self._cleaned(withheld(told))
        self.spool.put(clean)

    def drain(
        self,
        record: Callable[[Told], None],
        failed: Callable[[Exception], None],
        closing: Callable[[], bool],
    ) -> int:
        """Record what waits, the oldest first; each is removed once it is durable. What can never
        be recorded is dropped, and what nobody foresaw is set aside: nothing holds up what comes
        after it. How many were recorded. Raises StorageFailed and Overloaded."""
        count = 0
        with self.turn:
            for name in self.spool.waiting():
                if closing():
                    break
                try:
                    told = self.spool.get(name)
                    if told is not None:
                        record(told)
                        count += 1
                except (StorageFailed, Overloaded):
                    raise
                except (InvalidInput, ContentBlocked) as exc:
                    failed(exc)
                except Exception as exc:
                    failed(exc)
                    self.spool.set_aside(name)
                    continue
                self.spool.remove(name)
        return count

    def _cleaned(self, told: Told) -> Told:
        use = told.use
        return replace(
            hooks.renamed(told, self._clean_name),
            nonce=self._clean_name(told.nonce),
            folder=self._clean_name(told.folder),
            branch=self._clean_name(told.branch),
            text=self._clean(transcripts.fitting(told.said)),
            use=replace(
                use,
                name=self._clean_name(use.name),
                asked=self._clean(use.asked),
                written=self._clean(use.written),
                file=self._clean(use.file),
            ),
            decisions=tuple(self._clean(each) for each in told.decisions),
            about={
                self._clean_name(name): self._clean(value) for name, value in told.about.items()
            },
        )

    def _clean_name(self, name: str) -> str:
        if not name:
            return name
        return self.secrets.clean_name(name, limit=MAX_SESSION_ID_CHARS, where="spool")

    def _clean(self, text: str) -> str:
        return self.secrets.clean(text, where="spool") if text else text
