"""Spooling: what a hook is told while no daemon answers is kept clean, and recorded later, once."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent_memory.features.hooks.model import hooks, transcripts
from agent_memory.features.hooks.model.hooks import HookCall, withhold_call
from agent_memory.features.hooks.ports import Spool
from agent_memory.features.log.model.events import MAX_SESSION_ID_CHARS
from agent_memory.features.secrets.ports import SecretsFilter
from agent_memory.kernel.errors import ContentBlocked, InvalidInput, Overloaded, StorageFailed


@dataclass(frozen=True, slots=True)
class Spooling:
    spool: Spool
    secrets: SecretsFilter
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keep(self, told: HookCall) -> None:
        """Durable once it returns. Raises Overloaded, StorageFailed."""
        try:
            clean = self._clean_call(told)
        except ContentBlocked:
            clean = self._clean_call(withhold_call(told))
        self.spool.put(clean)

    def drain(
        self,
        record: Callable[[HookCall], None],
        failed: Callable[[Exception], None],
        closing: Callable[[], bool],
    ) -> int:
        """Record what waits, the oldest first; each is removed once it is durable. What can never
        be recorded is dropped, and what nobody foresaw is set aside: nothing holds up what comes
        after it. How many were recorded. Raises StorageFailed and Overloaded."""
        count = 0
        with self.lock:
            for name in self.spool.list_pending():
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

    def _clean_call(self, told: HookCall) -> HookCall:
        use = told.use
        return replace(
            hooks.clean_ids(told, self._clean_name),
            nonce=self._clean_name(told.nonce),
            folder=self._clean_name(told.folder),
            branch=self._clean_name(told.branch),
            text=self._clean(transcripts.fit_text(told.own_text)),
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
