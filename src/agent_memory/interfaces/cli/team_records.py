"""Records of the team's server, for commands that open what recall has found."""

from agent_memory.features.index.model import documents
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.recall.ports import TeamRecord, TeamRecords
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.capture import resolve_location
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.kernel.errors import AgentMemoryError


def find_team_record(run: Invocation, name: str, around: int) -> TeamRecord | None:
    """Return a record that is not on this machine, by its URI or an id of a hit; None if there is
    no server, or it has none. Raises NotFound and RemoteUnavailable for a URI."""
    team = run.services.find(TeamRecords)
    if team is None:
        return None
    try:
        return team.find(name, around=around, was_forgotten=lambda each: _was_forgotten(run, each))
    except AgentMemoryError as exc:
        if name.startswith((documents.SCHEME, memories.SCHEME)):
            raise
        reason = rendering.plain(f"{team.get_server_name()} could not be asked: {exc}")
        run.terminal.warn(f"note: {reason}\n")
        return None


def _was_forgotten(run: Invocation, name: str) -> bool:
    try:
        run.services[MemoryEditor].find(name, resolve_location(run), forgotten=True)
    except AgentMemoryError:
        return False
    return True


def describe_origin(run: Invocation, found: TeamRecord) -> str:
    """Name the server, the person and the machine that a record comes from."""
    name = run.services[TeamRecords].get_server_name()
    parts = filter(None, (name, found.person, found.machine))
    return rendering.plain(" \N{MIDDLE DOT} ".join(parts))
