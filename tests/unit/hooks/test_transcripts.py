"""Transcripts: which lines of each agent are kept, and under which id."""

from collections.abc import Sequence
from typing import Any

import pytest

from agent_memory.features.hooks.adapters.transcripts.claude_code import ClaudeCodeTranscript
from agent_memory.features.hooks.adapters.transcripts.codex import CodexTranscript
from agent_memory.features.hooks.adapters.transcripts.files import TranscriptParser
from agent_memory.features.hooks.adapters.transcripts.plain import PlainTranscript
from agent_memory.features.hooks.model import transcripts
from agent_memory.features.hooks.model.transcripts import RecordKind, TranscriptEntry
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import EventRole, EventType
from agent_memory.features.log.model.metadata import RECALLED
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.json_fields import Fields
from tests.transcript_files import START_MS, Claude, Line, iso, plain, rollout, text, tool_use


def read(reader: TranscriptParser, lines: Sequence[Line]) -> list[TranscriptEntry]:
    found: list[TranscriptEntry] = []
    for number, line in enumerate(lines, 1):
        found += reader.parse_line(Fields(line), number) or []
    return found


def claude(*lines: Line) -> list[TranscriptEntry]:
    """Return the entries without the start of the session."""
    found = read(ClaudeCodeTranscript("file"), lines)
    return [each for each in found if each.type not in transcripts.STARTS]


def words(found: Sequence[TranscriptEntry]) -> list[str]:
    return [each.text for each in found]


class TestIds:
    def test_they_are_of_session_kind_and_what_was_given(self) -> None:
        first = transcripts.build_event_id("s", RecordKind.TOOL, "toolu_1")
        assert first == transcripts.build_event_id("s", RecordKind.TOOL, "toolu_1")
        others = {
            transcripts.build_event_id("s", RecordKind.TOOL, "toolu_2"),
            transcripts.build_event_id("s", RecordKind.PROMPT, "toolu_1"),
            transcripts.build_event_id("s2", RecordKind.TOOL, "toolu_1"),
            transcripts.build_event_id("s/a", RecordKind.TOOL, "toolu_1"),
        }
        assert len(others | {first}) == 5

    def test_they_never_change(self) -> None:
        """Stored events have these ids."""
        assert (
            transcripts.build_event_id("session", RecordKind.PROMPT, "p1")
            == "prompt-6480d8fe2eb4664940157edeed5875768adab3bc"
        )

    def test_what_hooks_are_given_leads_to_the_same(self) -> None:
        session = Claude()
        found = {each.event_id for each in claude(*session.lamp())}
        assert transcripts.build_event_id(session.session, RecordKind.PROMPT, "p1") in found
        assert transcripts.build_event_id(session.session, RecordKind.TOOL, "t1") in found


class TestOwnWords:
    @pytest.mark.parametrize("name", transcripts.OWN_MARKERS)
    def test_what_we_put_in_is_taken_out(self, name: str) -> None:
        given = f'Fix it. <{name} count="2">\nold words\n</{name}> Now.'
        assert transcripts.strip_injected(given) == "Fix it.  Now."

    def test_what_is_nested_goes_as_a_whole(self) -> None:
        inner = "<memory_context>b</memory_context>"
        given = f"a <memory_context> x {inner} y <related_memories> z </memory_context> c"
        assert transcripts.strip_injected(given) == "a  c"

    @pytest.mark.parametrize(
        "given",
        [
            "what does <memory_context> do?",
            "</memory_context> alone",
            "<memory_contexts>x</memory_contexts>",
            "</memory_context> then <memory_context>",
        ],
    )
    def test_a_marker_alone_is_a_word(self, given: str) -> None:
        assert transcripts.strip_injected(given) == given

    def test_many_markers_take_no_time(self) -> None:
        many = "<memory_context><related_memories>" * 50_000
        assert transcripts.strip_injected(f"a{many}</memory_context>") == "a" + many[:-34]


class TestTimes:
    @pytest.mark.parametrize(
        ("given", "found"),
        [
            ("2026-01-01T10:00:00Z", START_MS),
            ("2026-01-01T12:00:00.000+02:00", START_MS),
            ("2026-01-01T10:00:00", START_MS),
            (START_MS, START_MS),
            (START_MS / 1000, START_MS),
            ("yesterday", None),
            (True, None),
            (None, None),
            (-5, None),
            (float("nan"), None),
            (float("inf"), None),
            (10**400, None),
            ("0001-01-01T00:00:00+23:59", None),
        ],
    )
    def test_what_is_one_and_what_is_not(self, given: object, found: int | None) -> None:
        assert transcripts.parse_millis(given) == found


class TestClaudeCode:
    def test_a_conversation_without_its_noise(self) -> None:
        session = Claude()
        start, *found = read(ClaudeCodeTranscript("file"), session.lamp())
        assert (start.type, start.role, start.at_ms) == (
            EventType.SESSION_START,
            EventRole.SYSTEM,
            START_MS,
        )
        assert [(each.type, each.role) for each in found] == [
            (EventType.USER_MESSAGE, EventRole.USER),
            (EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT),
            (EventType.TOOL_RESULT, EventRole.TOOL),
            (EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT),
        ]
        assert words(found) == [
            "Why does the lamp of the lighthouse flicker?",
            "I look at the dimmer.",
            "Read: /lighthouse/dimmer.py\ndef dim(volt): return volt * 0.93",
            "The dimmer drops below the lamp's voltage: 0.93 is too low.",
        ]
        assert {each.session_id for each in found} == {session.session}

    def test_times_are_those_of_the_lines(self) -> None:
        line = Claude().prompt("When?", timestamp="2025-03-04T05:06:07.089Z")
        (found,) = claude(line)
        assert iso(found.at_ms) == "2025-03-04T05:06:07.089Z"

    def test_metadata(self) -> None:
        *_, result, answer = claude(*Claude().lamp())
        about = {"agent": "claude-code", "cwd": "/home/ada/projects/lighthouse", "branch": "main"}
        assert result.metadata == {
            **about,
            "tool_name": "Read",
            "file_path": "/lighthouse/dimmer.py",
        }
        assert answer.metadata == {**about, "model": "claude-test"}

    def test_noise_alone_is_no_session(self) -> None:
        assert read(ClaudeCodeTranscript("file"), Claude().noise()) == []

    def test_a_subagent_has_a_session_of_its_own(self) -> None:
        session = Claude(agent="a12")
        start, prompt = read(ClaudeCodeTranscript("file"), [session.prompt("Count the steps.")])
        assert start.type is EventType.SUBAGENT_START
        assert prompt.session_id == transcripts.build_session_id(session.session, "a12")
        assert event_metadata.get_main_session(prompt.session_id) == session.session

    def test_the_one_that_writes_summaries_is_noise(self) -> None:
        assert claude(Claude(agent="acompact-1").prompt("Create a summary.")) == []

    def test_lines_that_a_fork_copied_are_those_of_the_other_session(self) -> None:
        before = Claude(session="before")
        lines = before.lamp()
        copies = [
            line
            | {
                "sessionId": "fork",
                "uuid": f"new-{number}",
                "forkedFrom": {"sessionId": "before", "messageUuid": line.get("uuid")},
            }
            for number, line in enumerate(lines)
        ]
        own = Claude(session="fork", at_ms=START_MS + 60_000).prompt("And now?")
        *copied, start, prompt = read(ClaudeCodeTranscript("file"), [*copies, own])
        assert copied == read(ClaudeCodeTranscript("file"), lines)
        assert (start.session_id, prompt.session_id) == ("fork", "fork")
        assert start.at_ms == prompt.at_ms

    def test_two_texts_of_a_message_are_two_whenever_they_are_read(self) -> None:
        session = Claude()
        lines = [session.says("m1", text("First.")), session.says("m1", text("Second."))]
        early, late = claude(lines[0]), claude(*lines)
        assert words(late) == ["First.", "Second."]
        assert early[0].event_id == late[0].event_id != late[1].event_id

    def test_a_prompt_id_is_that_of_the_first_text(self) -> None:
        session = Claude()
        lines = [session.prompt(each, promptId="p") for each in ("One.", "And another.")]
        first, second = claude(*lines)
        assert first.event_id == transcripts.build_event_id(session.session, RecordKind.PROMPT, "p")
        assert second.event_id != first.event_id

    def test_reminders_and_own_context_are_left_out(self) -> None:
        session = Claude()
        found = claude(
            session.prompt(
                "Go on.<system-reminder>be brief</system-reminder>"
                "<memory_context>They like tea.</memory_context>"
            ),
            session.prompt("<system-reminder>only this</system-reminder>"),
            session.says("m", tool_use("t", "Bash", command="make tea")),
            session.result("t", "<related_memories>They like tea.</related_memories>\n1 found"),
        )
        assert words(found) == ["Go on.", "Bash: make tea\n\n1 found"]

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (
                "<command-name>/review</command-name><command-args>the dimmer</command-args>",
                "/review the dimmer",
            ),
            ("<bash-input>ls -l</bash-input>", "! ls -l"),
        ],
    )
    def test_commands_are_told_as_they_were_typed(self, given: str, said: str) -> None:
        assert words(claude(Claude().prompt(given))) == [said]

    def test_what_our_own_commands_tell_is_left_out_and_not_searched(self) -> None:
        session = Claude()
        (found,) = claude(
            session.says("m", tool_use("t", "Bash", command="cd /app && memory recall tea")),
            session.result("t", "[1] They like tea."),
        )
        assert found.text == "Bash: cd /app && memory recall tea"
        assert found.metadata[RECALLED] == "true"

    def test_what_a_tool_wrote_is_kept(self) -> None:
        session = Claude()
        (found,) = claude(
            session.says("m", tool_use("t", "Edit", file_path="/a.py", new_string="volt = 12")),
            session.result("t", "updated"),
        )
        assert found.text == "Edit: /a.py\nvolt = 12\nupdated"

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ([text("a"), {"type": "image", "source": {}}, text("b")], "Bash: x\na\n[image]\nb"),
            (None, "Bash: x"),
            ({"stdout": "out", "stderr": "err"}, "Bash: x\nout\nerr"),
        ],
    )
    def test_results_of_any_shape(self, content: object, said: str) -> None:
        session = Claude()
        call = session.says("m", tool_use("t", "Bash", command="x"))
        assert words(claude(call, session.result("t", content))) == [said]

    def test_a_failed_tool_says_so(self) -> None:
        (found,) = claude(Claude().result("t", "no such file", is_error=True))
        assert (found.text, found.metadata["error"]) == ("no such file", "true")

    def test_a_line_of_no_session_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="no sessionId"):
            claude(Claude().prompt("Who?", sessionId=None))

    def test_a_line_without_a_time_has_the_last_ones(self) -> None:
        session = Claude()
        first, second = claude(session.prompt("a"), session.prompt("b", timestamp="soon"))
        assert first.at_ms == second.at_ms
        with pytest.raises(InvalidInput, match="no timestamp"):
            claude(session.prompt("c", timestamp=None))


class TestCodex:
    def test_a_conversation_without_its_noise(self) -> None:
        start, *found = read(CodexTranscript("rollout"), rollout("s"))
        assert (start.type, start.at_ms) == (EventType.SESSION_START, START_MS)
        assert [(each.role.name, each.text) for each in found] == [
            ("USER", "Which lock gates leak?"),
            ("ASSISTANT", "I look into the list of gates."),
            ("TOOL", "Bash: grep leak gates.csv\ngate 7: leak"),
            ("ASSISTANT", "Only gate 7 leaks."),
        ]
        assert {each.session_id for each in found} == {"s"}
        assert found[0].at_ms == START_MS + 4_000
        about = {"agent": "codex", "cwd": "/home/ada/projects/canal", "branch": "locks"}
        assert found[2].metadata == {**about, "tool_name": "Bash"}
        assert found[3].metadata == {**about, "model": "gpt-test"}

    def test_what_hooks_are_given_leads_to_the_same_ids(self) -> None:
        _, prompt, _, result, _ = read(CodexTranscript("rollout"), rollout("s"))
        assert prompt.event_id == transcripts.build_event_id("s", RecordKind.PROMPT, "turn-1")
        assert result.event_id == transcripts.build_event_id("s", RecordKind.TOOL, "c1")

    def test_a_subagent_has_the_session_that_its_hooks_have(self) -> None:
        lines = rollout("sub")
        spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "main", "depth": 1}}}
        lines[0]["payload"] |= {"session_id": "main", "source": spawned}
        start, *found = read(CodexTranscript("rollout"), lines)
        assert start.type is EventType.SUBAGENT_START
        assert {each.session_id for each in found} == {transcripts.build_session_id("main", "sub")}

    def test_calls_by_a_script_are_recorded_as_hooks_record_them(self) -> None:
        def line(kind: str, **payload: Any) -> Line:
            return {"timestamp": iso(START_MS), "type": kind, "payload": payload}

        def item(call_id: str, **fields: Any) -> Line:
            return line("event_msg", type="item_completed", item={"id": call_id, **fields})

        command = ["/bin/bash", "-lc", "echo lit"]
        recalled = {"content": [{"type": "text", "text": "the lamp is lit"}]}
        changes = {"/a.py": {"type": "update", "unified_diff": "+open()"}}
        script = "text(await tools.exec_command({cmd: 'echo lit'}))"
        _, ran, told, changed = read(
            CodexTranscript("rollout"),
            [
                *rollout("s")[:1],
                line(
                    "response_item",
                    type="custom_tool_call",
                    name="exec",
                    namespace="functions",
                    call_id="call-1",
                    input=script,
                ),
                item("exec-1", type="CommandExecution", command=command, aggregated_output="lit\n"),
                item(
                    "exec-2",
                    type="McpToolCall",
                    server="memory",
                    tool="memory_recall",
                    arguments={"query": "lamp"},
                    result=recalled,
                ),
                item("exec-3", type="FileChange", changes=changes, stdout="Success", status="done"),
                item("call-1", type="CommandExecution", command=command, aggregated_output="lit"),
                line(
                    "response_item",
                    type="custom_tool_call_output",
                    call_id="call-1",
                    output=[{"type": "input_text", "text": "Script completed\nlit\nthe lamp"}],
                ),
            ],
        )
        assert ran.text == "Bash: echo lit\nlit"
        assert ran.event_id == transcripts.build_event_id("s", RecordKind.TOOL, "exec-1")
        assert told.text == "mcp__memory__memory_recall: lamp"
        assert told.metadata[RECALLED] == "true"
        assert (changed.metadata["file_path"], "+open()" in changed.text) == ("/a.py", True)

    def test_a_script_that_calls_nothing_is_recorded_itself(self) -> None:
        called = {"type": "custom_tool_call", "name": "exec", "call_id": "c", "input": "text(1+1)"}
        gave = {"type": "custom_tool_call_output", "call_id": "c", "output": "2"}
        lines = [
            {"timestamp": iso(START_MS), "type": "response_item", "payload": each}
            for each in (called, gave)
        ]
        _, found = read(CodexTranscript("rollout"), [*rollout("s")[:1], *lines])
        assert found.text == "exec\ntext(1+1)\n2"

    @pytest.mark.parametrize(
        ("call", "name"),
        [
            ({"name": "exec_command"}, "Bash"),
            ({"name": "memory_recall", "namespace": "mcp__notes"}, "mcp__notes__memory_recall"),
            ({"name": "spawn_agent", "namespace": "multi_agent_v1"}, "spawn_agent"),
        ],
    )
    def test_tools_have_the_names_that_hooks_give(self, call: Line, name: str) -> None:
        used = {"type": "function_call", "call_id": "c", "arguments": '{"cmd": "ls"}', **call}
        output = "Chunk ID: ab\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\nhi\n"
        gave = {"type": "function_call_output", "call_id": "c", "output": output}
        lines = [
            {"timestamp": iso(START_MS), "type": "response_item", "payload": each}
            for each in (used, gave)
        ]
        _, found = read(CodexTranscript("rollout"), [*rollout("s")[:1], *lines])
        assert found.metadata["tool_name"] == name
        assert (found.text.endswith("ls\nhi"), found.metadata["error"]) == (True, "true")

    def test_an_empty_result_of_an_unknown_call_is_nothing(self) -> None:
        gave = {"type": "function_call_output", "call_id": "c", "output": ""}
        line = {"timestamp": iso(START_MS), "type": "response_item", "payload": gave}
        assert read(CodexTranscript("rollout"), [*rollout("s")[:1], line]) == []

    def test_a_patch_names_its_file(self) -> None:
        patch = "*** Begin Patch\n*** Update File: src/gate.py\n+open()\n*** End Patch"
        called = {"type": "custom_tool_call", "name": "apply_patch", "call_id": "c", "input": patch}
        gave = {"type": "custom_tool_call_output", "call_id": "c", "output": "Success"}
        when = iso(START_MS)
        _, found = read(
            CodexTranscript("rollout-x-0199aaaa-0000-7000-8000-00000000beef"),
            [
                {"timestamp": when, "type": "response_item", "payload": each}
                for each in (called, gave)
            ],
        )
        assert found.metadata["file_path"] == "src/gate.py"
        assert "+open()" in found.text
        assert found.session_id == "0199aaaa-0000-7000-8000-00000000beef"

    def test_lines_of_old_have_no_payload(self) -> None:
        lines: list[Line] = [
            {"id": "old", "timestamp": iso(START_MS), "instructions": None},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        ]
        _, found = read(CodexTranscript("rollout"), lines)
        assert (found.session_id, found.text, found.at_ms) == ("old", "Hi", START_MS)

    def test_the_session_of_a_fork_is_its_own(self) -> None:
        lines = [rollout("fork")[0], *rollout("parent")]
        assert {each.session_id for each in read(CodexTranscript("rollout"), lines)} == {"fork"}

    def test_without_a_session_it_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="session id"):
            read(CodexTranscript("rollout"), rollout()[1:])


class TestPlain:
    def test_a_conversation(self) -> None:
        found = read(PlainTranscript("file"), plain())
        assert [(each.role.name, each.text) for each in found] == [
            ("USER", "Is the mill open?"),
            ("ASSISTANT", "Until six."),
            ("USER", "And on Sunday?"),
            ("ASSISTANT", "Closed, as ever."),
        ]
        assert [each.at_ms - START_MS for each in found] == [0, 1000, 2000, 3000]

    def test_everything_that_can_be_said(self) -> None:
        (found,) = read(
            PlainTranscript("file"),
            [
                {
                    "session_id": "s",
                    "timestamp": "2026-01-01T10:00:00Z",
                    "role": "Tool",
                    "event_type": "tool_result",
                    "event_id": "mine",
                    "text": "42",
                    "metadata": {"tool_name": "sum", "terms": [40, 2]},
                }
            ],
        )
        assert (found.event_id, found.type, found.at_ms) == (
            "mine",
            EventType.TOOL_RESULT,
            START_MS,
        )
        assert found.metadata == {"tool_name": "sum", "terms": "[40, 2]"}

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"session_id": ""}, "no session_id"),
            ({"timestamp_ms": "never"}, "timestamp"),
            ({"role": "narrator"}, "'narrator' is none of user, assistant"),
            ({"event_type": "sneeze"}, "event_type 'sneeze'"),
        ],
    )
    def test_what_is_wrong_is_said(self, change: Line, reason: str) -> None:
        with pytest.raises(InvalidInput, match=reason):
            read(PlainTranscript("file"), [plain()[0] | change])


class TestAContextCutShort:
    def test_goes_too(self) -> None:
        """As `head` shows it, without the closing tag."""
        given = "<memory_context>\n  <project>mill</project>\n  <resources>\n    <resource uri="
        assert transcripts.strip_injected(given) == ""

    def test_what_was_said_beside_it_stays(self) -> None:
        given = "look:\n<related_memories>\n  <memory uri='x'>\nWhat is that?"
        assert transcripts.strip_injected(given) == "look:\nWhat is that?"

    def test_a_word_is_a_word(self) -> None:
        given = "What does <memory_context> mean?\n  <b>this</b>"
        assert transcripts.strip_injected(given) == given
