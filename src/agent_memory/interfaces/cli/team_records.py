"""Records of the team's server, for commands that open what recall has found."""

from agent_memory.features.index.model import documents
from agent_memory.features.index.model.documents import DocumentKind
from agent_memory.features.memories.model import memories
from agent_memory.features.memories.services.editing import MemoryEditor
from agent_memory.features.upstream.model import names
from agent_memory.features.upstream.model.records import TeamRecord
from agent_memory.features.upstream.services.exchange import TeamExchange
from agent_memory.features.upstream.services.joint_recall import JointRecall
from agent_memory.interfaces.cli import rendering
from agent_memory.interfaces.cli.capture import resolve_location
from agent_memory.interfaces.cli.commands import Invocation
from agent_memory.kernel.errors import AgentMemoryError


def find_team_record(run: Invocation, name: str, around: int) -> TeamRecord | None:
    """Return a record that is not on this machine, by its URI or an id of a hit; None if there is
    no server, or it has none. Raises NotFound and RemoteUnavailable for a URI."""
    settings = run.services[TeamExchange].forwarding.read_settings()
    if not settings.is_complete or not settings.scope:
        return None
    recall = run.services[JointRecall]
    if _is_own_event(name):
        return None  # it was forgotten here, though the server may keep it for a while
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


def _is_own_event(name: str) -> bool:
    """Tell whether a URI is that of an event of this machine: the server's name their owners."""
    if not name.startswith(documents.SCHEME):
        return False
    kind, event_id = documents.parse_document_uri(name)
    return kind is DocumentKind.EVENT and not names.split_event(event_id)[1]


def _was_forgotten(run: Invocation, name: str) -> bool:
    try:
        run.services[MemoryEditor].find(name, resolve_location(run), forgotten=True)
    except AgentMemoryError:
        return False
    return True


def describe_origin(run: Invocation, found: TeamRecord) -> str:
    """Name the server, the person and the machine that a record comes from."""
    name = run.services[TeamExchange].forwarding.read_settings().name
    parts = filter(None, (name, found.person, found.machine))
    return rendering.plain(" \N{MIDDLE DOT} ".join(parts))
