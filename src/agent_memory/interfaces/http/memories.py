"""Writing memories over REST: capture, edit, change the status, forget, one or many at once.

A program with a key is no person: its changes are not in the history of `memory undo`, and it
cannot accept what awaits review. The page is one.
"""

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from agent_memory.features.memories.model.changes import ChangeAction
from agent_memory.features.memories.model.memories import Draft, Memory, MemoryStatus
from agent_memory.features.memories.services.bulk_editing import BulkChange
from agent_memory.features.memories.services.editing import MemoryEdit
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING
from agent_memory.interfaces.http.callers import CallerRights, Rights
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.memory_models import (
    BatchChangeAnswer,
    BatchForgetAnswer,
    ForgottenMemoryAnswer,
    VersionsAnswer,
)
from agent_memory.interfaces.http.models import RequestModel, show_example
from agent_memory.interfaces.http.read_api import NO_LOCATION, format_memory_name
from agent_memory.interfaces.services import Services
from agent_memory.interfaces.wire.memories import (
    PAGE,
    capture_json,
    change_json,
    forgetting_json,
    memory_json,
    refusals_json,
    version_json,
)
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.structs import MAX_IDS
from agent_memory.kernel.tracing import Interface

Object = dict[str, Any]
Names = Annotated[list[str], Field(default_factory=list, max_length=100)]
MemoryNames = Annotated[
    list[Annotated[str, Field(max_length=300)]],
    Field(min_length=1, max_length=MAX_IDS, description="Ids or URIs."),
]
StatusName = Literal["active", "resolved", "archived"]
NOTHING_SEARCHED: Object = {"found_in": [], "unreachable": [], "searched": None}
DomainParameter = Annotated[str, Query(max_length=300, examples=["project:my-app"])]


class MemoryCreate(RequestModel):
    """A memory to capture. The same text twice is one memory."""

    namespace: str
    summary: str
    domain: Annotated[str, Field(description="`user`, or `project:` and a known name.")] = "user"
    content: str = ""
    spec: str = ""
    tags: Names
    relates_to: Names

    model_config = show_example(
        {
            "namespace": "decisions",
            "summary": "Use PostgreSQL for the data layer",
            "domain": "user",
            "tags": ["db"],
        }
    )


class MemoryPatch(RequestModel):
    """The fields to change. New text makes a new memory, which supersedes this one."""

    summary: str | None = None
    content: str | None = None
    spec: str | None = None
    add_tags: Names
    remove_tags: Names
    relates_to: Annotated[list[str] | None, Field(max_length=100)] = None
    status: StatusName | None = None
    updated_at: Annotated[
        str | None,
        Field(max_length=40, description="As you read it: refuse if it was changed since."),
    ] = None

    model_config = show_example({"status": "resolved"}, omit_defaults=True)


class BatchChange(RequestModel):
    """One change for many memories. A tag that a memory has already, or has not, is no error."""

    ids: MemoryNames
    status: StatusName | None = None
    add_tags: Names
    remove_tags: Names

    model_config = show_example({"ids": ["decisions:abc123def456:0"], "status": "archived"})


class BatchForget(RequestModel):
    ids: MemoryNames
    confirm: Annotated[bool, Field(description="It cannot be undone.")] = False

    model_config = show_example({"ids": ["decisions:abc123def456:0"], "confirm": True})


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories", tags=["memories"])
    writer, run = _Writer(dependencies.services), dependencies.bridge.run

    @routes.post("/", summary="Capture a memory", status_code=201, response_model=Object)
    async def capture_memory(memory: MemoryCreate, rights: Rights) -> Response:
        captured = await run(lambda: writer.capture(memory, rights))
        return answers.render_json(captured, 201 if captured["created"] else 200)

    @routes.patch(
        "/{namespace}/{name}/",
        summary="Edit a memory, resolve it or archive it",
        response_model=Object,
        responses=MISSING,
    )
    async def change_memory(
        namespace: str,
        name: str,
        change: MemoryPatch,
        rights: Rights,
        domain: DomainParameter = "",
    ) -> Response:
        path = format_memory_name(namespace, name, domain)
        changed = await run(lambda: writer.change(path, change, rights))
        return answers.render_json(changed)

    @routes.get(
        "/{namespace}/{name}/versions/",
        summary="The versions of a memory, newest first, with what changed",
        response_model=VersionsAnswer,
        responses=MISSING,
    )
    async def list_versions(namespace: str, name: str, domain: DomainParameter = "") -> Response:
        path = format_memory_name(namespace, name, domain)
        return answers.render_json(await run(lambda: writer.list_versions(path)))

    @routes.post(
        "/batch-change/",
        summary="Change the status or the tags of many memories at once",
        response_model=BatchChangeAnswer,
    )
    async def change_memories(change: BatchChange, rights: Rights) -> Response:
        return answers.render_json(await run(lambda: writer.change_all(change, rights)))

    @routes.post(
        "/batch-forget/",
        summary="Forget many memories and all their traces on this machine",
        response_model=BatchForgetAnswer,
    )
    async def forget_memories(asked: BatchForget, rights: Rights) -> Response:
        return answers.render_json(await run(lambda: writer.forget_all(asked, rights)))

    @routes.delete(
        "/{namespace}/{name}/",
        summary="Forget a memory and all its traces on this machine",
        response_model=ForgottenMemoryAnswer,
        responses=MISSING,
    )
    async def forget_memory(
        namespace: str,
        name: str,
        rights: Rights,
        domain: DomainParameter = "",
        confirm: Annotated[bool, Query(description="It cannot be undone.")] = False,
    ) -> Response:
        path = format_memory_name(namespace, name, domain)
        return answers.render_json(await run(lambda: writer.forget(path, rights, confirm=confirm)))

    return routes


class _Writer:
    def __init__(self, services: Services) -> None:
        self._services = services

    def capture(self, memory: MemoryCreate, rights: CallerRights) -> Object:
        location = self._services.resolver.resolve(memory.domain, Caller(folder="", environ={}))
        draft = Draft(
            namespace=memory.namespace,
            summary=memory.summary,
            content=memory.content,
            spec=memory.spec,
            tags=frozenset(memory.tags),
            relates_to=tuple(dict.fromkeys(memory.relates_to)),
            interface=_name_interface(rights),
        )
        with self._services.history.recording(
            ChangeAction.CAPTURE, by_user=rights.is_person
        ) as changing:
            captured = changing.capture.capture(draft, location, by_user=rights.may_accept)
        shown = capture_json(captured, indexed=self._services.indexes.is_current())
        return {**shown, **change_json(changing.entry)}

    def change(self, name: str, change: MemoryPatch, rights: CallerRights) -> Object:
        edit = MemoryEdit(
            summary=change.summary,
            content=change.content,
            spec=change.spec,
            tags=frozenset(change.add_tags),
            removed_tags=frozenset(change.remove_tags),
            relates_to=None if change.relates_to is None else tuple(change.relates_to),
        )
        status = None if change.status is None else MemoryStatus(change.status)
        memory = self._services.editor.find(name, NO_LOCATION)
        if change.updated_at not in (None, memory_json(memory)["updated_at"]):
            raise InvalidInput(
                f"{memory.id} was changed since you opened it: look at it again before you edit it"
            )
        if edit.empty and status is None:
            raise InvalidInput("nothing to change: give a text, tags, relations or a status")
        action = ChangeAction.EDIT
        if edit.empty:
            action = BulkChange(status=status).name_action([memory])
        by = replace(edit, interface=_name_interface(rights))
        with self._services.history.recording(action, by_user=rights.is_person) as changing:
            if not edit.empty:
                editor = changing.editor
                memory = editor.edit(memory, by, NO_LOCATION, by_user=rights.may_accept).memory
            if status is not None:
                memory = changing.editor.set_status(memory, status, NO_LOCATION)
        return {**memory_json(memory), **change_json(changing.entry)}

    def change_all(self, change: BatchChange, rights: CallerRights) -> Object:
        bulk_editor = self._services.bulk_editor
        found, unknown = bulk_editor.find(change.ids, NO_LOCATION)
        done = bulk_editor.change(
            found,
            BulkChange(
                status=None if change.status is None else MemoryStatus(change.status),
                added_tags=frozenset(change.add_tags),
                removed_tags=frozenset(change.remove_tags),
            ),
            NO_LOCATION,
            by_user=rights.is_person,
        )
        return {
            "changed": [memory_json(memory, content=False) for memory in done.changed],
            "refused": refusals_json([*unknown, *done.refused]),
            **change_json(done.entry),
        }

    def list_versions(self, name: str) -> Object:
        memory = self._services.editor.find(name, NO_LOCATION)
        return {
            "versions": [version_json(each) for each in self._services.versions.list_all(memory)]
        }

    def forget(self, name: str, rights: CallerRights, *, confirm: bool) -> Object:
        memory = self._services.editor.find(name, NO_LOCATION)
        _check_confirmed(confirm, memory.id)
        return {"forgotten": memory.id, "uri": memory.urn, **self._erase([memory], rights)}

    def forget_all(self, asked: BatchForget, rights: CallerRights) -> Object:
        found, refused = self._services.bulk_editor.find(
            asked.ids, NO_LOCATION, pending=rights.is_person
        )
        _check_confirmed(asked.confirm, ", ".join(memory.id for memory in found[:5]))
        return {
            "forgotten": [memory.id for memory in found],
            "refused": refusals_json(refused),
            **(self._erase(found, rights) if found else NOTHING_SEARCHED),
        }

    def _erase(self, found: list[Memory], rights: CallerRights) -> Object:
        """Forget these in one run, because it searches the whole store."""
        report = self._services.memory_forgetting.forget(
            found,
            NO_LOCATION,
            rewrite_notes=False,
            by_user=rights.is_person,
            on_progress=lambda _phase, _count: None,
        )
        return forgetting_json(report)


def _check_confirmed(confirm: bool, names: str) -> None:
    if not confirm:
        raise InvalidInput(
            "nothing was forgotten, because it cannot be undone: send confirm=true to erase"
            f" {names}"
        )


def _name_interface(rights: CallerRights) -> str:
    return PAGE if rights.is_person else Interface.HTTP.value
