"""REST: the routes of operations, and their part of the OpenAPI document."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from agent_memory.interfaces import requests
from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.http import answers
from agent_memory.interfaces.http.answers import AnswerCache
from agent_memory.interfaces.http.callers import build_caller
from agent_memory.interfaces.http.parameters import check_known
from agent_memory.interfaces.requests import FieldProblem, InvalidRequest
from agent_memory.kernel import access
from agent_memory.kernel.operations import Operation, OperationCalls

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_WITHOUT_BODY = frozenset({"GET", "DELETE"})
_SCHEMAS = "#/components/schemas/"


@dataclass(frozen=True)
class RestRequest:
    """How an operation is asked over REST: which fields of its request are where."""

    operation: Operation[Any]

    @cached_property
    def method(self) -> str:
        return self.operation.http.partition(" ")[0]

    @cached_property
    def path(self) -> str:
        return self.operation.http.partition(" ")[2]

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        return tuple(_PARAMETER.findall(self.path))

    @cached_property
    def in_query(self) -> tuple[str, ...]:
        return tuple(
            name
            for name, field in self._fields.items()
            if name not in self.in_path and (self.method in _WITHOUT_BODY or _is_marked(field.type))
        )

    @cached_property
    def in_body(self) -> tuple[str, ...]:
        return tuple(n for n in self._fields if n not in self.in_path and n not in self.in_query)

    @cached_property
    def _fields(self) -> Mapping[str, msgspec.structs.FieldInfo]:
        return requests.list_fields(self.operation.request)

    async def parse(self, request: Request) -> object:
        """Return the request of the operation. Raises InvalidInput."""
        check_known(request.query_params, self.in_query)
        kind = self.operation.request
        if kind is None:
            return None
        values = {
            name: self._parse_text("path", name, request.path_params[name]) for name in self.in_path
        }
        for name in self.in_query:
            if name in request.query_params:
                texts = request.query_params.getlist(name)
                value = texts if requests.is_list(self._fields[name].type) else texts[-1]
                values[name] = self._parse_text("query", name, value)
        if not self.in_body:
            return _build(kind, values)
        _check_is_json(request)
        content = parse_object(await request.body())
        if unknown := content.keys() - self.in_body:
            raise InvalidRequest(*(requests.refuse_unknown("body", each) for each in unknown))
        try:
            return requests.parse(kind, {**content, **values})
        except InvalidRequest as exc:
            raise _put(exc, "body") from None

    def _parse_text(self, where: str, name: str, value: object) -> object:
        try:
            return requests.parse_value(self._fields[name], value)
        except InvalidRequest as exc:
            raise _put(exc, where) from None

    def describe(self, answer: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the operation's entry in the OpenAPI document, with these schemas."""
        operation = self.operation
        described: dict[str, Any] = {
            "tags": [operation.tag],
            "summary": operation.summary,
            "operationId": operation.name.replace(".", "_"),
        }
        if operation.details:
            described["description"] = operation.details
        parameters = [
            *(self._describe_parameter("path", name) for name in self.in_path),
            *(self._describe_parameter("query", name) for name in self.in_query),
        ]
        if parameters:
            described["parameters"] = parameters
        if self.in_body:
            described["requestBody"] = {"required": True, "content": _as_json(body)}
        responses: dict[str, Any] = {}
        for status in operation.statuses:
            responses[str(status)] = {"description": HTTPStatus(status).phrase}
            if operation.answer is not type(None):
                responses[str(status)]["content"] = _as_json(answer)
        problems = answers.PROBLEMS | answers.MISSING
        described["responses"] = responses | {
            str(status): {
                "description": problem["description"],
                "content": _as_json({"$ref": f"{_SCHEMAS}Problem"}),
            }
            for status, problem in problems.items()
        }
        return described

    def _describe_parameter(self, where: str, name: str) -> dict[str, Any]:
        field = self._fields[name]
        schema = msgspec.json.schema(field.type)
        described: dict[str, Any] = {"name": name, "in": where, "required": where == "path"}
        if (text := schema.pop("description", None)) is not None:
            described["description"] = text
        if where == "query":
            described["required"] = field.required
            if isinstance(field.default, str | int | float | bool):
                schema["default"] = field.default
        return {**described, "schema": schema}

    def describe_body(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Leave out of a request's schema what is in the path or in the query."""
        properties = {n: each for n, each in schema["properties"].items() if n in self.in_body}
        required = [name for name in schema.get("required", ()) if name in self.in_body]
        described = {**schema, "properties": properties, "additionalProperties": False}
        described.pop("required", None)
        if required:
            described["required"] = required
        if self.operation.example is not None:
            described["examples"] = [self.operation.example]
        return described


class OperationRoute(Route):
    """The route of an operation."""

    def __init__(
        self, operation: Operation[Any], calls: OperationCalls, bridge: Bridge, environ: Any
    ) -> None:
        self.rest = RestRequest(operation)
        cache = AnswerCache()

        async def answer(request: Request) -> Response:
            asked = await self.rest.parse(request)
            version = calls.read_version(operation)
            key = access.get_caller(), asked  # on a team server, each sees their own
            if version is not None and (kept := cache.find(version, key)) is not None:
                return Response(kept, media_type="application/json")
            caller = build_caller(request, environ)

            def render(result: Any) -> Response:
                if result is None:
                    return answers.render_empty()
                return answers.render_json(result, operation.status(result))

            if operation.is_deferred:
                future = await bridge.run_if_long(
                    lambda: calls.begin(operation, caller, asked), operation.scanned(asked)
                )
                return render(await bridge.wait(future))
            response = await bridge.run(lambda: render(calls.call(operation, caller, asked)))
            if version is not None:
                cache.keep(version, key, bytes(response.body))
            return response

        super().__init__(self.rest.path, answer, methods=[self.rest.method])

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Note the route for the counters, which are kept by route."""
        match, found = super().matches(scope)
        return match, {**found, "route": self}


def describe_operations(operations: Iterable[Operation[Any]]) -> dict[str, Any]:
    """Return the paths and the schemas of operations for the OpenAPI document."""
    served = [RestRequest(each) for each in operations if each.http]
    asked = [each.operation.request for each in served if each.in_body]
    answered = [each.operation.answer for each in served]
    kinds = list(dict.fromkeys((*answered, *asked)))
    shown, components = msgspec.json.schema_components(kinds, ref_template=f"{_SCHEMAS}{{name}}")
    schemas = dict(zip(kinds, shown, strict=True))
    paths: dict[str, Any] = {}
    for each in served:
        body = schemas.get(each.operation.request, {})
        if each.in_body:  # without what is elsewhere in the request
            name = body["$ref"].removeprefix(_SCHEMAS)
            components[name] = each.describe_body(components[name])
        path = _PARAMETER.sub(r"{\1}", each.path)
        answer = schemas[each.operation.answer]
        paths.setdefault(path, {})[each.method.lower()] = each.describe(answer, body)
    return {"paths": paths, "schemas": components}


def _check_is_json(request: Request) -> None:
    """Raise InvalidRequest for a body that says that it is something else."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise InvalidRequest(FieldProblem(("body",), "not JSON: set Content-Type", "json_invalid"))


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse a body that is a JSON object. Raises InvalidRequest."""
    try:
        content = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidRequest(FieldProblem(("body",), "not valid JSON", "json_invalid")) from None
    if not isinstance(content, dict):
        raise InvalidRequest(FieldProblem(("body",), "not an object", "model_attributes_type"))
    return content


def describe_body(kind: type[Any]) -> dict[str, Any]:
    """Describe the body of a route that is no operation, such as a stream's, for FastAPI."""
    _, components = msgspec.json.schema_components([kind])
    schema = {**components[kind.__name__], "additionalProperties": False}
    return {"requestBody": {"required": True, "content": _as_json(schema)}}


def _as_json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _build(kind: type[Any], values: Mapping[str, Any]) -> object:
    try:
        return requests.build(kind, values)
    except InvalidRequest as exc:
        raise _put(exc, "query") from None


def _put(error: InvalidRequest, where: str) -> InvalidRequest:
    """Say in which part of the HTTP request the fields are."""
    return InvalidRequest(*(each._replace(field=(where, *each.field)) for each in error.problems))


def _is_marked(kind: Any) -> bool:
    """Tell whether a field is in the query beside a body: `Meta(extra={"in": "query"})`."""
    described = msgspec.inspect.type_info(kind)
    extra = getattr(described, "extra", None) or {}
    return extra.get("in") == "query"
