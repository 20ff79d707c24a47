"""The readers of the data sets that recall is measured on, with small files of our own."""

import json
from pathlib import Path

from agent_memory.client import Event, EventRole, EventType
from bench import dev_sets
from bench.dev_sets import Turn


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


class TestLoCoMo:
    def test_turns_and_evidence_are_read(self, tmp_path: Path) -> None:
        said = [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "I bought a boat."},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a red boat"},
        ]
        conversation = {"session_1": said, "session_1_date_time": "1:56 pm on 8 May, 2023"}
        asked = [
            {"question": "Who?", "category": 4, "evidence": ["D1:1; D1:2", "D9:9"]},
            {"question": "Nobody knows?", "category": 5, "evidence": []},
        ]
        write(tmp_path / "conv-1.json", {"conversation": conversation, "qa": asked})
        (read,) = dev_sets.read_locomo(tmp_path)
        assert [turn.whole for turn in read.turns] == [
            "(1:56 pm on 8 May, 2023) Ada: I bought a boat.",
            "(1:56 pm on 8 May, 2023) Ben: Look! [shares a red boat]",
        ]
        (question,) = read.questions
        assert question.category == "one turn"
        assert question.gold == {"conv-1/D1:1", "conv-1/D1:2"}

    def test_an_event_has_its_project_and_its_speaker(self, tmp_path: Path) -> None:
        said = [{"speaker": "Ada", "dia_id": "D2:1", "text": "Hello."}]
        talk = {"session_2": said, "session_2_date_time": "9:00 am on 1 June, 2023"}
        write(tmp_path / "conv-1.json", {"conversation": talk, "qa": []})
        (read,) = dev_sets.read_locomo(tmp_path)
        event = dev_sets.to_event(read, read.turns[0])
        assert event.metadata == {"project": "conv-1", "speaker": "Ada"}
        assert (event.event_id, event.session_id) == ("conv-1/D2:1", "conv-1/2")


class TestBeam:
    def test_a_batch_is_a_session(self, tmp_path: Path) -> None:
        write_beam(tmp_path / "7", {})
        (read,) = dev_sets.read_beam(tmp_path)
        assert [(turn.event_id, turn.session, turn.role) for turn in read.turns] == [
            ("beam-7/0", "beam-7/0", EventRole.USER),
            ("beam-7/1", "beam-7/0", EventRole.ASSISTANT),
            ("beam-7/2", "beam-7/1", EventRole.USER),
        ]
        assert [turn.at_ms for turn in read.turns] == sorted(turn.at_ms for turn in read.turns)
        answer = dev_sets.to_event(read, read.turns[1])
        assert answer.event_type is EventType.ASSISTANT_MESSAGE
        assert answer.metadata == {"project": "beam-7"}

    def test_appended_notes_are_cut_off(self, tmp_path: Path) -> None:
        write_beam(tmp_path / "7", {})
        (read,) = dev_sets.read_beam(tmp_path)
        assert [turn.whole for turn in read.turns] == ["Plan it.", "Done -> see below.", "Thanks."]

    def test_numbers_are_found_in_lists_and_objects(self, tmp_path: Path) -> None:
        sources = {"first": [0], "later": {"both": [[1], 2, 99, "text"]}}
        asked = {
            "knowledge_update": [{"question": "When?", "source_chat_ids": sources}],
            "summarization": [{"question": "Without sources?"}],
            "abstention": [{"question": "Why?", "source_chat_ids": [0]}],
        }
        write_beam(tmp_path / "7", asked)
        (read,) = dev_sets.read_beam(tmp_path)
        (question,) = read.questions
        assert question.category == "knowledge update"
        assert question.gold == {"beam-7/0", "beam-7/1", "beam-7/2"}

    def test_conversations_are_in_the_order_of_their_numbers(self, tmp_path: Path) -> None:
        for name in ("10", "9"):
            write_beam(tmp_path / name, {})
        assert [read.name for read in dev_sets.read_beam(tmp_path)] == ["beam-9", "beam-10"]


class TestCoding:
    def test_expressions_find_the_events_that_answer(self, tmp_path: Path) -> None:
        asked = [
            {"q": "Why red?", "kind": "why", "gold": ["red.*paint", "crimson"]},
            {"q": "Why blue?", "kind": "why", "gold": ["sapphire"]},
        ]
        write(tmp_path / "questions.json", {"questions": asked})
        texts = ["Red is\nthe only PAINT left.", "Nothing.", "It is Crimson.", " "]
        read = dev_sets.read_coding(tmp_path, (event(str(n), t) for n, t in enumerate(texts)))
        assert [turn.event_id for turn in read.turns] == ["0", "1", "2"]
        (question,) = read.questions
        assert question.gold == {"0", "2"}
        assert question.is_answered_by("a crimson summary")
        assert not question.is_answered_by("a summary")


def test_a_turn_without_a_speaker_is_ranked_as_it_is() -> None:
    assert Turn(event_id="e", session="s", said="Bare text.", at_ms=0).whole == "Bare text."


def write_beam(folder: Path, questions: object) -> None:
    first = [
        {"id": 0, "role": "user", "content": "Plan it. ->-> 1,1\n->-> more"},
        {"id": 1, "role": "assistant", "content": "Done -> see below."},
    ]
    last = [{"id": 2, "role": "user", "content": "Thanks."}]
    write(folder / "chat.json", [{"turns": [first]}, {"turns": [last]}])
    write(folder / "probing_questions.json", questions)


def event(event_id: str, text: str) -> Event:
    return Event(
        event_id=event_id,
        session_id="s",
        timestamp=1_767_225_600_000,
        event_type=EventType.ASSISTANT_MESSAGE,
        role=EventRole.ASSISTANT,
        text=text,
    )
