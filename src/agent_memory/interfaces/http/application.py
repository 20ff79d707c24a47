"""The HTTP application: all routers, and the responses to errors."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse
from starlette.staticfiles import StaticFiles

from agent_memory import __version__
from agent_memory.features import import_modules
from agent_memory.features.monitoring.services.metrics import Metrics
from agent_memory.interfaces import catalog, permissions
from agent_memory.interfaces.http import (
    answers,
    metrics,
)
from agent_memory.interfaces.http.answers import PROBLEMS
from agent_memory.interfaces.http.dependencies import HttpDependencies
from agent_memory.interfaces.http.gate import KEYLESS_FOLDER
from agent_memory.interfaces.http.headers import POLICY
from agent_memory.interfaces.http.rest import OperationRoute, describe_operations
from agent_memory.interfaces.requests import InvalidRequest
from agent_memory.interfaces.wire.errors import describe_error, get_codes
from agent_memory.kernel.errors import AgentMemoryError

DOCS = Path(__file__).parent / "docs"


def build_app(dependencies: HttpDependencies) -> FastAPI:
    api = FastAPI(
        title="Agent Memory",
        version=__version__,
        description="The conversations, memories and knowledge of agents, for programs.",
        docs_url=None,
        redoc_url=None,
    )
    _add_docs(api)
    api.router.routes += [
        OperationRoute(each, dependencies.calls, dependencies.bridge, dependencies.environ)
        for each in catalog.list_all()
        if each.http
    ]
    api.router.routes.sort(key=lambda route: permissions.order_path(getattr(route, "path", "/")))
    api.include_router(
        metrics.build_router(
            dependencies.bridge, dependencies.observer, dependencies.services[Metrics]
        ),
        responses=PROBLEMS,
    )
    for module in import_modules("interfaces.http"):
        module.add_routes(api, dependencies)
    api.openapi = lambda: _build_openapi(api)  # type: ignore[method-assign]  # FastAPI's way
    return _add_error_handlers(api)


def _add_docs(api: FastAPI) -> None:
    """Serve `/docs`, from files of ours and of fastapi_offline: our policy allows nothing else, and
    no script in a document."""
    folder = KEYLESS_FOLDER.rstrip("/")
    files = StaticFiles(directory=DOCS, packages=[("fastapi_offline", "static")])
    api.mount(folder, files)

    @api.get("/docs", include_in_schema=False)
    async def show_docs() -> Response:
        policy = {POLICY.decode(): "trusted-types default dompurify"}
        return FileResponse(DOCS / "index.html", headers=policy)


def _build_openapi(api: FastAPI) -> dict[str, Any]:
    """Return FastAPI's document, with the bearer key added."""
    if api.openapi_schema is None:
        document = get_openapi(
            title=api.title, version=api.version, description=api.description, routes=api.routes
        )
        described = describe_operations(catalog.list_all())
        for path, methods in described["paths"].items():
            document["paths"].setdefault(path, {}).update(methods)
        document["components"]["schemas"].update(described["schemas"])
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
        api.openapi_schema = document
    return api.openapi_schema


def build_transport_app(dependencies: HttpDependencies, transport: str) -> FastAPI:
    """Build the application of `memory serve`, which has a port of its own."""
    api = FastAPI(title="Agent Memory", version=__version__, openapi_url=None)
    for module in import_modules("interfaces.http"):
        module.add_transport(api, dependencies, transport)
    return _add_error_handlers(api)


def _add_error_handlers(api: FastAPI) -> FastAPI:
    api.add_exception_handler(AgentMemoryError, _on_error)
    api.add_exception_handler(ClientDisconnect, _on_disconnect)
    api.add_exception_handler(RequestValidationError, _on_invalid_request)
    return api


async def _on_disconnect(_request: Request, _error: Exception) -> Response:
    """End a request whose client went away while it sent the body: it reads no answer."""
    return Response(status_code=400)


async def _on_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, AgentMemoryError)  # noqa: S101  # the handler is registered for it
    if isinstance(error, InvalidRequest):
        problems = [
            {"loc": each.field, "msg": each.message, "type": each.kind} for each in error.problems
        ]
        return answers.render_json({"detail": problems}, 422)
    return answers.render_json({"detail": _plain(describe_error(error))}, get_codes(error).http)


async def _on_invalid_request(_request: Request, error: Exception) -> Response:
    """Say which fields are invalid and why, but not their values, which may hold a secret."""
    assert isinstance(error, RequestValidationError)  # noqa: S101
    problems = [
        {
            "loc": [_plain(str(part)) for part in problem["loc"]],
            "msg": problem["msg"],
            "type": problem["type"],
        }
        for problem in error.errors()
    ]
    return answers.render_json({"detail": problems}, 422)


def _plain(text: str) -> str:
    """Replace what UTF-8 cannot encode."""
    return text.encode(errors="replace").decode()
