"""Titles and summaries that agents wrote: what of them is stored, and under which id."""

from collections.abc import Sequence

import pytest

from agent_memory.features.hooks.adapters.transcripts.claude_code import ClaudeCodeTranscript
from agent_memory.features.hooks.adapters.transcripts.codex import CodexTranscript
from agent_memory.features.hooks.adapters.transcripts.files import TranscriptParser
from agent_memory.features.hooks.model import descriptions, transcripts
from agent_memory.features.hooks.model.transcripts import RecordKind, TranscriptEntry
from agent_memory.features.index.model import documents
from agent_memory.features.knowledge.model import sessions
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import Event, EventRole, EventType
from agent_memory.features.log.model.metadata import SUMMARIZES, TITLES
from agent_memory.kernel.json_fields import Fields
from tests.transcript_files import CONTINUED, START_MS, Claude, Line, iso, rollout, text

SUMMARY = "1. Primary Request:\n   The lamp flickers.\n2. Next Step: lift the limit to 0.97."
AFTER_COMPACTION = (
    f"{CONTINUED}\n\nSummary:\n{SUMMARY}\n\nIf you need specific details from before compaction"
    " (like exact code snippets), read the full transcript at: /x.jsonl\n"
    "Continue the conversation from where it left off without asking the user any further"
    " questions."
)
KEPT = "Recent messages are preserved verbatim."
CODEX_PREFIX = (
    "Another language model started to solve this problem and produced a summary of its thinking"
    " process. Here is the summary produced by the other language model:"
)


def read(reader: TranscriptParser, lines: Sequence[Line]) -> list[TranscriptEntry]:
    found: list[TranscriptEntry] = []
    for number, line in enumerate(lines, 1):
        found += reader.parse_line(Fields(line), number) or []
    return found


def describe(found: Sequence[TranscriptEntry]) -> list[tuple[str, str, str]]:
    """Return session, mark and text of titles and summaries."""
    marks = (TITLES, SUMMARIZES)
    return [
        (each.session_id, each.metadata[mark], each.text)
        for each in found
        for mark in marks
        if mark in each.metadata
    ]


def claude(*lines: Line) -> list[TranscriptEntry]:
    return read(ClaudeCodeTranscript("file"), lines)


class TestSummaryTexts:
    @pytest.mark.parametrize(
        "given",
        [
            SUMMARY,
            f"<analysis>\nLet me think.\n</analysis>\n\n<summary>\n{SUMMARY}\n</summary>",
            f"<summary>{SUMMARY}</summary>",
            AFTER_COMPACTION,
            f"{CONTINUED}\nAnalysis:\nHm.\n\nSummary:\n{SUMMARY}\n\n{KEPT}",
            f"{CONTINUED}\n\n{SUMMARY}\nPlease continue the conversation from where we left off.",
            f"{CODEX_PREFIX}\n{SUMMARY}",
        ],
    )
    def test_hooks_and_transcripts_give_the_same(self, given: str) -> None:
        assert descriptions.extract_summary(given) == SUMMARY

    @pytest.mark.parametrize("given", ["", "  \n", CONTINUED, f"{CODEX_PREFIX}\n"])
    def test_without_a_summary(self, given: str) -> None:
        assert descriptions.extract_summary(given) == ""

    def test_a_title_is_one_line(self) -> None:
        assert descriptions.clean_title("  Repair\n the  lamp ") == "Repair the lamp"
        assert len(descriptions.clean_title("lamp " * 400)) <= descriptions.MAX_TITLE_CHARS


class TestClaudeCode:
    def test_titles_of_each_kind(self) -> None:
        session = Claude()
        found = claude(
            session.prompt("Why does the lamp flicker?"),
            {"type": "ai-title", "aiTitle": "Repair the lamp", "sessionId": session.session},
            session.says("m1", text("The dimmer is too low.")),
            {"type": "custom-title", "customTitle": "Dimmer", "sessionId": session.session},
        )
        assert describe(found) == [
            (session.session, "agent", "Repair the lamp"),
            (session.session, "user", "Dimmer"),
        ]
        (first, second) = (each for each in found if TITLES in each.metadata)
        assert (first.at_ms, second.at_ms) == (START_MS, START_MS + 1000)
        assert (first.type, first.role) == (EventType.ASSISTANT_MESSAGE, EventRole.SYSTEM)
        assert first.metadata["cwd"] == session.cwd

    def test_a_repeated_title_is_one_event(self) -> None:
        session = Claude()
        title = {"type": "ai-title", "aiTitle": "Repair the lamp", "sessionId": session.session}
        other = title | {"aiTitle": "Repair the dimmer"}
        found = claude(session.prompt("Hi?"), title, title, other, other, title)
        titles = [each for each in found if TITLES in each.metadata]
        assert [each.text for each in titles] == [
            "Repair the lamp", "Repair the dimmer", "Repair the lamp",
        ]  # fmt: skip
        assert len({each.event_id for each in titles}) == 3
        assert [each.at_ms - START_MS for each in titles] == [0, 1, 2]
        again = claude(session.prompt("Hi?"), title, other)
        assert {each.event_id for each in again if TITLES in each.metadata} < {
            each.event_id for each in titles
        }

    def test_a_title_before_the_session_waits_for_it(self) -> None:
        session = Claude()
        title = {"type": "custom-title", "customTitle": "Dimmer", "sessionId": session.session}
        assert claude(title, *session.noise()) == []
        found = claude(title, session.prompt("Why?"))
        assert [each.type for each in found][:1] == [EventType.SESSION_START]
        assert describe(found) == [(session.session, "user", "Dimmer")]

    def test_a_summary_line_belongs_to_the_session_of_its_leaf(self) -> None:
        session = Claude()
        prompt = session.prompt("Why does the lamp flicker?")
        own = {"type": "summary", "summary": "Lamp repair", "leafUuid": prompt["uuid"]}
        foreign = {"type": "summary", "summary": "Boat trip", "leafUuid": "of-another-file"}
        expected = [(session.session, "agent", "Lamp repair")]
        assert describe(claude(foreign, prompt, own)) == expected
        assert describe(claude(foreign, own, prompt)) == expected

    def test_a_compaction_summary_is_no_prompt(self) -> None:
        session = Claude()
        flags = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True}
        found = claude(session.prompt("Why?"), session.prompt(AFTER_COMPACTION, **flags))
        assert describe(found) == [(session.session, "compaction", SUMMARY)]
        assert (found[-1].type, found[-1].role) == (EventType.ASSISTANT_MESSAGE, EventRole.SYSTEM)
        unmarked = claude(session.prompt("Why?"), session.prompt(AFTER_COMPACTION))
        assert unmarked[-1].event_id == found[-1].event_id

    def test_a_recap_sums_up_the_session(self) -> None:
        session = Claude()
        recap = session.line(
            "system",
            subtype="away_summary",
            content="Fixed the lamp; next: the horn. (disable recaps in /config)",
        )
        found = claude(session.prompt("Why?"), recap)
        assert describe(found) == [(session.session, "session", "Fixed the lamp; next: the horn.")]


class TestCodex:
    SESSION = "0199aaaa-0000-7000-8000-00000000beef"

    def line(self, kind: str, **payload: object) -> Line:
        return {"timestamp": iso(START_MS + 60_000), "type": kind, "payload": payload}

    def read(self, *lines: Line) -> list[tuple[str, str, str]]:
        return describe(read(CodexTranscript("file"), [*rollout(), *lines]))

    def test_a_compaction_is_stored_once_however_it_is_written(self) -> None:
        message = {"type": "message", "content": [{"type": "output_text", "text": SUMMARY}]}
        written = self.line("response_item", role="assistant", **message)
        stored = self.line("compacted", message=f"{CODEX_PREFIX}\n{SUMMARY}", window_number=1)
        told = self.line(
            "response_item",
            type="message",
            role="user",
            content=[{"type": "input_text", "text": f"{CODEX_PREFIX}\n{SUMMARY}"}],
        )
        lines = [{**written, "metadata": {"compaction_output": True}}, stored, told]
        expected = (self.SESSION, "compaction", SUMMARY)
        assert self.read(*lines) == [expected] * 3
        found = read(CodexTranscript("file"), [*rollout(), *lines])
        assert len({each.event_id for each in found if SUMMARIZES in each.metadata}) == 1

    def test_a_thread_has_a_name(self) -> None:
        named = self.line("event_msg", type="thread_name_updated", thread_name="Leaking gates")
        assert self.read(named, named) == [(self.SESSION, "user", "Leaking gates")]


def build_event(kind: RecordKind, mark: str, value: str) -> Event:
    entry = transcripts.build_entry(
        "s", kind, "x", at_ms=START_MS, line=1, metadata={mark: value}, text="We decided on oil."
    )
    return transcripts.build_event(entry, {})


MARKED = [
    build_event(RecordKind.TITLE, TITLES, "user"),
    build_event(RecordKind.SUMMARY, SUMMARIZES, "compaction"),
]


@pytest.mark.parametrize("event", MARKED)
class TestNobodySaidThem:
    def test_they_are_not_searched(self, event: Event) -> None:
        assert event_metadata.is_description(event)
        assert documents.from_event(event) == []

    def test_they_are_no_answer(self, event: Event) -> None:
        assert not transcripts.is_spoken(event)
        entry = transcripts.build_entry(
            "s", RecordKind.PROMPT, "p", at_ms=START_MS - 1, line=1, metadata={}, text="Oil or gas?"
        )
        asked = sessions.add_event(None, transcripts.build_event(entry, {}), "ada")
        after = sessions.add_event(asked, event, "ada")
        assert after.waiting
        assert after.summary == "Oil or gas?"
