"""Consolidation: near-duplicates become one, and tiers follow; a plan first, and undoable."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from agent_memory.domain import documents, duplicates, memories, tiers
from agent_memory.domain.consolidations import Merge, Move, Plan, Run, Undo
from agent_memory.domain.duplicates import Cluster, Pair
from agent_memory.domain.errors import InvalidInput, LlmFailed, NotFound
from agent_memory.domain.memories import Domain, Draft, Memory, MemoryKey, Status
from agent_memory.domain.ports import Clock, Journal, MemoryUses, Reasoner, VectorIndex, Worker
from agent_memory.domain.projects import Place
from agent_memory.domain.queries import Scope
from agent_memory.domain.reasoning import Written
from agent_memory.services.capture import Capture
from agent_memory.services.curation import Curation
from agent_memory.services.workplaces import Workplaces

WRITTEN = 20  # clusters that a model is asked about in one run
_NEIGHBOURS = 8
_SECONDS = 120.0

Done = Callable[[str, int], None]  # a phase, and how far it has come


@dataclass(frozen=True, slots=True)
class Consolidation:
    curation: Curation
    capture: Capture
    uses: MemoryUses
    workplaces: Workplaces
    journal: Journal
    vectors: VectorIndex | None
    reasoner: Reasoner | None
    worker: Worker
    clock: Clock

    def plan(self, domains: Sequence[Domain] | None, *, full: bool, done: Done) -> Plan:
        """What there is to do among what changed since the last run, or among all."""
        now = self.clock.now()
        chosen = self.curation.memories.domains() if domains is None else domains
        found = list(self.curation.all(chosen))
        active = [each for each in found if each.status is not Status.ARCHIVED]
        last = self.journal.last()
        since = {} if full or last is None or last.undone else last.looked
        new = [each for each in active if each.updated_ms >= since.get(each.domain, 0)]
        seeds = [each.key for each in new]
        done("comparing", 0)
        near = list(self._near(new, done))
        clusters = self.worker.call(
            duplicates.clusters, active, seeds, near, timeout_seconds=_SECONDS
        )
        skipped: list[str] = []
        if self.vectors is None:
            skipped.append("what means the same in other words: embedder.provider is none")
        if self.reasoner is None and clusters:
            skipped.append("merged summaries: they need an LLM (summarizer.provider)")
        merges = tuple(self._merge(each, n, skipped, done) for n, each in enumerate(clusters))
        return Plan(
            at_ms=now,
            domains=tuple(chosen),
            considered=len(seeds),
            merges=merges,
            moves=tuple(self._moves(found, merges)),
            skipped=tuple(dict.fromkeys(skipped)),
        )

    def apply(self, plan: Plan, here: Place, done: Done) -> Run:
        """Do it, and write down how to undo it, also where it is stopped half way."""
        before = self.journal.last()
        looked = {} if before is None or before.undone else dict(before.looked)
        changes: list[Undo] = []
        made: list[MemoryKey] = []
        try:
            for number, merge in enumerate(plan.merges):
                done("merging", number)
                self._apply(merge, here, changes, made)
            looked |= dict.fromkeys(plan.domains, plan.at_ms)
        finally:
            run = Run(
                at_ms=self.clock.now(), changes=tuple(changes), made=tuple(made), looked=looked
            )
            self.journal.add(run)
        self.uses.settle({move.memory.key: move.after for move in plan.moves})
        return run

    def undo(self, here: Place) -> tuple[Run, int]:
        """Take back the last run; how many memories were left as someone has changed them since.
        Raises NotFound where there is none."""
        run = self.journal.last()
        if run is None or run.undone:
            raise NotFound("there is no consolidation to undo")
        left = 0
        for change in reversed(run.changes):
            left += not self._undone(change, here)
        for key in run.made:
            made = self.curation.memories.get(key)
            if made is not None and made.status is not Status.TOMBSTONE:
                self.curation.move(made, Status.ARCHIVED, here)
        self.journal.replace_last(replace(run, undone=True))
        return run, left

    def _near(self, seeds: Sequence[Memory], done: Done) -> Iterator[Pair]:
        """Pairs that the embedder holds for close."""
        if self.vectors is None:
            return
        keys = {memory.urn: memory.key for memory in seeds}
        for number, memory in enumerate(seeds):
            if number % 100 == 0:
                done("comparing", number)
            (vectors,) = self.vectors.known(documents.of_memory(memory))
            scope = Scope(
                kinds=frozenset({documents.Kind.MEMORY}),
                domain=memory.domain,
                namespace=memory.namespace,
            )
            for vector in vectors[:1]:
                for found in self.vectors.nearest(vector, scope, limit=_NEIGHBOURS):
                    other = keys.get(found.id) or self._key(found.id)
                    if found.score >= duplicates.NEAR and other and other != memory.key:
                        yield memory.key, other

    def _key(self, urn: str) -> MemoryKey | None:
        name = memories.parse_urn(urn)
        if name.domain is None or name.namespace is None:
            return None
        alike = self.curation.memories.named(name.domain, name.namespace, name.hex)
        return next((each.key for each in alike if each.index == name.index), None)

    def _merge(self, cluster: Cluster, number: int, skipped: list[str], done: Done) -> Merge:
        if self.reasoner is None:
            return Merge(cluster=cluster)
        if number >= WRITTEN:
            skipped.append(f"merged summaries of more than {WRITTEN} clusters: run it again")
            return Merge(cluster=cluster)
        done("writing", number)
        try:
            written = self.reasoner.merge((cluster.kept, *cluster.others))
            _checked(written, cluster)
        except (LlmFailed, InvalidInput) as exc:
            skipped.append(f"a merged summary: {exc}")
            return Merge(cluster=cluster)
        return Merge(cluster=cluster, written=written)

    def _moves(self, found: Sequence[Memory], merges: Sequence[Merge]) -> Iterator[Move]:
        """Who is in another tier, if the merges are done too."""
        now = self.clock.now()
        going = {each.key for merge in merges for each in merge.cluster.others}
        uses = self.uses.of([memory.key for memory in found])
        for memory, use in zip(found, uses, strict=True):
            then = tiers.Tier.ARCHIVED if memory.key in going else tiers.tier(memory, use, now)
            if then is not use.tier:
                yield Move(memory=memory, before=use.tier, after=then)

    def _apply(self, merge: Merge, here: Place, changes: list[Undo], made: list[MemoryKey]) -> None:
        kept = merge.cluster.kept
        others = tuple(each for each in merge.cluster.others if self._is_as_planned(each))
        if not others or not self._is_as_planned(kept):
            return  # someone has changed them meanwhile
        tags = frozenset[str]().union(kept.tags, *(each.tags for each in others))
        tags = frozenset(sorted(tags)[: memories.MAX_TAGS])
        if merge.written is None:
            if tags != kept.tags:
                self.curation.apply(
                    kept.key, here, lambda m: memories.changed(m, self.clock.now(), tags=tags)
                )
            new = kept
        else:
            draft = Draft(
                namespace=kept.namespace,
                summary=merge.written.summary,
                content=merge.written.content,
                spec=kept.spec,
                tags=tags,
                relates_to=kept.relates_to,
            )
            captured = self.capture.capture(draft, self._place(kept.domain, here))
            new = captured.memory
            if captured.created:
                made.append(new.key)
            others = (kept, *others)
        changes += [
            _undo(old, self.curation.supersede(old, new, here))
            for old in others
            if old.key != new.key
        ]

    def _is_as_planned(self, memory: Memory) -> bool:
        stored = self.curation.memories.get(memory.key)
        return stored is not None and stored.updated_ms == memory.updated_ms

    def _place(self, domain: Domain, here: Place) -> Place:
        return here if here.domain == domain else self.curation.place(domain)

    def _undone(self, change: Undo, here: Place) -> bool:
        stored = self.curation.memories.get(change.key)
        if stored is None or stored.updated_ms != change.changed_ms:
            return False
        self.curation.apply(
            change.key,
            here,
            lambda memory: memories.changed(
                memory,
                self.clock.now(),
                status=change.status,
                superseded_by=change.superseded_by,
            ),
        )
        return True


def _undo(before: Memory, after: Memory) -> Undo:
    return Undo(
        key=before.key,
        status=before.status,
        superseded_by=before.superseded_by,
        changed_ms=after.updated_ms,
    )


def _checked(written: Written, cluster: Cluster) -> None:
    """A model's words are checked before anyone is asked about them."""
    Draft(namespace=cluster.kept.namespace, summary=written.summary, content=written.content)
