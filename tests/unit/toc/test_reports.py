"""Reports: the items of an agent's final message, each with its kind and its slice."""

import pytest

from agent_memory.features.toc.model import reports
from agent_memory.features.toc.model.reports import ReportItem


def read(text: str, *, worked: bool = True) -> list[str]:
    return [f"{item.kind.word}: {item.text}" for item in reports.read_report(text, worked=worked)]


def check_slices(text: str, items: list[ReportItem]) -> None:
    for item in items:
        words = {word.strip("*|:;,.\u2026").lower() for word in item.text.split()}
        assert words - {""} <= {
            word.strip("*|:;,.").lower() for word in text[item.start : item.end].split()
        } | {"added"}


CHECKOUT = """\
The checkout rewrite is complete.

## Changes

- **Cart**: moved the totals into the server action
- Added gift cards to the payment step
  - with a limit of five per order
- Removed the legacy `/pay` endpoint

## Decisions

- Prices are integers in cents instead of floats

## Known issues

- Safari drops the session cookie in private mode

## Tests

All 128 tests pass.

## Next steps

1. Migrate the saved carts
2. Tell support about gift cards
"""


class TestMarkdown:
    def test_items_have_the_kind_of_their_heading(self) -> None:
        assert read(CHECKOUT) == [
            "finished: The checkout rewrite is complete.",
            "done: Cart: moved the totals into the server action",
            "done: Added gift cards to the payment step",
            "done: Removed the legacy `/pay` endpoint",
            "decided: Prices are integers in cents instead of floats",
            "found: Safari drops the session cookie in private mode",
            "state: All 128 tests pass.",
            "open: Migrate the saved carts",
            "open: Tell support about gift cards",
        ]

    def test_each_slice_stands_in_the_message(self) -> None:
        check_slices(CHECKOUT, reports.read_report(CHECKOUT, worked=True))

    def test_nested_items_are_left_out_if_there_are_enough_others(self) -> None:
        assert not any("limit of five" in item for item in read(CHECKOUT))
        few = "Added gift cards to the cart:\n\n- Cards:\n   - Added a limit of five per order"
        assert any("limit of five" in item for item in read(few))

    def test_a_table_without_its_header_rule_hashes_and_dates(self) -> None:
        text = (
            "Merged the storage stack.\n\n"
            "| Commit | Area | What |\n|--------|:----:|------|\n"
            "| 9f3c2ab | **S3** | Added lifecycle rules | 2026-02-01 |\n"
            "| `1d2e3f4a` | IAM | Removed the wildcard policy | 12:30 |\n"
        )
        assert read(text) == [
            "done: Merged the storage stack.",
            "done: S3: Added lifecycle rules",
            "done: IAM: Removed the wildcard policy",
        ]

    def test_labels_are_headings(self) -> None:
        text = (
            "Added the offline mode to the app.\n\n"
            "**Next steps:**\n- Test on a slow network\n\n"
            "**What changed:**\n- Updated the sync worker\n\n"
            "Not done: conflict resolution for shared lists.\n"
        )
        assert read(text) == [
            "done: Added the offline mode to the app.",
            "open: Test on a slow network",
            "done: Updated the sync worker",
            "open: Not done: conflict resolution for shared lists.",
        ]

    def test_what_is_left_is_open_among_notes_too(self) -> None:
        text = (
            "Fixed the battery drain of the app.\n\n## Notes\n"
            "- The location service asks every second\n- I could not test it on Android 15\n"
        )
        assert read(text)[1:] == [
            "found: The location service asks every second",
            "open: I could not test it on Android 15",
        ]

    def test_code_files_and_commands_are_no_items(self) -> None:
        text = (
            "Added the register allocator.\n\n"
            "```rust\n- let added = fixed;\n```\n"
            "## Files changed\n- `src/regalloc.rs` has the allocator\n"
            "## Usage\n- run cargo bench with the new flag\n"
            "## Summary\n- src/lib.rs, src/ir.rs\n- Spills are now placed before loops\n"
        )
        assert read(text) == [
            "done: Added the register allocator.",
            "done: Spills are now placed before loops",
        ]

    def test_short_prose_is_read_sentence_by_sentence(self) -> None:
        text = (
            "Updated the Airflow DAG so that retries back off. I kept the schedule at 04:00 rather"
            " than moving it. The backfill for May is not done yet. Want me to run it?"
        )
        assert read(text) == [
            "done: Updated the Airflow DAG so that retries back off.",
            "decided: Kept the schedule at 04:00 rather than moving it.",
            "open: The backfill for May is not done yet.",
        ]

    def test_narration_and_questions_are_no_items(self) -> None:
        assert read("Let me look at the chart first. Should I bump the version?") == []


class TestPlansAndExplanations:
    PLAN = (
        "Here is what I'll do:\n\n1. Add a queue table\n2. Move the worker to it\n3. Drop Redis\n"
    )

    def test_a_plan_before_the_work_is_no_deed(self) -> None:
        kinds = {item.kind.word for item in reports.read_report(self.PLAN, worked=False)}
        assert kinds <= {"planned", "note"}

    def test_a_plan_announced_as_such_is_planned_even_after_work(self) -> None:
        kinds = {item.kind.word for item in reports.read_report(self.PLAN, worked=True)}
        assert kinds == {"planned"}

    def test_an_explanation_reports_no_deed(self) -> None:
        text = (
            "## How the scheduler works\n\n- Jobs were moved to a heap in 2.0\n"
            "- The sweep is completed every minute\n- Failed jobs crash the worker\n"
        )
        assert {item.kind.word for item in reports.read_report(text, worked=False)} <= {"note"}

    def test_the_same_words_after_work_are_deeds(self) -> None:
        text = "- Moved jobs to a heap\n- Completed the sweep of old rows\n"
        assert read(text) == [
            "done: Moved jobs to a heap",
            "done: Completed the sweep of old rows",
        ]


class TestCompaction:
    def test_only_what_was_found_and_decided_is_kept(self) -> None:
        text = (
            "Primary Request and Intent:\n- Build the importer\n\n"
            "Errors and fixes:\n- The CSV reader treats a lone quote as the end of the file\n\n"
            "Key decisions:\n- Dates are parsed with the locale of the tenant instead of UTC\n\n"
            "Pending Tasks:\n- Import the orders of last year\n"
        )
        items = [f"{item.kind.word}: {item.text}" for item in reports.read_compaction(text)]
        assert items == [
            "found: The CSV reader treats a lone quote as the end of the file",
            "decided: Dates are parsed with the locale of the tenant instead of UTC",
        ]


class TestLimits:
    def test_at_most_so_many_items(self) -> None:
        text = "\n".join(f"- Added the rule number {n} to the linter" for n in range(40))
        assert len(reports.read_report(text, worked=True)) == reports.MAX_ITEMS
        found = "Findings:\n" + "\n".join(
            f"- The linter does not know rule {n} of the standard" for n in range(40)
        )
        assert len(reports.read_compaction(found)) == reports.MAX_ITEMS

    @pytest.mark.parametrize("mark", [". ", "; ", ", ", " "])
    def test_a_long_item_is_cut_at_the_end_of_a_clause(self, mark: str) -> None:
        text = reports.tidy(mark.join(["Added rules for the tenant"] * 30))
        assert len(text) <= reports.MAX_CHARS + 1
        assert text.endswith("\u2026")
        assert "  " not in text

    def test_a_word_without_end_is_cut(self) -> None:
        assert len(reports.tidy("x" * 1000)) == reports.MAX_CHARS + 1

    def test_a_message_is_read_in_part(self) -> None:
        text = "x" * reports.MAX_READ + "\n- Added the rule to the linter"
        assert reports.read_report(text, worked=True) == []


@pytest.mark.parametrize(
    ("text", "structured"),
    [
        ("# Done", True),
        ("| a | b |", True),
        ("- one\n- two", True),
        ("1. one\n2) two", True),
        ("- one", False),
        ("Plain words.\nAnd more of them.", False),
    ],
)
def test_structure(text: str, structured: bool) -> None:
    assert reports.has_structure(text) is structured
