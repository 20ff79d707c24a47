"""The routes of a team's server: people's machines send records here, and ask for what changed.

Who a caller is comes from the key alone: what a body says about the person does not count.
"""

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from pydantic import Field

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
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING
from agent_memory.interfaces.http.callers import read_principal
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import RequestModel, ResponseModel, show_example
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import EventId

MAX_PROJECTS = 200
MAX_NAMES = 1_000
MAX_NAME_CHARS = 100

Object = dict[str, Any]
Records = Annotated[list[Object], Field(default_factory=list, max_length=MAX_RECORDS)]
Projects = Annotated[
    list[str],
    Query(
        alias="project",
        max_length=MAX_PROJECTS,
        description="Only of these projects; `user` are the caller's own memories.",
    ),
]


Client = Annotated[
    str,
    Query(
        max_length=MAX_CLIENT_CHARS,
        description="The name by which your machine counts receipts: any text that stays the same.",
    ),
]
Receipt = Annotated[
    int,
    Field(
        description="How often the server has exchanged records with this client. If it is less"
        " than before, the server was restored from an older copy: send everything again."
    ),
]


class ProjectClaim(RequestModel):
    """A repository: the address of its remote as `host/path`, or a folder of the caller's."""

    repository: Annotated[str, Field(min_length=1, max_length=MAX_REPOSITORY_CHARS)]
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
    join: Annotated[
        bool, Field(description="Make it one project with the repository that has the name.")
    ] = False


class NamedProject(ResponseModel):
    """`name` is the project of a repository, if it has one, and `taken_by` another repository that
    has the name asked for."""

    name: str
    taken_by: str


class TeamMember(ResponseModel):
    """Who the owner of a key is."""

    person: str
    role: str
    projects: Annotated[list[str] | None, Field(description="All of them, if it is null.")]
    version: str
    receipt: Receipt
    keys: Annotated[list[str], Field(description="The names of this person's keys.")]
    erasures: Annotated[
        int,
        Field(description="How many records of this person wait to be erased, up to 1,000."),
    ]


class MachineKeyRequest(RequestModel):
    machine: Annotated[str, Field(min_length=1, max_length=MAX_MACHINE_CHARS)]


class MachineKey(ResponseModel):
    """A key for a machine. It is shown once, and admins can revoke it."""

    key: str
    person: str


class KeepRequest(RequestModel):
    """What not to erase, by the names in `GET /api/v1/upstream/erasures/`."""

    names: Annotated[list[Annotated[str, Field(max_length=1_000)]], Field(max_length=MAX_NAMES)]


class SentRecords(RequestModel):
    """Records of a machine. The forms are those of `GET /api/v1/upstream/changes/`; events have
    `event_id`, `session_id`, `timestamp_ms`, `type`, `role` (as numbers), `text` and `metadata`."""

    machine: Annotated[str, Field(max_length=MAX_MACHINE_CHARS)] = ""
    client: Annotated[str, Field(max_length=MAX_CLIENT_CHARS)] = ""
    events: Records
    memories: Records
    facts: Records
    removed_facts: Records
    forgotten: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=128)]],
        Field(
            default_factory=list,
            max_length=MAX_RECORDS,
            description="Ids of events that were forgotten.",
        ),
    ]
    projects: Annotated[
        dict[str, Annotated[str, Field(max_length=MAX_REPOSITORY_CHARS)]],
        Field(
            default_factory=dict,
            max_length=MAX_RECORDS,
            description="The repositories that the names of projects in these records stand for.",
        ),
    ]

    model_config = show_example(
        {
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
        }
    )


class RefusedRecord(ResponseModel):
    kind: str
    name: str
    reason: str


class SentOutcome(ResponseModel):
    """`known` were there already, as they are."""

    taken: int
    known: int
    refused: list[RefusedRecord]
    receipt: Receipt
    lowered: Annotated[
        list[Object],
        Field(
            description="Memories and facts whose times were later than the server's, as changes"
            " with the times that they have there: take those over."
        ),
    ]


class TeamChanges(ResponseModel):
    """Each change has a `kind` (memory, fact, removed_fact, forgotten_event) and its `record`;
    memories and facts also have the `person` whom they come from."""

    changes: list[Object]
    next: Annotated[str, Field(description="Pass it as `after` to read on.")]
    more: bool
    receipt: Receipt


class TeamQuestion(RequestModel):
    """A question, with the filters of a search by their names in JSON."""

    query: Annotated[str, Field(max_length=10_000)]
    projects: Annotated[list[str], Field(max_length=MAX_PROJECTS)]
    mode: str = "hybrid"
    limit: Annotated[int, Field(ge=0, le=100)] = 10
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.0
    scope: Annotated[Object, Field(default_factory=dict)]


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/upstream", tags=["team"])
    services, run = dependencies.services, dependencies.bridge.run
    audit = services.find(AuditLog)

    @routes.get("/", summary="Who the key belongs to", response_model=TeamMember)
    async def identify(request: Request, client: Client = "") -> Response:
        sender = _build_sender(request, client)
        receipt = await run(lambda: services[TeamExchange].receiving.get_receipt(sender))
        keys = await run(lambda: services[Access].list_of(sender.person))
        erasures = await run(lambda: services[TeamExchange].erasing.count_of(sender.person))
        return answers.render_json(
            {
                "person": sender.person,
                "role": read_principal(request).role.value,
                "projects": None if sender.projects is None else sorted(sender.projects),
                "version": __version__,
                "receipt": receipt,
                "keys": [key.name for key in keys],
                "erasures": erasures,
            }
        )

    @routes.get("/keys/", summary="Your keys, whoever made them", response_model=Object)
    async def list_keys(request: Request) -> Response:
        person = _find_person(request)
        keys = await run(lambda: services[Access].list_of(person))
        return answers.render_json(
            {
                "keys": [
                    {
                        "name": key.name,
                        "rights": key.principal.rights,
                        "created_ms": key.created_ms,
                        "created_by": key.created_by,
                    }
                    for key in keys
                ]
            }
        )

    @routes.get(
        "/erasures/",
        summary="What waits to be erased of you, or because you asked",
        response_model=Object,
    )
    async def list_erasures(request: Request) -> Response:
        person = _find_person(request)
        found = await run(lambda: services[TeamExchange].erasing.list_notices(person))
        return answers.render_json({"erasures": [each._asdict() for each in found]})

    @routes.post("/erasures/keep/", summary="Keep what waits to be erased", response_model=Object)
    async def keep(request: Request, wanted: KeepRequest) -> Response:
        """Keep those of your own, or that you asked to erase."""
        person = _find_person(request)

        def take_back() -> Object:
            chosen = services[TeamExchange].erasing.choose(wanted.names, person)
            services[TeamExchange].erasing.keep(chosen)
            if audit is not None:
                audit.note_acts("upstream", "keep", {each.name: 200 for each in chosen})
            return {"kept": len(chosen)}

        return answers.render_json(await run(take_back))

    @routes.post(
        "/keys/",
        summary="Get a key for a machine, after a login with a token",
        status_code=201,
        response_model=MachineKey,
    )
    async def create_key(request: Request, wanted: MachineKeyRequest) -> Response:
        """Create a key with your rights of this moment, in place of the one of this machine."""
        principal = read_principal(request)
        if not principal.person or getattr(request.state, "has_key", True):
            raise HTTPException(
                403, "log in with a token of your issuer: a key cannot create another"
            )
        access = services[Access]
        secret = await run(lambda: access.create_for_machine(principal, wanted.machine))
        return answers.render_json({"key": secret, "person": principal.person}, 201)

    @routes.get("/projects/", summary="The project of a repository", response_model=NamedProject)
    async def find_project(
        request: Request,
        repository: Annotated[str, Query(min_length=1, max_length=MAX_REPOSITORY_CHARS)],
        name: Annotated[str, Query(max_length=MAX_NAME_CHARS)] = "",
    ) -> Response:
        sender, names = _build_sender(request), services[TeamExchange].names
        found = await run(lambda: names.find(repository, name, sender))
        return answers.render_json({"name": found.name, "taken_by": found.taken_by})

    @routes.post(
        "/projects/", summary="Give a repository's project its name", response_model=NamedProject
    )
    async def claim_project(request: Request, claim: ProjectClaim) -> Response:
        """Return its name, if it has one. A name belongs to the repository that had it first."""
        sender, names = _build_sender(request), services[TeamExchange].names
        name = await run(lambda: names.claim(claim.repository, claim.name, sender, join=claim.join))
        return answers.render_json({"name": name, "taken_by": ""})

    @routes.post("/records/", summary="Send records of a machine", response_model=SentOutcome)
    async def send(request: Request, sent: SentRecords) -> Response:
        """Take each record once: sending it again changes nothing."""
        sender = _build_sender(request, sent.client)

        def take() -> Object:
            batch, refused = _parse_batch(sent)
            outcome = services[TeamExchange].receiving.take(batch, sender)
            if audit is not None:
                audit.note_acts("upstream", "forget", _list_forgotten(batch, outcome))
            return {
                "taken": outcome.taken,
                "known": outcome.known,
                "refused": refused
                + [
                    {"kind": each.kind, "name": each.name, "reason": each.reason}
                    for each in outcome.refused
                ],
                "receipt": outcome.receipt,
                "lowered": [records.encode_change(each, {}) for each in outcome.lowered],
            }

        return answers.render_json(await run(take))

    @routes.get(
        "/changes/",
        summary="Memories, facts and forgettings that changed",
        response_model=TeamChanges,
    )
    async def list_changes(
        request: Request,
        projects: Projects = [],  # noqa: B006
        after: Annotated[str, Query(max_length=40)] = "",
        limit: Annotated[int, Query(ge=1, le=MAX_CHANGES)] = 100,
        client: Client = "",
    ) -> Response:
        sender, scope = _build_sender(request, client), SharedScope.parse(projects)
        page = await run(
            lambda: services[TeamExchange].receiving.list_changes(after, scope, sender, limit=limit)
        )
        changes = [records.encode_change(change, page.people) for change in page.changes]
        return answers.render_json(
            {"changes": changes, "next": page.next, "more": page.more, "receipt": page.receipt}
        )

    @routes.post("/search/", summary="Search for a machine of a person", response_model=Object)
    async def search(request: Request, question: TeamQuestion) -> Response:
        sender = _build_sender(request)
        query, scope = hit_records.decode_question(question.model_dump())
        found = await run(lambda: services[TeamSearch].search(query, scope, sender))
        return answers.render_json(hit_records.encode_result(found))

    @routes.get(
        "/record/",
        summary="Open a record by its URI, with the turns around an event",
        response_model=Object,
        responses=MISSING,
    )
    async def open_record(
        request: Request,
        uri: Annotated[str, Query(max_length=1_000)],
        projects: Projects = [],  # noqa: B006
        around: Annotated[int, Query(ge=0, le=MAX_AROUND)] = 3,
    ) -> Response:
        sender, scope = _build_sender(request), SharedScope.parse(projects)
        opened = await run(lambda: services[TeamSearch].open(uri, scope, sender, around=around))
        return answers.render_json(records.encode_opened(opened))

    return routes


def _list_forgotten(batch: RecordBatch, outcome: SendOutcome) -> dict[str, int]:
    """Return what a batch asked to forget, with the status of each for the audit log."""
    refused = {each.name for each in outcome.refused}
    return {f"event {name}": 200 for name in batch.forgotten} | {
        f"{memory.domain} {memory.id}": 403 if memory.id in refused else 200
        for memory in batch.memories
        if memory.status is MemoryStatus.TOMBSTONE
    }


def _find_person(request: Request) -> str:
    """Return the person of the key; one that belongs to nobody stands for itself."""
    person = read_principal(request).person or str(getattr(request.state, "caller", ""))
    if not person:
        raise HTTPException(403, "the key belongs to no person")
    return person


def _build_sender(request: Request, client: str = "") -> Sender:
    projects = read_principal(request).projects
    return Sender(person=_find_person(request), projects=projects, client=client)


def _parse_batch(sent: SentRecords) -> tuple[RecordBatch, list[Object]]:
    """Return the records that are valid, and what is wrong with the others."""
    refused: list[Object] = []

    def parse(kind: str, decode: Any, items: list[Object]) -> tuple[Any, ...]:
        found = []
        for item in items:
            try:
                found.append(decode(item))
            except InvalidInput as exc:
                name = str(item.get("event_id") or item.get("id") or item.get("digest") or "")
                refused.append({"kind": kind, "name": name[:128], "reason": str(exc)})
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
