"""Outcomes: the bullets of a stretch of work, by kind, without what did not last."""

from collections.abc import Callable

import pytest

from agent_memory.features.toc.model import extracting, outcomes
from agent_memory.features.toc.model.highlights import HighlightKind
from agent_memory.features.toc.model.summaries import Summary
from tests.toc_talk import Talk, show_points


def summarize(talk: Talk) -> Summary:
    return extracting.summarize(talk.said)


def find(summary: Summary, kind: HighlightKind) -> list[str]:
    return [point.text for point in summary.points if point.kind is kind]


def fix_coupons() -> Talk:
    """A web shop; Claude Code with a report in Markdown."""
    return (
        Talk()
        .ask("The checkout page forgets coupons when the customer goes back. Please fix it.")
        .say("I'll look at the cart store first.")
        .read("web/cart/store.ts", "export const store = create()")
        .say("Found it. The coupon lives in the query string, and the back button drops it.")
        .edit("web/cart/store.ts", "coupon: string")
        .run("npm test", "Tests:       2 failed, 39 passed, 41 total", failed=True)
        .run("npm test -- -u", "Tests:       41 passed, 41 total")
        .run(
            'git commit -am "fix(cart): keep coupons in the cart store"',
            "[main 9f3c2ab] fix(cart): keep coupons in the cart store",
        )
        .say(
            "Coupons survive going back to the cart now.\n\n"
            "- Moved the coupon from the query string into the cart store\n"
            "- All 42 tests pass\n\n"
            "**Next steps:**\n- Show expired coupons in grey\n"
        )
    )


def load_orders() -> Talk:
    """A data pipeline; only prompts, commands and the final message are recorded."""
    return (
        Talk()
        .ask("work on etl-9k2")
        .run("bd show etl-9k2", "etl-9k2: Stop double loads of the orders table\nStatus: open")
        .edit("dags/orders.py")
        .run("pytest -q", "41 passed in 2s")
        .run('bd close etl-9k2 --reason "Loads use MERGE on the order id."')
        .ask("yes")
        .say("etl-9k2 is complete and pushed.")
    )


def explain_lexer() -> Talk:
    """A compiler; Codex in short prose, and nothing is changed."""
    return (
        Talk()
        .ask("why does the lexer reject tabs in string literals")
        .run("rg tab src/lexer.rs", "src/lexer.rs:41: '\\t' => Err(Control)")
        .say("The lexer rejects a tab because `is_control` comes before the quote state.")
    )


TALKS: list[Callable[[], Talk]] = [fix_coupons, load_orders, explain_lexer]


class TestBullets:
    def test_a_task_is_told_from_the_request_to_what_is_left(self) -> None:
        assert show_points(summarize(fix_coupons())) == [
            "asked: Asked: The checkout page forgets coupons when the customer goes back.",
            "found: The coupon lives in the query string, and the back button drops it.",
            "found: `npm test` failed; `npm test -- -u` worked",
            "done: Keep coupons in the cart store",
            "done: Coupons survive going back to the cart now.",
            "done: Moved the coupon from the query string into the cart store",
            "state: All 42 tests pass",
            "open: Show expired coupons in grey",
        ]

    def test_an_issue_is_told_by_its_title_and_by_how_it_was_closed(self) -> None:
        assert show_points(summarize(load_orders())) == [
            "asked: Asked: Stop double loads of the orders table (etl-9k2)",
            "state: 41 tests pass",
            "done: etl-9k2: Loads use MERGE on the order id.",
            "finished: etl-9k2 is complete and pushed.",
        ]

    def test_an_explanation_is_a_finding(self) -> None:
        assert show_points(summarize(explain_lexer())) == [
            "asked: Asked: Why does the lexer reject tabs in string literals",
            "found: The lexer rejects a tab because `is_control` comes before the quote state.",
        ]

    @pytest.mark.parametrize("talk", TALKS)
    def test_every_excerpt_stands_verbatim_in_its_event(self, talk: Callable[[], Talk]) -> None:
        said = talk().said
        texts = {utterance.event_id: utterance.text for utterance in said}
        for point in extracting.summarize(said).points:
            assert point.support
            for support in point.support:
                assert support.excerpt in texts[support.event_id]

    @pytest.mark.parametrize("talk", TALKS)
    def test_the_same_conversation_gives_the_same_bullets(self, talk: Callable[[], Talk]) -> None:
        assert summarize(talk()) == summarize(talk())

    def test_never_more_than_the_limit(self) -> None:
        talk = Talk().ask("Write the linter rules of the style guide").edit("lint/rules.py")
        for number in range(20):
            talk.run(
                f'git commit -m "Check rule {number} of chapter {number * 7} for loops{number}"'
            )
        items = "\n".join(f"- Added checker{n} for symbol{n} in module{n}" for n in range(20))
        with_report = (
            Talk().ask("Write the linter rules").edit("lint/a.py").say(f"Done.\n\n{items}")
        )
        assert len(summarize(talk).points) <= outcomes.MAX_POINTS
        assert len(summarize(with_report).points) == outcomes.MAX_REPORTED

    def test_headings_of_a_report_are_no_key_phrases(self) -> None:
        report = "## Verification\n\n- Fixed the battery drain of the location service\n- Ok\n"
        summary = summarize(Talk().ask("Fix the battery drain").edit("a.kt").say(report))
        assert "verification" not in {word.lower() for word in summary.keywords}


class TestRequests:
    def test_each_prompt_is_asked_once(self) -> None:
        talk = (
            Talk()
            .ask("Add dark mode to the settings screen. It should follow the system theme.")
            .edit("app/Settings.kt")
            .ask("go on")
            .edit("app/Theme.kt")
            .ask("Translate the onboarding slides into Portuguese.")
            .edit("app/Onboarding.kt")
        )
        assert find(summarize(talk), HighlightKind.ASKED) == [
            "Asked: Add dark mode to the settings screen.",
            "Asked: Translate the onboarding slides into Portuguese.",
        ]

    def test_a_choice_of_the_user_is_a_decision(self) -> None:
        talk = (
            Talk()
            .ask("Upgrade the staging cluster to Kubernetes 1.31")
            .run("terraform apply", "Error: timeout while waiting for node pool", failed=True)
            .ask("Set maxUnavailable to 1 instead of deleting the budget.")
            .edit("infra/pdb.yaml")
        )
        assert find(summarize(talk), HighlightKind.DECIDED) == [
            "Set maxUnavailable to 1 instead of deleting the budget."
        ]

    def test_the_first_prompt_of_a_session_is_asked_even_if_it_chooses(self) -> None:
        talk = Talk().ask("Make the scheduler use a heap instead of a sorted list.").edit("a.rs")
        assert find(summarize(talk), HighlightKind.ASKED) == [
            "Asked: Make the scheduler use a heap instead of a sorted list."
        ]
        later = Talk().ask("Use a pairing heap instead of a binary heap.").edit("b.rs")
        summary = extracting.summarize(later.said, talk.said)
        assert find(summary, HighlightKind.DECIDED) == [
            "Use a pairing heap instead of a binary heap."
        ]


class TestLastWord:
    def test_only_the_last_measurement_is_shown(self) -> None:
        talk = (
            Talk()
            .ask("Make the flaky upload tests pass")
            .run("pytest -q", "7 failed, 34 passed in 3s", failed=True)
            .edit("upload/client.py")
            .run("pytest -q tests", "1 failed, 40 passed in 3s", failed=True)
            .edit("upload/client.py")
            .run("pytest -q .", "41 passed in 3s")
        )
        assert find(summarize(talk), HighlightKind.STATE) == ["41 tests pass"]

    def test_a_finding_that_was_corrected_is_gone(self) -> None:
        talk = (
            Talk()
            .ask("Find out why push notifications arrive twice")
            .read("app/Push.kt")
            .say("The token request does not wait for the login.")
            .read("app/Main.kt")
            .say("Actually, the token request waits for the login; the server pushes per group.")
            .run("rg group server", "server/push.go:12: for g in groups")
        )
        assert find(summarize(talk), HighlightKind.FOUND) == [
            "The token request waits for the login; the server pushes per group."
        ]

    def test_a_command_that_failed_and_then_worked(self) -> None:
        talk = (
            Talk()
            .ask("Build the docs of the SDK")
            .run("npm run docs", "error: Missing script: docs", failed=True)
            .run("npm run build:docs", "built in 3 s")
        )
        assert find(summarize(talk), HighlightKind.FOUND) == [
            "`npm run docs` failed (Missing script: docs); `npm run build:docs` worked"
        ]

    def test_the_same_command_that_works_again_teaches_nothing(self) -> None:
        talk = (
            Talk()
            .ask("Build the docs of the SDK")
            .run("npm run docs", "error: network is unreachable", failed=True)
            .run("npm run docs", "built in 3 s")
        )
        assert not any("worked" in text for text in find(summarize(talk), HighlightKind.FOUND))


class TestLittleToSay:
    def test_reading_alone_says_which_files(self) -> None:
        talk = Talk().ask("ok").read("infra/vpc.tf").read("infra/dns.tf")
        assert show_points(summarize(talk)) == ["note: Read vpc.tf and dns.tf"]

    def test_many_files_are_counted(self) -> None:
        talk = Talk().ask("ok")
        for name in ("vpc", "dns", "iam", "s3", "rds"):
            talk.edit(f"infra/{name}.tf")
        assert show_points(summarize(talk)) == ["note: Changed vpc.tf, dns.tf and 3 more files"]

    def test_plans_of_the_agent_are_no_files(self) -> None:
        talk = Talk().ask("ok").read("/home/dev/.claude/plans/a.md").read("infra/dns.tf")
        assert show_points(summarize(talk)) == ["note: Read the file dns.tf"]

    def test_a_todo_list_tells_what_was_done_without_a_report(self) -> None:
        talk = (
            Talk()
            .ask("Add offline mode to the notes app")
            .list_todos("[ ] cache notes in SQLite", "[ ] resolve sync conflicts")
            .edit("app/Cache.swift")
            .list_todos("[x] cache notes in SQLite", "[ ] resolve sync conflicts")
        )
        assert show_points(summarize(talk)) == [
            "asked: Asked: Add offline mode to the notes app",
            "done: Cache notes in SQLite",
            "open: Resolve sync conflicts",
        ]


class TestAnswers:
    def test_the_answer_that_ends_a_turn_is_told_in_any_language(self) -> None:
        talk = Talk().ask("Bitte stelle die Waage auf Gramm um.").edit("waage.py", "g = 1")
        summary = summarize(talk.say("Die Waage zeigt Gramm. Das Display rundet auf ganze Gramm."))
        assert find(summary, HighlightKind.FOUND) == [
            "Die Waage zeigt Gramm.",
            "Das Display rundet auf ganze Gramm.",
        ]

    def test_what_the_agent_says_before_it_goes_on_is_no_answer(self) -> None:
        talk = Talk().ask("Set the scale to grams.").edit("scale.py", "g = 1")
        talk = talk.say("The display rounds to whole grams.")
        cut = extracting.summarize(talk.said, is_cut=True)
        assert "The display rounds to whole grams." not in find(cut, HighlightKind.FOUND)

    def test_a_user_who_says_that_it_still_fails_is_believed(self) -> None:
        summary = summarize(
            Talk()
            .ask("Fix the crash of the map on resume.")
            .edit("Map.kt", "map?.resume()")
            .say("Fixed the crash of the map on resume.")
            .ask("It still crashes on my phone when I resume the map.")
        )
        assert find(summary, HighlightKind.BROKEN) == [
            "It still crashes on my phone when I resume the map."
        ]
        assert [point.corrects for point in summary.points][-1]
