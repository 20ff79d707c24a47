"""Events of hook calls: what is recorded, under which id, and what never is."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.hooks.model import hooks, tool_use, transcripts
from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.features.hooks.model.transcripts import OWN_MARKERS, RecordKind
from agent_memory.features.index.model import documents
from agent_memory.features.log.model.events import MAX_TEXT_BYTES, Event, EventRole, EventType
from agent_memory.features.recall.model.contexts import GUIDANCE
from agent_memory.interfaces.hooks import inputs
from agent_memory.interfaces.hooks.inputs import Delivery
from agent_memory.kernel.json_fields import Fields
from tests.hook_inputs import AGENT_ID, CLAUDE_CODE, FOLDER, SAMPLES, SESSION, encode_input

AT = 1_780_000_000_000

USER = (EventType.USER_MESSAGE, EventRole.USER)
ANSWER = (EventType.ASSISTANT_MESSAGE, EventRole.ASSISTANT)
RESULT = (EventType.TOOL_RESULT, EventRole.TOOL)
START = (EventType.SESSION_START, EventRole.SYSTEM)
STOP = (EventType.ASSISTANT_STOP, EventRole.SYSTEM)
END = (EventType.SESSION_END, EventRole.SYSTEM)

DESCRIPTION = (EventType.ASSISTANT_MESSAGE, EventRole.SYSTEM)

RECORDED = {
    "claude-code/SessionStart": [START],
    "claude-code/SessionStart/compact": [START],
    "claude-code/UserPromptSubmit": [USER],
    "claude-code/PreToolUse": [],
    "claude-code/PostToolUse/Read": [RESULT],
    "claude-code/PostToolUse/Edit": [RESULT],
    "claude-code/PostToolUse/Write": [RESULT],
    "claude-code/PostToolUse/Bash": [RESULT],
    "claude-code/PostToolUse/Grep": [RESULT],
    "claude-code/PostToolUse/mcp": [RESULT],
    "claude-code/PostToolUseFailure": [RESULT],
    "claude-code/Stop": [ANSWER, STOP],
    "claude-code/SubagentStart": [(EventType.SUBAGENT_START, EventRole.SYSTEM)],
    "claude-code/SubagentStop": [ANSWER, (EventType.SUBAGENT_STOP, EventRole.SYSTEM)],
    "claude-code/PreCompact": [],
    "claude-code/PostCompact": [DESCRIPTION],
    "claude-code/SessionEnd": [END],
    "claude-code/Notification": [],
    "codex/SessionStart": [START],
    "codex/UserPromptSubmit": [USER],
    "codex/PreToolUse": [],
    "codex/PostToolUse": [RESULT],
    "codex/Stop": [ANSWER, STOP],
    "codex/SubagentStart": [(EventType.SUBAGENT_START, EventRole.SYSTEM)],
    "codex/SubagentStop": [ANSWER, (EventType.SUBAGENT_STOP, EventRole.SYSTEM)],
    "codex/PreCompact": [],
    "codex/PostCompact": [],
    "codex/SessionEnd": [END],
    "gemini/SessionStart": [START],
    "gemini/BeforeAgent": [USER],
    "gemini/BeforeTool": [],
    "gemini/AfterTool": [RESULT],
    "gemini/AfterTool/error": [RESULT],
    "gemini/AfterTool/exit": [RESULT],
    "gemini/AfterAgent": [ANSWER, STOP],
    "gemini/PreCompress": [],
    "gemini/SessionEnd": [END],
    "cursor/beforeSubmitPrompt": [USER],
    "cursor/afterAgentResponse": [ANSWER],
    "cursor/afterFileEdit": [RESULT],
    "cursor/beforeShellExecution": [],
    "cursor/afterShellExecution": [RESULT],
    "cursor/afterMCPExecution": [RESULT],
    "cursor/stop": [STOP],
    "004/SessionStart": [START],
    "004/UserPromptSubmit": [USER],
    "004/PostToolUse": [RESULT],
    "004/PreCompact": [],
    "004/Stop": [END],
}


def parse_call(sample: str, nonce: str = "n1", **more: Any) -> HookCall:
    delivery = Delivery(
        name="auto",
        agent="",
        folder="/home/ada/code",
        environ={},
        nonce=nonce,
        at_ms=AT,
        data=encode_input(SAMPLES[sample], **more),
    )
    return inputs.parse_delivery(delivery).call


def events(found: HookCall, *, project: str = "lighthouse", branch: str = "main") -> list[Event]:
    return hooks.build_events(found, project=project, branch=branch)


def only(found: HookCall) -> Event:
    (event,) = events(found)
    return event


class TestKinds:
    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_every_event_of_every_agent(self, sample: str) -> None:
        found = events(parse_call(sample))
        assert [(each.type, each.role) for each in found] == RECORDED[sample]
        assert len({each.event_id for each in found}) == len(found)

    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_each_is_of_its_session_place_and_time(self, sample: str) -> None:
        found = parse_call(sample)
        for event in events(found):
            assert (event.session_id, event.at_ms) == (found.session, found.at_ms)
            assert event.metadata["project"] == "lighthouse"
            assert event.metadata["branch"] == "main"
            assert event.metadata["cwd"] == found.folder

    def test_a_subagents_events_are_of_its_own_session(self) -> None:
        for sample in ("claude-code/SubagentStart", "claude-code/SubagentStop"):
            for event in events(parse_call(sample)):
                assert event.session_id == f"{SESSION}/{AGENT_ID}"
                assert event.metadata["agent_type"] == "Explore"

    def test_what_is_not_known_is_no_metadata(self) -> None:
        event = only(replace(parse_call("004/UserPromptSubmit"), folder=""))
        bare = hooks.build_events(
            replace(parse_call("004/UserPromptSubmit"), folder=""), project="", branch=""
        )
        assert event.metadata == {"project": "lighthouse", "branch": "main"}
        assert bare[0].metadata == {}

    def test_only_a_compression_by_hand_is_one(self) -> None:
        """Gemini CLI announces an automatic one before every request."""
        assert parse_call("gemini/PreCompress", trigger="auto").kind is HookKind.OTHER
        assert parse_call("gemini/PreCompress", trigger="manual").kind is HookKind.COMPACTION

    def test_nothing_said_is_no_message(self) -> None:
        assert events(parse_call("claude-code/UserPromptSubmit", prompt=" \n")) == []
        stopped = events(parse_call("claude-code/Stop", last_assistant_message=""))
        assert [each.type for each in stopped] == [EventType.ASSISTANT_STOP]


class TestTools:
    def test_name_file_question_and_result(self) -> None:
        event = only(parse_call("claude-code/PostToolUse/Read"))
        assert event.text == f"Read: {FOLDER}/src/dimmer.py\ndef dim(volt):\n    return volt * 0.93"
        assert event.metadata["tool_name"] == "Read"
        assert event.metadata["file_path"] == f"{FOLDER}/src/dimmer.py"
        assert "error" not in event.metadata

    @pytest.mark.parametrize(
        ("tool", "given", "text"),
        [
            ("Edit", {}, f"Edit: {FOLDER}/src/dimmer.py\nreturn max(volt * 0.93, LOWEST)"),
            ("Write", {}, f"Write: {FOLDER}/docs/lamp.md\n# The lamp\n\nLowest voltage: 11."),
            (
                "Edit",
                {
                    "tool_name": "MultiEdit",
                    "tool_input": {
                        "file_path": "/x",
                        "edits": [
                            {"old_string": "1", "new_string": "one"},
                            {"old_string": "2", "new_string": "two"},
                        ],
                    },
                },
                "MultiEdit: /x\none\ntwo",
            ),
        ],
    )
    def test_what_was_written_is_told_once(
        self, tool: str, given: dict[str, Any], text: str
    ) -> None:
        """The earlier content of the file is not recorded."""
        assert only(parse_call(f"claude-code/PostToolUse/{tool}", **given)).text == text

    @pytest.mark.parametrize(
        "response",
        [
            {"type": "image", "file": {"base64": "iVBORw0KGgo" * 99, "type": "image/png"}},
            {"stdout": "data:image/png;base64," + "iVBORw0KGgo" * 99, "isImage": True},
            {"type": "pdf", "file": {"filePath": "/x.pdf", "base64": "iVBORw0KGgo" * 99}},
            [{"type": "image", "source": {"type": "base64", "data": "iVBORw0KGgo" * 99}}],
        ],
    )
    def test_pictures_are_not_text(self, response: object) -> None:
        text = only(parse_call("claude-code/PostToolUse/Read", tool_response=response)).text
        assert "iVBOR" not in text
        assert text.startswith("Read: ")

    def test_a_command_and_its_output(self) -> None:
        assert (
            only(parse_call("claude-code/PostToolUse/Bash")).text
            == "Bash: make test\n4 passed in 0.31s"
        )
        assert only(parse_call("cursor/afterShellExecution")).text == "Shell: npm test\n9 passing"

    @pytest.mark.parametrize("sample", ["claude-code/PostToolUseFailure", "gemini/AfterTool/error"])
    def test_a_failure_says_so(self, sample: str) -> None:
        event = only(parse_call(sample))
        assert event.metadata["error"] == "true"
        assert ":" in event.text

    @pytest.mark.parametrize(
        ("name", "also"),
        [
            ("read_file", "Read"),
            ("write_file", "Write"),
            ("replace", "Edit"),
            ("MultiEdit", "Edit"),
        ],
    )
    def test_other_agents_names_of_a_tool_mean_the_same(self, name: str, also: str) -> None:
        use = tool_use.parse_use(name, Fields({"absolute_path": "/x/hours.txt"}))
        assert use.names == {name, also}
        assert use.file == "/x/hours.txt"
        assert tool_use.parse_use("Read", Fields({})).names == {"Read"}

    def test_a_tool_that_gave_nothing_back_was_still_run(self) -> None:
        event = only(parse_call("claude-code/PostToolUse/Bash", tool_response={}))
        assert event.text == "Bash: make test"

    @pytest.mark.parametrize(
        ("response", "text"),
        [
            ("plain", "plain"),
            ("", ""),
            (None, ""),
            (7, ""),
            ([], ""),
            ({}, ""),
            ([{"type": "text", "text": "a"}, {"type": "image", "source": {}}], "a\n[image]"),
            ([{}], "[something]"),
            ({"stdout": "out", "stderr": "err", "interrupted": False}, "out\nerr"),
            ({"type": "text", "file": {"filePath": "/x", "content": "words"}}, "words"),
            ({"mode": "content", "content": "a:1:x", "filenames": [], "numLines": 1}, "a:1:x"),
            ({"filenames": ["a", 7, "b"], "durationMs": 3}, "a\nb"),
            ({"llmContent": "said", "returnDisplay": "shown"}, "said"),
            ({"llmContent": [{"text": "said"}], "returnDisplay": "x"}, "said"),
            ({"content": [{"type": "text", "text": "High water"}]}, "High water"),
            ({"oldTodos": [], "newTodos": ["x"]}, '{"oldTodos": [], "newTodos": ["x"]}'),
            ({"originalFile": "x", "structuredPatch": [], "filePath": "/x"}, ""),
            ({"content": [{"type": "text", "text": "199"}], "agentId": "a1"}, "199"),
        ],
    )
    def test_the_text_of_a_result(self, response: object, text: str) -> None:
        assert tool_use.render_result(response) == text

    @given(st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda each: st.lists(each, max_size=3)
        | st.dictionaries(
            st.sampled_from(["content", "text", "file", "llmContent", "filenames", "error"])
            | st.text(max_size=5),
            each,
            max_size=3,
        ),
        max_leaves=10,
    ))  # fmt: skip
    def test_any_result_has_a_text(self, response: object) -> None:
        assert isinstance(tool_use.render_result(response), str)


class TestIds:
    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_the_same_delivery_twice_is_one(self, sample: str) -> None:
        assert events(parse_call(sample, "n")) == events(parse_call(sample, "n"))

    @pytest.mark.parametrize(
        "sample",
        [
            "claude-code/UserPromptSubmit",
            "claude-code/PostToolUse/Bash",
            "claude-code/PostToolUseFailure",
            "claude-code/Stop",
            "claude-code/SubagentStart",
            "codex/UserPromptSubmit",
            "codex/PostToolUse",
            "codex/Stop",
            "codex/SubagentStop",
            "cursor/beforeSubmitPrompt",
            "cursor/afterAgentResponse",
            "cursor/stop",
        ],
    )
    def test_what_the_agent_names_is_one_however_often_it_is_told(self, sample: str) -> None:
        one, two = events(parse_call(sample, "n1")), events(parse_call(sample, "n2"))
        assert [each.event_id for each in one] == [each.event_id for each in two]

    @pytest.mark.parametrize(
        "sample",
        [
            "claude-code/SessionStart",
            "claude-code/SessionEnd",
            "gemini/BeforeAgent",
            "gemini/AfterTool",
            "gemini/AfterAgent",
            "cursor/afterShellExecution",
            "004/UserPromptSubmit",
            "004/PostToolUse",
            "004/Stop",
        ],
    )
    def test_the_same_words_without_a_name_are_two(self, sample: str) -> None:
        one, two = events(parse_call(sample, "n1")), events(parse_call(sample, "n2"))
        assert {each.event_id for each in one}.isdisjoint({each.event_id for each in two})

    def test_a_turn_that_ends_twice_with_other_words_is_two_answers(self) -> None:
        one = events(parse_call("claude-code/Stop"))
        two = events(parse_call("claude-code/Stop", last_assistant_message="Done now."))
        assert {each.event_id for each in one}.isdisjoint({each.event_id for each in two})

    def test_another_session_is_another_event(self) -> None:
        one = only(parse_call("claude-code/PostToolUse/Bash"))
        two = only(parse_call("claude-code/PostToolUse/Bash", session_id="other"))
        inner = only(parse_call("claude-code/PostToolUse/Bash", agent_id="a1"))
        assert len({one.event_id, two.event_id, inner.event_id}) == 3

    def test_they_are_those_of_transcripts(self) -> None:
        prompt = only(parse_call("claude-code/UserPromptSubmit"))
        given = CLAUDE_CODE["UserPromptSubmit"]["prompt_id"]
        assert prompt.event_id == transcripts.build_event_id(SESSION, RecordKind.PROMPT, given)
        tool = only(parse_call("claude-code/PostToolUse/Bash"))
        assert tool.event_id == transcripts.build_event_id(SESSION, RecordKind.TOOL, "toolu_04Bash")
        start = only(parse_call("claude-code/SubagentStart"))
        assert start.event_id == transcripts.build_event_id(
            f"{SESSION}/{AGENT_ID}", RecordKind.SUBAGENT_START, ""
        )


class TestLongAndStrangeTexts:
    @pytest.mark.parametrize("letter", ["x", "\N{ROCKET}"])
    def test_what_is_too_long_is_cut_and_says_so(self, letter: str) -> None:
        event = only(parse_call("claude-code/UserPromptSubmit", prompt=letter * (2 << 20)))
        assert event.text.endswith(transcripts.CUT)
        assert len(event.text.encode()) <= MAX_TEXT_BYTES

    def test_metadata_too(self) -> None:
        long = "/" + "x" * 100_000
        event = only(parse_call("claude-code/PostToolUse/Read", tool_input={"file_path": long}))
        assert len(event.metadata["file_path"]) <= hooks.MAX_ABOUT_CHARS

    def test_lone_surrogates_are_replaced(self) -> None:
        event = only(parse_call("claude-code/UserPromptSubmit", prompt="a \ud800 b"))
        assert event.text == "a ? b"
        named = only(parse_call("claude-code/UserPromptSubmit", cwd="/a\udc80b", model="m\udfff"))
        assert named.metadata["cwd"] == "/a?b"

    @given(
        sample=st.sampled_from(sorted(SAMPLES)),
        words=st.text(alphabet=st.characters(), max_size=200),
        nonce=st.text(min_size=1, max_size=8),
    )
    def test_any_words_become_valid_events(self, sample: str, words: str, nonce: str) -> None:
        found = parse_call(
            sample,
            nonce,
            prompt=words,
            last_assistant_message=words,
            tool_response=words,
            cwd=f"/{words}",
        )
        for event in events(found, project=words, branch=words):
            for each in (event.text, *event.metadata.values()):
                assert each.encode().decode() == each


def _marked(name: str, size: int = 0) -> str:
    inside = "\n".join(GUIDANCE["detailed"]) + " injected" * size
    return f"<{name}>\n  <summary>{inside}</summary>\n</{name}>"


class TestWhatWeSaidOurselves:
    def test_gemini_repeats_it_escaped_before_the_next_prompt(self) -> None:
        context = "&lt;memory_context&gt;\n&lt;project/&gt;&lt;/memory_context&gt;"
        prompt = f"<hook_context>{context}</hook_context>\n\nIs it lit?"
        assert only(parse_call("gemini/BeforeAgent", prompt=prompt)).text == "Is it lit?"

    @pytest.mark.parametrize("name", OWN_MARKERS)
    @pytest.mark.parametrize(
        ("sample", "field"),
        [
            ("claude-code/UserPromptSubmit", "prompt"),
            ("claude-code/Stop", "last_assistant_message"),
            ("claude-code/SubagentStop", "last_assistant_message"),
            ("claude-code/PostToolUse/Bash", "tool_response"),
            ("claude-code/PostToolUseFailure", "error"),
            ("gemini/AfterAgent", "prompt_response"),
            ("cursor/afterAgentResponse", "text"),
            ("cursor/afterShellExecution", "output"),
            ("004/PostToolUse", "tool_output"),
        ],
    )
    def test_it_is_not_recorded(self, name: str, sample: str, field: str) -> None:
        given = f"before {_marked(name)} after"
        spoken = events(parse_call(sample, **{field: given}))[0]
        assert "before  after" in spoken.text
        assert "injected" not in spoken.text
        assert "memory recall" not in spoken.text

    def test_a_prompt_of_nothing_else_is_none(self) -> None:
        assert (
            events(parse_call("claude-code/UserPromptSubmit", prompt=_marked("memory_context")))
            == []
        )

    @pytest.mark.parametrize("size", [0, 600, 1100, 10_000])
    def test_nor_is_what_was_written_into_a_file(self, size: int) -> None:
        """A cut must not lose the end of a tag, however long the text is."""
        content = f"# Notes\n{_marked('memory_context', size)}\nThe end."
        event = only(
            parse_call(
                "claude-code/PostToolUse/Write",
                tool_input={"file_path": "/x/notes.md", "content": content},
                tool_response={"type": "create", "filePath": "/x/notes.md"},
            )
        )
        assert "injected" not in event.text
        assert "memory_context" not in event.text

    @pytest.mark.parametrize("size", [0, 1100])
    def test_nor_is_what_cursor_wrote(self, size: int) -> None:
        edits = [{"old_string": "", "new_string": f"New. {_marked('memory_context', size)}"}]
        event = only(parse_call("cursor/afterFileEdit", file_path="/x", edits=edits))
        assert event.text == "Edit: /x\nNew."

    @pytest.mark.parametrize("size", [0, 300, 10_000])
    def test_nor_what_a_tool_was_asked(self, size: int) -> None:
        asked = f"{_marked('memory_context', size)} Count the steps."
        event = only(
            parse_call(
                "claude-code/PostToolUse/Bash",
                tool_name="Task",
                tool_input={"prompt": asked, "subagent_type": "Explore"},
                tool_response={"content": [{"type": "text", "text": "199"}]},
            )
        )
        assert event.text == "Task: Count the steps.\n199"

    def test_nor_what_stands_in_a_structured_result(self) -> None:
        response = {"rows": [_marked("related_memories", 2_000)], "count": 1}
        event = only(parse_call("claude-code/PostToolUse/Bash", tool_response=response))
        assert "injected" not in event.text

    @given(
        words=st.lists(
            st.sampled_from(
                [
                    *(f"<{name}>" for name in OWN_MARKERS),
                    *(f"</{name}>" for name in OWN_MARKERS),
                    "word",
                    "\n",
                ]
            ),
            max_size=12,
        )
    )
    def test_a_closed_marker_never_stays(self, words: list[str]) -> None:
        found = tool_use.parse_use("Write", Fields({"content": " ".join(words)})).render_text("")
        for name in OWN_MARKERS:
            opened = found.find(f"<{name}>")
            assert opened < 0 or found.find(f"</{name}>", opened) < 0


class TestBeforeATool:
    """Nothing of it is recorded; what is said then is about the result that will be."""

    @pytest.mark.parametrize(
        "sample", ["claude-code/PreToolUse", "codex/PreToolUse", "gemini/BeforeTool"]
    )
    def test_the_use_is_that_of_the_result(self, sample: str) -> None:
        before = parse_call(sample)
        after = parse_call(sample, hook_event_name="PostToolUse", tool_response="done")
        assert before.use == after.use
        assert before.use.name

    def test_its_event_is_the_result(self) -> None:
        before = parse_call("claude-code/PreToolUse")
        assert before.event_id == only(parse_call("claude-code/PostToolUse/Read")).event_id
        failure = parse_call("claude-code/PostToolUseFailure")
        assert failure.event_id == only(failure).event_id
        assert parse_call("gemini/BeforeTool").event_id == ""  # it has no id of the call

    def test_the_command_the_file_and_the_new_text_are_known(self) -> None:
        command = "cd web && npm test -- --watch=false\nnpm run lint"
        bash = parse_call(
            "claude-code/PreToolUse", tool_name="Bash", tool_input={"command": command}
        )
        assert (bash.use.command, bash.use.file) == (command, "")
        edits = {"file_path": "/a.py", "edits": [{"new_string": "one"}, {"new_string": "two"}]}
        for name, arguments, text in (
            ("Write", {"file_path": "/a.py", "content": "all of it"}, "all of it"),
            ("Edit", {"file_path": "/a.py", "old_string": "a", "new_string": "b"}, "b"),
            ("MultiEdit", edits, "one\ntwo"),
            ("NotebookEdit", {"notebook_path": "/a.py", "new_source": "x = 1"}, "x = 1"),
        ):
            use = parse_call("claude-code/PreToolUse", tool_name=name, tool_input=arguments).use
            assert (use.command, use.file, use.written) == ("", "/a.py", text)

    def test_a_long_command_and_a_long_text_are_cut(self) -> None:
        given = {"command": "echo word; " * 1_000, "content": "a line\n" * 10_000}
        use = parse_call("claude-code/PreToolUse", tool_name="Bash", tool_input=given).use
        assert len(use.command) <= tool_use.MAX_ASKED
        assert len(use.written) <= tool_use.MAX_WRITTEN


class TestMoments:
    @pytest.mark.parametrize("kind", list(HookKind))
    def test_each_is_decided(self, kind: HookKind) -> None:
        found = HookCall(kind=kind, session="s", at_ms=AT, nonce="n", text="words")
        recorded = hooks.build_events(found, project="p", branch="b")
        silent = {HookKind.BEFORE_TOOL, HookKind.COMPACTION, HookKind.OTHER}
        assert bool(recorded) is (kind not in silent)


class TestOurOwnCommands:
    @pytest.mark.parametrize(
        "command",
        [
            "memory recall axolotl",
            "memory today --date yesterday",
            "memory log --oneline",
            "memory sessions",
            "cd /app && memory recall 'which database'",
            "/opt/bin/memory --format json list",
            "memory-daemon query tree | head",
            "timeout 20 env LC_ALL=C memory recall axolotl",
            "bash -lc memory show 01M45MQ0",
            "echo `memory context`",
            "uv run kontekst 'what did we decide about the axolotl'",
        ],
    )
    def test_what_they_tell_is_not_recorded_again(self, command: str) -> None:
        event = only(
            parse_call(
                "claude-code/PostToolUse/Bash",
                tool_input={"command": command},
                tool_response={"stdout": "[1] an old conversation"},
            )
        )
        assert event.text == f"Bash: {command}"
        assert documents.from_event(event) == []

    @pytest.mark.parametrize(
        ("sample", "name"),
        [
            ("claude-code/PostToolUse/Bash", "mcp__memory__memory_recall"),
            ("claude-code/PostToolUse/Bash", "mcp__agent-memory__memory_timeline"),
            ("claude-code/PostToolUse/Bash", "mcp__plugin_memory_memory__memory_recall"),
            ("gemini/AfterTool", "mcp_memory_memory_recall"),
            ("gemini/AfterTool", "mcp_agent-memory_memory_expand"),
            ("codex/PostToolUse", "memory__memory_recall"),
            ("cursor/afterMCPExecution", "memory_recall"),
        ],
    )
    def test_nor_what_our_server_tells(self, sample: str, name: str) -> None:
        event = only(
            parse_call(
                sample,
                tool_name=name,
                tool_input={"query": "axolotl"},
                tool_response="an old conversation",
                result_json='{"content": "an old conversation"}',
            )
        )
        assert event.text == f"{name}: axolotl"
        assert documents.from_event(event) == []

    @pytest.mark.parametrize(
        ("name", "asked"),
        [
            ("mcp__tides__memory_recall_all", "axolotl"),
            ("memory_search", "axolotl"),
            ("Grep", "memory recall axolotl"),
            ("Task", "Find out why.\nmemory recall axolotl"),
        ],
    )
    def test_tools_of_others_are_not_ours(self, name: str, asked: str) -> None:
        assert not tool_use.ToolUse(name=name, asked=asked).is_own

    @pytest.mark.parametrize(
        "command",
        ["cat memory recall.txt", "free | grep memory", "memory-x", "memory capture decisions x"],
    )
    def test_other_programs_are_not_ours(self, command: str) -> None:
        event = only(
            parse_call(
                "claude-code/PostToolUse/Bash",
                tool_input={"command": command},
                tool_response={"stdout": "what it says"},
            )
        )
        assert event.text.endswith("what it says")


class TestQuestions:
    @pytest.mark.parametrize(
        ("given", "asked"),
        [
            ({"command": ["bash", "-lc", "ls"]}, "bash -lc ls"),
            ({"q": "walrus"}, '{"q": "walrus"}'),
            ({}, ""),
        ],
    )
    def test_of_any_tool_are_kept(self, given: dict[str, Any], asked: str) -> None:
        assert tool_use.parse_use("any", Fields(given)).asked == asked

    def test_what_failed_is_told(self) -> None:
        assert tool_use.render_result({"error": {"message": "boom"}}) == "boom"

    def test_a_command_may_write_nothing(self) -> None:
        result = {"stdout": "", "stderr": "", "interrupted": False, "bashEditDiff": {"files": []}}
        event = only(parse_call("claude-code/PostToolUse/Bash", tool_response=result))
        assert event.text == "Bash: make test"
