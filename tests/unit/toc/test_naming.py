"""Naming: the title of a segment is a phrase, from the best that a conversation has."""

import pytest

from agent_memory.features.log.model.events import EventRole
from agent_memory.features.toc.model import extracting, naming, statements
from tests.toc_talk import Talk


def title(talk: Talk) -> str | None:
    return extracting.summarize(talk.said).title


class TestWork:
    def test_the_users_title_wins_over_the_agents_and_the_request(self) -> None:
        talk = Talk().ask("Move the timers to a heap").edit("sched/timers.rs")
        assert title(talk) == "Move the timers to a heap"
        talk.name("Heap timers for the scheduler")
        assert title(talk) == "Heap timers for the scheduler"
        talk.name("Timer work", "user").name("Scheduler refactoring")
        assert title(talk) == "Timer work"

    def test_the_last_title_of_the_agent_counts(self) -> None:
        talk = Talk().name("First guess").edit("a.py").name("Rename the timer module")
        assert title(talk) == "Rename the timer module"

    @pytest.mark.parametrize(
        ("prompt", "expected"),
        [
            ("Could you please add a map to the store finder?", "Add a map to the store finder?"),
            ("I want you to drop the v1 endpoints.", "Drop the v1 endpoints"),
            ("ok, now help me speed up the nightly build", "Speed up the nightly build"),
            ("let's port the shader compiler to Vulkan!", "Port the shader compiler to Vulkan"),
        ],
    )
    def test_a_request_without_courtesy(self, prompt: str, expected: str) -> None:
        assert title(Talk().ask(prompt).edit("a.py")) == expected

    def test_the_issue_that_a_request_names(self) -> None:
        talk = (
            Talk()
            .ask("please fix #41")
            .run("gh issue view 41", "title:\tCart forgets coupons\nstate:\tOPEN")
            .edit("cart.ts")
        )
        assert title(talk) == "Cart forgets coupons (#41)"

    def test_a_commit_if_the_prompt_only_says_to_go_on(self) -> None:
        talk = Talk().ask("continue").edit("a.rs").run('git commit -m "feat: inline small calls"')
        assert title(talk) == "Inline small calls"

    def test_the_files_if_nothing_else_is_known(self) -> None:
        assert title(Talk().ask("yes").edit("infra/vpc.tf")) == "Work on vpc.tf"
        assert title(Talk().ask("yes").read("a.tf").read("b.tf")) == "Look into a.tf and b.tf"
        many = Talk().ask("yes").edit("a.tf").edit("b.tf").edit("c.tf")
        assert title(many) == "Work on a.tf and 2 more files"

    def test_nothing_to_name(self) -> None:
        assert title(Talk().ask("ok").run("ls", "a.tf")) == "Ok"
        assert title(Talk().run("ls", "a.tf")) is None


class TestChats:
    def test_people_who_talk_and_their_topics(self) -> None:
        said = statements.read_statements(
            Talk().ask("The regatta starts in Kiel.").ask("Our mast broke near Fehmarn.").said
        )
        assert naming.name_chat(said, ["regatta", "Kiel", "mast"], ["Ana", "Bo"]) == (
            "Ana and Bo on regatta, Kiel and mast"
        )

    def test_nothing_said_has_no_title(self) -> None:
        assert naming.name_chat([], ["regatta"], []) is None
        assert naming.name_chat([], [], []) is None

    def test_a_question_without_tools_is_the_title(self) -> None:
        talk = (
            Talk().ask("How do CRDTs merge two lists?").say("They order elements by identifiers.")
        )
        assert talk.said[0].role is EventRole.USER
        assert title(talk) == "How do CRDTs merge two lists?"


class TestLength:
    LONG = (
        "Rewrite the nightly export of the warehouse so that it writes Parquet files, keeps the"
        " partitions of the source tables, and alerts the data team when a table is late"
    )

    def test_a_long_title_ends_where_a_part_ends(self) -> None:
        assert naming.shorten(self.LONG) == (
            "Rewrite the nightly export of the warehouse so that it writes Parquet files"
        )

    @pytest.mark.parametrize(
        "text",
        [LONG, "x" * 500, "word " * 100, "a, " * 100, "(" * 200, "Fix the (" + "b c " * 50 + ")"],
    )
    def test_a_title_is_never_too_long(self, text: str) -> None:
        assert len(naming.shorten(text)) <= naming.MAX_TITLE + 1
        talk = Talk().name(text, "user").edit("a.py")
        assert len(title(talk) or "") <= naming.MAX_TITLE + 1

    def test_a_long_title_of_an_issue_keeps_its_reference(self) -> None:
        talk = (
            Talk()
            .ask("work on etl-9k2")
            .run("bd show etl-9k2", f"etl-9k2: {self.LONG}")
            .edit("a.py")
        )
        shown = title(talk) or ""
        assert shown.endswith("(etl-9k2)")
        assert len(shown) <= naming.MAX_TITLE + 1

    def test_a_cut_list_ends_as_a_list(self) -> None:
        text = (
            "Add filters for color, size, brand, price, material, season, rating, stock, shipping"
        )
        assert naming.shorten(text, 40) == "Add filters for color, size and brand"

    def test_a_clause_is_no_item_of_a_list(self) -> None:
        text = "Riders say that the app drains the phone, can you find out why and fix it today"
        assert naming.shorten(text, 70) == (
            "Riders say that the app drains the phone, can you find out why"
        )
