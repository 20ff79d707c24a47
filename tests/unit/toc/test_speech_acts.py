"""Speech acts: what a sentence of an agent does, and how it is shown."""

import pytest

from agent_memory.features.log.model.events import EventRole
from agent_memory.features.toc.model import speech_acts
from agent_memory.features.toc.model.act_cues import Act
from agent_memory.features.toc.model.highlights import HighlightKind

ASKED, PLANNED, FINISHED = HighlightKind.ASKED, HighlightKind.PLANNED, HighlightKind.FINISHED
DONE, DECIDED, FOUND = HighlightKind.DONE, HighlightKind.DECIDED, HighlightKind.FOUND
BROKEN, OPEN, STATE, NOTE = (
    HighlightKind.BROKEN,
    HighlightKind.OPEN,
    HighlightKind.STATE,
    HighlightKind.NOTE,
)


class TestSilence:
    @pytest.mark.parametrize(
        "text",
        [
            "Let me look at the checkout controller.",
            "Let's run the migration on the staging database.",
            "I'll start with the tokenizer.",
            "I\u2019ll start with the tokenizer.",
            "I will add a retry to the uploader.",
            "I'm going to bisect the regression.",
            "I need to see the Terraform state first.",
            "I should check the Gradle version.",
            "Now let me wire the reducer.",
            "Now I'll update the snapshot tests.",
            "Next, the push notifications.",
            "First, the schema.",
            "Checking the lock file.",
            "Running the integration tests.",
            "Reading the Helm chart.",
            "Still waiting for the emulator.",
            "Here's the plan for the importer.",
            "Would you like me to open a pull request?",
            "Shall I delete the old bucket?",
            "Is the flag read at startup?",
            "\u8fd9\u6837\u53ef\u4ee5\u5417\uff1f",
            "Add an index on orders.customer_id.",
            "Check whether the cache is warm.",
            "Replace the regex with a real parser.",
            "Here are the changes:",
            "You're right.",
            "Got it.",
            "Thanks!",
            "Good, let me commit this.",
            "The queue is empty, so let me look at the worker.",
            "",
            "**",
        ],
    )
    def test_narration_questions_plans_and_imperatives_are_silent(self, text: str) -> None:
        assert speech_acts.classify(text).kind is None


class TestKinds:
    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("I've added a retry to the uploader.", DONE),
            ("Fixed the race between the two consumers.", DONE),
            ("The legacy exporter is gone.", DONE),
            ("The staging cluster runs 1.31 now.", DONE),
            ("The login fails now.", BROKEN),
            ("The gift card form now validates the code.", DONE),
            ("Right now users see a blank page.", NOTE),
            ("The root cause of the failing build is a stale lock file.", FOUND),
            ("The cart no longer forgets coupons.", DONE),
            ("Renamed the module and its tests.", DONE),
            ("The epic is complete and pushed.", FINISHED),
            ("All five tasks are done.", FINISHED),
            ("#41 is closed.", FINISHED),
            ("`shop-x1y.2` is complete and pushed.", FINISHED),
            ("The checkout rewrite is complete.", FINISHED),
            ("The migration to Postgres 16 is finished.", FINISHED),
            ("I'll keep the old endpoint until the mobile app is updated.", DECIDED),
            ("We decided to shard by tenant.", DECIDED),
            ("The scheduler uses a heap instead of a sorted list.", DECIDED),
            ("Sessions live in Redis rather than in cookies.", DECIDED),
            ("The root cause is a stale DNS entry in the sidecar.", FOUND),
            ("It turned out that the emulator has no GPU.", FOUND),
            ("The crash was caused by a null avatar.", FOUND),
            ("Spark reads the partition column as a string because the schema is inferred.", FOUND),
            ("The linker requires the symbol to be exported.", FOUND),
            ("The billing job only works with UTC dates.", FOUND),
            ("The build fails on Windows.", BROKEN),
            ("The deploy timed out after ten minutes.", BROKEN),
            ("The `orders` topic is missing.", BROKEN),
            ("The permission for the bucket was denied.", BROKEN),
            ("The Android tests are still to do.", OPEN),
            ("I could not test it on Android 15.", OPEN),
            ("I haven't run the load tests.", OPEN),
            ("The backfill for May is not done yet.", OPEN),
            ("Rate limiting is out of scope for now.", OPEN),
            ("You need to rotate the signing key yourself.", OPEN),
            ("The dashboard is blocked by the missing metrics.", OPEN),
            ("All 41 tests pass.", STATE),
            ("412 tests, 0 failures.", STATE),
            ("The type checker is clean and mypy passes.", STATE),
            ("3 of 41 tests fail.", STATE),
            ("0 errors and 2 warnings, the build is green.", STATE),
            ("The parser is a recursive descent parser.", NOTE),
        ],
    )
    def test_a_statement_has_its_kind(self, text: str, kind: HighlightKind) -> None:
        assert speech_acts.classify(text).kind is kind

    @pytest.mark.parametrize(
        "text",
        [
            "This might be a timezone problem.",
            "The cache is probably stale.",
            "It looks like the worker is stuck.",
            "The upload should work now.",
            "Perhaps the index is missing.",
            "I suspect nothing but the cache could be wrong.",
            "Not sure why the job fails.",
            "CI should be green in a few minutes.",
        ],
    )
    def test_a_hedged_statement_is_only_a_note(self, text: str) -> None:
        assert speech_acts.classify(text).kind is NOTE

    @pytest.mark.parametrize(
        "text",
        [
            "The schema is not updated yet.",
            "The image must be rebuilt.",
            "It works once the token is added.",
            "The queue will be removed.",
            "The plugin should be upgraded.",
        ],
    )
    def test_what_is_not_done_is_not_told_as_done(self, text: str) -> None:
        assert speech_acts.classify(text).kind not in (DONE, FINISHED)

    @pytest.mark.parametrize("text", ["That is done.", "It passes all 41 tests.", "This is fixed."])
    def test_a_deed_without_a_subject_is_a_note(self, text: str) -> None:
        assert speech_acts.classify(text).kind is NOTE

    def test_tests_that_were_written_are_done_and_no_measurement(self) -> None:
        assert speech_acts.classify("Added 12 tests that pass a broken header.").kind is not STATE

    def test_a_failure_with_its_reason_is_broken(self) -> None:
        text = "4 tests fail because the fixture has no locale."
        assert speech_acts.classify(text).kind is BROKEN

    @pytest.mark.parametrize(
        "text",
        [
            "Der Import l\u00e4uft jetzt jede Nacht um drei Uhr.",
            "Le panier garde maintenant les bons de r\u00e9duction.",
            "\u6211\u4eec\u628a\u7f13\u5b58\u79fb\u5230\u4e86\u65b0\u7684\u670d\u52a1\u5668\u3002",
            "El servidor de pagos no responde desde ayer.",
        ],
    )
    def test_another_language_is_a_note_and_not_dropped(self, text: str) -> None:
        assert speech_acts.classify(text).kind is NOTE

    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("Add an index on orders.customer_id", PLANNED),
            ("Fail fast on a broken header", BROKEN),
        ],
    )
    def test_in_a_report_an_imperative_is_an_item(self, text: str, kind: HighlightKind) -> None:
        assert speech_acts.classify(text, report=True).kind is kind


class TestCorrections:
    @pytest.mark.parametrize(
        "text",
        [
            "Actually, the flag is read at startup.",
            "The flag IS read at startup.",
            "False alarm: the flag is read at startup.",
            "In fact the flag is read at startup.",
            "The flag is read at startup after all.",
            "I misread the trace: the flag is read at startup.",
        ],
    )
    def test_a_correction_is_recognized(self, text: str) -> None:
        assert speech_acts.classify(text).corrects

    @pytest.mark.parametrize("text", ["The flag is read at startup.", "The API IS.", "ID is set."])
    def test_a_plain_statement_corrects_nothing(self, text: str) -> None:
        assert not speech_acts.classify(text).corrects


class TestTidying:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("I have added a map to the app.", "Added a map to the app."),
            ("I've also fixed the flaky upload test.", "Fixed the flaky upload test."),
            ("We just moved the bucket to Ohio.", "Moved the bucket to Ohio."),
            ("Good, the tokenizer handles tabs.", "The tokenizer handles tabs."),
            ("Perfect! All 41 tests pass.", "All 41 tests pass."),
            ("Great \u2014 the index is used.", "The index is used."),
            ("So the worker starts twice.", "The worker starts twice."),
            ("The cache is cold, let me warm it.", "The cache is cold"),
            ("The lexer drops tabs, so I'll fix that.", "The lexer drops tabs"),
            ("The lexer drops tabs \u2014 let me fix it.", "The lexer drops tabs"),
            ("I'll use a heap for the timers.", "Use a heap for the timers."),
            ("Done, thanks.", "Done, thanks."),
            ("iOS builds now.", "iOS builds now."),
            ("`retry` takes a limit.", "`retry` takes a limit."),
        ],
    )
    def test_chatter_around_a_statement_is_cut(self, text: str, shown: str) -> None:
        assert speech_acts.tidy_sentence(text) == shown

    def test_a_pronoun_lacks_a_subject(self) -> None:
        assert speech_acts.lacks_subject("Good, it uses the heap.")
        assert speech_acts.lacks_subject("That's the old client.")
        assert not speech_acts.lacks_subject("This test uses the heap.")
        assert not speech_acts.lacks_subject("The timer uses the heap.")

    def test_a_short_announcement_emphasizes_what_follows(self) -> None:
        assert speech_acts.announces_finding("Found it.")
        assert speech_acts.announces_finding("That explains it!")
        assert not speech_acts.announces_finding("The timer uses the heap.")
        assert not speech_acts.announces_finding("Found " + "the timer in the wheel " * 4)


class TestGoingOn:
    @pytest.mark.parametrize(
        "prompt",
        [
            "yes", "Yes, please", "go on", "Go ahead!", "ok, continue",
            "continue until all is done",
            "commit it", "commit and push", "push", "do it", "2", "b", "lgtm", "proceed with it",
            "great, thanks!", "try again", "keep going please", "no", "hi", "resume the work",
            "continue with the next task", " yes \n", "ok continue until everything is done.",
        ],
    )  # fmt: skip
    def test_a_prompt_that_asks_for_nothing_new(self, prompt: str) -> None:
        assert speech_acts.is_go_on(prompt)

    @pytest.mark.parametrize(
        "prompt",
        [
            "continue with the checkout page", "commit the lexer only",
            "push the image to the registry",
            "yes, but use Redis", "no, keep the old API", "run the benchmarks on ARM",
            "stop the server",
            "nowhere near done", "next.js is too old", "2 workers are enough",
            "merge the two tables",
            "hello world example in Zig",
        ],
    )  # fmt: skip
    def test_a_prompt_that_asks_for_something(self, prompt: str) -> None:
        assert not speech_acts.is_go_on(prompt)


@pytest.mark.parametrize(
    ("text", "red"),
    [
        ("3 tests fail", True),
        ("1 test fails", True),
        ("The build is broken", True),
        ("2 errors, 40 passed", True),
        ("41 tests pass", False),
        ("41 tests, 0 failures", False),
        ("no errors", False),
        ("Zero failures in CI", False),
    ],
)
def test_a_red_state(text: str, red: bool) -> None:
    assert speech_acts.is_red(text) is red


class TestStatedActs:
    @pytest.mark.parametrize(
        ("text", "act", "phrase", "statement"),
        [
            ("So we decided to use Redis.", Act.DECISION, "we decided to ", "use Redis."),
            ("Always run ruff first.", Act.RULE, "Always run ", "Always run ruff first."),
            ("From now on, answer in English.", Act.RULE, "From now on, ", "answer in English."),
            ("It turned out that 5433 is the port.", Act.FINDING, None, "5433 is the port."),
            ("We\u2019re blocked by the firewall.", Act.BLOCKER, None, "blocked by the firewall."),
            ("We've shipped the importer.", Act.PROGRESS, None, "shipped the importer."),
        ],
    )
    def test_an_act_has_its_phrase_and_its_statement(
        self, text: str, act: Act, phrase: str | None, statement: str
    ) -> None:
        stated = speech_acts.find_acts(text, EventRole.USER)
        assert {each.act for each in stated} == {act}
        found = max(stated, key=lambda each: each.confidence)
        assert text[found.says :].endswith(statement)
        assert statement.startswith(text[found.says :].strip())
        assert phrase is None or text[found.start : found.end] == phrase
        assert not found.announces

    def test_a_statement_may_follow_in_the_next_sentence(self) -> None:
        (found,) = speech_acts.find_acts("Lesson learned.", EventRole.USER)
        assert found.announces

    def test_doubt_and_a_condition_lower_the_confidence(self) -> None:
        said = (
            "We settled on Kafka",
            "Maybe we settled on Kafka",
            "We settled on Kafka if it fits",
        )
        sure, doubted, conditional = (
            speech_acts.find_acts(text, EventRole.USER)[0].confidence for text in said
        )
        assert doubted < conditional < sure

    @pytest.mark.parametrize(
        "text",
        ["Did we decide to use Redis?", "If we decided to use Redis, it is fast", "Use Redis."],
    )
    def test_questions_suppositions_and_requests_state_nothing(self, text: str) -> None:
        assert speech_acts.find_acts(text, EventRole.USER) == []

    def test_what_a_user_chooses_may_be_narration_of_an_agent(self) -> None:
        text = "Let's use the debugger."
        assert [each.act for each in speech_acts.find_acts(text, EventRole.USER)] == [Act.DECISION]
        narrated = "Let's switch to the next task."
        assert speech_acts.find_acts(narrated, EventRole.USER)
        assert speech_acts.find_acts(narrated, EventRole.ASSISTANT) == []
