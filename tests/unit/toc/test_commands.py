"""Commands: what a shell command did, from its words and its output."""

from dataclasses import replace

import pytest

from agent_memory.features.log.model.events import EventType
from agent_memory.features.toc.model import commands
from agent_memory.features.toc.model.commands import Issue
from agent_memory.features.toc.model.highlights import HighlightKind
from agent_memory.features.toc.model.summaries import Utterance
from tests.toc_talk import Talk, run_command


def subjects(utterance: Utterance) -> list[str]:
    return [commit.subject for commit in commands.find_commits(utterance)]


def deeds(utterance: Utterance) -> list[str]:
    return [f"{deed.kind.word}: {deed.text}" for deed in commands.find_effects(utterance)]


HEREDOC = """git add -A && git commit -m "$(cat <<'EOF'
Cache the product page for a minute

The price service cannot take the traffic of a sale.
EOF
)" """


class TestCommits:
    @pytest.mark.parametrize(
        ("command", "subject"),
        [
            ('git commit -m "Retry failed uploads"', "Retry failed uploads"),
            ("git commit -m 'Retry failed uploads'", "Retry failed uploads"),
            ('git commit -am "Retry failed uploads"', "Retry failed uploads"),
            ('git commit -qam "Retry failed uploads"', "Retry failed uploads"),
            ('git commit --message="Retry failed uploads"', "Retry failed uploads"),
            ('git commit --amend -m "Retry failed uploads"', "Retry failed uploads"),
            ('git -C api commit -m "Retry failed uploads"', "Retry failed uploads"),
            ('git -c user.name=ci commit -m "Retry uploads"', "Retry uploads"),
            ('git --no-pager commit -m "Retry uploads"', "Retry uploads"),
            ('cd api && git add . && git commit -m "Retry uploads" && git push', "Retry uploads"),
            ('git commit -m "Say \\"sold out\\" in the cart"', 'Say \\"sold out\\" in the cart'),
            ('git commit -m "Retry uploads\n\nThe bucket is slow."', "Retry uploads"),
            (HEREDOC, "Cache the product page for a minute"),
            (HEREDOC.replace("'EOF'", "EOF"), "Cache the product page for a minute"),
        ],
    )
    def test_the_subject_is_the_first_line_of_the_message(self, command: str, subject: str) -> None:
        utterance = run_command(command)
        (commit,) = commands.find_commits(utterance)
        assert commit.subject == subject
        assert utterance.text[commit.start : commit.end] == subject

    def test_the_output_of_git_counts_before_the_words_of_the_command(self) -> None:
        utterance = run_command(
            'git commit -m "$MESSAGE"',
            "[release/2.1 9f3c2ab] Fold constants in the first pass\n 2 files changed",
        )
        (commit,) = commands.find_commits(utterance)
        assert commit.subject == "Fold constants in the first pass"

    def test_the_first_commit_of_a_repository(self) -> None:
        output = "[main (root-commit) 1234abc] Start the app"
        assert subjects(run_command("git commit -F message.txt", output)) == ["Start the app"]

    def test_several_commits_in_one_command(self) -> None:
        command = 'git commit -m "Move the lexer" && git add b && git commit -m "Move the parser"'
        assert subjects(run_command(command)) == ["Move the lexer", "Move the parser"]

    @pytest.mark.parametrize(
        "utterance",
        [
            run_command('git commit -m "Ship it"', "error: gpg failed to sign", failed=True),
            run_command('git commit -m "Ship it"', "husky: lint failed\nExit code 1"),
            run_command('git commit -m "Ship it"', "Process exited with code 128"),
            run_command("git commit --amend --no-edit"),
            run_command('git log --grep "commit"'),
            run_command('git commit -m ""'),
            replace(run_command('git commit -m "Ship it"'), type=EventType.ASSISTANT_MESSAGE),
        ],
    )
    def test_what_is_no_commit(self, utterance: Utterance) -> None:
        assert subjects(utterance) == []

    def test_a_commit_before_a_push_that_fails_is_a_commit(self) -> None:
        output = "[main 9f3c2ab] Sort the feed\nerror: failed to push\nExit code 1"
        assert subjects(run_command('git commit -m "Sort the feed" && git push', output)) == [
            "Sort the feed"
        ]

    @pytest.mark.parametrize(
        ("subject", "shown"),
        [
            ("feat(cart): add gift cards", "Add gift cards"),
            ("fix!: drop the v1 API", "Drop the v1 API"),
            ("Refactor: split the scheduler", "Split the scheduler"),
            ("add gift cards", "Add gift cards"),
            ("`retry` takes a limit", "`retry` takes a limit"),
            ("Keep the prefix: it names the tenant", "Keep the prefix: it names the tenant"),
            ("Reland the fix: rows are sorted", "Reland the fix: rows are sorted"),
        ],
    )
    def test_a_subject_loses_its_type_only_at_the_start(self, subject: str, shown: str) -> None:
        assert commands.clean_subject(subject) == shown

    def test_a_long_subject_is_cut(self) -> None:
        (subject,) = subjects(run_command(f'git commit -m "{"word " * 100}"'))
        assert len(subject) == commands.MAX_SUBJECT


class TestIssuesAndReleases:
    @pytest.mark.parametrize(
        ("command", "expected"),
        [
            (
                'bd close shop-a1 --reason "Checkout sends one mail. Tests cover the retry."',
                ["done: shop-a1: Checkout sends one mail.", "done: Tests cover the retry."],
            ),
            (
                'gh issue close 41 --comment "The index is rebuilt every night"',
                ["done: #41: The index is rebuilt every night"],
            ),
            (
                "bd close shop-a1.3 -r 'Removed the legacy queue'",
                ["done: shop-a1.3: Removed the legacy queue"],
            ),
            ('bd close shop-a1 --reason ""', []),
            ("bd close shop-a1", []),
        ],
    )
    def test_the_reason_of_a_closed_issue_is_told(self, command: str, expected: list[str]) -> None:
        assert deeds(run_command(command)) == expected

    def test_what_remains_in_a_reason_stays_open(self) -> None:
        command = 'bd close etl-7 --reason "Loads are idempotent. Backfill is not done yet."'
        assert deeds(run_command(command))[1] == "open: Backfill is not done yet."

    @pytest.mark.parametrize(
        ("command", "output", "expected"),
        [
            (
                'gh issue create --title "Cart forgets coupons" --body "..."',
                "https://github.com/acme/shop/issues/87",
                ["open: Filed #87: Cart forgets coupons"],
            ),
            (
                'bd create --title="Vacuum stalls" --priority=1',
                "Created issue: etl-9k2",
                ["open: Filed etl-9k2: Vacuum stalls"],
            ),
            (
                'bd create "Vacuum stalls" -t bug -p 1',
                "Created issue: etl-9k2",
                ["open: Filed etl-9k2: Vacuum stalls"],
            ),
            ('bd create --title "Vacuum stalls"', "", ["open: Filed: Vacuum stalls"]),
            (
                'gh pr create --title "Sort the feed" --body "x"',
                "https://github.com/acme/app/pull/12",
                ["done: Opened pull request: Sort the feed"],
            ),
            ("gh pr merge 12 --squash", "Merged", ["done: Merged pull request 12"]),
            ("gh release create v2.1.0 --notes x", "", ["finished: Released v2.1.0"]),
            ("git tag -a v0.9.0-rc1 -m x", "", ["finished: Released v0.9.0-rc1"]),
            ("git tag --list", "v1.0", []),
            ("gh issue list", "", []),
        ],
    )
    def test_filing_merging_and_releasing(
        self, command: str, output: str, expected: list[str]
    ) -> None:
        assert deeds(run_command(command, output)) == expected

    def test_a_command_that_failed_did_nothing(self) -> None:
        assert deeds(run_command("gh pr merge 12", "not mergeable", failed=True)) == []
        assert deeds(run_command("gh release create v1.0", "HTTP 403\nExit code 1")) == []

    def test_only_shells_run_commands(self) -> None:
        written = Talk().edit("docs/release.md", "gh release create v1.0\ngit commit -m 'Ship'")
        assert deeds(written.said[0]) == []

    def test_the_slice_of_a_deed_says_it(self) -> None:
        utterance = run_command("bd close shop-a1 --reason 'Mails are sent once. No retry left.'")
        parts = [utterance.text[deed.start : deed.end] for deed in commands.find_effects(utterance)]
        assert parts == ["Mails are sent once.", "No retry left."]


class TestTestRuns:
    @pytest.mark.parametrize(
        ("runner", "output", "state"),
        [
            ("pytest", "===== 41 passed in 1.2s =====", "41 tests pass"),
            ("pytest -q", "41 passed, 2 warnings in 1.2s", "41 tests pass"),
            ("pytest", "== 1 failed, 40 passed in 1.2s ==", "1 test fails"),
            ("pytest", "== 3 failed in 1.2s ==", "3 tests fail"),
            ("npx jest", "Tests:       41 passed, 41 total", "41 tests pass"),
            ("npx jest", "Tests:       2 failed, 39 passed, 41 total", "2 tests fail"),
            (
                "npx vitest",
                " Test Files  3 passed (3)\n      Tests  41 passed (41)",
                "41 tests pass",
            ),
            ("npx vitest", "      Tests  1 failed | 40 passed (41)", "1 test fails"),
            ("mix test", "1 doctest, 41 tests, 0 failures", "41 tests pass"),
            ("mix test", "41 tests, 1 failure", "1 test fails"),
            ("mix test", "1 test, 0 failures", "1 test passes"),
            ("cargo test", "test result: ok. 41 passed; 0 failed; 2 ignored", "41 tests pass"),
            ("cargo test", "test result: FAILED. 39 passed; 2 failed; 0 ignored", "2 tests fail"),
            ("npx mocha", "  41 passing (34ms)", "41 tests pass"),
            ("npx mocha", "  40 passing (34ms)\n  1 failing", "1 test fails"),
            ("bundle exec rspec", "41 examples, 0 failures", "41 tests pass"),
            ("bundle exec rspec", "41 examples, 2 failures", "2 tests fail"),
            ("mvn test", "Tests run: 41, Failures: 0, Errors: 0, Skipped: 0", "41 tests pass"),
            ("mvn test", "[INFO] Tests run: 41, Failures: 0, Errors: 0", "41 tests pass"),
            ("mvn test", "[ERROR] Tests run: 41, Failures: 2, Errors: 0", "2 tests fail"),
            ("go test ./...", "ok  \tapi\t0.3s\nok  \tdb\t(cached)", "Tests of 2 packages pass"),
            ("go test .", "ok  \tapi\t0.3s", "Tests of 1 package pass"),
            ("go test .", "--- FAIL: TestLimit (0.00s)\nFAIL\tapi\t0.3s", "1 test fails"),
            ("phpunit", "OK (41 tests, 90 assertions)", "41 tests pass"),
        ],
    )
    def test_the_summary_line_of_a_runner(self, runner: str, output: str, state: str) -> None:
        utterance = run_command(runner, f"collecting\n{output}")
        deed = commands.find_test_state(utterance)
        assert deed is not None
        assert (deed.text, deed.kind) == (state, HighlightKind.STATE)
        assert utterance.text[deed.start : deed.end].strip() in output

    def test_the_last_run_counts(self) -> None:
        deed = commands.find_test_state(run_command("make", "3 failed in 1s\n41 passed in 2s"))
        assert deed is not None
        assert deed.text == "41 tests pass"

    @pytest.mark.parametrize("output", ["all good", "0 errors", "12 files passed lint", "passed"])
    def test_other_output_measures_nothing(self, output: str) -> None:
        assert commands.find_test_state(run_command("make", output)) is None

    def test_a_file_that_was_read_measures_nothing(self) -> None:
        assert commands.find_test_state(Talk().read("ci.log", "41 passed in 2s").said[0]) is None


class TestReferences:
    @pytest.mark.parametrize(
        ("text", "ref"),
        [
            ("Closes #12 and #13", "#12"),
            ("see PAY-481", "PAY-481"),
            ("app-x1y.2: add the map", "app-x1y.2"),
            ("work on shop-4f", "shop-4f"),
            ("(etl-9k2)", "etl-9k2"),
            ("Finish shop-4f.", "shop-4f"),
        ],
    )
    def test_issues_are_references(self, text: str, ref: str) -> None:
        assert commands.find_ref(text) == ref

    @pytest.mark.parametrize(
        "text",
        [
            "utf-8", "UTF-8", "sha-256", "SHA-256", "gpt-4", "GPT-4", "python-3.11", "base-64",
            "ISO-8601", "RFC-7231", "AES-256", "node-20", "src/app-x1y.py", "app-x1y.py",
            "well-known", "re-run", "color #fff", "a-1", "x86-64", "arm-64", "claude-3",
        ],
    )  # fmt: skip
    def test_names_of_encodings_models_and_files_are_not(self, text: str) -> None:
        assert commands.find_ref(text) == ""

    def test_all_references_of_a_text(self) -> None:
        assert commands.find_refs("PAY-1, #2 and app-x1.2, not utf-8") == {
            "PAY-1",
            "#2",
            "app-x1.2",
        }


class TestTaskTitles:
    @pytest.mark.parametrize(
        ("command", "output", "ref", "title"),
        [
            (
                "bd show etl-9k2",
                "etl-9k2: Stop double loads\nStatus: open",
                "etl-9k2",
                "Stop double loads",
            ),
            (
                "bd show etl-9k2",
                "\u25cb etl-9k2 [P1] [bug] \u00b7 Stop double loads",
                "etl-9k2",
                "Stop double loads",
            ),
            (
                "gh issue view 41",
                "title:\tCart forgets coupons\nstate:\tOPEN",
                "#41",
                "Cart forgets coupons",
            ),
            ("jira issue view PAY-7", "Title: Refund twice\n", "PAY-7", "Refund twice"),
        ],
    )
    def test_the_title_of_an_issue_that_a_command_showed(
        self, command: str, output: str, ref: str, title: str
    ) -> None:
        utterance = run_command(command, output)
        assert commands.find_issues([utterance]) == {ref: Issue(ref=ref, title=title)}

    @pytest.mark.parametrize(
        ("command", "output"),
        [
            ("git show HEAD", "commit 123"),
            ("bd show etl-9k2", ""),
            ("bd show etl-9k2", "no such issue"),
            ("gh issue view 41", "title:\nstate: OPEN"),
            ("ls", "title: Cart forgets coupons"),
        ],
    )
    def test_no_title(self, command: str, output: str) -> None:
        assert commands.find_issues([run_command(command, output)]) == {}


class TestTodos:
    def test_finished_items_are_done_and_others_open(self) -> None:
        (talk,) = Talk().list_todos("[x] write the schema", "[~] load rows", "[ ] add docs").said
        todos = [todo for _, todo in commands.read_todos([talk])]
        assert [(todo.text, todo.kind) for todo in todos] == [
            ("write the schema", HighlightKind.DONE),
            ("load rows", HighlightKind.OPEN),
            ("add docs", HighlightKind.OPEN),
        ]
        assert [talk.text[todo.start : todo.end] for todo in todos] == [todo.text for todo in todos]

    def test_a_checklist_in_other_output_is_no_todo_list(self) -> None:
        assert commands.read_todos([run_command("cat notes.md", "[x] write the schema")]) == []

    def test_tasks_are_updated_one_by_one(self) -> None:
        said = [
            ("TaskCreate", "TaskCreate\n[ ] load the rows\nTask #1 created"),
            ("TaskCreate", "TaskCreate\n[ ] add the docs\nTask #2 created"),
            ("TaskUpdate", "TaskUpdate\n[x] #1"),
        ]
        tools = [replace(run_command("x"), tool_name=name, text=text) for name, text in said]
        assert [(place, todo.text, todo.kind) for place, todo in commands.read_todos(tools)] == [
            (0, "load the rows", HighlightKind.DONE),
            (1, "add the docs", HighlightKind.OPEN),
        ]
