"""Answers to hooks: their format, their content, and the settings that apply."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory import config
from agent_memory.features.hooks import hook_options
from agent_memory.features.hooks.adapters.project_folders import ProjectFolders
from agent_memory.features.hooks.model import notices, transcripts
from agent_memory.features.hooks.model.hooks import HookKind
from agent_memory.features.hooks.model.installations import Agent
from agent_memory.features.hooks.model.preferences import HookOptions
from agent_memory.features.hooks.model.signals import Signal
from agent_memory.features.index.model.documents import Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import Hit
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.model.memories import Memory, MemoryStatus
from agent_memory.features.recall.model import contexts
from agent_memory.features.recall.model.contexts import Context, ContextItem, ContextRequest
from agent_memory.features.toc.model.segments import estimate_tokens
from agent_memory.interfaces.hooks import inputs, outputs
from agent_memory.interfaces.hooks.inputs import Contract, Delivery, HookRequest
from agent_memory.kernel.ids import Domain, Millis
from agent_memory.launcher import command_client
from tests.hook_inputs import SAMPLES, encode_input

AT = Millis(1_772_000_000_000)
TAKES = {HookKind.SESSION_START, HookKind.PROMPT, HookKind.TOOL}
# What only some agents take.
TAKES_TOO = {
    "claude-code/PreToolUse",
    "claude-code/PostToolUseFailure",
    "codex/PreToolUse",
    "gemini/AfterTool/exit",
}

SECTIONS = {
    HookKind.SESSION_START: "session_start",
    HookKind.BEFORE_TOOL: "post_tool_use",
    HookKind.PROMPT: "user_prompt",
    HookKind.TOOL: "post_tool_use",
    HookKind.TOOL_FAILURE: "post_tool_use",
    HookKind.COMPACTION: "pre_compact",
    HookKind.ANSWER: "stop",
    HookKind.STOP: "stop",
    HookKind.SESSION_END: "stop",
}
NOTHING = frozenset({HookKind.OTHER})


def build_context(wanted: ContextRequest, hits: Sequence[Hit]) -> Context:
    return contexts.build(wanted, [ContextItem(hit=each) for each in hits])


def parse_sample(sample: str, agent: str = "") -> HookRequest:
    return inputs.parse_delivery(
        Delivery(
            name="auto",
            agent=agent,
            folder="/",
            environ={},
            nonce="n",
            at_ms=AT,
            data=encode_input(SAMPLES[sample]),
        )
    )


def answer(sample: str, context: str) -> Any:
    said = outputs.render_answer(parse_sample(sample), context)
    assert said.endswith(b"\n")
    assert said.count(b"\n") == 1
    silent = sample in ("claude-code/PreCompact", "claude-code/PostCompact")
    return {} if silent and said == outputs.NOTHING else json.loads(said)


def hit(uri: str, summary: str = "Use JWT tokens for authentication", score: float = 0.88) -> Hit:
    document = Document(
        kind=DocumentKind.MEMORY,
        id="decisions:abc:0",
        owner=Owner("m"),
        at_ms=AT,
        title=summary,
        text=summary,
        namespace="decisions",
    )
    return Hit(document=document, score=score, parts={}, uri=uri)


def signal(summary: str, reason: str = "", namespace: str = "decisions") -> Signal:
    return Signal(
        namespace=namespace,
        summary=summary,
        content=summary,
        reason=reason,
        confidence=0.98,
        marked=True,
    )


def memory(summary: str) -> Memory:
    return Memory(
        digest=memories.compute_digest("decisions", summary, "", ""),
        namespace="decisions",
        domain=Domain("project:my-project"),
        summary=summary,
        content="",
        created_ms=AT,
        updated_ms=AT,
    )


class TestShapes:
    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_context_goes_only_where_an_agent_takes_it(self, sample: str) -> None:
        question = parse_sample(sample)
        said = answer(sample, "<related_memories/>")
        match question.contract:
            case Contract.SIMPLE:
                ended = question.call.kind is HookKind.SESSION_END
                assert said == {
                    "additionalContext": "<related_memories/>",
                    "suppressSystemPrompt": ended,
                }
            case Contract.AGENT if question.call.kind in TAKES or sample in TAKES_TOO:
                output = {
                    "hookEventName": sample.split("/")[1],
                    "additionalContext": "<related_memories/>",
                }
                assert said == {"hookSpecificOutput": output}
            case _:
                assert said == {}

    @pytest.mark.parametrize("agent", sorted(Agent))
    @pytest.mark.parametrize("event", ["PreToolUse", "PostToolUseFailure"])
    def test_around_a_tool_only_some_agents_take_it(self, event: str, agent: Agent) -> None:
        takers = {Agent.CLAUDE_CODE, Agent.CODEX, Agent.COPILOT, Agent.OPENCODE}
        if event == "PostToolUseFailure":
            takers |= {Agent.GEMINI}
        request = parse_sample(f"claude-code/{event}", agent)
        assert outputs.takes_context(request, "x") is (agent in takers)

    def test_before_a_tool_nothing_is_decided(self) -> None:
        """A decision, even to allow, would skip the question that the agent asks its user."""
        said = answer("claude-code/PreToolUse", "x")
        assert set(said) == {"hookSpecificOutput"}
        assert set(said["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}

    @pytest.mark.parametrize("sample", sorted(SAMPLES))
    def test_nothing_to_say(self, sample: str) -> None:
        simple = {"additionalContext": "", "suppressSystemPrompt": sample == "004/Stop"}
        assert answer(sample, "") == (simple if sample.startswith("004/") else {})

    @pytest.mark.parametrize("event", ["Stop", "SubagentStop", "SessionEnd", "PreCompact"])
    def test_a_stop_is_never_given_context(self, event: str) -> None:
        """It would make the agent continue."""
        assert answer(f"claude-code/{event}", "x") == {}

    def test_a_compaction_gets_no_word(self) -> None:
        """Claude Code would add even {} to its instructions, and show it."""
        assert outputs.render_answer(parse_sample("claude-code/PreCompact"), "x") == b"\n"
        compaction = b'{"hook_event_name": "PreCompact"}'
        for agent in (None, "claude-code"):
            assert command_client.empty_answer(compaction, agent) == b"\n"
        assert command_client.empty_answer(b'{"hook_event_name": "Stop"}', None) == b"{}\n"

    def test_a_compaction_of_other_agents_gets_json(self) -> None:
        assert outputs.render_answer(parse_sample("codex/PreCompact"), "x") == b"{}\n"
        compaction = b'{"hook_event_name": "PreCompact"}'
        assert command_client.empty_answer(compaction, "codex") == b"{}\n"

    def test_what_an_agent_would_put_into_a_file_is_left_out(self) -> None:
        longest = "x" * outputs.MAX_CONTEXT_CHARS
        assert answer("claude-code/SessionStart", longest) != {}
        assert answer("claude-code/SessionStart", longest + "x") == {}

    @given(st.text(alphabet=st.characters(), min_size=1, max_size=200))
    def test_any_context_is_valid_json_in_ascii(self, context: str) -> None:
        for sample in ("claude-code/UserPromptSubmit", "004/UserPromptSubmit"):
            said = outputs.render_answer(parse_sample(sample), context)
            found = json.loads(said.decode("ascii"))
            assert context in (
                found.get("additionalContext"),
                found.get("hookSpecificOutput", {}).get("additionalContext"),
            )


class TestFailures:
    @pytest.mark.parametrize("contract", [Contract.AGENT, Contract.SILENT])
    def test_an_agent_gets_an_empty_answer(self, contract: Contract) -> None:
        assert json.loads(outputs.render_failure(contract, "it broke")) == {}

    def test_the_simpler_contract_gets_a_comment(self) -> None:
        assert json.loads(outputs.render_failure(Contract.SIMPLE, "it broke")) == {
            "additionalContext": "<!-- hook error: it broke -->",
            "suppressSystemPrompt": False,
        }
        assert json.loads(outputs.render_failure(Contract.SIMPLE, ""))["additionalContext"] == ""

    @given(st.text(alphabet=st.sampled_from("-> <!a\n\ud800"), min_size=1, max_size=20))
    def test_a_reason_cannot_end_the_comment(self, reason: str) -> None:
        said = json.loads(outputs.render_failure(Contract.SIMPLE, reason))["additionalContext"]
        assert said.index("-->") == len(said) - 3
        assert "\n" not in said


class TestRelated:
    def test_as_it_is_specified(self) -> None:
        uri = "subcog://project:my-project/decisions/auth-jwt:0"
        assert contexts.render_related([hit(uri)]).splitlines() == [
            "<related_memories>",
            f'  <memory uri="{uri}" relevance="0.88">',
            "    <summary>Use JWT tokens for authentication</summary>",
            "  </memory>",
            "</related_memories>",
        ]

    def test_none_is_nothing(self) -> None:
        assert contexts.render_related([]) == ""


class TestSuggested:
    def test_as_it_is_specified(self) -> None:
        said = notices.render_suggested(
            [signal("Use PostgreSQL for the database", "JSONB support")]
        )
        assert said.splitlines() == [
            "<capture_detected>",
            '  <signal type="decision">',
            "    <summary>Use PostgreSQL for the database</summary>",
            "    <reason>JSONB support</reason>",
            "    <action>Confirm to capture this decision</action>",
            "  </signal>",
            "</capture_detected>",
        ]

    @pytest.mark.parametrize(
        ("namespace", "kind"),
        [
            ("decisions", "decision"),
            ("learnings", "learning"),
            ("blockers", "blocker"),
            ("patterns", "pattern"),
            ("progress", "progress"),
            ("retrospective", "retrospective"),
        ],
    )
    def test_each_kind_in_the_singular(self, namespace: str, kind: str) -> None:
        said = notices.render_suggested([signal("x", namespace=namespace)])
        assert f'type="{kind}"' in said
        assert "<reason>" not in said

    def test_none_is_nothing(self) -> None:
        assert notices.render_suggested([]) == ""


class TestCaptured:
    def test_as_it_is_specified(self) -> None:
        stored = memory("Use JWT")
        said = notices.render_captured([stored], "auto-saved before context compaction")
        assert said.splitlines() == [
            "<auto_captured>",
            f'  <memory uri="{stored.urn}">',
            "    <summary>Use JWT</summary>",
            "    <captured>auto-saved before context compaction</captured>",
            "  </memory>",
            "</auto_captured>",
        ]
        waiting = notices.render_captured([replace(stored, status=MemoryStatus.PENDING)], "saved")
        assert "<captured>saved; it awaits the user's review</captured>" in waiting

    def test_none_is_nothing(self) -> None:
        assert notices.render_captured([], "note") == ""


class TestGuidance:
    @pytest.mark.parametrize("detail", sorted(contexts.GUIDANCE))
    def test_it_is_told_even_where_nothing_is_known(self, detail: str) -> None:
        text = build_context(ContextRequest(project="shop", guidance=detail), []).text
        assert "<project>shop</project>" in text
        assert text.count("<guidance>") == len(contexts.GUIDANCE[detail])

    def test_more_detail_is_more_text(self) -> None:
        sizes = [
            build_context(ContextRequest(guidance=detail), []).tokens
            for detail in ("minimal", "standard", "detailed")
        ]
        assert sizes == sorted(set(sizes))

    def test_memories_leave_room_for_it(self) -> None:
        hits = [hit(f"subcog://project:x/decisions/{n}:0", "word " * 50) for n in range(50)]
        built = build_context(ContextRequest(guidance="detailed", tokens=1_000), hits)
        assert 0 < len(built.hits) < 50
        assert built.text.count("<guidance>") == len(contexts.GUIDANCE["detailed"])
        assert built.tokens <= 1_000

    @pytest.mark.parametrize("detail", sorted(contexts.GUIDANCE))
    def test_where_it_does_not_fit_nothing_is_told(self, detail: str) -> None:
        assert build_context(ContextRequest(guidance=detail, tokens=5), []).text == ""

    @pytest.mark.parametrize("detail", sorted(contexts.GUIDANCE))
    def test_it_tells_facts_and_gives_no_orders(self, detail: str) -> None:
        """Orders in a tool's output can look like an attack."""
        for each in contexts.GUIDANCE[detail]:
            assert not each.lower().startswith(("use ", "always", "never", "you "))


class TestWhateverIsQuoted:
    @given(words=st.text(alphabet=st.characters() | st.sampled_from("<>&\"'/"), max_size=60))
    def test_it_is_well_formed_and_is_taken_out_again(self, words: str) -> None:
        """We must recognize our own context when it comes back."""
        quoted = f"</memory_context> </related_memories> {words}"
        said = [
            build_context(
                ContextRequest(project=words, branch=words, guidance="minimal"), [hit("u", quoted)]
            ).text,
            contexts.render_related([hit(words, quoted)]),
            notices.render_suggested([signal(quoted, words)]),
            notices.render_captured([memory('Use <b> & "JWT"')], quoted),
        ]
        for text in filter(None, said):
            ET.fromstring(text)  # noqa: S314
            assert transcripts.strip_injected(f"before\n{text}\nafter") == "before\n\nafter"

    @given(
        tokens=st.integers(1, 3_000),
        detail=st.sampled_from(["", *contexts.GUIDANCE]),
        summaries=st.lists(st.text(max_size=300), max_size=8),
    )
    def test_it_never_exceeds_its_budget(
        self, tokens: int, detail: str, summaries: list[str]
    ) -> None:
        hits = [hit(f"u{n}", each) for n, each in enumerate(summaries)]
        built = build_context(ContextRequest(project="p", guidance=detail, tokens=tokens), hits)
        assert estimate_tokens(built.text) <= tokens


class TestWanted:
    @pytest.mark.parametrize("kind", list(HookKind))
    def test_by_default_all_that_is_recorded(self, kind: HookKind) -> None:
        assert hook_options.is_enabled(kind, config.HooksSettings()) is (kind not in NOTHING)

    @pytest.mark.parametrize("kind", list(HookKind))
    def test_nothing_where_hooks_are_off(self, kind: HookKind) -> None:
        assert not hook_options.is_enabled(kind, config.HooksSettings(enabled=False))

    @pytest.mark.parametrize("kind", sorted(SECTIONS))
    def test_each_has_its_own_switch(self, kind: HookKind) -> None:
        name = f"hooks.{SECTIONS[kind]}.enabled".upper().replace(".", "__")
        chosen = config.load({f"MEMORY_{name}": "false"}).settings.hooks
        off = {each for each in HookKind if not hook_options.is_enabled(each, chosen)}
        same = {each for each, section in SECTIONS.items() if section == SECTIONS[kind]}
        assert off == same | NOTHING

    @pytest.mark.parametrize("kind", [HookKind.SUBAGENT_START, HookKind.SUBAGENT_STOP])
    def test_a_subagents_ends_are_wanted_with_the_rest(self, kind: HookKind) -> None:
        stopped = config.HooksSettings(stop=config.StopHookSettings(enabled=False))
        assert hook_options.is_enabled(kind, stopped)


class TestPush:
    """`hooks.push` says what agents are given; what is recorded stays."""

    def options(self, push: str) -> HookOptions:
        chosen = config.load({"MEMORY_HOOKS__PUSH": push}).settings
        recalling = replace(chosen.hooks.user_prompt, recall=True)
        return hook_options.build_options(
            replace(chosen, hooks=replace(chosen.hooks, user_prompt=recalling))
        )

    @pytest.mark.parametrize(
        ("push", "given"),
        [
            ("off", set()),
            ("start", {HookKind.SESSION_START}),
            ("all", set(HookKind)),
        ],
    )
    def test_each_step_gives_more(self, push: str, given: set[HookKind]) -> None:
        options = self.options(push)
        assert {kind for kind in HookKind if options.gives(kind)} == given

    @pytest.mark.parametrize("push", ["off", "start"])
    def test_what_is_not_given_is_not_looked_up(self, push: str) -> None:
        options = self.options(push)
        assert bool(options.context_tokens) is (push == "start")
        assert not options.recall_for_prompts
        assert not options.trigger_tools

    @pytest.mark.parametrize("push", ["off", "start", "all"])
    def test_all_else_is_recorded(self, push: str) -> None:
        silent = set() if push == "all" else {HookKind.BEFORE_TOOL}
        assert self.options(push).enabled == set(HookKind) - NOTHING - silent


class TestFolders:
    def test_the_agents_else_the_callers_else_the_root(self, tmp_path: Path) -> None:
        here, gone = str(tmp_path), str(tmp_path / "gone")
        assert ProjectFolders().find_existing(here, "/usr") == here
        assert ProjectFolders().find_existing(gone, here) == here
        assert ProjectFolders().find_existing(gone, gone) == "/"

    @pytest.mark.parametrize("name", ["/nul\0byte", "/\ud800", "/" + "x" * 10_000, ""])
    def test_strange_ones_are_not_there(self, name: str) -> None:
        assert ProjectFolders().find_existing(name) == "/"


class TestSettings:
    OFF = "[hooks]\nenabled = false\n"
    BROKEN = "[hooks\nenabled"

    @pytest.fixture
    def environ(self, tmp_path: Path) -> dict[str, str]:
        return {"HOME": str(tmp_path)}

    @pytest.fixture
    def project(self, tmp_path: Path) -> Path:
        folder = tmp_path / "project"
        (folder / ".git").mkdir(parents=True)
        (folder / "src" / "deep").mkdir(parents=True)
        return folder

    def enabled(self, environ: dict[str, str], folder: Path) -> bool:
        return hook_options.load_settings(environ, str(folder)).hooks.enabled

    def configure(self, environ: dict[str, str], text: str) -> None:
        file = config.folders(environ).config_file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def test_the_projects_file_counts_in_its_subfolders(
        self, environ: dict[str, str], project: Path
    ) -> None:
        (project / "memory.toml").write_text(self.OFF)
        assert not self.enabled(environ, project / "src" / "deep")

    def test_the_environment_rules_over_files(self, environ: dict[str, str], project: Path) -> None:
        (project / "memory.toml").write_text("[hooks]\nenabled = true\n")
        assert not self.enabled({**environ, "MEMORY_HOOKS__ENABLED": "false"}, project)

    @pytest.mark.parametrize("broken", [BROKEN, "[hooks]\nenabled = 7\n", "[hooks]\nnope = 1\n"])
    def test_a_broken_project_leaves_the_users_wish(
        self, environ: dict[str, str], project: Path, broken: str
    ) -> None:
        (project / "memory.toml").write_text(broken)
        assert self.enabled(environ, project)
        self.configure(environ, self.OFF)
        assert not self.enabled(environ, project)

    @pytest.mark.parametrize(
        ("text", "push"),
        [
            ("[hooks]\npush = 'none'\n", "off"),
            ("[hooks]\npush = 'start'\nnope = 1\n", "off"),
            ("[hooks]\npush = 'all'\nnope = 1\n", "all"),
            ("[hooks]\nnope = 1\n[hooks.stop]\npush_remote = true\n", "all"),
        ],
    )
    def test_what_cannot_be_read_may_limit_what_agents_are_given(
        self, environ: dict[str, str], project: Path, text: str, push: str
    ) -> None:
        (project / "memory.toml").write_text(text)
        assert hook_options.load_options(environ, str(project)).push == push
        (project / "memory.toml").unlink()
        self.configure(environ, text)
        assert hook_options.load_options(environ, str(project)).push == push

    def test_a_variable_that_cannot_be_read_limits_it(
        self, environ: dict[str, str], project: Path
    ) -> None:
        variables = {**environ, "MEMORY_HOOKS__PUSH": "none"}
        assert hook_options.load_options(variables, str(project)).push == "off"

    def test_a_broken_file_of_the_user_leaves_the_projects_wish(
        self, environ: dict[str, str], project: Path
    ) -> None:
        self.configure(environ, self.BROKEN)
        assert self.enabled(environ, project)
        (project / "memory.toml").write_text(self.OFF)
        assert not self.enabled(environ, project)

    def test_both_broken_leave_the_environments_wish(
        self, environ: dict[str, str], project: Path
    ) -> None:
        self.configure(environ, self.BROKEN)
        (project / "memory.toml").write_text(self.BROKEN)
        assert self.enabled(environ, project)
        assert not self.enabled({**environ, "MEMORY_HOOKS__ENABLED": "false"}, project)

    def test_a_broken_environment_leaves_the_files(
        self, environ: dict[str, str], project: Path
    ) -> None:
        (project / "memory.toml").write_text(self.OFF)
        assert not self.enabled({**environ, "MEMORY_CLI__COLOR": "many"}, project)
