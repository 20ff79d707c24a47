"""VS Code: MCP servers in a file with comments, and rules. Its hooks are those of Copilot CLI."""

from pathlib import PurePath

from agent_memory.features.hooks.adapters.agents import folders
from agent_memory.features.hooks.adapters.agents.json_config import JsonInstaller
from agent_memory.features.hooks.adapters.agents.json_text import Json
from agent_memory.features.hooks.adapters.agents.server_tables import ServerTable
from agent_memory.features.hooks.model.installations import (
    Agent,
    ConfigFile,
    InstallScope,
    InstallTarget,
    McpServer,
)

INSTRUCTIONS = "agent-memory.instructions.md"
FRONT = "---\napplyTo: '**'\n---\n"


class VsCodeInstaller(JsonInstaller):
    agent = Agent.VSCODE
    title = "VS Code"
    table = ServerTable("servers")
    comments = True
    advice = (
        "Start a new chat in VS Code. To record chats, run `memory install copilot` too: VS Code"
        " runs the hooks of Copilot CLI."
    )

    def get_folder(self, target: InstallTarget, /) -> str:
        return str(folders.get_vscode_user(target))

    def list_files(self, target: InstallTarget, /) -> tuple[ConfigFile, ...]:
        servers = rules = folders.get_vscode_user(target)
        rules /= "prompts"
        if target.scope is InstallScope.PROJECT:
            root = PurePath(target.root)
            servers, rules = root / ".vscode", root / ".github/instructions"
        return (
            ConfigFile(path=str(servers / "mcp.json"), servers=True),
            ConfigFile(path=str(rules / INSTRUCTIONS), rules=True, front=FRONT),
        )

    def build_server(self, server: McpServer) -> Json:
        return {"type": "stdio", **super().build_server(server)}
