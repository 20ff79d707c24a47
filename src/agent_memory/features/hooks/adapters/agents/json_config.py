"""Edit and read our entries in JSON config files."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import rule_files
from agent_memory.features.hooks.adapters.agents.hook_lists import HookLists
from agent_memory.features.hooks.adapters.agents.json_text import Json, JsonContainer, JsonDocument
from agent_memory.features.hooks.adapters.agents.server_tables import ServerTable
from agent_memory.features.hooks.model.installations import (
    Agent,
    AgentPlugin,
    ConfigFile,
    DesiredConfig,
    EditedConfig,
    InstalledEntries,
    InstallScope,
    InstallTarget,
    McpServer,
)
from agent_memory.features.hooks.ports import ReadText

TIMEOUT_SECONDS = 10
ALL_TOOLS = "*"
OWN_TIMEOUT = "SessionEnd"  # the agent's own is very short: leave it to the agent


class JsonInstaller:
    """An AgentSetup for hooks and servers in JSON, and rules. Subclasses say how theirs differs."""

    agent: Agent
    title: str
    folder: str  # its name, in the home of the user and in a project
    files: tuple[ConfigFile, ...] = ()  # by their names in the folder
    events: tuple[str, ...] = ()
    matchers: Mapping[str, str] = {}  # the tools that an event is about, if not all
    lists = HookLists()
    table = ServerTable()
    comments = False  # whether the agent reads JSON with comments and trailing commas
    switch = ""  # a setting that switches all hooks off
    required: Mapping[str, Json] = {}  # keys that every file with hooks must have
    advice = ""

    def get_folder(self, target: InstallTarget, /) -> str:
        return str(PurePath(target.home) / self.folder)

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        folder = PurePath(self.get_folder(target))
        if target.scope is InstallScope.PROJECT:
            folder = PurePath(target.root) / self.folder
        return tuple(replace(file, path=str(folder / file.path)) for file in self.files)

    def list_shared_files(self, _target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        return ()

    def edit_file(self, file: ConfigFile, text: str, desired: DesiredConfig, /) -> EditedConfig:
        if file.rules:
            rules = rule_files.RULES if desired.server else ""
            return rule_files.edit_rules(text, rules, file.front)
        document = JsonDocument(text, comments=self.comments)
        required = self.required if file.hooks else {}
        before = document.text
        if file.hooks:
            events = self.events if desired.hook else ()
            if events:
                for key, value in required.items():
                    if document.root.get(key) is None:
                        document.root.append(value, key)
            entries = {event: self.build_entry(event, desired.hook) for event in events}
            self.lists.reconcile(document.root, entries)
        if file.servers:
            server = None if desired.server is None else self.build_server(desired.server)
            self.table.reconcile(document.root, server)
        if document.text == before:
            return EditedConfig(text=text)
        bare = all(piece.key in required for piece in document.root.pieces)
        return EditedConfig(text=document.text, bare=bare)

    def find_entries(self, file: ConfigFile, text: str, /) -> InstalledEntries:
        if file.rules:
            return InstalledEntries(rules=rule_files.has_rules(text))
        root = JsonDocument(text, comments=self.comments).root
        return InstalledEntries(
            hooks=self.lists.find_commands(root) if file.hooks else (),
            servers=self.table.find_servers(root) if file.servers else (),
            off=self.find_switch(root) if file.hooks else "",
            plugin=self.find_plugin(root) if file.hooks else None,
        )

    def find_distrust(self, _target: InstallTarget, _read: ReadText, /) -> str:
        return ""

    def get_advice(self, _target: InstallTarget, /) -> str:
        return self.advice

    def build_entry(self, event: str, command: str) -> Json:
        """Build the entry of an event, as Claude Code and Codex have it."""
        handler: Json = {"type": "command", "command": command}
        if event != OWN_TIMEOUT:
            handler["timeout"] = TIMEOUT_SECONDS
        return self.build_group(event, handler)

    def build_group(self, event: str, handler: Json) -> Json:
        """Build the group of a handler. An event about tools needs a matcher."""
        if "Tool" not in event:
            return {"hooks": [handler]}
        return {"matcher": self.matchers.get(event, ALL_TOOLS), "hooks": [handler]}

    def build_server(self, server: McpServer) -> Json:
        return {"command": server.command, "args": list(server.args)}

    def find_switch(self, root: JsonContainer) -> str:
        """Return the setting that switches all hooks off, if there is one."""
        off = root.get(self.switch) if self.switch else None
        return f"{self.switch} = true" if off is not None and off.value is True else ""

    def find_plugin(self, _root: JsonContainer) -> AgentPlugin | None:
        """Return our plugin if the file enables it."""
        return None
