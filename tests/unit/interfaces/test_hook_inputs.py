"""Hook inputs: the kind of each agent's events, and the fields that are read."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.hooks.model import transcripts
from agent_memory.features.hooks.model.hooks import HookCall, HookKind
from agent_memory.interfaces.command_socket.calls import CommandCall
from agent_memory.interfaces.hooks import inputs
from agent_memory.interfaces.hooks.inputs import Contract, Delivery, HookRequest
from agent_memory.kernel.errors import InvalidInput
from agent_memory.launcher import command_client
from tests import hook_inputs
from tests.hook_inputs import CLAUDE_CODE, CODEX, CURSOR, GEMINI, SAMPLES, SIMPLE, encode_input

AT = 1_780_000_000_000

KINDS = {
    "claude-code/SessionStart": HookKind.SESSION_START,
    "claude-code/SessionStart/compact": HookKind.SESSION_START,
    "claude-code/UserPromptSubmit": HookKind.PROMPT,
    "claude-code/PreToolUse": HookKind.BEFORE_TOOL,
    "claude-code/PostToolUse/Read": HookKind.TOOL,
    "claude-code/PostToolUse/Edit": HookKind.TOOL,
    "claude-code/PostToolUse/Write": HookKind.TOOL,
    "claude-code/PostToolUse/Bash": HookKind.TOOL,
    "claude-code/PostToolUse/Grep": HookKind.TOOL,
    "claude-code/PostToolUse/mcp": HookKind.TOOL,
    "claude-code/PostToolUseFailure": HookKind.TOOL_FAILURE,
    "claude-code/Stop": HookKind.STOP,
    "claude-code/SubagentStart": HookKind.SUBAGENT_START,
    "claude-code/SubagentStop": HookKind.SUBAGENT_STOP,
    "claude-code/PreCompact": HookKind.COMPACTION,
    "claude-code/PostCompact": HookKind.SUMMARY,
    "claude-code/SessionEnd": HookKind.SESSION_END,
    "claude-code/Notification": HookKind.OTHER,
    "codex/SessionStart": HookKind.SESSION_START,
    "codex/UserPromptSubmit": HookKind.PROMPT,
    "codex/PreToolUse": HookKind.BEFORE_TOOL,
    "codex/PostToolUse": HookKind.TOOL,
    "codex/Stop": HookKind.STOP,
    "codex/SubagentStart": HookKind.SUBAGENT_START,
    "codex/SubagentStop": HookKind.SUBAGENT_STOP,
    "codex/PreCompact": HookKind.COMPACTION,
    "codex/PostCompact": HookKind.SUMMARY,
    "codex/SessionEnd": HookKind.SESSION_END,
    "gemini/SessionStart": HookKind.SESSION_START,
    "gemini/BeforeAgent": HookKind.PROMPT,
    "gemini/BeforeTool": HookKind.BEFORE_TOOL,
    "gemini/AfterTool": HookKind.TOOL,
    "gemini/AfterTool/error": HookKind.TOOL_FAILURE,
    "gemini/AfterTool/exit": HookKind.TOOL_FAILURE,
    "gemini/AfterAgent": HookKind.STOP,
    "gemini/PreCompress": HookKind.COMPACTION,
    "gemini/SessionEnd": HookKind.SESSION_END,
    "cursor/beforeSubmitPrompt": HookKind.PROMPT,
    "cursor/afterAgentResponse": HookKind.ANSWER,
    "cursor/afterFileEdit": HookKind.TOOL,
    "cursor/beforeShellExecution": HookKind.OTHER,
    "cursor/afterShellExecution": HookKind.TOOL,
    "cursor/afterMCPExecution": HookKind.TOOL,
    "cursor/stop": HookKind.STOP,
    "004/SessionStart": HookKind.SESSION_START,
    "004/UserPromptSubmit": HookKind.PROMPT,
    "004/PostToolUse": HookKind.TOOL,
    "004/PreCompact": HookKind.COMPACTION,
    "004/Stop": HookKind.SESSION_END,
}


def make_delivery(
    data: bytes, name: str = "auto", *, agent: str = "", folder: str = "/home/ada/code"
) -> Delivery:
    return Delivery(
        name=name, agent=agent, folder=folder, environ={}, nonce="n0nce", at_ms=AT, data=data
    )


def parse_request(found: hook_inputs.Input, name: str = "auto", *, agent: str = "") -> HookRequest:
    return inputs.parse_delivery(make_delivery(encode_input(found), name, agent=agent))


def parse_call(found: hook_inputs.Input, **more: Any) -> HookCall:
    return parse_request({**found, **more}).call


class TestDeliveries:
    ARGUMENTS = ("hook", "--agent", "codex", "stop", "--config=/etc/memory.toml")

    def parse(self, payload: bytes) -> Delivery:
        call = CommandCall(
            program="hook",
            arguments=self.ARGUMENTS,
            cwd=Path("/home/ada/code"),
            environ={},
            input_is_terminal=False,
            output_is_terminal=False,
            errors_are_terminal=False,
            nonce="n0nce",
        )
        return Delivery.parse_frame(call, payload, lambda: AT)

    def test_arguments_and_frame(self) -> None:
        assert self.parse(b"7\n{}\n") == Delivery(
            name="stop",
            agent="codex",
            folder="/home/ada/code",
            environ={},
            nonce="n0nce",
            at_ms=7,
            data=b"{}\n",
        )

    @pytest.mark.parametrize("payload", [b"", b"\n{}", b"-7\n{}", b"soon\n{}"])
    def test_without_a_time_it_is_now(self, payload: bytes) -> None:
        assert self.parse(payload).at_ms == AT


class TestDescriptions:
    def test_a_summary_has_the_id_of_its_text(self) -> None:
        raw = "<analysis>Hm.</analysis><summary>The lamp.</summary>"
        found = parse_call(CLAUDE_CODE["PostCompact"], compact_summary=raw)
        assert (found.text, found.call_id) == ("The lamp.", transcripts.fingerprint("The lamp."))

    @pytest.mark.parametrize("sample", ["SessionStart", "UserPromptSubmit"])
    def test_a_title_of_the_user(self, sample: str) -> None:
        assert parse_call(CLAUDE_CODE[sample], session_title=" The\n lamp ").title == "The lamp"
        inner = parse_call(CLAUDE_CODE[sample], session_title="The lamp", agent_id="a1")
        assert inner.title == ""

    def test_the_agent_itself_is_no_subagent(self) -> None:
        """Claude Code reports the end of its own requests, such as a compaction's."""
        found = parse_call(CLAUDE_CODE["SubagentStop"], agent_type="")
        assert found.kind is HookKind.OTHER

    def test_codex_reports_failures_in_the_result(self) -> None:
        failed = "Exit code: 1\nWall time: 0.1 seconds\nOutput:\nno such file"
        assert parse_call(CODEX["PostToolUse"], tool_response=failed).kind is HookKind.TOOL_FAILURE
        assert parse_call(CODEX["PostToolUse"]).kind is HookKind.TOOL

    @pytest.mark.parametrize(
        ("ending", "kind"),
        [
            ("Exit Code: 2\nProcess Group PGID: 7\n</untrusted_context>", HookKind.TOOL_FAILURE),
            ("Exit Code: 0\nProcess Group PGID: 7\n</untrusted_context>", HookKind.TOOL),
            ("Exit Code: 2\n" + "more output\n" * 50, HookKind.TOOL),  # the command wrote it
        ],
    )
    def test_gemini_writes_the_exit_code_after_the_output(
        self, ending: str, kind: HookKind
    ) -> None:
        result = {"llmContent": f"<untrusted_context>\nOutput: x\n{ending}", "returnDisplay": "x"}
        assert parse_call(GEMINI["AfterTool"], tool_response=result).kind is kind


class TestEveryAgentsEvents:
    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_each_is_its_kind(self, sample: str) -> None:
        assert parse_request(SAMPLES[sample]).call.kind is KINDS[sample]

    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_each_is_answered_as_its_agent_expects(self, sample: str) -> None:
        agent = sample.partition("/")[0]
        expected = {
            "004": Contract.SIMPLE,
            "cursor": Contract.SILENT,
            "gemini/AfterTool/error": Contract.SILENT,
        }
        question = parse_request(SAMPLES[sample])
        assert question.contract is expected.get(sample, expected.get(agent, Contract.AGENT))
        assert question.event == sample.split("/")[1]

    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_the_agent_is_known_by_what_it_sends(self, sample: str) -> None:
        agent = sample.partition("/")[0]
        assert parse_request(SAMPLES[sample]).call.about["agent"] == (
            "" if agent == "004" else agent
        )

    def test_who_calls_may_be_told(self) -> None:
        assert parse_request(CLAUDE_CODE["Stop"], agent="codex").call.about["agent"] == "codex"

    @pytest.mark.parametrize("event", ["Elicitation", "WorktreeCreate", "x" * 10_000, "stop!"])
    def test_an_event_that_nobody_knows_yet_is_nothing(self, event: str) -> None:
        question = parse_request({**CLAUDE_CODE["Stop"], "hook_event_name": event})
        assert (question.call.kind, question.contract) == (HookKind.OTHER, Contract.AGENT)


class TestWhichContractRules:
    @pytest.mark.parametrize("name", inputs.NAMES)
    def test_the_events_name_rules_over_the_subcommand(self, name: str) -> None:
        question = parse_request(CLAUDE_CODE["UserPromptSubmit"], name)
        assert question.call.kind is HookKind.PROMPT
        assert question.contract is Contract.AGENT

    @pytest.mark.parametrize("name", inputs.NAMES)
    def test_the_simpler_name_rules_over_the_subcommand(self, name: str) -> None:
        question = parse_request(SIMPLE["UserPromptSubmit"], name)
        assert (question.call.kind, question.contract) == (HookKind.PROMPT, Contract.SIMPLE)

    def test_with_both_names_it_is_the_agents_contract(self) -> None:
        question = parse_request({**CLAUDE_CODE["Stop"], "hook": "SessionStart"})
        assert (question.call.kind, question.contract) == (HookKind.STOP, Contract.AGENT)

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("session-start", HookKind.SESSION_START),
            ("user-prompt", HookKind.PROMPT),
            ("post-tool", HookKind.TOOL),
            ("post-tool-failure", HookKind.TOOL_FAILURE),
            ("pre-tool", HookKind.BEFORE_TOOL),
            ("pre-compact", HookKind.COMPACTION),
            ("stop", HookKind.SESSION_END),
            ("session-end", HookKind.SESSION_END),
            ("subagent-start", HookKind.SUBAGENT_START),
            ("subagent-stop", HookKind.SUBAGENT_STOP),
            ("auto", HookKind.OTHER),
        ],
    )
    @pytest.mark.parametrize("hook", [{}, {"hook": "Unheard"}, {"hook": 7}])
    def test_where_the_input_names_none_the_subcommand_counts(
        self, name: str, kind: HookKind, hook: dict[str, Any]
    ) -> None:
        question = parse_request({"session_id": "s", **hook}, name)
        assert (question.call.kind, question.contract) == (kind, Contract.SIMPLE)

    @pytest.mark.parametrize("name", ["", "nonsense", "answer", "other", "Stop"])
    def test_an_unknown_hook_is_refused_with_those_there_are(self, name: str) -> None:
        with pytest.raises(InvalidInput, match=r"session-start.*auto"):
            parse_request(CLAUDE_CODE["Stop"], name)

    def test_an_agent_with_a_typing_error_is_recognized_all_the_same(self) -> None:
        assert (
            parse_request(CLAUDE_CODE["Stop"], agent="cluade").call.about["agent"] == "claude-code"
        )

    @pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"null", b'"hook"', b"[" * 100_000])
    def test_what_is_no_object_is_refused(self, data: bytes) -> None:
        with pytest.raises(InvalidInput):
            inputs.parse_delivery(make_delivery(data, "stop"))

    def test_a_byte_order_mark_and_bytes_that_are_no_text_are_read(self) -> None:
        data = b"\xef\xbb\xbf" + b'{"hook": "UserPromptSubmit", "prompt": "caf\xe9"}'
        assert (
            inputs.parse_delivery(make_delivery(data)).call.text == "caf\N{REPLACEMENT CHARACTER}"
        )

    def test_what_cannot_be_read_still_has_its_contract(self) -> None:
        assert inputs.guess_contract(b'{"hook": "Stop", broken') is Contract.SIMPLE
        assert (
            inputs.guess_contract(b'{"hook_event_name": "Stop", "hook": 1, bro') is Contract.AGENT
        )
        assert inputs.guess_contract(b"") is Contract.AGENT


class TestSessions:
    @pytest.mark.parametrize("found", [CLAUDE_CODE["SubagentStop"], CLAUDE_CODE["SubagentStart"]])
    def test_a_subagent_has_its_own(self, found: hook_inputs.Input) -> None:
        assert parse_call(found).session == f"{hook_inputs.SESSION}/{hook_inputs.AGENT_ID}"

    def test_so_do_its_tools(self) -> None:
        found = parse_call(CLAUDE_CODE["PostToolUse/Bash"], agent_id="a1", agent_type="Explore")
        assert found.session == f"{hook_inputs.SESSION}/a1"
        assert found.about["agent_type"] == "Explore"

    def test_a_conversation_is_a_session(self) -> None:
        for found in CURSOR.values():
            assert parse_call(found).session == CURSOR["stop"]["conversation_id"]


class TestPlaceAndTime:
    def test_the_folder_is_the_agents(self) -> None:
        assert parse_call(CLAUDE_CODE["Stop"]).folder == hook_inputs.FOLDER
        assert parse_call(SIMPLE["SessionStart"]).folder == "/home/ada/projects/lighthouse"

    def test_cursor_has_roots_in_its_place(self) -> None:
        assert parse_call(CURSOR["stop"]).folder == "/home/ada/projects/ferry"

    @pytest.mark.parametrize("cwd", ["", "relative/path", 7, None, ["/x"], "/with\0nul"])
    def test_without_one_it_is_where_the_hook_ran(self, cwd: object) -> None:
        assert parse_call(CLAUDE_CODE["Stop"], cwd=cwd).folder == "/home/ada/code"

    @pytest.mark.parametrize("roots", [[], [7], "x", None, {}])
    def test_strange_roots_are_none(self, roots: object) -> None:
        assert parse_call(CURSOR["stop"], workspace_roots=roots).folder == "/home/ada/code"

    def test_a_branch_is_taken_where_it_is_told(self) -> None:
        assert parse_call(SIMPLE["SessionStart"]).branch == "feature/auth"
        assert parse_call(CLAUDE_CODE["SessionStart"]).branch == ""

    def test_the_time_is_the_agents_or_that_of_the_call(self) -> None:
        assert parse_call(CLAUDE_CODE["Stop"]).at_ms == AT
        assert parse_call(SIMPLE["SessionStart"]).at_ms == 1_737_367_200_000
        assert parse_call(GEMINI["BeforeAgent"]).at_ms == 1_794_823_200_000
        assert parse_call(GEMINI["BeforeAgent"], timestamp="yesterday").at_ms == AT


class TestIds:
    @pytest.mark.parametrize(
        ("found", "given"),
        [
            (CLAUDE_CODE["PreToolUse"], "toolu_01Read"),
            (CLAUDE_CODE["PostToolUse/Bash"], "toolu_04Bash"),
            (CLAUDE_CODE["PostToolUseFailure"], "toolu_07Fail"),
            (CLAUDE_CODE["UserPromptSubmit"], CLAUDE_CODE["UserPromptSubmit"]["prompt_id"]),
            (CODEX["PreToolUse"], "call_1"),
            (CODEX["PostToolUse"], "call_1"),
            (GEMINI["BeforeAgent"], ""),
            # One turn has many of them, so its id is none of theirs.
            (CURSOR["afterShellExecution"], ""),
            (CODEX["PreCompact"], ""),
            (SIMPLE["UserPromptSubmit"], ""),
        ],
    )
    def test_they_are_the_agents_own(self, found: hook_inputs.Input, given: str) -> None:
        assert parse_call(found).call_id == given
        assert parse_call(found).nonce == "n0nce"

    @pytest.mark.parametrize("found", [CODEX["UserPromptSubmit"], CURSOR["beforeSubmitPrompt"]])
    def test_a_turn_may_have_several_prompts(self, found: hook_inputs.Input) -> None:
        """Typed while the turn runs: all have the turn's id and none of their own."""
        one, other = parse_call(found), parse_call(found, prompt="And one more thing")
        assert one.call_id != other.call_id
        assert one.call_id == parse_call(found).call_id

    @pytest.mark.parametrize("found", [CLAUDE_CODE["Stop"], CODEX["Stop"], CURSOR["stop"]])
    def test_a_turn_may_end_twice_with_other_words(self, found: hook_inputs.Input) -> None:
        """The id tells them apart, because the spool cleans the text."""
        first, again, other = (
            parse_call(found),
            parse_call(found),
            parse_call(found, last_assistant_message="Or so."),
        )
        assert first.call_id == again.call_id != other.call_id
        turn = found.get("prompt_id") or found.get("turn_id") or found["generation_id"]
        assert turn in first.call_id


class TestTexts:
    @pytest.mark.parametrize(
        ("sample", "text"),
        [
            ("claude-code/UserPromptSubmit", "Why does the lamp of the lighthouse flicker?"),
            ("claude-code/Stop", "The dimmer drops below the lamp's voltage: 0.93 is too low."),
            ("claude-code/SubagentStop", "Three callers use dim: two with a battery."),
            ("claude-code/PostToolUse/Read", "def dim(volt):\n    return volt * 0.93\n"),
            ("claude-code/PostToolUse/Bash", "4 passed in 0.31s"),
            ("claude-code/PostToolUse/Grep", "src/dimmer.py\nsrc/lamp.py"),
            ("claude-code/PostToolUse/mcp", "High water at 16:40"),
            (
                "claude-code/PostToolUseFailure",
                "Command failed with exit code 2: no rule to make target 'deploy'",
            ),
            ("claude-code/SessionStart", ""),
            ("claude-code/PreToolUse", ""),
            ("claude-code/PreCompact", ""),
            ("codex/UserPromptSubmit", "Which lock gates leak?"),
            ("codex/PostToolUse", "gate 7: leak\n"),
            ("codex/Stop", "Only gate 7 leaks."),
            ("gemini/BeforeAgent", "Is the mill open on Sunday?"),
            ("gemini/AfterTool", "Closed on Sundays"),
            ("gemini/AfterAgent", "No, it is closed on Sundays."),
            ("cursor/beforeSubmitPrompt", "When does the ferry leave?"),
            ("cursor/afterAgentResponse", "Every hour, at twenty past."),
            ("cursor/afterShellExecution", "9 passing"),
            ("cursor/stop", ""),
            ("004/PostToolUse", "pub fn authenticate(...) { ... }"),
            ("004/PreCompact", "User implemented authentication using JWT..."),
            ("004/Stop", ""),
        ],
    )
    def test_what_was_said(self, sample: str, text: str) -> None:
        assert parse_request(SAMPLES[sample]).call.text == text

    def test_an_edit_gives_back_nothing_of_the_file(self) -> None:
        found = parse_request(CLAUDE_CODE["PostToolUse/Edit"]).call
        assert "originalFile" not in found.text
        assert found.use.written == "return max(volt * 0.93, LOWEST)"
        assert found.use.file == f"{hook_inputs.FOLDER}/src/dimmer.py"

    def test_a_failure_of_gemini_is_one(self) -> None:
        found = parse_call(GEMINI["AfterTool/error"])
        assert found.kind is HookKind.TOOL_FAILURE
        assert "No such file" in found.text

    def test_tools_of_cursor(self) -> None:
        shell = parse_call(CURSOR["afterShellExecution"]).use
        assert (shell.name, shell.asked) == ("Shell", "npm test")
        edit = parse_call(CURSOR["afterFileEdit"]).use
        assert (edit.name, edit.written) == ("Edit", "minute: 20\n// twenty past")
        assert edit.file == "/home/ada/projects/ferry/src/timetable.ts"
        mcp = parse_call(CURSOR["afterMCPExecution"])
        assert mcp.use.name == "tides_today"
        assert "High water at 16:40" in mcp.text

    def test_decisions_of_a_conversation(self) -> None:
        found = parse_call(SIMPLE["PreCompact"])
        assert found.decisions == ("Use JWT", "Store tokens in httpOnly cookies")

    @pytest.mark.parametrize("value", [None, "Use JWT", {"a": 1}, [7, None, " ", ["x"]]])
    def test_strange_decisions_are_none(self, value: object) -> None:
        assert parse_call(SIMPLE["PreCompact"], key_decisions=value).decisions == ()

    def test_no_more_decisions_than_anyone_takes(self) -> None:
        many = [f"decision {n}" for n in range(10_000)]
        assert (
            len(parse_call(SIMPLE["PreCompact"], key_decisions=many).decisions)
            == inputs.MAX_DECISIONS
        )

    def test_what_is_told_about_it(self) -> None:
        found = parse_call(CLAUDE_CODE["SessionStart"]).about
        assert (found["source"], found["model"]) == ("startup", "claude-opus-4-5")
        assert parse_call(CLAUDE_CODE["SessionEnd"]).about["reason"] == "prompt_input_exit"


class TestWordsOfTheCommand:
    @pytest.mark.parametrize(
        ("words", "name", "agent"),
        [
            (["hook", "stop"], "stop", ""),
            (["hook", "auto", "--agent", "gemini"], "auto", "gemini"),
            (["hook", "--agent=codex", "auto"], "auto", "codex"),
            (["--config", "hook.toml", "hook", "--input", "in.json", "stop"], "stop", ""),
            (["-c", "x", "hook", "pre-compact", "--output", "out.json"], "pre-compact", ""),
            (["hook"], "", ""),
            (["hook", "--agent"], "", ""),
            (["-l", "debug", "hook", "auto"], "auto", ""),
        ],
    )
    def test_name_and_agent(self, words: list[str], name: str, agent: str) -> None:
        assert (command_client.hook_name(words), command_client.option(words, "--agent") or "") == (
            name,
            agent,
        )


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda each: (
        st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=8), each, max_size=3)
    ),
    max_leaves=8,
)


class TestAnythingAtAll:
    @given(
        sample=st.sampled_from(sorted(SAMPLES)),
        name=st.sampled_from(inputs.NAMES),
        changed=st.dictionaries(
            st.sampled_from(sorted({field for each in SAMPLES.values() for field in each})),
            _JSON,
            max_size=4,
        ),
    )
    def test_fields_of_any_type_are_read_or_taken_as_not_there(
        self, sample: str, name: str, changed: dict[str, Any]
    ) -> None:
        question = inputs.parse_delivery(
            make_delivery(json.dumps({**SAMPLES[sample], **changed}).encode(), name)
        )
        found = question.call
        assert found.folder.startswith("/")
        assert all(isinstance(each, str) for each in (found.session, found.text, found.call_id))


class TestCursor:
    def test_writes_objects_as_texts(self) -> None:
        found = parse_call(
            {
                "hook_event_name": "afterMCPExecution",
                "conversation_id": "c",
                "tool_name": "search",
                "tool_input": '{"query": "lamp"}',
                "result_json": '{"content": [{"type": "text", "text": "three lamps"}]}',
            }
        )
        assert (found.use.name, found.use.asked, found.text) == ("search", "lamp", "three lamps")

    def test_the_words_of_other_tools_are_no_objects(self) -> None:
        words = '{"error": "of the file itself", "name": "lamp"}'
        found = parse_call(
            {"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": words}
        )
        assert found.text == words
