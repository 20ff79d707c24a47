"""The extractive summarizer: what it selects, what it leaves out, and its limits."""

import os
import pickle
import subprocess
import sys

import pytest

from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.toc.model import extracting, naming, outcomes, statements
from agent_memory.features.toc.model.summaries import EMPTY, Summary, Utterance
from agent_memory.kernel.ids import EventId, Millis
from agent_memory.kernel.text import sentences

USER = EventRole.USER
ASSISTANT = EventRole.ASSISTANT
TOOL = EventRole.TOOL
TYPES = {
    USER: EventType.USER_MESSAGE,
    ASSISTANT: EventType.ASSISTANT_MESSAGE,
    TOOL: EventType.TOOL_RESULT,
    EventRole.SYSTEM: EventType.SESSION_START,
}
MIB = 1 << 20


def talk(*said: tuple[EventRole, str], speakers: tuple[str, ...] = ()) -> list[Utterance]:
    return [
        Utterance(
            event_id=EventId(f"e{at}"),
            at_ms=Millis(1000 * at),
            type=TYPES[role],
            role=role,
            text=text,
            speaker=speakers[at % len(speakers)] if speakers else "",
        )
        for at, (role, text) in enumerate(said)
    ]


def bullets(summary: Summary) -> str:
    return "\n".join(point.text for point in summary.points)


QUEUE = talk(
    (USER, "The nightly import loses rows when two workers pick the same batch. Can you look?"),
    (ASSISTANT, "Sure! Let me look at the importer first."),
    (TOOL, "importer/claim.py:41: batch = pick()\n" * 40),
    (ASSISTANT, "Found it. The claim query reads the batch and marks it in two transactions."),
    (USER, "Should we lock the table?"),
    (ASSISTANT, "A table lock would stall every reader, so I would use SKIP LOCKED instead."),
    (USER, "Agreed, let's go with SKIP LOCKED. Keep the batch size at 500 rows."),
    (
        TOOL,
        "importer.errors.LockTimeout: canceling statement\nE   sqlalchemy.exc.OperationalError: x",
    ),
    (
        ASSISTANT,
        "The lock timeout turned out to be the test fixture, which held a transaction open.",
    ),
    (ASSISTANT, "Great question! All 212 tests pass now and the import takes 4 minutes."),
)


TRACE = (
    "The parser drops the last row of the ledger.\n\n"
    "```python\nfor row in ledger.rows[:-1]:\n    parser.feed(row)\n```\n"
    "Traceback (most recent call last):\n"
    '  File "ledger/parser.py", line 12, in feed\n'
    "    raise LedgerError(row)\n"
    "    at Ledger.feed (ledger.js:10:4)\n"
    "src/ledger/parser.py:12: in feed\n"
    "| row | amount |\n|---|---|\n| 1 | 20 |\n"
    "2026-03-01 10:00:00 INFO ledger loaded\n"
    "$ make ledger\n"
    "https://example.org/a/very/long/address/that/nobody/wants/to/read/at/all\n"
    "The slice ends one row early, so the ledger never balances."
)


class TestPoints:
    def test_every_bullet_rests_on_words_that_stand_in_its_event(self) -> None:
        texts = {one.event_id: one for one in QUEUE}
        for point in extracting.summarize(QUEUE).points:
            (support,) = point.support
            assert support.excerpt in texts[support.event_id].text
            assert support.at_ms == texts[support.event_id].at_ms

    def test_a_few_bullets_in_order_of_the_conversation(self) -> None:
        points = extracting.summarize(QUEUE).points
        assert 3 <= len(points) <= outcomes.MAX_REPORTED
        assert [point.support[0].at_ms for point in points] == sorted(
            point.support[0].at_ms for point in points
        )

    def test_decisions_causes_and_outcomes_are_there_and_chatter_is_not(self) -> None:
        shown = bullets(extracting.summarize(QUEUE))
        assert "Go with SKIP LOCKED" in shown
        assert "turned out to be the test fixture" in shown
        assert "212 tests pass now" in shown
        assert "Let me look" not in shown
        assert "Great question" not in shown

    def test_a_decision_weighs_more_than_small_talk_about_the_same(self) -> None:
        summary = extracting.summarize(
            talk(
                (USER, "The build server is slow and the build queue is long."),
                (USER, "We decided to move the build server to the Frankfurt region."),
            )
        )
        weight = {point.text: point.weight for point in summary.points}
        assert max(weight, key=lambda text: weight[text]).startswith("We decided")

    def test_an_announcement_emphasizes_the_next_sentence(self) -> None:
        assert "two transactions" in bullets(extracting.summarize(QUEUE))

    def test_an_error_of_a_tool_surfaces_but_not_the_rest_of_its_output(self) -> None:
        listing = "\n".join(f"-rw-r--r-- 1 dev dev {n} Mar 2 module_{n}.py" for n in range(40))
        summary = extracting.summarize(
            talk(
                (USER, "Run the migration."),
                (
                    TOOL,
                    f"{listing}\npsycopg.errors.DuplicateTableError: relation exists\n{listing}",
                ),
            )
        )
        shown = bullets(summary)
        assert "DuplicateTableError" in shown
        assert "module_" not in shown

    def test_code_paths_and_stack_traces_do_not_become_bullets(self) -> None:
        summary = extracting.summarize(talk((ASSISTANT, TRACE)))
        assert bullets(summary).split("\n") == [
            "The parser drops the last row of the ledger.",
            "The slice ends one row early, so the ledger never balances.",
        ]

    def test_numbers_versions_files_and_abbreviations_do_not_end_a_sentence(self) -> None:
        text = "Version 2.10.3 of scanner.py, e.g. the ARM wheel, needs 0.5 GB and Dr. Meyer's key."
        assert bullets(extracting.summarize(talk((USER, text)))) == text

    def test_a_wrapped_sentence_is_one_and_a_list_item_loses_its_mark(self) -> None:
        wrapped = (
            "The exporter writes every invoice twice because the retry does\n"
            "not look at the idempotency key."
        )
        (point,) = extracting.summarize(talk((USER, wrapped))).points
        assert point.text == wrapped.replace("\n", " ")
        assert point.support[0].excerpt == wrapped
        summary = extracting.summarize(
            talk((USER, "- **Invoices** go out on Friday\n2) Taxes wait"))
        )
        assert bullets(summary) == "Invoices go out on Friday\nTaxes wait"

    def test_a_long_sentence_is_cut_where_a_clause_ends(self) -> None:
        text = (
            "The scheduler wakes every minute and asks the queue for work; "
            + "the queue answers with the oldest batch that nobody holds, " * 6
        )
        for point in extracting.summarize(talk((USER, text))).points:
            assert len(point.support[0].excerpt) <= sentences.MAX_CHARS
            assert point.support[0].excerpt in text

    def test_a_repeated_sentence_is_one_bullet(self) -> None:
        summary = extracting.summarize(
            talk(*[(USER, "The greenhouse heater failed on Tuesday night.")] * 4)
        )
        assert len(summary.points) == 1

    def test_the_overlap_is_never_the_source(self) -> None:
        before, after = QUEUE[:7], QUEUE[7:]
        summary = extracting.summarize(after, before)
        ids = {one.event_id for one in after}
        assert {support.event_id for point in summary.points for support in point.support} <= ids


class TestTitleTextAndKeywords:
    def test_the_title_is_the_users_request(self) -> None:
        title = extracting.summarize(
            talk(
                (USER, "Could you please add a dark theme to the settings page?"),
                (ASSISTANT, "The settings page has a dark theme now; it follows the system."),
            )
        ).title
        assert title == "Add a dark theme to the settings page?"

    def test_between_people_title_and_text_name_speakers_and_topics(self) -> None:
        summary = extracting.summarize(
            talk(
                (USER, "I started a pottery class in Lisbon last week."),
                (USER, "Nice! My sister adopted a greyhound, we walk it along the river."),
                speakers=("Ines", "Tom"),
            )
        )
        assert summary.title is not None
        assert summary.title.startswith("Ines and Tom on pottery class, Lisbon and ")
        assert summary.text.startswith("Ines and Tom on ")

    def test_titles_and_texts_are_short(self) -> None:
        summary = extracting.summarize(QUEUE)
        assert summary.title is not None
        assert len(summary.title) <= naming.MAX_TITLE
        assert len(summary.text) <= 320

    def test_keywords_keep_identifiers_files_and_names(self) -> None:
        keywords = extracting.summarize(
            talk(
                (USER, "Set busy_timeout in src/library/scanner.py before Ada Lovelace tests it."),
                (ASSISTANT, "The busy_timeout in scanner.py is five seconds now."),
            )
        ).keywords
        assert {"busy_timeout", "scanner.py", "Ada Lovelace"} <= set(keywords)

    def test_keywords_are_few_and_not_grammatical(self) -> None:
        keywords = extracting.summarize(QUEUE).keywords
        assert len(keywords) <= 12
        assert not {"the", "and", "it", "we", "now"} & {word.lower() for word in keywords}
        assert len({word.lower() for word in keywords}) == len(keywords)

    def test_the_whole_stays_small(self) -> None:
        sentence = (
            "Batch {0} of customer{0} went to depot{0} with {0} crates of glass jars for export."
        )
        summary = extracting.summarize(
            talk(*[(USER, sentence.format(number)) for number in range(200)])
        )
        assert len(pickle.dumps(summary)) < 3000


class TestLittleToSay:
    def test_markers_alone_have_no_title_and_no_bullets(self) -> None:
        assert (
            extracting.summarize(talk((EventRole.SYSTEM, ""), (EventRole.SYSTEM, "start"))) == EMPTY
        )

    def test_an_empty_conversation(self) -> None:
        assert extracting.summarize([]) == EMPTY
        assert extracting.summarize(talk((USER, ""), (ASSISTANT, " \n\t "))) == EMPTY

    def test_one_sentence_is_one_bullet(self) -> None:
        summary = extracting.summarize(talk((USER, "Renew the certificate of the mail server.")))
        assert bullets(summary) == "Renew the certificate of the mail server."
        assert summary.title == "Renew the certificate of the mail server"

    @pytest.mark.parametrize("text", ["ok", "👍", "x = 1;", "...", "{}"])
    def test_text_without_a_sentence_is_still_shown(self, text: str) -> None:
        summary = extracting.summarize(talk((USER, text)))
        assert bullets(summary) == text

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("我们决定使用新的数据库。旧的服务器明天关闭。", "我们决定使用新的数据库。"),
            ("サーバーを東京に移します。費用は下がります。", "サーバーを東京に移します。"),
            ("Wir nehmen die blaue Farbe für das Treppenhaus.", "Wir nehmen die blaue Farbe"),
            ("Мы выбрали новый склад в Риге.", "Мы выбрали новый склад в Риге."),
            ("Launch party 🎉 on the rooftop of the Atlas building.", "🎉 on the rooftop"),
        ],
    )
    def test_other_languages_and_emoji(self, text: str, expected: str) -> None:
        summary = extracting.summarize(talk((USER, text)))
        assert expected in bullets(summary)
        assert summary.keywords

    def test_keywords_of_text_without_blanks_have_none(self) -> None:
        summary = extracting.summarize(talk((USER, "我们决定使用新的数据库。数据库在东京。")))
        assert "数据" in summary.keywords
        assert not any(" " in keyword for keyword in summary.keywords)


class TestBounds:
    @pytest.mark.parametrize(
        "text",
        [
            "a" * MIB,
            "." * MIB,
            ". " * (MIB // 2),
            " " * (MIB - 1) + "x",
            "\n" * MIB,
            "- " * (MIB // 2),
            "Zm9vYmFy" * (MIB // 8),
            "garden server window query " * (MIB // 27),
            "1-" * (MIB // 2),
            "x(" + ")  " * (MIB // 4),
            "E" + " " * MIB,
            "数据" * (MIB // 6),
        ],
    )
    @pytest.mark.parametrize("role", [USER, TOOL])
    def test_a_message_of_a_mebibyte_is_read_in_part(self, text: str, role: EventRole) -> None:
        read = statements.read_statements(talk((role, text)))
        assert sum(len(one.text) for one in read) <= sentences.MAX_READ
        assert len(read) <= statements.MAX_STATEMENTS
        summary = extracting.summarize(talk((role, text)))
        assert all(point.support[0].excerpt in text for point in summary.points)
        assert len(pickle.dumps(summary)) < 4000

    def test_a_conversation_without_end_is_read_in_part(self) -> None:
        many = talk(*[(USER, f"Crate {n} holds lemons from orchard {n}.") for n in range(5000)])
        read = statements.read_statements(many)
        assert sum(len(one.text) for one in read) <= statements.MAX_CHARS
        assert len(read) <= statements.MAX_STATEMENTS
        assert read[0].source is many[0]
        assert read[-1].source is many[-1]


def test_processes_that_hash_differently_agree() -> None:
    script = (
        "from agent_memory.features.toc.model import extracting\n"
        "from tests.unit.toc.test_extracting import QUEUE\n"
        "print(extracting.summarize(QUEUE))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1
