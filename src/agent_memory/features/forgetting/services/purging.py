"""Purge removed records from indexes and files, and search for them to prove it."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from agent_memory.features.forgetting.model.forgetting import ErasureProof
from agent_memory.features.forgetting.ports import NeedleSearch
from agent_memory.features.index.model.queries import Query
from agent_memory.features.log.model.outbox import OutboxEntry
from agent_memory.features.recall.services.indexes import Indexes
from agent_memory.features.recall.services.recall import Recall
from agent_memory.kernel.progress import OnPhase
from agent_memory.platform.ports import StoreMaintenance

INDEXES, COMPACTING, SEARCHING = "indexes", "compacting", "searching"

UNREACHABLE = (
    "copies elsewhere: backups, snapshots, exports, other machines, the agent's own transcripts",
    "older stores that a restore or an upgrade left: `replaced-*`, `upgrades` in the data folder",
    "checkpoints that agents keep of their own state: delete their threads",
    "what was sent to a summarizer, an embedder or a model that is not on this machine",
    "pages, logs, replicas and dumps of a database server, if `storage.url` names one",
    "blocks of the disk that deleted files have left behind, until they are overwritten",
    "the memory of running processes, until they end",
)

_PAGE = 500
_ASKED = 20  # questions asked to recall


@dataclass(frozen=True, slots=True)
class Purging:
    indexes: Indexes
    recall: Recall
    store: StoreMaintenance
    traces: NeedleSearch
    discard_vectors: Callable[[], None]  # of an embedder that is switched off
    discard_contexts: Callable[[], None]  # that sessions were given and hooks have kept
    announce: Callable[[], None]  # asks other daemons on this memory to purge their own files
    local_families: Sequence[str] = ()  # of the store, if only these are in files of this daemon

    def purge_indexes(self, entries: Sequence[OutboxEntry], on_progress: OnPhase) -> None:
        """Remove from the indexes and their files what the records behind these entries no
        longer hold, and all that was built from the indexes."""
        embedding = self.indexes.embedding
        if embedding is None:
            self.discard_vectors()
        else:
            for start in range(0, len(entries), _PAGE):
                embedding.drop(entries[start : start + _PAGE])
                on_progress(INDEXES, start)
            embedding.purge()
        with self.indexes.filling:
            self.indexes.indexing.fill(lambda count: on_progress(INDEXES, count), afresh=True)
        self.discard_contexts()

    def purge_own(self, entries: Sequence[OutboxEntry], on_progress: OnPhase) -> None:
        """Remove from the files of this daemon what another one has forgotten."""
        self.purge_indexes(entries, on_progress)
        for number, family in enumerate(self.local_families, 1):
            self.store.compact(family)
            on_progress(COMPACTING, number)

    def purge_files(self, on_progress: OnPhase) -> None:
        """Remove deleted rows from the files of the store, and start a new log."""
        for number, family in enumerate(self.store.stats().families, 1):
            self.store.compact(family.name)
            on_progress(COMPACTING, number)

    def build_proof(
        self, needles: AbstractSet[bytes], removed: AbstractSet[str], on_progress: OnPhase
    ) -> ErasureProof:
        """Search for the needles everywhere. `removed` are ids that recall must not find."""

        def tell(count: int) -> None:
            on_progress(SEARCHING, count)

        rows = self.traces.search_rows(needles, tell)
        files = self.traces.search_files(needles, tell)
        # Search kept records last, because the words may be said again meanwhile: a needle in a
        # kept record, and so in what is derived from it, proves nothing.
        shared = self.traces.search_kept(needles)
        own = needles - shared
        found = {trace.place for trace in (*rows, *files.traces) if trace.needle in own}
        if self._is_recalled(sorted(own), removed):
            found.add("recall")
        return ErasureProof(
            needles=len(own),
            shared=len(shared),
            files=files.files,
            size_bytes=files.size_bytes,
            found_in=tuple(sorted(found)),
            unreadable=files.unreadable,
        )

    def _is_recalled(self, needles: Sequence[bytes], removed: AbstractSet[str]) -> bool:
        """Tell whether a question finds any of it."""
        for needle in needles[:: max(1, len(needles) // _ASKED)]:
            words = needle.decode()
            for hit in self.recall.search(Query(text=words), counted=False).hits:
                if words in hit.document.text or hit.document.id in removed:
                    return True
        return False
