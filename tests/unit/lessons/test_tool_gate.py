"""What a command, an edit or an error has to do with lessons."""

import pytest

from agent_memory.features.lessons.model.commands import read_commands
from agent_memory.features.lessons.model.errors import find_signatures
from agent_memory.features.lessons.model.lessons import KnownLesson, LessonKind, Trust
from agent_memory.features.lessons.model.outcomes import (
    NO_CALL,
    JudgedCall,
    LessonOutcome,
    judge_command,
    judge_edit,
)
from agent_memory.features.lessons.model.tool_gate import build_tool_gate
from tests.unit.lessons.make_lessons import make_lesson

ERROR = "fatal: could not read from the remote depot\n"
FAILURE = make_lesson(
    "`make stamps` failed: could not read from the remote depot; `vpn up` mended it",
    LessonKind.FAILURE,
    trust=Trust.OUTPUT,
    commands=read_commands("make stamps --all"),
    errors=find_signatures(ERROR),
)
NO_FORCE = make_lesson("never force-push the release branch", commands=("git push",))
NO_MOMENT = make_lesson("use date-fns, not moment", avoids=("moment",))
TABS = make_lesson("no, tabs. always tabs", paths=("viewer/dialogs/about.py",))
DRAWINGS = make_lesson("leave everything under drawings/ alone", paths=("drawings/",))
ALL = (FAILURE, NO_FORCE, NO_MOMENT, TABS, DRAWINGS)


def texts(found: list) -> list[str]:  # type: ignore[type-arg]
    return [each.known.text for each in found]


class TestCommands:
    @pytest.mark.parametrize("command", ["make stamps", "cd /w && make stamps --quick"])
    def test_one_that_failed_before(self, command: str) -> None:
        assert texts(build_tool_gate(ALL).rate_command(command)) == [FAILURE.text]

    @pytest.mark.parametrize("command", ["make", "make labels", "git status", "ls", ""])
    def test_another_one(self, command: str) -> None:
        assert build_tool_gate(ALL).rate_command(command) == []

    def test_one_that_a_rule_names(self) -> None:
        found = build_tool_gate(ALL).rate_command("git push -f origin release")
        assert texts(found) == [NO_FORCE.text]

    def test_a_forbidden_word(self) -> None:
        assert texts(build_tool_gate(ALL).rate_command("npm add moment")) == [NO_MOMENT.text]

    def test_all_words_of_what_is_forbidden(self) -> None:
        rule = make_lesson("no night shifts, they are too dear", avoids=("night shift",))
        gate = build_tool_gate([rule])
        assert gate.rate_command("plan --night") == []
        assert texts(gate.rate_command("plan --shift night")) == [rule.text]

    def test_a_name_that_few_lessons_have(self) -> None:
        moved = make_lesson("depot-north.example is gone, it is depot-2 now", LessonKind.FACT)
        found = build_tool_gate([moved]).rate_command("curl -s http://depot-north.example/x")
        assert texts(found) == [moved.text]
        many = [make_lesson(f"depot-north.example has gate {n}", LessonKind.FACT) for n in range(9)]
        assert build_tool_gate(many).rate_command("curl http://depot-north.example/x") == []

    @pytest.mark.parametrize("command", ["rm -rf drawings/bay", "sed -i s/a/b/ /w/drawings/x.dxf"])
    def test_a_command_on_a_path_that_a_rule_names(self, command: str) -> None:
        assert texts(build_tool_gate(ALL).rate_command(command, "/w")) == [DRAWINGS.text]

    @pytest.mark.parametrize(
        "command",
        [
            "cat docs/why-not-moment.md",
            "git log --grep moment",
            "npm uninstall moment",
            "git commit -m 'remove moment'",
            "ls drawings/bay",
        ],
    )
    def test_what_only_shows_or_removes_goes_against_no_rule(self, command: str) -> None:
        assert build_tool_gate(ALL).rate_command(command, "/w") == []

    def test_decisions_are_not_about_commands(self) -> None:
        decided = make_lesson("push by hand", LessonKind.DECISION, commands=("git push",))
        assert build_tool_gate([decided]).rate_command("git push") == []


class TestEdits:
    def test_a_file_in_a_folder_that_a_rule_names(self) -> None:
        found = build_tool_gate(ALL).rate_edit(["/w/drawings/bay/roof.dxf"], "", "/w")
        assert texts(found) == [DRAWINGS.text]

    def test_a_file_beside_that_where_a_rule_was_set(self) -> None:
        found = build_tool_gate(ALL).rate_edit(["/w/viewer/dialogs/export.py"], "", "/w")
        assert texts(found) == [TABS.text]

    def test_what_an_agent_said_is_not_about_files_beside(self) -> None:
        found = make_lesson("tabs here", trust=Trust.AGENT, paths=("viewer/dialogs/about.py",))
        gate = build_tool_gate([found])
        assert gate.rate_edit(["/w/viewer/dialogs/export.py"], "", "/w") == []

    def test_a_folder_with_a_name_of_its_own(self) -> None:
        frozen = make_lesson("till-legacy is frozen until the audit is over")
        found = build_tool_gate([frozen]).rate_edit(["/w/apps/till-legacy/a.js"], "", "/w")
        assert texts(found) == [frozen.text]

    def test_what_is_written(self) -> None:
        found = build_tool_gate(ALL).rate_edit(["/w/a.ts"], 'import x from "moment/min"', "/w")
        assert texts(found) == [NO_MOMENT.text]

    def test_to_read_a_file_beside_says_nothing(self) -> None:
        gate = build_tool_gate(ALL)
        assert gate.rate_files(["/w/viewer/dialogs/export.py"], "/w") == []
        assert texts(gate.rate_files(["/w/viewer/dialogs/about.py"], "/w")) == [TABS.text]

    def test_another_file(self) -> None:
        assert build_tool_gate(ALL).rate_edit(["/w/main.py"], "a = 1", "/w") == []


class TestFailures:
    def test_the_same_error_of_another_command(self) -> None:
        assert texts(build_tool_gate(ALL).rate_failure(f"running\n{ERROR}")) == [FAILURE.text]

    def test_another_error(self) -> None:
        assert build_tool_gate(ALL).rate_failure("fatal: the disk is not there") == []


def test_what_was_replaced_is_not_given() -> None:
    old = make_lesson("push on Fridays", commands=("git push",), superseded_by="new")
    assert build_tool_gate([old]).rate_command("git push") == []


def judge(
    known: KnownLesson, command: str, output: str = "", before: str = "", *, failed: bool = False
) -> LessonOutcome | None:
    """Judge a lesson, given before a command if any, by a command that has run."""
    given_for, ran = JudgedCall(command=before), JudgedCall(command=command)
    return judge_command(known.lesson, given_for, ran, output, failed=failed)


class TestOutcomes:
    def test_a_command_that_passes_now(self) -> None:
        assert judge(FAILURE, "make stamps", "done") is LessonOutcome.HEEDED

    def test_the_same_failure_again(self) -> None:
        assert judge(FAILURE, "make labels", ERROR, failed=True) is LessonOutcome.REPEATED

    def test_another_command_says_nothing(self) -> None:
        assert judge(FAILURE, "ls", "a b") is None
        assert judge(FAILURE, "ls", "no such file", failed=True) is None

    def test_a_command_with_what_a_rule_forbids(self) -> None:
        assert judge(NO_MOMENT, "npm add moment") is LessonOutcome.REPEATED
        assert judge(NO_MOMENT, "npm add moment", failed=True) is LessonOutcome.REPEATED

    @pytest.mark.parametrize("command", ["grep -r moment src", "npm uninstall moment", "ls"])
    def test_a_command_that_uses_nothing(self, command: str) -> None:
        assert judge(NO_MOMENT, command, before="npm add moment") is None

    def test_a_command_without_it_where_the_rule_was_given_for_such_a_one(self) -> None:
        before = "npm add moment"
        assert judge(NO_MOMENT, "npm add date-fns", before=before) is LessonOutcome.HEEDED
        assert judge(NO_MOMENT, "npm add date-fns", before=before, failed=True) is None
        assert judge(NO_MOMENT, "npm add date-fns") is None  # given at the start
        assert judge(NO_MOMENT, "npm test", before=before) is None

    def test_an_edit_with_and_without_what_a_rule_forbids(self) -> None:
        bad, good = 'import moment from "moment"', 'import { format } from "date-fns"'
        here, there = JudgedCall(files=("/w/a.ts",)), JudgedCall(files=("/w/b.ts",))
        assert judge_edit(NO_MOMENT.lesson, NO_CALL, here, bad) is LessonOutcome.REPEATED
        assert judge_edit(NO_MOMENT.lesson, here, here, good) is LessonOutcome.HEEDED
        assert judge_edit(NO_MOMENT.lesson, there, here, good) is None
        assert judge_edit(NO_MOMENT.lesson, NO_CALL, here, good) is None
        assert judge_edit(TABS.lesson, here, here, good) is None
