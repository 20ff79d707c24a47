"""The keys and the audit log of a team server over REST, for its admins."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from agent_memory.features.access.model.audit import AuditFilter
from agent_memory.features.access.services.access import Access
from agent_memory.features.access.services.audit import AuditLog
from agent_memory.features.log.model.tokens import format_offset, parse_offset
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING, UNAVAILABLE
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import Limit, RequestModel, show_example
from agent_memory.interfaces.wire.access import audit_json, key_json
from agent_memory.kernel.access import MAX_PROJECTS, Principal, Role
from agent_memory.kernel.errors import FeatureUnavailable, NotFound
from agent_memory.kernel.ids import MAX_MILLIS, Millis

LOGIN_PATH = "/.well-known/agent-memory"
Object = dict[str, Any]
Word = Annotated[str, Query(max_length=256)]
Time = Annotated[int, Query(ge=0, le=MAX_MILLIS, description="Unix milliseconds.")]


class KeyCreate(RequestModel):
    """A key of a person. Its secret is shown once, in the answer."""

    name: str
    person: str
    role: Role = Role.READER
    projects: Annotated[
        list[str] | None, Field(max_length=MAX_PROJECTS, description="Default: all.")
    ] = None

    model_config = show_example({"name": "ada-laptop", "person": "ada", "role": "writer"})


def build_login_router(dependencies: HttpDependencies) -> APIRouter:
    """Build the one route that tells programs without a key how people log in."""
    routes = APIRouter(tags=["team"])

    @routes.get(
        LOGIN_PATH,
        summary="How people log in to this team server",
        response_model=Object,
        responses=MISSING,
    )
    async def describe_login() -> Response:
        if not dependencies.login:
            raise NotFound("people of this server have keys: ask an admin for one")
        return answers.render_json(dict(dependencies.login))

    return routes


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(tags=["team"], responses=UNAVAILABLE)
    services, run = dependencies.services, dependencies.bridge.run

    def get_log() -> AuditLog:
        log = services.find(AuditLog)
        if log is None:
            raise FeatureUnavailable("only a team server has people and an audit log")
        return log

    @routes.get("/audit/", summary="Who did what, newest first", response_model=Object)
    async def list_entries(
        person: Word = "",
        key: Word = "",
        method: Word = "",
        target: Annotated[str, Query(max_length=256, description="A part of it.")] = "",
        refused: Annotated[bool, Query(description="Only what was refused or failed.")] = False,
        from_timestamp_ms: Time = 0,
        to_timestamp_ms: Time = MAX_MILLIS,
        limit: Limit = 50,
        continuation_token: Annotated[str | None, Query(max_length=20)] = None,
    ) -> Response:
        log = get_log()
        before = None if continuation_token is None else parse_offset(continuation_token)
        wanted = AuditFilter(
            person=person,
            key=key,
            method=method,
            target=target,
            refused=refused,
            since=Millis(from_timestamp_ms),
            until=Millis(to_timestamp_ms),
        )
        page = await run(lambda: log.list_entries(wanted, limit=limit, before=before))
        return answers.render_json(
            {
                "entries": [audit_json(entry) for entry in page.entries],
                "continuation_token": format_offset(page.next),
            }
        )

    @routes.get("/keys/", summary="The keys, without their secrets", response_model=Object)
    async def list_keys() -> Response:
        get_log()
        keys = await run(services[Access].list)
        return answers.render_json({"keys": [key_json(key) for key in keys]})

    @routes.post("/keys/", summary="Create a key", status_code=201, response_model=Object)
    async def create_key(wanted: KeyCreate) -> Response:
        get_log()

        def create() -> Object:
            principal = Principal(
                person=wanted.person,
                role=wanted.role,
                projects=None if wanted.projects is None else frozenset(wanted.projects),
            )
            return {"name": wanted.name, "token": services[Access].create(wanted.name, principal)}

        return answers.render_json(await run(create), 201)

    @routes.delete("/keys/{name}/", summary="Revoke a key", status_code=204, responses=MISSING)
    async def revoke_key(name: str) -> Response:
        get_log()
        await run(lambda: services[Access].revoke(name))
        return answers.render_empty()

    return routes
