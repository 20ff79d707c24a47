"""Spooling: store hook calls without secrets while no daemon answers, and record them later."""

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

    def keep(self, call: HookCall) -> None:
        """Store a call, durably. Raises Overloaded and StorageFailed."""
        try:
            clean = self._clean_call(call)
        except ContentBlocked:
            clean = self._clean_call(withhold_call(call))
        self.spool.put(clean)

    def drain(
        self,
        record: Callable[[HookCall], bool],
        on_failure: Callable[[Exception], None],
        is_closing: Callable[[], bool],
    ) -> int:
        """Record pending calls, oldest first, and return how many are done with.

        `record` returns whether a call is done with: then it is removed, otherwise it stays.
        Invalid calls are dropped and unexpected failures set aside: neither may hold up the calls
        after it. One that the system refuses to read stays. Raises StorageFailed and Overloaded.
        """
        count = 0
        with self.lock:
            for name in self.spool.list_pending():
                if is_closing():
                    break
                try:
                    call = self.spool.get(name)
                    if call is not None:
                        if not record(call):
                            continue
                        count += 1
                except (StorageFailed, Overloaded):
                    raise
                except OSError as exc:  # no open file is left, for example: it stays
                    on_failure(exc)
                    continue
                except (InvalidInput, ContentBlocked) as exc:
                    on_failure(exc)
                except Exception as exc:
                    on_failure(exc)
                    self.spool.set_aside(name)
                    continue
                self.spool.remove(name)
        return count

    def _clean_call(self, call: HookCall) -> HookCall:
        use = call.use
        return replace(
            hooks.clean_ids(call, self._clean_name),
            nonce=self._clean_name(call.nonce),
            folder=self._clean_name(call.folder),
            branch=self._clean_name(call.branch),
            text=self._clean(transcripts.fit_text(call.own_text)),
            title=self._clean(call.title),
            use=replace(
                use,
                name=self._clean_name(use.name),
                asked=self._clean(use.asked),
                written=self._clean(use.written),
                file=self._clean(use.file),
            ),
            decisions=tuple(
                self._clean(transcripts.strip_injected(text)) for text in call.decisions
            ),
            about={
                self._clean_name(name): self._clean(value) for name, value in call.about.items()
            },
        )

    def _clean_name(self, name: str) -> str:
        if not name:
            return name
        return self.secrets.clean_name(name, limit=MAX_SESSION_ID_CHARS, where="spool")

    def _clean(self, text: str) -> str:
        return self.secrets.clean(text, where="spool") if text else text
