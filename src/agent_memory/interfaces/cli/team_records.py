"""Records of the team's server, for commands that open what recall has found."""

from agent_memory.features.index.model import documents
from agent_memory.features.memories.model import memories
from agent_memory.features.upstream.model.records import TeamRecord
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.capture import resolve_location
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.kernel.errors import AgentMemoryError


def find_team_record(run: Invocation, name: str, around: int) -> TeamRecord | None:
    """Return a record that is not on this machine, by its URI or an id of a hit; None if there is
    no server, or it has none. Raises NotFound and RemoteUnavailable for a URI."""
    settings = run.services.exchange.forwarding.read_settings()
    if not settings.is_complete or not settings.scope:
        return None
    recall = run.services.joint_recall
    if name.startswith((documents.SCHEME, memories.SCHEME)):
        return recall.open(name, around=around)
    if _was_forgotten(run, name):  # here, though the server may keep it
        return None
    try:
        return recall.open_named(name, around=around)
    except AgentMemoryError as exc:
        reason = rendering.plain(f"{settings.name} could not be asked: {exc}")
        run.terminal.warn(f"note: {reason}\n")
        return None


def _was_forgotten(run: Invocation, name: str) -> bool:
    try:
        run.services.editor.find(name, resolve_location(run), forgotten=True)
    except AgentMemoryError:
        return False
    return True


def describe_origin(run: Invocation, found: TeamRecord) -> str:
    """Name the server, the person and the machine that a record comes from."""
    name = run.services.exchange.forwarding.read_settings().name
    parts = filter(None, (name, found.person, found.machine))
    return rendering.plain(" \N{MIDDLE DOT} ".join(parts))
