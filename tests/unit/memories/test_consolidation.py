"""Consolidation: what a plan covers, what it leaves alone, and what undo restores."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agent_memory.features.index.adapters.vectors import FlatVectors
from agent_memory.features.log.adapters.event_log import StoredEventLog
from agent_memory.features.memories.adapters.git.repositories import GitRepositories
from agent_memory.features.memories.adapters.journal import StoredChangeLog, StoredJournal
from agent_memory.features.memories.adapters.memory_store import (
    MemoryOutlines,
    StoredMemories,
    StoredUses,
)
from agent_memory.features.memories.adapters.project_store import StoredProjects
from agent_memory.features.memories.adapters.reasoner import LlmReasoner
from agent_memory.features.memories.model import memories, memory_documents
from agent_memory.features.memories.model.consolidations import ConsolidationPlan
from agent_memory.features.memories.model.duplicates import Cluster
from agent_memory.features.memories.model.memories import Draft, Home, Memory, MemoryStatus
from agent_memory.features.memories.model.projects import MemoryLocation
from agent_memory.features.memories.model.reasoning import MergedMemory
from agent_memory.features.memories.model.tiers import Tier
from agent_memory.features.memories.services.capture import Capture
from agent_memory.features.memories.services.consolidation import WRITTEN, Consolidation
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.memories.services.project_resolver import OrgRepository, ProjectResolver
from agent_memory.features.memories.services.transfer import Transfer
from agent_memory.features.memories.services.undo import ChangeHistory
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.features.toc.adapters.token_budget import StoredTokenBudget
from agent_memory.kernel.errors import Cancelled, InvalidInput, NotFound
from agent_memory.kernel.ids import USER, Domain, MemoryKey, Millis
from agent_memory.platform.llm.chat import OpenAiChat
from agent_memory.platform.ports import OrderedStore
from agent_memory.platform.store.batches import Batch, CommitOutcome
from agent_memory.platform.store.committer import CommittedStore
from tests.contract.scripted_llm import Reply, ScriptedLlm, completion, error, scripted
from tests.contract.stores import unexpected
from tests.embedders import HashingEmbedder
from tests.inline_worker import InlineWorker
from tests.memory_engine import MemoryEngine

START = 1_769_783_400_000
DAY = 86_400_000
APP = Domain("project:app")


class TickingClock:
    """A clock that advances by a second at each reading."""

    def __init__(self) -> None:
        self.at_ms = START

    def now(self) -> Millis:
        self.at_ms += 1_000
        return Millis(self.at_ms)


@dataclass(frozen=True)
class Parts:
    store: OrderedStore
    clock: TickingClock
    editor: MemoryEditor
    service: Consolidation
    here: MemoryLocation

    def keep(self, summary: str, *, domain: Domain = APP, **fields: object) -> Memory:
        draft = Draft(namespace="decisions", summary=summary, **fields)  # type: ignore[arg-type]
        place = self.editor.locate(domain, self.here)
        return self.editor.capture.capture(draft, place).memory

    def stored(self, key: MemoryKey) -> Memory:
        found = self.editor.memories.get(key)
        assert found is not None
        return found

    @contextmanager
    def with_model(self, *script: Reply) -> Iterator[tuple["Parts", ScriptedLlm]]:
        with (
            scripted(*script) as llm,
            closing(OpenAiChat(base_url=llm.url, model="scripted")) as chat,
        ):
            reasoner = LlmReasoner(
                chat,
                StoredTokenBudget(self.store),
                self.clock,
                context_tokens=8_192,
                daily_tokens=0,
            )
            yield replace(self, service=replace(self.service, reasoner=reasoner)), llm

    def plan(self, *domains: Domain, full: bool = False) -> ConsolidationPlan:
        return self.service.plan(domains or None, full=full, on_progress=quietly)

    def run(self, *domains: Domain, full: bool = False) -> ConsolidationPlan:
        plan = self.plan(*domains, full=full)
        self.service.apply(plan, self.here, quietly)
        return plan


def written(summary: str, content: str = "") -> Reply:
    return completion({"summary": summary, "content": content})


def quietly(_phase: str, _done: int, _of: int) -> None:
    pass


class Killed(BaseException):
    """Stands for the death of the process."""


class DyingStore:
    """A store whose process is killed before one of its writes; earlier writes stay."""

    def __init__(self, store: OrderedStore, writes: int) -> None:
        self._store = store
        self._left = writes
        self.get = store.get
        self.get_many = store.get_many
        self.scan = store.scan
        self.get_neighbors = store.get_neighbors
        self.get_sequence = store.get_sequence
        self.close = store.close

    def submit(self, batches: Sequence[Batch], /) -> "Future[list[CommitOutcome]]":
        if self._left == 0:
            raise Killed
        self._left -= 1
        return self._store.submit(batches)


def built(store: OrderedStore, clock: TickingClock, folder: Path) -> Parts:
    repositories = GitRepositories(folder)
    workplaces = ProjectResolver(
        repositories=repositories,
        projects=StoredProjects(store),
        shared=OrgRepository(),
        secrets=PassThrough(),
    )
    uses = StoredUses(store)
    capture = Capture(
        memories=StoredMemories(store),
        log=StoredEventLog(store),
        secrets=PassThrough(),
        clock=clock,
        on_capture=lambda: None,
    )
    editor = MemoryEditor(
        memories=StoredMemories(store),
        uses=uses,
        outlines=MemoryOutlines(store),
        resolver=workplaces,
        capture=capture,
        clock=clock,
        on_change=lambda: None,
    )
    service = Consolidation(
        editor=editor,
        capture=capture,
        uses=uses,
        journal=StoredJournal(store),
        vectors=None,
        reasoner=None,
        worker=InlineWorker(),
        clock=clock,
    )
    return Parts(
        store=store,
        clock=clock,
        editor=editor,
        service=service,
        here=MemoryLocation(domain=APP, home=repositories.get_private_home("projects/app.git")),
    )


@contextmanager
def opened() -> Iterator[OrderedStore]:
    with closing(CommittedStore(MemoryEngine(), watch=unexpected)) as store:
        yield store


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with opened() as store:
        yield built(store, TickingClock(), tmp_path)


@pytest.fixture
def alike(parts: Parts) -> tuple[Memory, Memory]:
    """Return two duplicates, the older one first."""
    return (
        parts.keep("Use PostgreSQL as the database of the shop", tags=frozenset({"old"})),
        parts.keep("Use PostgreSQL as the shop database", tags=frozenset({"new"})),
    )


class TestPlan:
    def test_it_changes_nothing(self, parts: Parts, alike: tuple[Memory, Memory]) -> None:
        plan = parts.plan()
        assert [merge.cluster.kept for merge in plan.merges] == [alike[1]]
        assert [merge.cluster.others for merge in plan.merges] == [(alike[0],)]
        assert [parts.stored(each.key) for each in alike] == list(alike)
        with pytest.raises(NotFound):
            parts.service.undo(parts.here)

    def test_it_says_what_it_cannot_do(self, parts: Parts) -> None:
        assert any("embedder.provider" in each for each in parts.plan().skipped)
        assert not any("LLM" in each for each in parts.plan().skipped)  # nothing to be merged
        for word in ("shop", "store"):
            parts.keep(f"Use PostgreSQL as the database of the old red {word}")
        assert any("summarizer.provider" in each for each in parts.plan().skipped)

    def test_archived_ones_are_left_out(self, parts: Parts, alike: tuple[Memory, Memory]) -> None:
        parts.editor.set_status(alike[0], MemoryStatus.ARCHIVED, parts.here)
        assert parts.plan().merges == ()

    def test_what_awaits_review_is_left_alone(self, parts: Parts) -> None:
        settled = parts.keep("Use PostgreSQL as the database of the shop")
        noted = parts.keep("Use PostgreSQL as the shop database", status=MemoryStatus.PENDING)
        plan = parts.run(full=True)
        assert (plan.merges, plan.considered) == ((), 1)
        assert [parts.stored(each.key) for each in (settled, noted)] == [settled, noted]

    def test_domains_and_namespaces_are_not_mixed(self, parts: Parts) -> None:
        parts.keep("Use PostgreSQL as the shop database")
        parts.keep("Use PostgreSQL as the shop database", domain=USER)
        assert parts.plan().merges == ()
        parts.keep("Use PostgreSQL as the database of the shop", domain=USER)
        (merge,) = parts.plan().merges
        assert {merge.cluster.kept.domain, merge.cluster.others[0].domain} == {USER}
        assert parts.plan(APP).merges == ()


class TestIncremental:
    def test_only_what_changed_since_the_last_run_is_looked_at(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        assert parts.run().considered == 2
        parts.run()  # the first one changed the tags of what it kept
        assert parts.plan().considered <= 1
        new = parts.keep("Use PostgreSQL as shop database")
        plan = parts.plan()
        assert [merge.cluster.kept for merge in plan.merges] == [new]
        assert [each.key for each in plan.merges[0].cluster.others] == [alike[1].key]
        assert parts.plan(full=True).considered == 2

    @pytest.mark.usefixtures("alike")
    def test_what_comes_between_plan_and_its_application_is_looked_at_later(
        self, parts: Parts
    ) -> None:
        plan = parts.plan()
        new = parts.keep("Bake bread on Sundays with rye flour")
        parts.service.apply(plan, parts.here, quietly)
        parts.keep("Bake the bread on Sundays with rye flour")
        found = {merge.cluster.others[0].key for merge in parts.plan().merges}
        assert new.key in found

    def test_a_run_of_one_domain_is_none_of_another(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        parts.keep("Bake bread on Sundays", domain=USER)
        parts.run(USER)
        assert [merge.cluster.kept for merge in parts.plan(APP).merges] == [alike[1]]
        assert [merge.cluster.kept for merge in parts.plan().merges] == [alike[1]]


class TestMeaning:
    def test_what_is_new_is_compared_with_what_was_looked_at_before(
        self, parts: Parts, tmp_path: Path
    ) -> None:
        vectors = FlatVectors(tmp_path / "vectors", HashingEmbedder.model)
        service = replace(parts.service, vectors=vectors)
        (vector,) = HashingEmbedder().embed(["what both mean"])

        def keep(words: str) -> Memory:
            saved = parts.keep(words)
            (document,) = memory_documents.from_memory(saved)
            vectors.replace({document.owner: [(document, [vector])]})
            return saved

        old = keep("Store the orders in the PostgreSQL database")
        put_away = keep("Store orders on the PostgreSQL server")
        parts.editor.set_status(put_away, MemoryStatus.ARCHIVED, parts.here)
        service.apply(service.plan(None, full=False, on_progress=quietly), parts.here, quietly)
        new = keep("Orders go to the PostgreSQL server as storage")
        assert parts.plan().merges == ()  # by their words alone
        plan = service.plan(None, full=False, on_progress=quietly)
        assert plan.considered == 1
        assert [merge.cluster for merge in plan.merges] == [Cluster(kept=new, others=(old,))]


class TestApply:
    def test_the_one_that_stays_has_all_tags(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        parts.run()
        older, newer = (parts.stored(each.key) for each in alike)
        assert (older.status, older.superseded_by) == (MemoryStatus.ARCHIVED, newer.id)
        assert (newer.status, newer.superseded_by) == (MemoryStatus.ACTIVE, "")
        assert newer.tags == {"old", "new"}

    def test_what_was_changed_after_the_plan_is_left_alone(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        plan = parts.plan()
        resolved = parts.editor.set_status(alike[0], MemoryStatus.RESOLVED, parts.here)
        parts.service.apply(plan, parts.here, quietly)
        assert parts.stored(alike[0].key) == resolved

    def test_a_forgotten_one_does_not_stop_it(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        parts.keep("Bake bread on Sundays with rye flour")
        parts.keep("Bake the bread on Sundays with rye flour")
        plan = parts.plan()
        assert len(plan.merges) == 2
        gone = parts.editor.apply(
            alike[0].key, parts.here, lambda each: memories.build_tombstone(each, parts.clock.now())
        )
        assert parts.service.apply(plan, parts.here, quietly) == ()
        assert parts.stored(alike[0].key) == gone
        assert parts.service.undo(parts.here) == (1, 0)

    def test_one_that_is_stopped_half_way_can_be_undone(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        others = [
            parts.keep("Bake bread on Sundays with rye flour"),
            parts.keep("Bake the bread on Sundays with rye flour"),
        ]
        plan = parts.plan()

        def stop(_phase: str, done: int, _of: int) -> None:
            if done == 1:
                raise Cancelled

        with pytest.raises(Cancelled):
            parts.service.apply(plan, parts.here, stop)
        everyone = (*alike, *others)
        assert any(parts.stored(each.key).status is MemoryStatus.ARCHIVED for each in everyone)
        parts.service.undo(parts.here)
        assert all(parts.stored(each.key).status is MemoryStatus.ACTIVE for each in everyone)
        assert len(parts.plan().merges) == 2

    def test_a_repository_that_is_gone_does_not_stop_it(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        lost = MemoryLocation(domain=Domain("project:lost"), home=Home("/nowhere/.git"))
        for words in ("Sail to the island at noon", "Sail to the islands at noon"):
            parts.editor.capture.capture(Draft(namespace="decisions", summary=words), lost)
        replies = [written("Sail, or a database"), written("A database, or sail")]
        with parts.with_model(*replies) as (modelled, _):
            plan = modelled.plan()
            assert len(plan.merges) == 2
            (told,) = modelled.service.apply(plan, parts.here, quietly)
        unmerged = list(parts.editor.list_all([lost.domain]))
        assert all(each.id in told for each in unmerged)
        assert "the repository of project:lost is no longer on this machine" in told
        assert [each.status for each in unmerged] == [MemoryStatus.ACTIVE] * 2
        assert {parts.stored(each.key).status for each in alike} == {MemoryStatus.ARCHIVED}
        later = parts.plan()  # it is not forgotten that there is something to do
        assert {merge.cluster.kept.domain for merge in later.merges} == {lost.domain}
        assert not {each.key for each in unmerged} & {
            move.memory.key for move in later.moves if move.before is Tier.ARCHIVED
        }

    def test_words_that_were_forgotten_do_not_stop_it(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        gone = parts.keep("One for both")
        parts.editor.apply(
            gone.key, parts.here, lambda each: memories.build_tombstone(each, parts.clock.now())
        )
        with parts.with_model(written("One for both")) as (modelled, _):
            (told,) = modelled.service.apply(modelled.plan(), parts.here, quietly)
        assert "was forgotten" in told
        assert [parts.stored(each.key) for each in alike] == list(alike)


class TestKilled:
    """Changes can be undone, at whatever write the process is killed."""

    def killed(self, parts: Parts, folder: Path, plan: ConsolidationPlan, writes: int) -> bool:
        dying = built(DyingStore(parts.store, writes), parts.clock, folder)
        try:
            dying.service.apply(plan, parts.here, quietly)
        except Killed:
            return True
        return False

    @pytest.mark.parametrize("wrote", [False, True], ids=["kept", "written"])
    def test_it_can_be_undone(self, tmp_path: Path, wrote: bool) -> None:
        changed = set()
        for writes in range(100):
            with opened() as store:
                parts = built(store, TickingClock(), tmp_path)
                before = [
                    parts.keep(words, tags=frozenset({words[-4:]}))
                    for words in (
                        "Use PostgreSQL as the database of the shop",
                        "Use PostgreSQL as the shop database",
                        "Use PostgreSQL as shop database",
                        "Bake bread on Sundays with rye flour",
                        "Bake the bread on Sundays with rye flour",
                    )
                ]
                with ExitStack() as stack:
                    replies = [written("One for both"), written("Another for both")]
                    asked = stack.enter_context(parts.with_model(*replies))[0] if wrote else parts
                    plan = asked.plan()
                assert len(plan.merges) == 2
                killed = self.killed(parts, tmp_path, plan, writes)
                after = [parts.stored(each.key) for each in before]
                archived = sum(each.status is MemoryStatus.ARCHIVED for each in after)
                changed.add(archived)
                if archived:
                    assert parts.service.undo(parts.here) == (archived, 0)
                else:
                    with suppress(NotFound):
                        parts.service.undo(parts.here)
                for each in before:
                    stored = parts.stored(each.key)
                    assert (stored.status, stored.superseded_by) == (MemoryStatus.ACTIVE, "")
                    assert stored.tags == each.tags
                new = {
                    each.key
                    for each in parts.editor.list_all()
                    if each.status is MemoryStatus.ACTIVE
                }
                assert new == {each.key for each in before}
                assert len(parts.plan().merges) == 2
                with pytest.raises(NotFound):
                    parts.service.undo(parts.here)
            if not killed:
                break
        assert changed == set(range(6 if wrote else 4))

    @pytest.mark.usefixtures("alike")
    def test_before_it_did_anything_the_run_before_is_undone(
        self, parts: Parts, tmp_path: Path
    ) -> None:
        parts.run()
        parts.keep("Bake bread on Sundays with rye flour")
        parts.keep("Bake the bread on Sundays with rye flour")
        assert self.killed(parts, tmp_path, parts.plan(), writes=1)  # once it is written down
        assert parts.service.undo(parts.here) == (1, 0)
        assert len(parts.plan().merges) == 2


class TestUndo:
    def test_everything_is_as_it_was(self, parts: Parts, alike: tuple[Memory, Memory]) -> None:
        parts.run()
        assert parts.service.undo(parts.here) == (1, 0)
        for each in alike:
            stored = parts.stored(each.key)
            assert stored.updated_ms > each.updated_ms  # else it would lose against what was undone
            # Other clones learn which tags were removed again.
            assert replace(stored, updated_ms=each.updated_ms, tag_changes=()) == each
        with pytest.raises(NotFound):
            parts.service.undo(parts.here)
        assert len(parts.plan().merges) == 1  # undone, it counts as not done

    def test_what_was_changed_since_stays(self, parts: Parts, alike: tuple[Memory, Memory]) -> None:
        parts.run()
        restored = parts.editor.set_status(
            parts.stored(alike[0].key), MemoryStatus.ACTIVE, parts.here
        )
        assert parts.service.undo(parts.here) == (0, 1)
        assert parts.stored(alike[0].key) == restored

    def test_one_run_after_the_other(self, parts: Parts, alike: tuple[Memory, Memory]) -> None:
        parts.run()
        bread = [
            parts.keep("Bake bread on Sundays with rye flour"),
            parts.keep("Bake the bread on Sundays with rye flour"),
        ]
        parts.run()
        assert parts.service.undo(parts.here) == (1, 0)
        assert parts.stored(bread[0].key).status is MemoryStatus.ACTIVE
        assert parts.stored(alike[0].key).status is MemoryStatus.ARCHIVED
        assert parts.service.undo(parts.here) == (1, 0)
        assert parts.stored(alike[0].key).status is MemoryStatus.ACTIVE
        with pytest.raises(NotFound):
            parts.service.undo(parts.here)

    def test_a_run_that_changed_no_memory_hides_none(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        parts.run()
        for number in range(30):
            parts.keep(f"Of long ago, {number}", created_ms=Millis(START - 900 * DAY))
            assert parts.run().moves
        assert parts.service.undo(parts.here) == (1, 0)
        assert parts.stored(alike[0].key).status is MemoryStatus.ACTIVE


class TestHistory:
    """Undo of what a person did, where it meets the runs of a consolidation."""

    @pytest.fixture
    def history(self, parts: Parts) -> ChangeHistory:
        capture = parts.editor.capture
        repositories = parts.editor.resolver.repositories
        return ChangeHistory(
            log=StoredChangeLog(parts.store),
            capture=capture,
            editor=parts.editor,
            transfer=Transfer(
                memories=parts.editor.memories, repositories=repositories, capture=capture
            ),
            consolidation=parts.service,
            clock=parts.clock,
        )

    def test_two_who_planned_the_same_undo_one_merge(
        self, parts: Parts, alike: tuple[Memory, Memory], history: ChangeHistory
    ) -> None:
        parts.run()
        bread = parts.keep("Bake bread on Sundays with rye flour")
        parts.keep("Bake the bread on Sundays with rye flour")
        parts.run()
        first, second = history.find_last(), history.find_last()
        history.undo(first.name, parts.here)
        with pytest.raises(InvalidInput, match="another change"):
            history.undo(second.name, parts.here)
        assert parts.stored(bread.key).status is MemoryStatus.ACTIVE
        assert parts.stored(alike[0].key).status is MemoryStatus.ARCHIVED

    def test_a_pair_that_is_merged_and_undone_again_and_again(
        self, parts: Parts, history: ChangeHistory
    ) -> None:
        words = (
            "Use PostgreSQL as the database of the shop",
            "Use PostgreSQL as the shop database",
        )
        pair = [parts.keep(each, tags=frozenset({each[-4:].strip()})) for each in words]
        for _ in range(3):
            done = parts.service.merge(
                [Cluster(kept=parts.stored(pair[0].key), others=(parts.stored(pair[1].key),))],
                parts.here,
                quietly,
            )
            assert len(done.superseded) == 1
            plan = history.undo(history.find_last().name, parts.here)
            assert plan.left == ()
            for each in pair:
                stored = parts.stored(each.key)
                assert (stored.status, stored.tags) == (MemoryStatus.ACTIVE, each.tags)

    def test_looking_at_it_during_a_merge_costs_no_undo(
        self, parts: Parts, alike: tuple[Memory, Memory], history: ChangeHistory
    ) -> None:
        looked: list[str] = []

        def look(phase: str, _done: int, _of: int) -> None:
            with pytest.raises(NotFound):  # it has changed nothing so far
                history.find_last()
            looked.append(phase)

        parts.service.apply(parts.plan(), parts.here, look)
        assert looked == ["merging"]
        plan = history.find_last()
        assert [each.key for each in history.undo(plan.name, parts.here).restored] == [
            each.key for each in plan.restored
        ]
        assert parts.stored(alike[0].key).status is MemoryStatus.ACTIVE


class TestWithAModel:
    def test_what_it_wrote_is_put_away_by_an_undo(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        with parts.with_model(written("One for both", "all")) as (modelled, _):
            plan = modelled.run()
        assert plan.merges[0].written == MergedMemory(summary="One for both", content="all")
        (created,) = [each for each in parts.editor.list_all() if each.summary == "One for both"]
        assert created.tags == {"old", "new"}
        assert {parts.stored(each.key).superseded_by for each in alike} == {created.id}
        parts.service.undo(parts.here)
        assert parts.stored(created.key).status is MemoryStatus.ARCHIVED
        assert {parts.stored(each.key).status for each in alike} == {MemoryStatus.ACTIVE}

    @pytest.mark.usefixtures("alike")
    def test_what_it_wrote_again_is_put_away_again(self, parts: Parts) -> None:
        replies = [written("One for both"), written("One for both")]
        with parts.with_model(*replies) as (modelled, _):
            for _ in range(2):
                modelled.run()
                (created,) = [
                    each for each in parts.editor.list_all() if each.summary == "One for both"
                ]
                assert created.status is MemoryStatus.ACTIVE
                assert parts.service.undo(parts.here) == (2, 0)
                assert parts.stored(created.key).status is MemoryStatus.ARCHIVED

    def test_words_of_one_of_them_keep_that_one(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        older, newer = alike
        with parts.with_model(written(older.summary, older.content)) as (modelled, _):
            modelled.run()
        stored = parts.stored(older.key)
        assert (stored.status, stored.superseded_by) == (MemoryStatus.ACTIVE, "")
        assert parts.stored(newer.key).superseded_by == older.id

    @pytest.mark.parametrize(
        "reply",
        [completion("No."), completion({"summary": "", "content": ""}),
         completion({"summary": "x" * 101, "content": ""}), error(401)],
        ids=["prose", "empty", "long", "refused"],
    )  # fmt: skip
    def test_what_is_of_no_use_is_told_of_and_one_stays(
        self, parts: Parts, alike: tuple[Memory, Memory], reply: Reply
    ) -> None:
        with parts.with_model(reply, reply) as (modelled, _):
            plan = modelled.plan()
        assert [merge.written for merge in plan.merges] == [None]
        assert plan.merges[0].cluster.kept == alike[1]
        assert any("merged summary: the LLM" in each for each in plan.skipped)

    def test_it_is_asked_so_often_and_no_more(self, parts: Parts) -> None:
        names = "abcdefghijklmnopqrstuvwxy"
        for each in names:
            subject = f"{each * 4} {each * 5} {each * 6}"
            parts.keep(f"Paint {subject} blue")
            parts.keep(f"Paint {subject} in blue")
        replies = [written(f"Number {n}") for n in range(len(names))]
        with parts.with_model(*replies) as (modelled, llm):
            plan = modelled.plan()
        assert len(plan.merges) == len(names)
        assert sum(merge.written is not None for merge in plan.merges) == WRITTEN
        assert len(llm.received) == WRITTEN
        assert any(str(WRITTEN) in each for each in plan.skipped)


class TestTiers:
    def test_what_has_become_cold_is_moved_once(self, parts: Parts) -> None:
        old = parts.keep("Of long ago", created_ms=Millis(START - 900 * DAY))
        parts.keep("Of today")
        plan = parts.run()
        assert [(move.memory.key, move.before.value if move.before else "", move.after.value)
                for move in plan.moves] == [(old.key, "hot", "warm")]  # fmt: skip
        assert parts.plan(full=True).moves == ()


class TestConsolidate:
    """Plan, ask, apply: the one use case of every interface."""

    @pytest.mark.parametrize("agreed", [False, True])
    def test_the_plan_is_applied_only_if_it_is_confirmed(
        self, parts: Parts, alike: tuple[Memory, Memory], agreed: bool
    ) -> None:
        plans: list[ConsolidationPlan] = []

        def confirm(plan: ConsolidationPlan) -> bool:
            plans.append(plan)
            return agreed

        outcome = parts.service.consolidate(
            None, parts.here, full=False, confirm=confirm, on_progress=quietly
        )
        assert (outcome.plan, outcome.applied) == (plans[0], agreed)
        status = MemoryStatus.ARCHIVED if agreed else MemoryStatus.ACTIVE
        assert parts.stored(alike[0].key).status is status

    def test_an_empty_plan_needs_no_confirmation(self, parts: Parts) -> None:
        def confirm(_plan: ConsolidationPlan) -> bool:
            raise AssertionError("there is nothing to confirm")

        outcome = parts.service.consolidate(
            None, parts.here, full=False, confirm=confirm, on_progress=quietly
        )
        assert outcome.plan.empty
        assert not outcome.applied

    def test_merges_that_fail_are_added_to_what_was_skipped(
        self, parts: Parts, alike: tuple[Memory, Memory]
    ) -> None:
        gone = parts.keep("One for both")
        parts.editor.apply(
            gone.key, parts.here, lambda each: memories.build_tombstone(each, parts.clock.now())
        )
        with parts.with_model(written("One for both")) as (modelled, _):
            outcome = modelled.service.consolidate(
                None, parts.here, full=False, confirm=lambda _plan: True, on_progress=quietly
            )
        assert outcome.applied
        assert "was forgotten" in outcome.plan.skipped[-1]
        assert [parts.stored(each.key) for each in alike] == list(alike)
