"""Config files of agents: our entries are added and removed, and every other byte stays."""

import json
import os
import shlex
import stat
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_memory.features.hooks.adapters.agents import (
    claude_code,
    codex,
    copilot,
    cursor,
    gemini,
    rule_files,
    windsurf,
)
from agent_memory.features.hooks.adapters.agents.json_text import JsonDocument
from agent_memory.features.hooks.feature import INSTALLERS
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigChange,
    ConfigFile,
    DesiredConfig,
    InstallScope,
    InstallTarget,
    Launcher,
    McpServer,
    is_our_command,
)
from agent_memory.features.hooks.ports import AgentSetup
from agent_memory.features.hooks.services.config_files import LIMIT, DiskFiles
from agent_memory.kernel.errors import ConfigError

LAUNCHER = Launcher(python="/opt/our tools/bin/python", script="/opt/lib/agent_memory/launch.py")
MOVED = Launcher(python="/elsewhere/bin/python", script="/elsewhere/agent_memory/launch.py")
SETUPS: dict[Agent, AgentSetup] = {each.agent: each for each in INSTALLERS}
EVENTS = {
    Agent.CLAUDE_CODE: claude_code.EVENTS,
    Agent.CODEX: codex.EVENTS,
    Agent.GEMINI: gemini.EVENTS,
    Agent.CURSOR: cursor.EVENTS,
    Agent.COPILOT: copilot.EVENTS,
    Agent.WINDSURF: windsurf.EVENTS,
}
# What is asked about before it runs: a hook costs each call its time.
BEFORE = {
    Agent.CLAUDE_CODE: "Bash|Edit|MultiEdit|NotebookEdit|Read|Write",
    Agent.CODEX: "Bash|apply_patch",
}
UNGROUPED = (Agent.CURSOR, Agent.COPILOT, Agent.WINDSURF)
SEAT = InstallTarget(
    scope=InstallScope.USER, home="/home/ada", root="/code/app", folder="/code/app", environ={}
)
NOTHING = DesiredConfig()
hook_agents = pytest.mark.parametrize("agent", list(EVENTS), ids=str)
json_agents = pytest.mark.parametrize(
    "agent",
    [Agent.CLAUDE_CODE, Agent.GEMINI, Agent.CURSOR, Agent.COPILOT, Agent.WINDSURF, Agent.CLINE],
    ids=str,
)
every_agent = pytest.mark.parametrize("agent", list(Agent), ids=str)
every_scope = pytest.mark.parametrize("scope", list(InstallScope), ids=str)


def build_desired(
    agent: Agent, launcher: Launcher = LAUNCHER, *, mcp: bool = False
) -> DesiredConfig:
    return DesiredConfig(hook=launcher.hook(agent), server=launcher.server() if mcp else None)


def files(agent: Agent) -> tuple[ConfigFile, ...]:
    return SETUPS[agent].list_files(SEAT)


def hooks_file(agent: Agent) -> ConfigFile:
    return next(file for file in files(agent) if file.hooks)


def servers_file(agent: Agent) -> ConfigFile:
    return next(file for file in files(agent) if file.servers)


def edit(agent: Agent, text: str, want: DesiredConfig, *, file: ConfigFile | None = None) -> str:
    return SETUPS[agent].edit_file(file or hooks_file(agent), text, want).text


def handlers(agent: Agent, text: str) -> dict[str, list[Any]]:
    """Return the handlers by event."""
    found = json.loads(text).get("hooks", {})
    if agent in UNGROUPED:
        return dict(found)
    return {
        event: [handler for group in groups for handler in group["hooks"]]
        for event, groups in found.items()
    }


# What people have in their files: any JSON, other people's hooks, other MCP servers.

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
others = st.sampled_from(
    ["./lint.sh", "echo memory hook", "my-memory hook", "memory serve", "memory hook auto; beep"]
)


def theirs(agent: Agent) -> st.SearchStrategy[Any]:
    """Generate an entry of another program."""
    handler = st.fixed_dictionaries({"command": others}, optional={"timeout": st.integers(1, 60)})
    if agent in UNGROUPED:
        return handler
    return st.fixed_dictionaries(
        {"hooks": st.lists(handler, max_size=2)}, optional={"matcher": words, "sequential": scalars}
    )


def configs(agent: Agent) -> st.SearchStrategy[dict[str, Any]]:
    """Generate configs without empty objects or lists that our entries would be added to."""
    events = st.dictionaries(
        st.sampled_from([*EVENTS[agent], "Notification"]),
        st.lists(theirs(agent), min_size=1, max_size=2),
        min_size=1,
        max_size=3,
    )
    servers = st.dictionaries(
        st.sampled_from(["memory", "files", "search"]),
        st.fixed_dictionaries({"command": st.just("npx"), "args": st.lists(words, max_size=2)}),
        min_size=1,
        max_size=3,
    )
    rest = st.dictionaries(words.filter(lambda key: key not in ("hooks", "mcpServers")), values)
    known = st.fixed_dictionaries(
        {"version": st.just(1), "model": words}, optional={"hooks": events, "mcpServers": servers}
    )
    return st.tuples(rest, known, st.booleans()).map(
        lambda each: {**each[0], **each[1]} if each[2] else {**each[1], **each[0]}
    )


@st.composite
def laid_out(draw: st.DrawFn, value: Any) -> str:
    """Generate JSON in the layouts that people write."""
    indent = draw(st.sampled_from([None, 0, 1, 2, 4, "\t"]))
    spaced = draw(st.booleans())
    comma = ", " if spaced and indent is None else draw(st.sampled_from([",", " ,"]))
    text = json.dumps(
        value,
        indent=indent,
        ensure_ascii=draw(st.booleans()),
        separators=(comma, draw(st.sampled_from([": ", ":", " : "]))),
    )
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(st.sampled_from(["", "\n", " "])) + text + draw(st.sampled_from(["", "\n", "\n\n"]))


@hook_agents
class TestJson:
    """The hooks file of each agent, with its servers if it has them."""

    @given(data=st.data())
    def test_in_and_out_again(self, agent: Agent, data: st.DataObject) -> None:
        text = data.draw(configs(agent).flatmap(laid_out))
        mcp = data.draw(st.booleans())
        there = edit(agent, text, build_desired(agent, mcp=mcp))
        assert edit(agent, there, build_desired(agent, mcp=mcp)) == there, "twice is once"
        assert edit(agent, there, NOTHING) == text, "out again, it is as it was"
        moved = edit(agent, text, build_desired(agent, MOVED, mcp=mcp))
        assert edit(agent, moved, build_desired(agent, mcp=mcp)) == there, "repaired in place"
        self.assert_else_is_as_it_was(agent, text, edit(agent, text, build_desired(agent)))

    @staticmethod
    def assert_else_is_as_it_was(agent: Agent, text: str, there: str) -> None:
        before, after = json.loads(text), json.loads(there)
        ours = after.pop("hooks")
        theirs = before.pop("hooks", {})
        assert list(after.items()) == list(before.items())
        for event, entries in theirs.items():
            assert ours[event][: len(entries)] == entries
            assert len(ours[event]) == len(entries) + (event in EVENTS[agent])
        # Every character is there still, in its order.
        stored = iter(there)
        assert all(character in stored for character in text)

    def test_every_event_is_hooked_once_with_ten_seconds(self, agent: Agent) -> None:
        found = handlers(agent, edit(agent, "", build_desired(agent)))
        assert tuple(found) == EVENTS[agent]
        timeout = 10_000 if agent is Agent.GEMINI else 10
        timed = {Agent.COPILOT: "timeoutSec", Agent.WINDSURF: ""}.get(agent, "timeout")
        for event, entries in found.items():
            (handler,) = entries
            assert shlex.split(handler["command"]) == [
                *("/opt/our tools/bin/python", "-I", "-S", "/opt/lib/agent_memory/launch.py"),
                *("memory", "hook", "auto", "--agent", agent.value),
                *("||", "echo", "{}"),
            ]
            short = event == "SessionEnd" and agent is not Agent.GEMINI
            assert handler.get(timed) == (None if short or not timed else timeout)
            untyped = agent in (Agent.CURSOR, Agent.WINDSURF)
            assert handler.get("type") == (None if untyped else "command")

    def test_tool_events_are_hooked_for_all_tools_that_they_tell_of(self, agent: Agent) -> None:
        if agent in UNGROUPED:
            return  # it has no matchers for what we hook
        found = json.loads(edit(agent, "", build_desired(agent)))["hooks"]
        matched = {event for event, (group,) in found.items() if "matcher" in group}
        assert matched == {event for event in EVENTS[agent] if "Tool" in event}
        before = BEFORE.get(agent, "")
        matchers = {event: found[event][0]["matcher"] for event in matched}
        assert matchers == {e: before if e == "PreToolUse" else "*" for e in matched}

    def test_a_file_that_we_made_is_bare_afterwards(self, agent: Agent) -> None:
        there = edit(agent, "", build_desired(agent, mcp=True))
        assert SETUPS[agent].edit_file(hooks_file(agent), there, NOTHING).bare
        assert not SETUPS[agent].edit_file(hooks_file(agent), '{"a": 1}', build_desired(agent)).bare

    @pytest.mark.parametrize("text", ["", "{}", "{ }\n", '{"a": 1}', '{"hooks": {}}'])
    def test_nothing_of_ours_to_remove_changes_nothing(self, agent: Agent, text: str) -> None:
        assert edit(agent, text, NOTHING) == text

    @pytest.mark.parametrize(
        "command",
        [
            "memory hook auto",
            "/home/ada/.local/bin/memory hook user-prompt",
            "MEMORY_X=1 memory -q hook auto 2>/dev/null || true",
            "env A=b exec memory hook stop",
            "/gone/python -I -S '/old place/agent_memory/launch.py' memory hook auto --agent codex",
        ],
    )
    def test_ours_are_known_by_what_they_run(self, agent: Agent, command: str) -> None:
        handler = {"command": command, "timeout": 99}
        event = EVENTS[agent][0]
        entry = handler if agent in UNGROUPED else {"matcher": "x", "hooks": [handler]}
        text = json.dumps({"version": 1, "hooks": {event: [entry, entry], "Other": [entry]}})
        there = edit(agent, text, build_desired(agent))
        assert there == edit(agent, '{"version": 1}', build_desired(agent))
        assert SETUPS[agent].find_entries(hooks_file(agent), text).hooks == (command,) * 3
        assert json.loads(edit(agent, text, NOTHING)) == {"version": 1}

    def test_somebody_elses_handler_in_our_group_stays(self, agent: Agent) -> None:
        if agent in UNGROUPED:
            return  # it has no groups
        lint = {"type": "command", "command": "./lint.sh"}
        own = {"type": "command", "command": "memory hook auto"}
        group = {"matcher": "Edit", "hooks": [own, lint, own]}
        event = EVENTS[agent][2]
        there = edit(agent, json.dumps({"hooks": {event: [group]}}), build_desired(agent))
        first, second = json.loads(there)["hooks"][event]
        assert first == {"matcher": "Edit", "hooks": [lint]}
        assert second["hooks"][0]["command"] == LAUNCHER.hook(agent)
        assert json.loads(edit(agent, there, NOTHING)) == {"hooks": {event: [first]}}

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ('{"a": ', "not valid JSON"),
            ("[]", "not an object"),
            ('"x"', "not an object"),
            ('{"hooks": []}', "'hooks' is not an object"),
            ('{"hooks": {}, "hooks": {}}', "twice"),
            ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "too deeply"),
            ('{"a": ' + "9" * 5000 + "}", "cannot be read"),
        ],
    )
    def test_what_cannot_be_kept_whole_is_refused(self, agent: Agent, text: str, told: str) -> None:
        with pytest.raises(ConfigError, match=told):
            edit(agent, text, build_desired(agent))

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ('{\n  // mine\n  "a": 1\n}', "comment at line 2"),
            ('{"a": 1 /* mine */}', "comment at line 1"),
            ('{"a": 1,}', "not valid JSON"),
        ],
    )
    def test_what_the_agent_could_not_read_is_refused(
        self, agent: Agent, text: str, told: str
    ) -> None:
        if agent is Agent.COPILOT:
            assert edit(agent, edit(agent, text, build_desired(agent)), NOTHING).count("1") == 2
            return  # it reads comments
        with pytest.raises(ConfigError, match=told):
            edit(agent, text, build_desired(agent))

    def test_an_event_that_is_no_list_is_refused(self, agent: Agent) -> None:
        event = EVENTS[agent][0]
        with pytest.raises(ConfigError, match=f"hooks.{event}"):
            edit(agent, json.dumps({"hooks": {event: {"command": "x"}}}), build_desired(agent))

    def test_a_byte_order_mark_stays(self, agent: Agent) -> None:
        text = '\ufeff{"version": 1}\n'
        there = edit(agent, text, build_desired(agent))
        assert there.startswith("\ufeff{")
        assert edit(agent, there, NOTHING) == text


class TestLayout:
    def test_what_is_added_is_indented_as_its_neighbours(self) -> None:
        text = (
            '{\n\t"model": "x",\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t{"hooks": []}\n\t\t]\n\t}\n}\n'
        )
        lines = edit(Agent.CLAUDE_CODE, text, build_desired(Agent.CLAUDE_CODE)).splitlines()
        assert lines[:5] == [*text.splitlines()[:4], '\t\t\t{"hooks": []},']
        assert lines[5:8] == ["\t\t\t{", '\t\t\t\t"hooks": [', "\t\t\t\t\t{"]
        assert lines[-2:] == ["\t}", "}"]

    def test_one_line_stays_one_line(self) -> None:
        there = edit(Agent.CURSOR, '{"version":1}', build_desired(Agent.CURSOR))
        assert "\n" not in there
        assert there.startswith('{"version":1,"hooks":{"beforeSubmitPrompt":[{"command":')


@json_agents
class TestServersInJson:
    def test_only_where_there_is_one(self, agent: Agent) -> None:
        file = servers_file(agent)
        without = json.loads(edit(agent, '{"a": 1}', build_desired(agent), file=file))
        assert "mcpServers" not in without
        there = json.loads(edit(agent, '{"a": 1}', build_desired(agent, mcp=True), file=file))
        entry = there["mcpServers"]["memory"]
        assert entry["command"] == "/opt/our tools/bin/python"
        assert entry["args"] == ["-I", "-S", "/opt/lib/agent_memory/launch.py", "memory", "serve"]
        assert SETUPS[agent].find_entries(file, json.dumps(there)).servers == (LAUNCHER.server(),)

    def test_one_that_this_version_has_not_goes(self, agent: Agent) -> None:
        file = servers_file(agent)
        there = edit(agent, '{"a": 1}', build_desired(agent, mcp=True), file=file)
        assert edit(agent, there, build_desired(agent), file=file) == edit(
            agent, '{"a": 1}', build_desired(agent), file=file
        )

    def test_another_server_called_memory_stays(self, agent: Agent) -> None:
        file = servers_file(agent)
        text = json.dumps({"mcpServers": {"memory": {"command": "npx", "args": ["server-memory"]}}})
        there = edit(agent, text, DesiredConfig(server=LAUNCHER.server()), file=file)
        assert list(json.loads(there)["mcpServers"]) == ["memory", "agent-memory"]
        assert edit(agent, there, NOTHING, file=file) == text
        taken = json.dumps({"mcpServers": {"memory": {}, "agent-memory": {"url": "https://x"}}})
        with pytest.raises(ConfigError, match="rename"):
            edit(agent, taken, DesiredConfig(server=LAUNCHER.server()), file=file)

    def test_what_its_owner_added_stays_when_it_is_repaired(self, agent: Agent) -> None:
        file = servers_file(agent)
        text = edit(agent, "", build_desired(agent, MOVED, mcp=True), file=file)
        document = json.loads(text)
        document["mcpServers"] = {"mine": {**document["mcpServers"]["memory"], "env": {"A": "b"}}}
        there = json.loads(
            edit(agent, json.dumps(document), build_desired(agent, mcp=True), file=file)
        )
        (entry,) = there["mcpServers"].values()
        assert (entry["command"], entry["env"]) == (LAUNCHER.python, {"A": "b"})
        assert list(there["mcpServers"]) == ["mine"]


TOMLS = st.lists(
    st.sampled_from(
        [
            'model = "o4"  # the best',
            "approval = [\n  1, # one\n  2,\n]\n",
            "# a comment",
            "",
            'notes = """\n[mcp_servers.memory]\n"""',
            '[mcp_servers.files]\ncommand = "npx"\nargs = ["-y", "files"]\n',
            '[mcp_servers.memory]\ncommand = "npx"',
            "[profiles.fast]\nmodel = 'x'\n",
            "[features]\nhooks = true",
            '[[rules]]\nname = "a"',
        ]
    ),
    unique=True,
    max_size=6,
)


def _valid(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


tomls = (
    st.tuples(TOMLS, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["", "\n", "\n\n"]))
    .map(lambda each: ("\n".join(each[0]) + each[2]).replace("\n", each[1]))
    .filter(_valid)
)


class TestServersInToml:
    FILE = servers_file(Agent.CODEX)

    def edit(self, text: str, server: McpServer | None) -> str:
        return SETUPS[Agent.CODEX].edit_file(self.FILE, text, DesiredConfig(server=server)).text

    @given(text=tomls)
    def test_out_again_is_as_it_was(self, text: str) -> None:
        there = self.edit(text, LAUNCHER.server())
        assert there.startswith(text)
        assert self.edit(there, LAUNCHER.server()) == there
        assert self.edit(there, None) == text

    @given(text=tomls)
    def test_a_moved_installation_is_repaired_in_place(self, text: str) -> None:
        moved = self.edit(text, MOVED.server())
        assert self.edit(moved, LAUNCHER.server()) == self.edit(text, LAUNCHER.server())

    def test_it_is_a_table_of_its_own(self) -> None:
        there = self.edit('model = "o4"\n', LAUNCHER.server())
        assert there == (
            'model = "o4"\n\n[mcp_servers.memory]\ncommand = "/opt/our tools/bin/python"\n'
            'args = ["-I", "-S", "/opt/lib/agent_memory/launch.py", "memory", "serve"]\n'
        )
        assert SETUPS[Agent.CODEX].find_entries(self.FILE, there).servers == (LAUNCHER.server(),)

    @pytest.mark.parametrize(
        "text",
        [
            'mcp_servers = {files = {command = "npx"}}\nx = 1 # one\n',
            'x = 1\nmcp_servers.files.command = "npx"\ny = 2 # two\n',
            '[mcp_servers]\nfiles = {command = "npx"}\n\n[other]\nx = 1 # one\n',
        ],
    )
    def test_however_its_neighbours_are_written(self, text: str) -> None:
        there = self.edit(text, LAUNCHER.server())
        found = tomllib.loads(there)
        assert found["mcp_servers"]["memory"]["command"] == LAUNCHER.python
        assert tomllib.loads(self.edit(there, None)) == tomllib.loads(text)
        assert text.split("#")[1] in self.edit(there, None)

    def test_what_its_owner_added_stays_when_it_is_repaired(self) -> None:
        there = (
            self.edit("", MOVED.server()) + "startup_timeout_sec = 5 # slow\n\n# end\n[x]\ny=1\n"
        )
        repaired = self.edit(there, LAUNCHER.server())
        assert "startup_timeout_sec = 5 # slow\n\n# end\n[x]\ny=1\n" in repaired
        assert "/elsewhere" not in repaired
        assert self.edit(repaired, None) == "\n# end\n[x]\ny=1\n"

    def test_subtables_of_ours_go_too(self) -> None:
        there = self.edit("a = 1\n", LAUNCHER.server()) + '[mcp_servers.memory.env]\nA = "b"\n'
        assert tomllib.loads(self.edit(there, None)) == {"a": 1}

    @pytest.mark.parametrize("text", ["a = ", "a = 1\na = 2\n", "x = " + "[" * 100_000])
    def test_broken_toml_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError):
            self.edit(text, LAUNCHER.server())

    def test_a_table_that_is_none_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="not a table"):
            self.edit("mcp_servers = 1\n", LAUNCHER.server())


COMMENTED = """\
// mine
{
  "theme": "dark", // not too dark
  /* the models */
  "models": [
    "a", // the small one
    "b", /* the big one */
  ],
  "editor": { // all of it
    "tabs": 2
  } // the end
}
// after
"""


class TestComments:
    """Settings with comments, as OpenCode, VS Code and Zed read them."""

    AGENTS = (Agent.OPENCODE, Agent.VSCODE, Agent.ZED)

    @pytest.mark.parametrize("agent", AGENTS, ids=str)
    @pytest.mark.parametrize(
        "text",
        [
            COMMENTED,
            COMMENTED.replace("\n", "\r\n"),
            '{"a": 1, /* c */ "b": 2 /* d */ }',
            '{"a": 1,}',
            '{"a": 1, }',
            '{\n  "a": [1, 2,], // x  \n}\n',
            "{ // nothing yet\n}\n",
            "{\n  // nothing yet\n}",
            "// only this\n{}",
            '{"//": "/* no comment */", "b": "a,}"}',
        ],
    )
    def test_comments_stay(self, agent: Agent, text: str) -> None:
        file, desired = servers_file(agent), build_desired(agent, mcp=True)
        there = edit(agent, text, desired, file=file)
        assert edit(agent, there, desired, file=file) == there
        assert edit(agent, there, NOTHING, file=file) == text
        stored = iter(there)
        assert all(character in stored for character in text)
        assert SETUPS[agent].find_entries(file, there).servers == (LAUNCHER.server(),)

    def test_a_comment_stays_with_its_value(self) -> None:
        there = JsonDocument('{\n  "a": 1, // one\n  "b": 2 // two\n}\n', comments=True)
        there.root.append(3, "c")
        assert there.text == '{\n  "a": 1, // one\n  "b": 2, // two\n  "c": 3\n}\n'
        there.root.remove(there.root.pieces[1])
        assert there.text == '{\n  "a": 1, // one // two\n  "c": 3\n}\n'

    @given(data=st.data())
    def test_any_settings_with_comments(self, data: st.DataObject) -> None:
        """Put comments and trailing commas between the lines of any JSON."""
        lines = json.dumps(data.draw(configs(Agent.CURSOR)), indent=2).split("\n")
        notes = st.sampled_from(["", "", " // note", " /* note */", " // {[,"])
        text = "\n".join(line + data.draw(notes) for line in lines)
        file, desired = servers_file(Agent.ZED), build_desired(Agent.ZED, mcp=True)
        there = edit(Agent.ZED, text, desired, file=file)
        assert edit(Agent.ZED, there, desired, file=file) == there
        assert edit(Agent.ZED, there, NOTHING, file=file) == text
        before, after = (
            {p.key: p.value for p in JsonDocument(each, comments=True).root.pieces}
            for each in (text, there)
        )
        assert after.pop("context_servers")
        assert after == {key: value for key, value in before.items() if key in after}

    @pytest.mark.parametrize(
        "text",
        [
            '{"a": 1, // c\n "memory": OURS }',
            '{"a": 1, // c\n "memory": OURS, "b": 2}',
            '{ // c\n "memory": OURS, "b": 2 // d\n}',
            '{"memory": OURS /* c */, "b": 2}',
            '{"a": 1, "memory": OURS // c\n}',
            '{"memory": OURS // c\n}',
            '{\n  // c\n  "memory": OURS, // d\n}',
        ],
    )
    def test_comments_around_our_entry_hide_nothing(self, text: str) -> None:
        entry = json.dumps({"command": "memory", "args": ["serve"]})
        whole = '{"context_servers": ' + text.replace("OURS", entry) + ', "z": 3}'
        left = edit(Agent.ZED, whole, NOTHING, file=servers_file(Agent.ZED))
        found = {p.key: p.value for p in JsonDocument(left, comments=True).root.pieces}
        others = {key: value for key, value in (("a", 1), ("b", 2)) if f'"{key}"' in text}
        assert found == ({"context_servers": others} if others else {}) | {"z": 3}

    @pytest.mark.parametrize(
        "text", ["{'a': 1}", '{"a": 1 // x', "{a: 1}", '{"a": 1,,}', '{"a" 1}']
    )
    def test_what_is_not_json_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError, match="not valid JSON"):
            edit(Agent.ZED, text, build_desired(Agent.ZED, mcp=True), file=servers_file(Agent.ZED))


# What people have in the files that our entries go into.
RULES = [
    "",
    "# Rules\n\nUse tabs.\n",
    "no line break",
    "a\r\nb\r\n",
    "a\r",
    "\n\n",
    "---\nx: 1\n---\n",
]
YAML = [
    "",
    "model: gpt\n",
    "model: gpt",
    "# mine\nread:\n  - CONVENTIONS.md # ours\n  # - old.md\n\ndark-mode: true\n",
    "read:\n- a.md\n- b.md\n",
    "read:\n- a.md",
    "a: 1\r\nread:\r\n  - a.md\r\nb: 2\r\n",
    "notes: |\n  read:\n    - x\n",
]
JSON = ["", "{}\n", '{"version": 1}', '{\n\t"version": [1,\n2]\n}\n']


def list_texts(agent: Agent, file: ConfigFile) -> list[str]:
    if file.rules:
        return RULES
    if agent is Agent.AIDER:
        return YAML
    if file.hooks and agent in (Agent.OPENCODE, Agent.CLINE):
        return [""]
    return ["", "a = 1 # one\n"] if file.path.endswith(".toml") else JSON


@every_agent
@every_scope
class TestEveryFile:
    """Each file of each agent, whatever its format."""

    def list_files(self, agent: Agent, scope: InstallScope) -> tuple[ConfigFile, ...]:
        return SETUPS[agent].list_files(replace(SEAT, scope=scope))

    def test_in_and_out_again(self, agent: Agent, scope: InstallScope) -> None:
        setup = SETUPS[agent]
        for file in self.list_files(agent, scope):
            for text in list_texts(agent, file):
                desired = build_desired(agent, mcp=True)
                there = setup.edit_file(file, text, desired)
                assert there.text != text
                assert setup.edit_file(file, there.text, desired).text == there.text
                out = setup.edit_file(file, there.text, NOTHING)
                assert out.bare if text in ("", "{}\n") else out.text == text, text

    def test_an_installation_that_moved_is_repaired(
        self, agent: Agent, scope: InstallScope
    ) -> None:
        setup = SETUPS[agent]
        for file in self.list_files(agent, scope):
            there, moved = (
                setup.edit_file(file, "", build_desired(agent, launcher, mcp=True)).text
                for launcher in (LAUNCHER, MOVED)
            )
            repaired = setup.edit_file(file, moved, build_desired(agent, mcp=True))
            assert repaired.text == there

    def test_nothing_of_ours_to_remove_changes_nothing(
        self, agent: Agent, scope: InstallScope
    ) -> None:
        for file in self.list_files(agent, scope):
            for text in list_texts(agent, file):
                assert SETUPS[agent].edit_file(file, text, NOTHING).text == text

    def test_our_entries_are_found(self, agent: Agent, scope: InstallScope) -> None:
        setup = SETUPS[agent]
        for file in self.list_files(agent, scope):
            there = setup.edit_file(file, "", build_desired(agent, mcp=True)).text
            entries = setup.find_entries(file, there)
            assert set(entries.hooks) == ({LAUNCHER.hook(agent)} if file.hooks else set())
            assert entries.servers == ((LAUNCHER.server(),) if file.servers else ())
            assert entries.rules == (not file.hooks and not file.servers)
            assert setup.find_entries(file, "") == type(entries)()

    def test_with_another_home_they_are_ours_too(self, agent: Agent, scope: InstallScope) -> None:
        launcher = replace(LAUNCHER, options=("--home", "/other home"))
        for file in self.list_files(agent, scope):
            hook = launcher.hook(agent) if file.hooks else ""
            server = launcher.server() if file.servers else None
            desired = DesiredConfig(hook=hook, server=server)
            there = SETUPS[agent].edit_file(file, "", desired).text
            assert there.count("/other home") == bool(hook or server) or hook
            entries = SETUPS[agent].find_entries(file, there)
            assert (bool(entries.hooks), bool(entries.servers)) == (bool(hook), bool(server))


class TestRules:
    def test_they_name_the_tools(self) -> None:
        assert "`memory_recall`" in rule_files.RULES
        assert "`memory_capture`" in rule_files.RULES

    def test_without_mcp_there_are_none(self) -> None:
        (file,) = (file for file in files(Agent.ZED) if file.rules)
        assert edit(Agent.ZED, "mine\n", build_desired(Agent.ZED), file=file) == "mine\n"
        there = edit(Agent.ZED, "mine\n", build_desired(Agent.ZED, mcp=True), file=file)
        assert edit(Agent.ZED, there, build_desired(Agent.ZED), file=file) == "mine\n"

    def test_an_older_text_of_ours_is_replaced_in_place(self) -> None:
        old = f"a\n\n{rule_files.BEGIN}\nold\n{rule_files.END}\nb\n"
        assert rule_files.edit_rules(old, "new\n").text == old.replace("old", "new")
        assert rule_files.edit_rules(old, "").text == "a\nb\n"

    @pytest.mark.parametrize(
        "text", [rule_files.BEGIN, rule_files.END, f"{rule_files.END}\n{rule_files.BEGIN}\n"]
    )
    def test_half_a_block_is_refused(self, text: str) -> None:
        for rules in (rule_files.RULES, ""):
            with pytest.raises(ConfigError, match="not a pair"):
                rule_files.edit_rules(text, rules)

    @given(text=words, front=st.sampled_from(["", "---\nx: y\n---\n"]))
    def test_any_text_is_as_it_was_afterwards(self, text: str, front: str) -> None:
        there = rule_files.edit_rules(text, rule_files.RULES, front).text
        assert rule_files.edit_rules(there, "", front).text == text


class TestAider:
    def edit(self, text: str, want: DesiredConfig) -> str:
        return edit(Agent.AIDER, text, want, file=files(Agent.AIDER)[0])

    def test_the_file_is_named(self) -> None:
        there = self.edit("read:\n  - a.md\n", build_desired(Agent.AIDER))
        assert there == 'read:\n  - a.md\n  - "/home/ada/.aider.agent-memory.md"\n'

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("read: a.md\n", "as a list"),
            ("read: [a.md]\n", "as a list"),
            ("read:\n  - >\n    a\n  - b.md\n", "as a list"),
            ("a: [", "not valid YAML"),
            ("- a\n", "not a mapping"),
            ("a: &x [*x]\nb: !!python/object:x.Y {}\n", "not valid YAML"),
        ],
    )
    def test_what_cannot_be_extended_is_refused(self, text: str, told: str) -> None:
        with pytest.raises(ConfigError, match=told):
            self.edit(text, build_desired(Agent.AIDER))


class TestOwnedFiles:
    @pytest.mark.parametrize("agent", [Agent.OPENCODE, Agent.CLINE], ids=str)
    def test_somebody_elses_file_is_left(self, agent: Agent) -> None:
        text = "#!/bin/sh\nexec ./lint.sh\n"
        with pytest.raises(ConfigError, match="not a file of Agent Memory"):
            edit(agent, text, build_desired(agent))
        assert edit(agent, text, NOTHING) == text
        assert SETUPS[agent].find_entries(hooks_file(agent), text).hooks == ()

    def test_a_script_of_cline_can_be_run(self) -> None:
        setup, file = SETUPS[Agent.CLINE], hooks_file(Agent.CLINE)
        assert setup.edit_file(file, "", build_desired(Agent.CLINE)).executable


class TestPlaces:
    @pytest.mark.parametrize(
        ("agent", "user", "project"),
        [
            (
                Agent.CLAUDE_CODE,
                ["/home/ada/.claude/settings.json", "/home/ada/.claude.json"],
                ["/code/app/.claude/settings.local.json", "/code/app/.mcp.json"],
            ),
            (
                Agent.CODEX,
                ["/home/ada/.codex/hooks.json", "/home/ada/.codex/config.toml"],
                ["/code/app/.codex/hooks.json", "/code/app/.codex/config.toml"],
            ),
            (
                Agent.GEMINI,
                ["/home/ada/.gemini/settings.json"],
                ["/code/app/.gemini/settings.json"],
            ),
            (
                Agent.CURSOR,
                ["/home/ada/.cursor/hooks.json", "/home/ada/.cursor/mcp.json"],
                ["/code/app/.cursor/hooks.json", "/code/app/.cursor/mcp.json"],
            ),
            (
                Agent.OPENCODE,
                [
                    "/home/ada/.config/opencode/plugins/agent-memory.js",
                    "/home/ada/.config/opencode/opencode.json",
                ],
                ["/code/app/.opencode/plugins/agent-memory.js", "/code/app/opencode.json"],
            ),
            (
                Agent.COPILOT,
                [
                    "/home/ada/.copilot/hooks/agent-memory.json",
                    "/home/ada/.copilot/mcp-config.json",
                ],
                ["/code/app/.github/hooks/agent-memory.json", "/code/app/.github/mcp.json"],
            ),
            (
                Agent.WINDSURF,
                [
                    "/home/ada/.codeium/windsurf/hooks.json",
                    "/home/ada/.codeium/windsurf/mcp_config.json",
                    "/home/ada/.codeium/windsurf/memories/global_rules.md",
                ],
                ["/code/app/.windsurf/hooks.json", "/code/app/.windsurf/rules/agent-memory.md"],
            ),
            (
                Agent.ZED,
                ["/home/ada/.config/zed/settings.json", "/home/ada/.config/zed/AGENTS.md"],
                ["/code/app/.zed/settings.json", "/code/app/.rules"],
            ),
            (
                Agent.AIDER,
                ["/home/ada/.aider.conf.yml", "/home/ada/.aider.agent-memory.md"],
                ["/code/app/.aider.conf.yml", "/code/app/.aider.agent-memory.md"],
            ),
        ],
    )
    def test_each_agent_has_its_own(
        self, agent: Agent, user: list[str], project: list[str]
    ) -> None:
        assert [file.path for file in files(agent)] == user
        seat = replace(SEAT, scope=InstallScope.PROJECT)
        assert [file.path for file in SETUPS[agent].list_files(seat)] == project

    @pytest.mark.parametrize(
        ("agent", "variable", "paths"),
        [
            (
                Agent.CLAUDE_CODE,
                "CLAUDE_CONFIG_DIR",
                ["/else/where/settings.json", "/else/where/.claude.json"],
            ),
            (Agent.CODEX, "CODEX_HOME", ["/else/where/hooks.json", "/else/where/config.toml"]),
            (Agent.GEMINI, "GEMINI_CLI_HOME", ["/else/where/.gemini/settings.json"]),
            (
                Agent.OPENCODE,
                "OPENCODE_CONFIG_DIR",
                ["/else/where/plugins/agent-memory.js", "/else/where/opencode.json"],
            ),
            (
                Agent.COPILOT,
                "COPILOT_HOME",
                ["/else/where/hooks/agent-memory.json", "/else/where/mcp-config.json"],
            ),
        ],
    )
    def test_agents_may_have_been_moved(
        self, agent: Agent, variable: str, paths: list[str]
    ) -> None:
        for given_path, folder in (("/else/where", "/code/app"), ("where", "/else")):
            seat = replace(SEAT, folder=folder, environ={variable: given_path})
            assert [file.path for file in SETUPS[agent].list_files(seat)] == paths

    @pytest.mark.parametrize(
        ("agent", "text", "told"),
        [
            (Agent.CLAUDE_CODE, '{"disableAllHooks": true}', "disableAllHooks = true"),
            (Agent.CODEX, "[features]\nhooks = false\n", "features.hooks = false"),
            (Agent.CODEX, "[features]\ncodex_hooks = false\n", "features.codex_hooks = false"),
            (Agent.GEMINI, '{"hooksConfig": {"enabled": false}}', "hooksConfig.enabled = false"),
            (Agent.GEMINI, '{"hooksConfig": {"enabled": true}}', ""),
            (Agent.CURSOR, "{}", ""),
            (Agent.COPILOT, '{"disableAllHooks": true} // for now', "disableAllHooks = true"),
        ],
    )
    def test_hooks_that_are_switched_off_are_noticed(
        self, agent: Agent, text: str, told: str
    ) -> None:
        file = servers_file(agent) if agent is Agent.CODEX else hooks_file(agent)
        assert SETUPS[agent].find_entries(file, text).off == told


class TestTrust:
    HOOKS = "/home/ada/.codex/hooks.json"

    def find(self, agent: Agent, settings: str, scope: InstallScope = InstallScope.USER) -> str:
        files = {"/home/ada/.codex/config.toml": settings}
        return SETUPS[agent].find_distrust(replace(SEAT, scope=scope), files.get)

    def trust(self, path: str, number: int = len(codex.EVENTS)) -> str:
        return "".join(
            f'[hooks.state."{path}:{event}:0:0"]\ntrusted_hash = "sha256:1f"\n'
            for event in codex.EVENTS[:number]
        )

    def test_codex_runs_only_the_hooks_that_the_user_trusts(self) -> None:
        assert "does not trust its hooks" in self.find(Agent.CODEX, "")
        assert "does not trust all of its hooks" in self.find(
            Agent.CODEX, self.trust(self.HOOKS, 3)
        )
        assert self.find(Agent.CODEX, self.trust(self.HOOKS)) == ""

    def test_those_of_a_project_are_trusted_in_the_users_settings(self) -> None:
        settings = self.trust("/code/app/.codex/hooks.json")
        assert self.find(Agent.CODEX, settings, InstallScope.PROJECT) == ""
        assert self.find(Agent.CODEX, settings) != ""

    @pytest.mark.parametrize(
        "settings", ["hooks = 1", "[hooks]\nstate = 1", '[hooks.state]\n"x" = 1']
    )
    def test_strange_settings(self, settings: str) -> None:
        assert "does not trust" in self.find(Agent.CODEX, settings)

    def test_others_ask_for_no_trust(self) -> None:
        assert [self.find(agent, "") for agent in SETUPS if agent is not Agent.CODEX] == [
            "" for _ in range(len(SETUPS) - 1)
        ]


class TestRunsUs:
    @given(
        python=words.filter(lambda word: word.strip("\0") == word != ""),
        folder=words.map(lambda word: word.replace("\0", "")),
        agent=st.sampled_from(Agent),
    )
    def test_our_own_command_is_known_wherever_it_lies(
        self, python: str, folder: str, agent: Agent
    ) -> None:
        launcher = Launcher(python=f"/{python}/python", script=f"/{folder}/agent_memory/launch.py")
        assert is_our_command(launcher.hook(agent))
        server = launcher.server()
        assert is_our_command(server.command, server.args, verb="serve")
        assert not is_our_command(server.command, server.args)

    @given(words)
    def test_any_text_is_looked_at(self, text: str) -> None:
        is_our_command(text)
        is_our_command(text, [text])

    @pytest.mark.parametrize(
        "command",
        [
            "",
            "'",
            "echo memory hook",
            "memory",
            "memory recall hook",
            "memory hook auto; rm -rf x",
            "memory hook auto && beep",
            "memory hook auto | tee log",
            "memory hook auto\nbeep",
            "beep && memory hook auto",
            "(memory hook auto)",
            "python /x/other/launch.py memory hook auto",
            "python /x/agent_memory/launch.py kontekst hook auto",
        ],
    )
    def test_what_is_or_also_does_something_else_is_not_ours(self, command: str) -> None:
        assert not is_our_command(command)


def change(path: Path, before: str | None, after: str | None, emptied: str = "") -> ConfigChange:
    return ConfigChange(path=str(path), before=before, after=after, emptied=emptied)


class TestDiskFiles:
    FILES = DiskFiles()

    def test_a_new_file_is_its_owners_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "b" / "settings.json"
        self.FILES.apply(change(path, None, "{}\n"))
        assert path.read_text() == "{}\n"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o666])
    def test_the_mode_stays(self, tmp_path: Path, mode: int) -> None:
        path = tmp_path / "settings.json"
        path.write_text("a")
        path.chmod(mode)
        self.FILES.apply(change(path, "a", "b"))
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("b", mode)
        assert [each.name for each in tmp_path.iterdir()] == ["settings.json"]

    def test_a_script_can_be_run_by_its_owner(self, tmp_path: Path) -> None:
        path = tmp_path / "TaskStart"
        self.FILES.apply(replace(change(path, None, "#!/bin/sh\n"), executable=True))
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert self.FILES.is_file(str(path))
        assert not self.FILES.is_file(str(tmp_path))

    def test_line_breaks_stay(self, tmp_path: Path) -> None:
        path = tmp_path / "settings.json"
        path.write_bytes(b"a\r\nb\rc\n")
        assert self.FILES.read(str(path)) == "a\r\nb\rc\n"
        self.FILES.apply(change(path, "a\r\nb\rc\n", "x\r\ny\n"))
        assert path.read_bytes() == b"x\r\ny\n"

    def test_a_link_is_written_through(self, tmp_path: Path) -> None:
        dotfiles = tmp_path / "dotfiles"
        dotfiles.mkdir()
        (dotfiles / "real.json").write_text("a")
        first, second = tmp_path / "first", tmp_path / "second"
        second.symlink_to(dotfiles / "real.json")
        first.symlink_to("second")
        self.FILES.apply(change(first, "a", "b"))
        assert (dotfiles / "real.json").read_text() == "b"
        assert first.is_symlink()
        assert second.is_symlink()
        self.FILES.apply(change(first, "b", None, "{}\n"))
        assert first.read_text() == "{}\n"

    def test_a_link_to_nothing_makes_what_it_names(self, tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to("later/real.json")
        assert self.FILES.read(str(link)) is None
        self.FILES.apply(change(link, None, "b"))
        assert (tmp_path / "later" / "real.json").read_text() == "b"

    def test_what_is_to_go_goes(self, tmp_path: Path) -> None:
        path = tmp_path / "settings.json"
        path.write_text("a")
        self.FILES.apply(change(path, "a", None))
        assert not path.exists()

    def test_a_file_that_somebody_changed_meanwhile_is_left(self, tmp_path: Path) -> None:
        path = tmp_path / "settings.json"
        path.write_text("newer")
        with pytest.raises(ConfigError, match="another program"):
            self.FILES.apply(change(path, "older", "ours"))
        assert path.read_text() == "newer"

    @pytest.mark.parametrize(
        ("make", "told"),
        [
            (lambda path: path.mkdir(), "irectory"),
            (os.mkfifo, "not a file"),
            (lambda path: path.write_bytes(b"\xff"), "UTF-8"),
            (lambda path: path.write_bytes(b" " * (LIMIT + 1)), "MiB"),
            (lambda path: path.symlink_to(path), "cannot read"),
        ],
    )
    def test_what_is_no_text_file_is_refused(
        self, tmp_path: Path, make: Callable[[Path], object], told: str
    ) -> None:
        path = tmp_path / "settings.json"
        make(path)
        with pytest.raises(ConfigError, match=told):
            self.FILES.read(str(path))

    def test_a_folder_that_cannot_be_made_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(ConfigError, match="cannot write"):
            self.FILES.apply(change(tmp_path / "file" / "x.json", None, "{}"))

    def test_a_text_that_no_file_can_hold_leaves_nothing_behind(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="UTF-8"):
            self.FILES.apply(change(tmp_path / "x.json", None, "/b\udcff/python"))
        assert list(tmp_path.iterdir()) == []

    def test_a_repositorys_root_is_found_from_below(self, tmp_path: Path) -> None:
        below = tmp_path / "app" / "src" / "deep"
        below.mkdir(parents=True)
        assert self.FILES.find_root(str(below)) == str(below)
        (tmp_path / "app" / ".git").write_text("gitdir: ../somewhere\n")  # a worktree's
        assert self.FILES.find_root(str(below)) == str(tmp_path / "app")
        assert self.FILES.find_root(str(tmp_path / "gone")) == str(tmp_path / "gone")
