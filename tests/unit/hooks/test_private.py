"""Private parts of prompts: they reach no event, no id and no spool, by a hook or by an import."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.hooks.adapters.transcripts.claude_code import ClaudeCodeTranscript
from agent_memory.features.hooks.adapters.transcripts.codex import CodexTranscript
from agent_memory.features.hooks.adapters.transcripts.files import TranscriptParser
from agent_memory.features.hooks.adapters.transcripts.plain import PlainTranscript
from agent_memory.features.hooks.model import hooks, transcripts
from agent_memory.features.hooks.model.transcripts import TranscriptEntry
from agent_memory.features.log.model.events import Event
from agent_memory.interfaces.hooks import inputs
from agent_memory.interfaces.hooks.inputs import Delivery
from agent_memory.kernel.json_fields import Fields
from agent_memory.kernel.text.private import strip_private
from tests.transcript_files import Claude, Line, rollout

TAGS = ("<private>", "</private>", "<PRIVATE>", "</Private>", '<private why="x">', "<private\n>")


class TestStripping:
    @pytest.mark.parametrize(
        ("text", "left"),
        [
            ("Use <private>hunter2</private> here", "Use  here"),
            ("<private>all</private>", ""),
            ("a <private>b <private>c</private> d</private> e", "a  e"),
            ("a <private>b</private> c <private>d</private> e", "a  c  e"),
            ("a <PRIVATE>b</Private> c", "a  c"),
            ('a <private reason="x">b</private> c', "a  c"),
            ("a <private>b", "a "),
            ("a <private>b <private>c</private> d", "a "),
            ("a </private> b", "a </private> b"),
            ("a <privately>b</privately> c", "a <privately>b</privately> c"),
            ("a < private>b", "a < private>b"),
            ("a <private b", "a <private b"),
            ("a <pri<private>x</private>vate>b</private> c", "a "),
            ("a\n<private>\nb\n</private>\nc", "a\n\nc"),
        ],
    )
    def test_spans(self, text: str, left: str) -> None:
        assert strip_private(text) == left

    @given(st.lists(st.sampled_from((*TAGS, "<", ">", "pri", "vate", "word ", "</", "\n"))))
    def test_nothing_after_an_opening_tag_is_left_and_nothing_is_left_to_strip(
        self, parts: list[str]
    ) -> None:
        text = "".join(parts)
        left = strip_private(text)
        assert strip_private(left) == left
        assert transcripts.strip_injected(left) == transcripts.strip_injected(text)

    @given(
        before=st.text("ab <", max_size=10),
        inside=st.lists(st.sampled_from((*TAGS, "SECRET"))),
    )
    def test_what_is_inside_is_gone(self, before: str, inside: list[str]) -> None:
        opened = [tag for tag in inside if tag.lower().startswith("<private")]
        span = "".join(tag for tag in inside if not tag.startswith("</"))
        text = f"{before}<private>{span}SECRET{'</private>' * (len(opened) + 1)} after"
        left = strip_private(text)
        assert "SECRET" not in left
        assert left.endswith(" after")


def deliver(**given: Any) -> list[Event]:
    """Return the events of a hook."""
    delivery = Delivery(
        name="auto",
        agent="",
        folder="/home/ada/code",
        environ={},
        nonce="n1",
        at_ms=1_767_261_600_000,
        data=json.dumps(given).encode(),
    )
    call = inputs.parse_delivery(delivery).call
    return hooks.build_events(call, project="p", branch="main")


def prompt(words: str, **more: Any) -> list[Event]:
    return deliver(hook_event_name="UserPromptSubmit", session_id="s", prompt=words, **more)


class TestHooks:
    def test_the_words_around_are_recorded(self) -> None:
        (event,) = prompt("Use <private>hunter2</private> as the password")
        assert event.text == "Use  as the password"

    def test_a_wholly_private_prompt_is_no_event(self) -> None:
        assert prompt(" <private>hunter2</private>\n") == []
        assert prompt("<private>hunter2") == []

    def test_an_id_does_not_depend_on_private_words(self) -> None:
        """The hash of a short text, such as a password, can be reversed by trying."""
        one, other = (
            prompt(f"Use <private>{word}</private> here", turn_id="t1")[0].event_id
            for word in ("hunter2", "swordfish")
        )
        assert one == other
        assert one != prompt("Use it here", turn_id="t1")[0].event_id

    def test_other_ids_are_as_they_were(self) -> None:
        (event,) = prompt("Plain words", turn_id="t1")
        record_id = f"t1:{transcripts.fingerprint('Plain words')}"
        kind = transcripts.RecordKind.PROMPT
        assert event.event_id == transcripts.build_event_id("s", kind, record_id)

    @pytest.mark.parametrize(
        "given",
        [
            {"hook_event_name": "Stop", "last_assistant_message": "WORDS"},
            {"hook_event_name": "PostCompact", "compact_summary": "WORDS"},
            {"hook_event_name": "UserPromptSubmit", "prompt": "x", "session_title": "WORDS"},
            {
                "hook_event_name": "PostToolUse",
                "tool_name": "Task",
                "tool_input": {"prompt": "WORDS"},
                "tool_response": "WORDS",
            },
        ],
    )
    def test_an_agent_that_repeats_the_span_does_not_record_it(self, given: dict[str, Any]) -> None:
        text = json.dumps({"session_id": "s", **given}).replace(
            "WORDS", "said: <private>hunter2</private>"
        )
        events = deliver(**json.loads(text))
        assert any("said:" in event.text for event in events)
        assert not any("hunter2" in str(event) for event in events)


def read(parser: TranscriptParser, *lines: Line) -> list[TranscriptEntry]:
    found: list[TranscriptEntry] = []
    for number, line in enumerate(lines, 1):
        found += parser.parse_line(Fields(line), number) or []
    return [entry for entry in found if entry.text]


class TestImports:
    def read_all(self, words: str) -> list[list[TranscriptEntry]]:
        """Return the prompt in every kind of transcript."""
        codex = [
            json.loads(json.dumps(line).replace("Which lock gates leak?", "WORDS"))
            for line in rollout()[:5]
        ]
        codex = [
            json.loads(json.dumps(line).replace('"WORDS"', json.dumps(words))) for line in codex
        ]
        plain = {"session_id": "s", "timestamp_ms": 1, "role": "user", "text": words}
        return [
            read(ClaudeCodeTranscript("file"), Claude().prompt(words, promptId="p1")),
            read(CodexTranscript("file"), *codex),
            read(PlainTranscript("file"), plain),
        ]

    def test_the_words_around_are_recorded(self) -> None:
        for (entry,) in self.read_all("Use <private>hunter2</private> here"):
            assert entry.text == "Use  here"

    def test_a_wholly_private_prompt_is_no_event(self) -> None:
        assert self.read_all("<private>hunter2</private>") == [[], [], []]

    def test_an_id_does_not_depend_on_private_words(self) -> None:
        one, other = (
            [entry.event_id for (entry,) in self.read_all(f"Use <private>{word}</private> here")]
            for word in ("hunter2", "swordfish")
        )
        assert one == other

    def test_a_hook_and_an_import_give_one_event(self) -> None:
        words = "Use <private>hunter2</private> here"
        ((imported,), *_) = self.read_all(words)
        (event,) = deliver(
            hook_event_name="UserPromptSubmit",
            session_id="5e5510a1",
            prompt=words,
            prompt_id="p1",
        )
        assert event.event_id == imported.event_id
        assert event.text == imported.text
