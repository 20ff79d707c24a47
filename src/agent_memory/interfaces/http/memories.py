"""Writing memories over REST: capture, edit, change the status, forget.

A program with a key is no person: its changes are not in the history of `memory undo`, and it
cannot accept what awaits review.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field

from agent_memory.features.memories.model.memories import Draft, Memory, MemoryStatus
from agent_memory.features.memories.services.editing import MemoryEdit
from agent_memory.features.memories.services.project_resolver import Caller
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import MISSING
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.models import RequestModel, show_example
from agent_memory.interfaces.http.read_api import NO_LOCATION, format_memory_name
from agent_memory.interfaces.services import Services
from agent_memory.interfaces.wire.memories import capture_json, memory_json
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.tracing import Interface

Object = dict[str, Any]
Names = Annotated[list[str], Field(default_factory=list, max_length=100)]
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
    status: Literal["active", "resolved", "archived"] | None = None

    model_config = show_example({"status": "resolved"}, omit_defaults=True)


def build_router(dependencies: HttpDependencies) -> APIRouter:
    routes = APIRouter(prefix="/memories", tags=["memories"])
    writer, run = _Writer(dependencies.services), dependencies.bridge.run

    @routes.post("/", summary="Capture a memory", status_code=201, response_model=Object)
    async def capture_memory(memory: MemoryCreate) -> Response:
        captured = await run(lambda: writer.capture(memory))
        return answers.render_json(captured, 201 if captured["created"] else 200)

    @routes.patch(
        "/{namespace}/{name}/",
        summary="Edit a memory, resolve it or archive it",
        response_model=Object,
        responses=MISSING,
    )
    async def change_memory(
        namespace: str, name: str, change: MemoryPatch, domain: DomainParameter = ""
    ) -> Response:
        return answers.render_json(
            memory_json(await run(lambda: writer.change(namespace, name, domain, change)))
        )

    @routes.delete(
        "/{namespace}/{name}/",
        summary="Forget a memory and all its traces on this machine",
        response_model=Object,
        responses=MISSING,
    )
    async def forget_memory(
        namespace: str,
        name: str,
        domain: DomainParameter = "",
        confirm: Annotated[bool, Query(description="It cannot be undone.")] = False,
    ) -> Response:
        report = await run(lambda: writer.forget(namespace, name, domain, confirm=confirm))
        return answers.render_json(report)

    return routes


class _Writer:
    def __init__(self, services: Services) -> None:
        self._services = services

    def capture(self, memory: MemoryCreate) -> Object:
        location = self._services.resolver.resolve(memory.domain, Caller(folder="", environ={}))
        draft = Draft(
            namespace=memory.namespace,
            summary=memory.summary,
            content=memory.content,
            spec=memory.spec,
            tags=frozenset(memory.tags),
            relates_to=tuple(dict.fromkeys(memory.relates_to)),
            interface=Interface.HTTP.value,
        )
        captured = self._services.capture.capture(draft, location, by_user=False)
        return capture_json(captured, indexed=self._services.indexes.is_current())

    def change(self, namespace: str, name: str, domain: str, change: MemoryPatch) -> Memory:
        editor = self._services.editor
        memory = editor.find(format_memory_name(namespace, name, domain), NO_LOCATION)
        edit = MemoryEdit(
            summary=change.summary,
            content=change.content,
            spec=change.spec,
            tags=frozenset(change.add_tags),
            removed_tags=frozenset(change.remove_tags),
            relates_to=None if change.relates_to is None else tuple(change.relates_to),
            interface=Interface.HTTP.value,
        )
        if edit.empty and change.status is None:
            raise InvalidInput("nothing to change: give a text, tags, relations or a status")
        if not edit.empty:
            memory = editor.edit(memory, edit, NO_LOCATION).memory
        if change.status is not None:
            memory = editor.set_status(memory, MemoryStatus(change.status), NO_LOCATION)
        return memory

    def forget(self, namespace: str, name: str, domain: str, *, confirm: bool) -> Object:
        memory = self._services.editor.find(
            format_memory_name(namespace, name, domain), NO_LOCATION
        )
        if not confirm:
            raise InvalidInput(
                "nothing was forgotten, because it cannot be undone: send confirm=true to erase"
                f" {memory.id}"
            )
        report = self._services.memory_forgetting.forget(
            [memory], NO_LOCATION, rewrite_notes=False, on_progress=lambda _phase, _count: None
        )
        return {
            "forgotten": memory.id,
            "uri": memory.urn,
            "found_in": list(report.proof.found_in),
            "unreachable": list(report.unreachable),
        }
