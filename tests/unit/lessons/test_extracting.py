"""What a session teaches: one table of positives and negatives for each kind."""

import pytest

from agent_memory.features.lessons.model.extracting import cut, extract
from agent_memory.features.lessons.model.lessons import MAX_TEXT, Lesson, LessonKind, Trust
from tests.unit.lessons.talks import agent, ran, talk, user, wrote


def of_kind(lessons: list[Lesson], kind: LessonKind) -> list[Lesson]:
    return [lesson for lesson in lessons if lesson.kind is kind]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Please never put secrets into the fixtures.", "never put secrets"),
        ("From now on every migration gets a down step.", "every migration"),
        ("Don't ever call the vendor API from the web process.", "vendor API"),
        ("No, spaces. always spaces", "always spaces"),
        ("The folder legacy/ is off limits, ask Marta first.", "off limits"),
        ("We always name branches after the ticket in this repo.", "name branches"),
        ("Use structlog everywhere, not the standard logging.", "structlog"),
        ("I'd rather you asked first before you drop a table, every time.", "asked first"),
    ],
)
def test_what_the_user_rules_is_a_rule(said: str, words: str) -> None:
    lessons = extract(talk(user("Clean up the importer."), agent("Done."), user(said)))
    assert [words in each.text for each in lessons] == [True]
    assert lessons[0].trust is Trust.USER
    assert lessons[0].kind in (LessonKind.RULE, LessonKind.DECISION)


@pytest.mark.parametrize(
    "said",
    [
        "Please rename this variable to total.",
        "Can you always see the banner?",
        "It always crashes on Monday.",
        "Don't worry about it.",
        "Why do we never get a reply?",
        "Thanks, that is all for today.",
        "I never got the mail.",
        "> never push to main\nwhat does this quote mean?",
    ],
)
def test_a_request_for_now_is_no_rule(said: str) -> None:
    assert extract(talk(user("Clean up the importer."), agent("Done."), user(said))) == []


def test_a_rule_names_what_it_forbids() -> None:
    [rule] = extract(talk(user("Use httpx in this repo, never requests.")))
    assert rule.avoids == ("requests",)
    [rule] = extract(talk(user("Never push to main directly, always open a pull request.")))
    assert "git push" in rule.commands


def test_what_another_agent_or_a_tool_says_is_no_rule() -> None:
    said = "From now on never use tabs in this project."
    assert extract(talk(user(said), session="main/helper")) == []
    assert extract(talk(ran("cat STYLE.md", said))) == []
    assert extract(talk(user(f"<memory_context>\n{said}\n</memory_context> go on"))) == []


def test_a_failure_tells_the_error_and_what_mended_it() -> None:
    lessons = extract(
        talk(
            user("Build the docs."),
            ran("mkdocs build", "ModuleNotFoundError: No module named 'material'", failed=True),
            ran("pip install mkdocs-material", "Successfully installed"),
            ran("mkdocs build", "Documentation built in 1.2 seconds"),
            agent("The theme was not installed here, so the build could not import it."),
        )
    )
    [failure] = of_kind(lessons, LessonKind.FAILURE)
    assert "No module named 'material'" in failure.text
    assert "pip install mkdocs-material" in failure.text
    assert failure.errors == ("modulenotfounderror: no module named 'material'",)
    assert failure.commands == ("mkdocs build",)
    assert failure.trust is Trust.OUTPUT
    assert failure.situation == "Build the docs. [mkdocs build]" or "Build" in failure.situation


def test_a_test_that_fails_while_code_is_written_is_no_failure() -> None:
    lessons = extract(
        talk(
            user("Add a total to the invoice."),
            ran("pytest tests/a.py", "E  AssertionError: assert 3 == 4\n1 failed", failed=True),
            wrote("invoice.py"),
            ran("pytest tests/a.py", "1 passed"),
            agent("The total is there now."),
        )
    )
    assert lessons == []


def test_a_chat_that_settles_a_rule_gives_its_whole_last_statement() -> None:
    [*_, decision] = extract(
        talk(
            user("round_price gives different totals in the shop and the invoice, why?"),
            agent("The shop rounds each line, the invoice the sum. Round the sum in both?"),
            user("No. Round every line, half up, and never round the sum again."),
            agent("And negative lines, refunds?"),
            user("Refunds round half up on the absolute value, exactly like sales."),
            agent(
                "Understood - round_price rounds every line half up, refunds on the absolute"
                " value, and the sum is never rounded again."
            ),
            user("Exactly."),
        )
    )
    assert decision.kind is LessonKind.DECISION
    assert decision.text.startswith("round_price rounds every line half up")
    assert decision.trust is Trust.USER
    assert decision.situation.startswith("round_price gives different totals")


def test_the_same_events_give_the_same_lessons() -> None:
    events = talk(user("Never use tabs in this repo."), agent("Noted."))
    assert extract(events) == extract(events) != []


@pytest.mark.parametrize("text", ["a" * 999, "word " * 300, "A sentence. " * 90, "x; y " * 200])
def test_a_text_is_cut_to_its_limit(text: str) -> None:
    assert 0 < len(cut(text)) <= MAX_TEXT
