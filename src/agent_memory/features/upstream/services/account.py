"""What a team's server does in a person's name: their keys, and what it is asked to erase."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent_memory.features.upstream.model.progress import RemoteSettings, SyncProgress
from agent_memory.features.upstream.model.records import ErasureNotice, KeyNotice
from agent_memory.features.upstream.ports import AccountServer, ExchangeState
from agent_memory.kernel.errors import FeatureUnavailable

_MOST = 1_000  # records that are named in one request
_STATE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TeamAccount:
    read_settings: Callable[[], RemoteSettings]
    connect: Callable[[RemoteSettings], AccountServer]
    state: ExchangeState
    lock: threading.Lock  # of the exchange, which changes the state, too

    @property
    def has_server(self) -> bool:
        return self.read_settings().is_complete

    def list_keys(self) -> list[KeyNotice]:
        """Ask the server for the keys of this person, and note that they were seen."""
        found = self._open().list_keys()
        self._change_state(lambda progress: replace(progress, new_keys=()))
        return found

    def list_erasures(self) -> list[ErasureNotice]:
        """Ask the server what of this person waits there to be erased."""
        return self._open().list_erasures()

    def keep(self, names: Sequence[str]) -> int:
        """Have the server keep these; return how many of them waited."""
        server = self._open()
        kept = sum(
            server.keep(names[start : start + _MOST]) for start in range(0, len(names), _MOST)
        )
        self._change_state(
            lambda progress: replace(progress, erasures=max(0, progress.erasures - kept))
        )
        return kept

    def _change_state(self, change: Callable[[SyncProgress], SyncProgress]) -> None:
        """Change what is shown. While an exchange goes on, do not: its end says the same."""
        if self.lock.acquire(timeout=_STATE_SECONDS):
            try:
                self.state.save(change(self.state.load()))
            finally:
                self.lock.release()

    def _open(self) -> AccountServer:
        settings = self.read_settings()
        if not settings.is_complete:
            raise FeatureUnavailable("there is no server: add one with `memory remote add URL`")
        return self.connect(settings)
