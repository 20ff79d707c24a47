"""`memory consolidate`: it finds near-duplicates, merges them with --apply, and undoes that."""

import re
import shutil
import signal
from collections.abc import Iterator
from itertools import count, islice, permutations

import pytest

from tests import git_repositories
from tests.command_runner import Home, wait_until
from tests.contract.scripted_llm import ScriptedLlm, completion, scripted
from tests.memory_commands import MISSING, OK, MemoryCommand, assert_refused

PAIRS = 150
LONG_AGO = b"- {namespace: progress, summary: Long ago, timestamp: 2024-01-30}"

_numbers = count()


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with Home() as found:
        found.serve()
        yield found


@pytest.fixture
def memory(home: Home) -> MemoryCommand:
    return MemoryCommand(
        home, git_repositories.make_repository(home.work / f"app{next(_numbers)}").folder
    )


@pytest.fixture
def alike(memory: MemoryCommand) -> tuple[str, str, str]:
    """Two memories that say the same, the older one first, and one that does not."""
    return (
        memory.capture("decisions", "Use PostgreSQL as the database of the shop", "--tags", "old"),
        memory.capture("decisions", "Use PostgreSQL as the shop database", "--tags", "new"),
        memory.capture("decisions", "Bake bread on Sundays"),
    )


FULL = ("consolidate", "--domain", "project", "--full")


def undo_all(memory: MemoryCommand) -> None:
    """Undo the consolidations of other tests."""
    while (answer := memory("consolidate", "--undo")).code == OK:
        pass
    assert answer.code == MISSING


class TestPlan:
    def test_near_duplicates_are_found(
        self, memory: MemoryCommand, alike: tuple[str, str, str]
    ) -> None:
        older, newer, _ = alike
        found = memory.json(*FULL, "--dry-run")
        assert (found["applied"], found["considered"]) == (False, 3)
        assert found["merges"] == [
            {
                "kept": newer,
                "summary": "Use PostgreSQL as the shop database",
                "superseded": [older],
            }
        ]
        assert any("LLM" in each and "summarizer.provider" in each for each in found["skipped"])
        assert any("embedder.provider" in each for each in found["skipped"])
        text = memory.text(*FULL, "--dry-run")
        assert text.startswith("Compared 3 memories.\n\n")
        assert f"Keep      {newer}  Use PostgreSQL as the shop database\n" in text
        assert f"Supersede {older}  Use PostgreSQL as the database of the shop\n" in text
        assert "Skipped: merged summaries" in text
        assert "Nothing was changed" in text

    def test_a_dry_run_changes_nothing_and_without_a_terminal_nobody_is_asked(
        self, memory: MemoryCommand, alike: tuple[str, str, str]
    ) -> None:
        assert not memory.json(*FULL, "--dry-run")["applied"]
        assert set(memory.recall_ids()) == set(alike)
        assert memory.json(*FULL)["applied"]
        assert set(memory.recall_ids()) < set(alike)

    def test_on_a_terminal_it_asks_first(self, home: Home) -> None:
        memory = MemoryCommand(home, home.work)  # a terminal is opened there
        older = memory.capture("reviews", "The lighthouse stairs need a rail")
        newer = memory.capture("reviews", "The lighthouse stairs need a rail soon")
        words = ("consolidate", "--domain", "project", "--full")
        with home.on_terminal("memory", *words) as screen:
            screen.read_until("Apply this plan? [y/N] ")
            screen.type("n\n")
            assert screen.finish() == OK
        assert set(memory.recall_ids("lighthouse")) == {older, newer}
        with home.on_terminal("memory", *words) as screen:
            screen.read_until("Apply this plan? [y/N] ")
            screen.type("y\n")
            assert screen.finish() == OK
            assert "Applied" in screen.text
        assert memory.recall_ids("lighthouse") == [newer]

    def test_other_figures_and_a_no_say_something_else(self, memory: MemoryCommand) -> None:
        for summary in (
            "Users can delete their own orders",
            "Users can\u2019t delete their own orders",
            "Disable the cache of the weather service",
            "Enable the cache of the weather service",
            "Cache answers of the weather service for 5 minutes",
            "Cache answers of the weather service for 50 minutes",
            "Never cache answers of the weather service for 5 minutes",
        ):
            memory.capture("decisions", summary)
        memory.capture("learnings", "Cache answers of the weather service for 5 minutes")
        assert memory.json(*FULL, "--dry-run")["merges"] == []

    def test_two_projects_are_not_mixed(self, memory: MemoryCommand, home: Home) -> None:
        other = MemoryCommand(
            home, git_repositories.make_repository(home.work / f"app{next(_numbers)}").folder
        )
        for each in (memory, other):
            each.capture("decisions", "Paint the zeppelin in a light blue")
        found = memory.json("consolidate", "--full", "--dry-run")
        assert not any("zeppelin" in each["summary"] for each in found["merges"])

    def test_nothing_to_do(self, memory: MemoryCommand) -> None:
        assert memory.text(*FULL).endswith("\nThere is nothing to consolidate.\n")
        assert not memory.json(*FULL, "--yes")["applied"]


class TestApply:
    def test_what_is_superseded_is_hidden(
        self, memory: MemoryCommand, alike: tuple[str, str, str]
    ) -> None:
        older, newer, other = alike
        text = memory.text(*FULL, "--yes")
        assert text.endswith("\n✓ Applied. To undo the merges, run `memory consolidate --undo`.\n")
        assert memory.recall_ids("postgresql") == [newer]
        assert set(memory.recall_ids()) == {newer, other}
        assert set(memory.recall_ids("postgresql", "--include-archived")) == {older, newer}
        shown = memory.show(older)
        assert (shown["status"], shown["superseded_by"], shown["tier"]) == (
            "archived",
            newer,
            "archived",
        )
        assert memory.show(newer)["tags"] == ["new", "old"]
        assert memory.json(*FULL)["merges"] == []

    def test_undone_everything_is_as_it_was(
        self, memory: MemoryCommand, alike: tuple[str, str, str]
    ) -> None:
        def everything() -> list[dict[str, object]]:
            own = {"updated_at", "activation_count", "last_accessed"}
            return [
                {key: value for key, value in memory.show(name).items() if key not in own}
                for name in alike
            ]

        undo_all(memory)
        before = everything()
        memory.text(*FULL, "--yes")
        memory.text("sync", "--domain", "project")
        assert everything() != before
        assert memory.json("consolidate", "--undo") == {"undone": 1, "left": 0}
        assert everything() == before
        assert set(memory.recall_ids()) == set(alike)
        assert_refused(memory("consolidate", "--undo"), MISSING, "no consolidation")
        memory.text("sync", "--force", "--domain", "project")
        assert everything() == before
        assert memory("status", "--domain", "project", "--verify").code == OK

    def test_what_was_changed_since_is_left_alone(
        self, memory: MemoryCommand, alike: tuple[str, str, str]
    ) -> None:
        older = alike[0]
        memory.text(*FULL, "--yes")
        memory.text("archive", older, "--restore")
        answer = memory("consolidate", "--undo")
        assert (
            answer.text == "✓ Undone: 0 memories restored; 1 memory changed since: left as found\n"
        )
        assert memory.show(older)["status"] == "active"

    def test_undone_twice_the_run_before_is_taken_back_too(
        self, memory: MemoryCommand, alike: tuple[str, str, str]
    ) -> None:
        older, _, other = alike
        undo_all(memory)
        memory.text(*FULL, "--yes")
        again = memory.capture("decisions", "Bake the bread on Sundays")
        memory.text(*FULL, "--yes")
        memory.text("import", given=LONG_AGO)
        assert memory.json(*FULL, "--yes")["moves"]  # no memory was changed by this one
        assert memory.show(other)["superseded_by"] == again
        assert memory.json("consolidate", "--undo") == {"undone": 1, "left": 0}
        assert memory.show(other)["status"] == "active"
        assert memory.show(older)["status"] == "archived"
        assert memory.json("consolidate", "--undo") == {"undone": 1, "left": 0}
        assert memory.show(older)["status"] == "active"
        assert_refused(memory("consolidate", "--undo"), MISSING, "no consolidation")

    def test_only_what_is_new_is_looked_at_unless_told(
        self, memory: MemoryCommand, alike: tuple[str, str, str]
    ) -> None:
        _, newer, _ = alike
        words = ("consolidate", "--domain", "project")
        memory.text(*FULL, "--yes")
        assert memory.json(*FULL, "--dry-run")["considered"] == 2
        memory.text(*words, "--yes")  # the kept one was changed by the first run
        again = memory.capture("decisions", "Use PostgreSQL as shop database")
        found = memory.json(*words, "--dry-run")
        assert found["considered"] < 3
        assert found["merges"][0]["kept"] == again
        assert found["merges"][0]["superseded"] == [newer]

    def test_a_run_of_one_domain_leaves_the_others_to_be_looked_at(
        self, memory: MemoryCommand, home: Home, alike: tuple[str, str, str]
    ) -> None:
        other = MemoryCommand(
            home, git_repositories.make_repository(home.work / f"app{next(_numbers)}").folder
        )
        other.capture("decisions", "Sail to the island with the ferry at noon")
        other.capture("decisions", "Sail to the island with the noon ferry")
        other.text("consolidate", "--domain", "project", "--yes")
        found = memory.json("consolidate", "--domain", "project", "--dry-run")
        assert [each["superseded"] for each in found["merges"]] == [[alike[0]]]


class TestKilled:
    def test_what_it_had_changed_can_be_undone(self) -> None:
        subjects = ["".join(letters) * 2 for letters in islice(permutations("abcdefgh", 3), PAIRS)]
        given = "".join(
            f"- {{namespace: decisions, summary: Paint {each} {each}{each} {words}}}\n"
            for each in subjects
            for words in ("blue", "in blue")
        )
        with Home() as home:
            home.serve()
            memory = MemoryCommand(home, home.work)
            memory.text("import", given=given.encode())
            before = memory.list_ids("--limit", "1000")
            assert len(before) == 2 * PAIRS
            with home.begin("memory", *FULL, "--yes"):
                wait_until(
                    lambda: len(memory.list_ids("--limit", "1000")) < 2 * PAIRS, "some are put away"
                )
                home.stop(signal.SIGKILL)
            home.serve()
            gone = 2 * PAIRS - len(memory.list_ids("--limit", "1000"))
            assert gone > 0
            assert memory.json("consolidate", "--undo") == {"undone": gone, "left": 0}
            assert memory.list_ids("--limit", "1000") == before
            assert_refused(memory("consolidate", "--undo"), MISSING, "no consolidation")


class TestTiers:
    def test_what_has_become_cold_is_told_of(self, memory: MemoryCommand) -> None:
        memory.text("import", given=LONG_AGO)
        found = memory.json(*FULL, "--dry-run")
        (name,) = memory.list_ids()
        assert found["moves"] == [{"id": name, "from": "hot", "to": "cold"}]
        assert re.search(r"\nTiers: 1 becomes cold\n", memory.text(*FULL, "--yes"))
        assert memory.json(*FULL, "--dry-run")["moves"] == []


class TestWithAModel:
    @pytest.fixture
    def llm(self) -> Iterator[ScriptedLlm]:
        merged = {"summary": "Use PostgreSQL for the shop", "content": "* one database"}
        with scripted(completion(merged), completion(merged), completion("No.")) as found:
            yield found

    def test_it_writes_one_in_place_of_many(self, llm: ScriptedLlm) -> None:
        with Home() as home:
            home.settings |= {
                "summarizer.provider": "openai",
                "summarizer.base_url": llm.url,
                "summarizer.model": "scripted",
            }
            memory = MemoryCommand(home, git_repositories.make_repository(home.work / "app").folder)
            words = ("capture", "decisions")
            memory.text(*words, "Use PostgreSQL as the database of the shop", "--tags", "a")
            memory.text(*words, "Use PostgreSQL as the shop database", "--tags", "b")
            before = memory.list_ids()
            plan = memory.json(*FULL, "--dry-run")
            assert plan["merges"] == [
                {
                    "kept": None,
                    "summary": "Use PostgreSQL for the shop",
                    "superseded": plan["merges"][0]["superseded"],
                }
            ]
            assert set(plan["merges"][0]["superseded"]) == set(before)
            asked = llm.received[0].payload["messages"][-1]["content"]
            assert "Use PostgreSQL as the shop database" in asked
            text = memory.text(*FULL, "--yes")
            assert "\nWrite     Use PostgreSQL for the shop\n" in text
            (name,) = memory.recall_ids("postgresql")
            shown = memory.show(name)
            assert (shown["summary"], shown["content"]) == (
                "Use PostgreSQL for the shop",
                "* one database",
            )
            assert shown["tags"] == ["a", "b"]
            assert {memory.show(old)["superseded_by"] for old in before} == {name}
            memory.text("consolidate", "--undo")
            assert memory.list_ids() == before
            assert memory.show(name)["status"] == "archived"
            # A useless answer of the model is reported, and one of the memories stays.
            llm.script.append(completion("No."))
            plan = memory.json(*FULL, "--dry-run")
            assert plan["merges"][0]["kept"] == before[0]
            assert any("LLM" in each for each in plan["skipped"])

    def test_a_project_that_is_gone_is_told_of_and_the_others_are_merged(
        self, llm: ScriptedLlm
    ) -> None:
        with Home() as home:
            home.settings |= {
                "summarizer.provider": "openai",
                "summarizer.base_url": llm.url,
                "summarizer.model": "scripted",
            }
            lost = MemoryCommand(home, git_repositories.make_repository(home.work / "lost").folder)
            memory = MemoryCommand(home, git_repositories.make_repository(home.work / "app").folder)
            for each in (lost, memory):
                each.capture("decisions", "Use PostgreSQL as the database of the shop")
                each.capture("decisions", "Use PostgreSQL as the shop database")
            lost.text("sync", "--domain", "project")
            shutil.rmtree(lost.folder)
            found = memory.json("consolidate", "--yes")
            assert found["applied"]
            (told,) = [each for each in found["skipped"] if "the merge of" in each]
            assert "the repository of project:lost is no longer on this machine" in told
            assert len(memory.list_ids()) == 1
            assert len(memory.json("list", "--domain", "project:lost")["memories"]) == 2
            llm.script.append(completion({"summary": "Use PostgreSQL", "content": ""}))
            text = memory.text("consolidate", "--yes")
            assert re.search(r"\nSkipped: the merge of decisions:.*project:lost", text)
