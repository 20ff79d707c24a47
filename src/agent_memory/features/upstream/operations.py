"""What machines ask of a team's server: they send records here, and ask for what changed.

Who a caller is comes from the key alone: what a request says about the person does not count.
"""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, field
from msgspec.structs import asdict

from agent_memory import __version__
from agent_memory.features.access.services.access import Access
from agent_memory.features.access.services.audit import AuditLog
from agent_memory.features.memories.model.memories import MemoryStatus
from agent_memory.features.upstream.model import hit_records, records
from agent_memory.features.upstream.model.records import (
    MAX_CHANGES,
    MAX_CLIENT_CHARS,
    MAX_MACHINE_CHARS,
    MAX_RECORDS,
    RecordBatch,
    SendOutcome,
)
from agent_memory.features.upstream.model.scopes import SharedScope
from agent_memory.features.upstream.services.exchange import TeamExchange
from agent_memory.features.upstream.services.project_names import MAX_REPOSITORY_CHARS
from agent_memory.features.upstream.services.receiving import Sender
from agent_memory.features.upstream.services.team_search import MAX_AROUND, TeamSearch
from agent_memory.kernel.access import Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import Forbidden, InvalidInput
from agent_memory.kernel.ids import EventId
from agent_memory.kernel.operations import operation
from agent_memory.kernel.structs import copy_fields

T = TypeVar("T")

MAX_PROJECTS = 200
MAX_NAMES = 1_000
MAX_NAME_CHARS = 100
PATH = "/api/v1/upstream"
TAG = "team"

Object = dict[str, Any]
Records = Annotated[list[Object], Meta(max_length=MAX_RECORDS)]
Projects = Annotated[
    list[str],
    Meta(
        max_length=MAX_PROJECTS,
        description="Only of these projects; `user` are the caller's own memories.",
    ),
]
Client = Annotated[
    str,
    Meta(
        max_length=MAX_CLIENT_CHARS,
        description="The name by which your machine counts receipts: any text that stays the same.",
    ),
]
Receipt = Annotated[
    int,
    Meta(
        description="How often the server has exchanged records with this client. If it is less"
        " than before, the server was restored from an older copy: send everything again."
    ),
]
Repository = Annotated[str, Meta(min_length=1, max_length=MAX_REPOSITORY_CHARS)]


class ClientName(Struct, frozen=True, kw_only=True):
    client: Client = ""


class TeamMember(Struct, frozen=True, kw_only=True):
    """Who the owner of a key is."""

    person: str
    role: str
    projects: Annotated[list[str] | None, Meta(description="All of them, if it is null.")]
    version: str
    receipt: Receipt
    keys: Annotated[list[str], Meta(description="The names of this person's keys.")]
    erasures: Annotated[
        int,
        Meta(description="How many records of this person wait to be erased, up to 1,000."),
    ]


@operation("upstream.identify", role=Role.READER, scoped=True, http=f"GET {PATH}/", tag=TAG)
def identify(
    exchange: TeamExchange, keys: Access, caller: Caller, request: ClientName
) -> TeamMember:
    """Tell who the key belongs to."""
    sender, principal = _build_sender(caller, request.client), caller.principal
    return TeamMember(
        person=sender.person,
        role=principal.role.value,
        projects=None if sender.projects is None else sorted(sender.projects),
        version=__version__,
        receipt=exchange.receiving.get_receipt(sender),
        keys=[key.name for key in keys.list_of(sender.person)],
        erasures=exchange.erasing.count_of(sender.person),
    )


class PersonKey(Struct, frozen=True, kw_only=True):
    name: str
    rights: str
    created_ms: int
    created_by: str


class PersonKeys(Struct, frozen=True, kw_only=True):
    keys: list[PersonKey]


@operation("upstream.keys", role=Role.READER, scoped=True, http=f"GET {PATH}/keys/", tag=TAG)
def list_keys(keys: Access, caller: Caller) -> PersonKeys:
    """List your keys, also those that others made."""
    return PersonKeys(
        keys=[
            copy_fields(PersonKey, key, rights=key.principal.rights)
            for key in keys.list_of(_find_person(caller))
        ]
    )


class MachineKeyRequest(Struct, frozen=True, kw_only=True):
    machine: Annotated[str, Meta(min_length=1, max_length=MAX_MACHINE_CHARS)]


class MachineKey(Struct, frozen=True, kw_only=True):
    """A key for a machine. It is shown once, and admins can revoke it."""

    key: str
    person: str


@operation(
    "upstream.create_key",
    role=Role.READER,
    scoped=True,
    http=f"POST {PATH}/keys/",
    status=201,
    tag=TAG,
)
def create_key(keys: Access, caller: Caller, request: MachineKeyRequest) -> MachineKey:
    """Get a key for a machine, after a login with a token.

    Create a key with your rights of this moment, in place of the one of this machine.
    """
    principal = caller.principal
    if not principal.person or not caller.has_token:
        raise Forbidden("log in with a token of your issuer: a key cannot create another")
    return MachineKey(
        key=keys.create_for_machine(principal, request.machine), person=principal.person
    )


class WaitingErasure(Struct, frozen=True, kw_only=True):
    kind: str
    name: str
    asked_by: str
    asked_ms: int
    due_ms: int


class WaitingErasures(Struct, frozen=True, kw_only=True):
    erasures: list[WaitingErasure]


@operation(
    "upstream.erasures", role=Role.READER, scoped=True, http=f"GET {PATH}/erasures/", tag=TAG
)
def list_erasures(exchange: TeamExchange, caller: Caller) -> WaitingErasures:
    """List what waits to be erased of you, or because you asked."""
    found = exchange.erasing.list_notices(_find_person(caller))
    return WaitingErasures(erasures=[copy_fields(WaitingErasure, each) for each in found])


class KeepRequest(Struct, frozen=True, kw_only=True):
    """What not to erase, by the names in `GET /api/v1/upstream/erasures/`."""

    names: Annotated[list[Annotated[str, Meta(max_length=1_000)]], Meta(max_length=MAX_NAMES)]


class KeptCount(Struct, frozen=True, kw_only=True):
    kept: int


@operation(
    "upstream.keep", role=Role.WRITER, scoped=True, http=f"POST {PATH}/erasures/keep/", tag=TAG
)
def keep(
    exchange: TeamExchange, audit: AuditLog | None, caller: Caller, request: KeepRequest
) -> KeptCount:
    """Keep what waits to be erased.

    Keep those of your own, or that you asked to erase.
    """
    chosen = exchange.erasing.choose(request.names, _find_person(caller))
    exchange.erasing.keep(chosen)
    if audit is not None:
        audit.note_acts("upstream", "keep", {each.name: 200 for each in chosen})
    return KeptCount(kept=len(chosen))


class ProjectQuestion(Struct, frozen=True, kw_only=True):
    repository: Repository
    name: Annotated[str, Meta(max_length=MAX_NAME_CHARS)] = ""


class ProjectClaim(Struct, frozen=True, kw_only=True):
    """A repository: the address of its remote as `host/path`, or a folder of the caller's."""

    repository: Repository
    name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
    join: Annotated[
        bool, Meta(description="Make it one project with the repository that has the name.")
    ] = False


class NamedProject(Struct, frozen=True, kw_only=True):
    """`name` is the project of a repository, if it has one, and `taken_by` another repository that
    has the name asked for."""

    name: str
    taken_by: str


@operation(
    "upstream.find_project", role=Role.READER, scoped=True, http=f"GET {PATH}/projects/", tag=TAG
)
def find_project(exchange: TeamExchange, caller: Caller, request: ProjectQuestion) -> NamedProject:
    """Find the project of a repository."""
    found = exchange.names.find(request.repository, request.name, _build_sender(caller))
    return NamedProject(name=found.name, taken_by=found.taken_by)


@operation(
    "upstream.claim_project", role=Role.WRITER, scoped=True, http=f"POST {PATH}/projects/", tag=TAG
)
def claim_project(exchange: TeamExchange, caller: Caller, request: ProjectClaim) -> NamedProject:
    """Give a repository's project its name.

    Return its name, if it has one. A name belongs to the repository that had it first.
    """
    name = exchange.names.claim(
        request.repository, request.name, _build_sender(caller), join=request.join
    )
    return NamedProject(name=name, taken_by="")


class SentRecords(Struct, frozen=True, kw_only=True):
    """Records of a machine. The forms are those of `GET /api/v1/upstream/changes/`; events have
    `event_id`, `session_id`, `timestamp_ms`, `type`, `role` (as numbers), `text` and `metadata`."""

    machine: Annotated[str, Meta(max_length=MAX_MACHINE_CHARS)] = ""
    client: Annotated[str, Meta(max_length=MAX_CLIENT_CHARS)] = ""
    events: Records = []
    memories: Records = []
    facts: Records = []
    removed_facts: Records = []
    forgotten: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=128)]],
        Meta(max_length=MAX_RECORDS, description="Ids of events that were forgotten."),
    ] = []
    projects: Annotated[
        dict[str, Annotated[str, Meta(max_length=MAX_REPOSITORY_CHARS)]],
        Meta(
            max_length=MAX_RECORDS,
            description="The repositories that the names of projects in these records stand for.",
        ),
    ] = {}


class RefusedRecord(Struct, frozen=True, kw_only=True):
    kind: str
    name: str
    reason: str


class SentOutcome(Struct, frozen=True, kw_only=True):
    """`known` were there already, as they are."""

    taken: int
    known: int
    refused: list[RefusedRecord]
    receipt: Receipt
    lowered: Annotated[
        list[Object],
        Meta(
            description="Memories and facts whose times were later than the server's, as changes"
            " with the times that they have there: take those over."
        ),
    ]


@operation(
    "upstream.send",
    role=Role.WRITER,
    scoped=True,
    http=f"POST {PATH}/records/",
    tag=TAG,
    example={
        "machine": "laptop",
        "events": [
            {
                "event_id": "01J8ZK",
                "session_id": "s-42",
                "timestamp_ms": 1767225600000,
                "type": 2,
                "role": 1,
                "text": "Which database do we use?",
                "metadata": {"project": "my-app"},
            }
        ],
    },
)
def send(
    exchange: TeamExchange, audit: AuditLog | None, caller: Caller, request: SentRecords
) -> SentOutcome:
    """Send records of a machine.

    Take each record once: sending it again changes nothing.
    """
    batch, refused = _parse_batch(request)
    outcome = exchange.receiving.take(batch, _build_sender(caller, request.client))
    if audit is not None:
        audit.note_acts("upstream", "forget", _list_forgotten(batch, outcome))
    return SentOutcome(
        taken=outcome.taken,
        known=outcome.known,
        refused=refused + [copy_fields(RefusedRecord, each) for each in outcome.refused],
        receipt=outcome.receipt,
        lowered=[records.encode_change(each, {}) for each in outcome.lowered],
    )


class ChangesRequest(Struct, frozen=True, kw_only=True):
    projects: Projects = field(name="project", default_factory=list)
    after: Annotated[str, Meta(max_length=40)] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_CHANGES)] = 100
    client: Client = ""


class TeamChanges(Struct, frozen=True, kw_only=True):
    """Each change has a `kind` (memory, fact, removed_fact, forgotten_event) and its `record`;
    memories and facts also have the `person` whom they come from."""

    changes: list[Object]
    next: Annotated[str, Meta(description="Pass it as `after` to read on.")]
    more: bool
    receipt: Receipt


@operation("upstream.changes", role=Role.READER, scoped=True, http=f"GET {PATH}/changes/", tag=TAG)
def list_changes(exchange: TeamExchange, caller: Caller, request: ChangesRequest) -> TeamChanges:
    """List memories, facts and forgettings that changed."""
    page = exchange.receiving.list_changes(
        request.after,
        SharedScope.parse(request.projects),
        _build_sender(caller, request.client),
        limit=request.limit,
    )
    changes = [records.encode_change(change, page.people) for change in page.changes]
    return TeamChanges(changes=changes, next=page.next, more=page.more, receipt=page.receipt)


class TeamQuestion(Struct, frozen=True, kw_only=True):
    """A question, with the filters of a search by their names in JSON."""

    query: Annotated[str, Meta(max_length=10_000)]
    projects: Annotated[list[str], Meta(max_length=MAX_PROJECTS)]
    mode: str = "hybrid"
    limit: Annotated[int, Meta(ge=0, le=100)] = 10
    min_score: Annotated[float, Meta(ge=0, le=1)] = 0.0
    scope: Object = {}


@operation("upstream.search", role=Role.READER, scoped=True, http=f"POST {PATH}/search/", tag=TAG)
def search(team: TeamSearch, caller: Caller, request: TeamQuestion) -> Object:
    """Search for a machine of a person."""
    query, scope = hit_records.decode_question(asdict(request))
    return hit_records.encode_result(team.search(query, scope, _build_sender(caller)))


class RecordRequest(Struct, frozen=True, kw_only=True):
    uri: Annotated[str, Meta(max_length=1_000)]
    projects: Projects = field(name="project", default_factory=list)
    around: Annotated[int, Meta(ge=0, le=MAX_AROUND)] = 3


@operation("upstream.open", role=Role.READER, scoped=True, http=f"GET {PATH}/record/", tag=TAG)
def open_record(team: TeamSearch, caller: Caller, request: RecordRequest) -> Object:
    """Open a record by its URI, with the turns around an event."""
    scope = SharedScope.parse(request.projects)
    opened = team.open(request.uri, scope, _build_sender(caller), around=request.around)
    return records.encode_opened(opened)


def _find_person(caller: Caller) -> str:
    """Return the person of the key, or the key itself if it has none."""
    person = caller.principal.person or caller.key
    if not person:
        raise Forbidden("the key belongs to no person")
    return person


def _build_sender(caller: Caller, client: str = "") -> Sender:
    return Sender(person=_find_person(caller), projects=caller.principal.projects, client=client)


def _list_forgotten(batch: RecordBatch, outcome: SendOutcome) -> dict[str, int]:
    """Return what a batch asked to forget, with the status of each for the audit log."""
    refused = {each.name for each in outcome.refused}
    return {f"event {name}": 200 for name in batch.forgotten} | {
        f"{memory.domain} {memory.id}": 403 if memory.id in refused else 200
        for memory in batch.memories
        if memory.status is MemoryStatus.TOMBSTONE
    }


def _parse_batch(sent: SentRecords) -> tuple[RecordBatch, list[RefusedRecord]]:
    """Return the records that are valid, and what is wrong with the others."""
    refused: list[RefusedRecord] = []

    def parse(kind: str, decode: Callable[[Object], T], items: list[Object]) -> tuple[T, ...]:
        found = []
        for item in items:
            try:
                found.append(decode(item))
            except InvalidInput as exc:
                name = str(item.get("event_id") or item.get("id") or item.get("digest") or "")
                refused.append(RefusedRecord(kind=kind, name=name[:128], reason=str(exc)))
        return tuple(found)

    return RecordBatch(
        machine="".join(char for char in sent.machine if char.isprintable()),
        events=parse("event", records.decode_event, sent.events),
        memories=parse("memory", records.decode_memory, sent.memories),
        facts=parse("fact", records.decode_fact, sent.facts),
        removed_facts=parse("fact", records.decode_tombstone, sent.removed_facts),
        forgotten=tuple(map(EventId, sent.forgotten)),
        projects=sent.projects,
    ), refused
