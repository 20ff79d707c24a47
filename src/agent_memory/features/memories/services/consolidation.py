"""Consolidation: merge near-duplicates and update tiers, with a plan first and an undo."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.queries import SearchScope
from agent_memory.features.index.ports import VectorIndex
from agent_memory.features.memories.model import duplicates, memories, memory_documents, tiers
from agent_memory.features.memories.model.consolidations import (
    ConsolidationPlan,
    ConsolidationRun,
    Merge,
    Move,
    Undo,
)
from agent_memory.features.memories.model.duplicates import Cluster, Pair
from agent_memory.features.memories.model.memories import Draft, Memory, MemoryStatus
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.model.reasoning import MergedMemory
from agent_memory.features.memories.ports import Journal, MemoryUses, Reasoner
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.kernel.errors import (
    ConfigError,
    ContentBlocked,
    GitFailed,
    InvalidInput,
    LlmFailed,
    NotFound,
    Overloaded,
)
from agent_memory.kernel.ids import Domain, MemoryKey, Millis
from agent_memory.kernel.progress import OnProgress
from agent_memory.platform.ports import Clock, Worker

WRITTEN = 20  # clusters that a model merges in one run
_NEIGHBOURS = 8
_SECONDS = 120.0
_PRESENT = (MemoryStatus.ACTIVE, MemoryStatus.RESOLVED)
_NOT_MERGED = (NotFound, InvalidInput, ContentBlocked, ConfigError, GitFailed, Overloaded)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationOutcome:
    """A plan and whether it was applied; `plan.skipped` includes the merges that failed."""

    plan: ConsolidationPlan
    applied: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOutcome:
    """The memories that a merge superseded, why others were not, and the run that undo takes
    back, if anything was merged."""

    superseded: tuple[Memory, ...]
    skipped: tuple[str, ...]
    run: ConsolidationRun | None


@dataclass(frozen=True, slots=True)
class Consolidation:
    editor: MemoryEditor
    capture: Capture
    uses: MemoryUses
    journal: Journal
    vectors: VectorIndex | None
    reasoner: Reasoner | None
    worker: Worker
    clock: Clock
    # Held while a run is applied or undone: undo must not take a run for interrupted that goes on.
    turn: threading.RLock = field(default_factory=threading.RLock)

    def consolidate(
        self,
        domains: Sequence[Domain] | None,
        here: MemoryLocation,
        *,
        full: bool,
        confirm: Callable[[ConsolidationPlan], bool],
        on_progress: OnProgress,
    ) -> ConsolidationOutcome:
        """Plan, and apply the plan if it is not empty and `confirm` accepts it."""
        plan = self.plan(domains, full=full, on_progress=on_progress)
        if plan.empty or not confirm(plan):
            return ConsolidationOutcome(plan=plan, applied=False)
        failed = self.apply(plan, here, on_progress)
        return ConsolidationOutcome(
            plan=replace(plan, skipped=(*plan.skipped, *failed)), applied=True
        )

    def plan(
        self,
        domains: Sequence[Domain] | None,
        *,
        full: bool,
        on_progress: OnProgress,
        rewrite: bool = True,
    ) -> ConsolidationPlan:
        """Plan the changes among the memories that changed since the last run, or among all. With
        `rewrite`, a model may write the text of each merge, if there is one."""
        now = self.clock.now()
        chosen = self.editor.memories.list_domains() if domains is None else domains
        found = [each for each in self.editor.list_all(chosen) if not each.is_pending]
        active = [each for each in found if each.status is not MemoryStatus.ARCHIVED]
        since = {} if full else self.journal.get_review_times()
        new = [each for each in active if each.updated_ms >= since.get(each.domain, 0)]
        seeds = [each.key for each in new]
        on_progress("comparing", 0, len(new))
        near = list(self._near(new, active, on_progress))
        on_progress("clustering", len(new), len(new))
        clusters = self.worker.call(
            duplicates.find_clusters, active, seeds, near, timeout_seconds=_SECONDS
        )
        skipped: list[str] = []
        if self.vectors is None:
            skipped.append("duplicates in other words: embedder.provider is none")
        if rewrite and self.reasoner is None and clusters:
            skipped.append("merged summaries: they need an LLM (summarizer.provider)")
        merges = []
        for number, each in enumerate(clusters):
            on_progress("writing", number, len(clusters))
            merges.append(self._merge(each, number, skipped) if rewrite else Merge(cluster=each))
        return ConsolidationPlan(
            at_ms=now,
            domains=tuple(chosen),
            considered=len(seeds),
            merges=tuple(merges),
            moves=tuple(self._moves(found, merges)),
            skipped=tuple(dict.fromkeys(skipped)),
        )

    def apply(
        self, plan: ConsolidationPlan, here: MemoryLocation, on_progress: OnProgress
    ) -> tuple[str, ...]:
        """Apply the plan. Return what could not be done, and why. The journal is written first, so
        that an interrupted run can be undone too."""
        with self.turn:
            return self._apply_plan(plan, here, on_progress)[0]

    def _apply_plan(
        self, plan: ConsolidationPlan, here: MemoryLocation, on_progress: OnProgress
    ) -> tuple[tuple[str, ...], ConsolidationRun]:
        skipped: dict[Domain, list[str]] = defaultdict(list)
        steps: list[_MergeStep] = []
        for merge in plan.merges:
            with _skip_failures(merge, skipped):
                steps += self._prepare_steps(merge, here)
        run = _run(steps, self.clock.now(), plan, self.journal.get_review_times())
        if run.changes:
            run = self.journal.add(run)
        gone: set[MemoryKey] = set()
        for number, step in enumerate(steps):
            on_progress("merging", number, len(steps))
            with _skip_failures(step.merge, skipped):
                self._apply_step(step, run.at_ms, here, gone)
        self.journal.set_review_time(
            [each for each in plan.domains if each not in skipped], plan.at_ms
        )
        going = {each.key for merge in plan.merges for each in merge.superseded}
        self.uses.set_tiers(
            {
                move.memory.key: move.after
                for move in plan.moves
                if move.memory.key in gone or move.memory.key not in going
            }
        )
        return tuple(reason for reasons in skipped.values() for reason in reasons), run

    def merge(
        self, chosen: Sequence[Cluster], here: MemoryLocation, on_progress: OnProgress
    ) -> MergeOutcome:
        """Merge memories that a caller chose, into the one that each group keeps. Undo takes it
        back as one run."""
        skipped: dict[Domain, list[str]] = defaultdict(list)
        merges = []
        for merge in (Merge(cluster=cluster) for cluster in chosen):
            with _skip_failures(merge, skipped):
                _check_chosen(merge.cluster)
                merges.append(merge)
        # Without domains: what was compared before stays to be compared.
        plan = ConsolidationPlan(
            at_ms=self.clock.now(), domains=(), considered=0, merges=tuple(merges), moves=()
        )
        failed = [reason for reasons in skipped.values() for reason in reasons]
        with self.turn:
            not_done, run = self._apply_plan(plan, here, on_progress)
        failed += not_done
        superseded = []
        for merge in merges:
            for old in merge.superseded:
                stored = self.editor.memories.get(old.key)
                if stored is not None and stored.superseded_by == merge.cluster.kept.id:
                    superseded.append(stored)
                elif not any(old.id in reason for reason in failed):
                    failed.append(f"{old.id}: it, or the one that is kept, was changed meanwhile")
        return MergeOutcome(
            superseded=tuple(superseded), skipped=tuple(failed), run=run if superseded else None
        )

    def undo(self, here: MemoryLocation) -> tuple[int, int]:
        """Undo the last run. Return how many memories were restored, and how many were left alone
        because they changed since. Raises NotFound if there is no run."""
        with self.turn:
            while (run := self.journal.get_last()) is not None:
                taken = self.undo_run(run, here)
                if taken is not None:
                    return taken
        raise NotFound("there is no consolidation to undo")

    def undo_run(self, run: ConsolidationRun, here: MemoryLocation) -> tuple[int, int] | None:
        """Undo a run as `undo` does; the caller has the turn. Return None if the run was
        interrupted before it changed anything."""
        taken = self._restore(run, here)
        self.journal.remove(run)
        return taken

    def _near(
        self, seeds: Sequence[Memory], active: Sequence[Memory], on_progress: OnProgress
    ) -> Iterator[Pair]:
        """Yield pairs of memories with near embeddings."""
        if self.vectors is None:
            return
        keys = {memory.urn: memory.key for memory in active}
        for number, memory in enumerate(seeds):
            if number % 100 == 0:
                on_progress("comparing", number, len(seeds))
            (vectors,) = self.vectors.get_vectors(memory_documents.from_memory(memory))
            scope = SearchScope(
                kinds=frozenset({documents.DocumentKind.MEMORY}),
                domains=frozenset({memory.domain}),
                namespace=memory.namespace,
            )
            for vector in vectors[:1]:
                for found in self.vectors.find_nearest(vector, scope, limit=_NEIGHBOURS):
                    other = keys.get(found.id)
                    if found.score >= duplicates.NEAR and other and other != memory.key:
                        yield memory.key, other

    def _merge(self, cluster: Cluster, number: int, skipped: list[str]) -> Merge:
        if self.reasoner is None:
            return Merge(cluster=cluster)
        if number >= WRITTEN:
            skipped.append(
                f"merged summaries of more than {WRITTEN} clusters: run consolidate again"
            )
            return Merge(cluster=cluster)
        try:
            written = self.reasoner.merge((cluster.kept, *cluster.others))
            _check_written(written, cluster)
        except (LlmFailed, InvalidInput) as exc:
            skipped.append(f"a merged summary: {exc}")
            return Merge(cluster=cluster)
        return Merge(cluster=cluster, written=written)

    def _moves(self, found: Sequence[Memory], merges: Sequence[Merge]) -> Iterator[Move]:
        """Yield the memories whose tier changes, including by the merges."""
        now = self.clock.now()
        going = {each.key for merge in merges for each in merge.superseded}
        uses = self.uses.get_many([memory.key for memory in found])
        for memory, use in zip(found, uses, strict=True):
            then = (
                tiers.Tier.ARCHIVED if memory.key in going else tiers.assign_tier(memory, use, now)
            )
            if then is not use.tier:
                yield Move(memory=memory, before=use.tier, after=then)

    def _prepare_steps(self, merge: Merge, here: MemoryLocation) -> Iterator["_MergeStep"]:
        """Yield the step for a merge; nothing if its memories changed meanwhile."""
        kept, others = merge.cluster.kept, merge.cluster.others
        others = tuple(each for each in others if self._is_as_planned(each))
        if not others or not self._is_as_planned(kept):
            return
        tags = frozenset[str]().union(kept.tags, *(each.tags for each in others))
        tags = frozenset(sorted(tags)[: memories.MAX_TAGS])
        if merge.written is None:
            yield _MergeStep(merge=merge, old=others, tags=tags)
            return
        draft = Draft(
            namespace=kept.namespace,
            summary=merge.written.summary,
            content=merge.written.content,
            spec=kept.spec,
            tags=tags,
            relates_to=kept.relates_to,
        )
        place = self.editor.locate(kept.domain, here)
        key = self.capture.build_memory(self.capture.clean(draft), place).key
        yield _MergeStep(
            merge=merge,
            old=tuple(each for each in (kept, *others) if each.key != key),
            tags=tags,
            writing=_Writing(
                draft=draft, place=place, key=key, stored=self.editor.memories.get(key)
            ),
        )

    def _apply_step(
        self, step: "_MergeStep", at: Millis, here: MemoryLocation, gone: set[MemoryKey]
    ) -> None:
        kept = step.merge.cluster.kept
        if not self._is_as_planned(kept):
            return
        if step.writing is not None:
            # With the recorded time, so that undo knows the change.
            capture = replace(self.capture, clock=_FixedClock(at))
            new = capture.capture(step.writing.draft, step.writing.place).memory
        elif step.tags != kept.tags:
            new = self.editor.apply(
                kept.key, here, lambda stored: memories.update_fields(stored, at, tags=step.tags)
            )
        else:
            new = kept
        for old in step.old:
            if self._supersede(old, new, at, here):
                gone.add(old.key)

    def _supersede(self, old: Memory, new: Memory, at: Millis, here: MemoryLocation) -> bool:
        """Archive it with the recorded time, if it is still as planned."""

        def change(stored: Memory) -> Memory:
            if stored.updated_ms != old.updated_ms:
                return stored
            return memories.update_fields(
                stored, at, status=MemoryStatus.ARCHIVED, superseded_by=new.id
            )

        return self.editor.apply(old.key, here, change).superseded_by == new.id

    def _is_as_planned(self, memory: Memory) -> bool:
        stored = self.editor.memories.get(memory.key)
        return stored is not None and stored.updated_ms == memory.updated_ms

    def _restore(self, run: ConsolidationRun, here: MemoryLocation) -> tuple[int, int] | None:
        undone = left = 0
        changed = False
        for change in reversed(run.changes):
            stored = self.editor.memories.get(change.key)
            if stored is None or stored.updated_ms < change.changed_ms:
                continue
            if stored.updated_ms > change.changed_ms or stored.status is MemoryStatus.TOMBSTONE:
                left += 1
                continue
            self.editor.update(
                change.key,
                here,
                status=change.status,
                superseded_by=change.superseded_by,
                tags=stored.tags if change.tags is None else change.tags,
            )
            changed = True
            undone += stored.superseded_by != change.superseded_by  # others only lose tags
        found = [self.editor.memories.get(key) for key in run.made]
        made = [each for each in found if each is not None and each.status in _PRESENT]
        for each in made:
            self.editor.set_status(each, MemoryStatus.ARCHIVED, here)
        if not (changed or left or made):
            return None
        self.uses.set_tiers(dict(run.tiers))
        for domain, at in run.reviewed:
            self.journal.set_review_time([domain], at)
        return undone, left


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writing:
    """A text that a model wrote, and the memory that says the same already, if there is one."""

    draft: Draft
    place: MemoryLocation
    key: MemoryKey
    stored: Memory | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _MergeStep:
    """A merge that can be applied: `old` are superseded by the written memory, or else by the kept
    one, which gets the tags of all."""

    merge: Merge
    old: tuple[Memory, ...]
    tags: frozenset[str]
    writing: _Writing | None = None


class _FixedClock:
    """A clock that stands still."""

    def __init__(self, at: Millis) -> None:
        self._at = at

    def now(self) -> Millis:
        return self._at


def _run(
    steps: Sequence[_MergeStep],
    at: Millis,
    plan: ConsolidationPlan,
    reviewed: Mapping[Domain, Millis],
) -> ConsolidationRun:
    changed = {each.key: each for step in steps for each in _list_changed(step)}
    return ConsolidationRun(
        at_ms=at,
        changes=tuple(
            Undo(
                key=old.key,
                status=old.status,
                superseded_by=old.superseded_by,
                changed_ms=memories.update_fields(old, at).updated_ms,
                tags=old.tags,
                before_ms=old.updated_ms,
            )
            for old in changed.values()
        ),
        made=tuple(
            step.writing.key
            for step in steps
            if step.writing is not None and step.writing.stored is None
        ),
        tiers=tuple((move.memory.key, move.before) for move in plan.moves),
        reviewed=tuple((domain, reviewed.get(domain, Millis(0))) for domain in plan.domains),
    )


def _list_changed(step: _MergeStep) -> Iterator[Memory]:
    """Yield the memories that exist before a step and that it changes."""
    yield from step.old
    if step.writing is not None and step.writing.stored is not None:
        yield step.writing.stored
    elif step.writing is None and step.tags != step.merge.cluster.kept.tags:
        yield step.merge.cluster.kept


@contextmanager
def _skip_failures(merge: Merge, skipped: dict[Domain, list[str]]) -> Iterator[None]:
    """Record a failed merge, so that the others go on."""
    try:
        yield
    except _NOT_MERGED as exc:
        kept = merge.cluster.kept
        names = ", ".join(each.id for each in (kept, *merge.cluster.others))
        skipped[kept.domain].append(f"the merge of {names}: {exc}")


def _check_chosen(cluster: Cluster) -> None:
    """Raise InvalidInput if these cannot become one memory."""
    kept = cluster.kept
    for memory in (kept, *cluster.others):
        memories.check_reviewed(memory)
        if memory.status not in _PRESENT:
            raise InvalidInput(
                f"{memory.id} is {memory.status}: only active and resolved memories can be merged"
            )
        if memory.domain != kept.domain:
            raise InvalidInput(f"{memory.id} is of {memory.domain}, and {kept.id} of {kept.domain}")
    if any(memory.key == kept.key for memory in cluster.others):
        raise InvalidInput(f"{kept.id} cannot supersede itself")


def _check_written(written: MergedMemory, cluster: Cluster) -> None:
    """Validate a model's text before it is shown for approval."""
    Draft(namespace=cluster.kept.namespace, summary=written.summary, content=written.content)
