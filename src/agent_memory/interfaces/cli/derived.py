"""Commands of operations: their options and help are derived from the request."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
import msgspec
from msgspec import NODEFAULT
from msgspec.structs import FieldInfo

from agent_memory.interfaces import requests
from agent_memory.interfaces.cli.commands import Choice, CommaList, Group, Invocation, invocation
from agent_memory.kernel.operations import Operation

A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])


def add_command(
    group: Group,
    operation: Operation[A],
    text: Callable[[A, Any], str],
    *,
    name: str = "",
    examples: Sequence[str] = (),
    show: Callable[[A], object] = msgspec.to_builtins,
    exit_code: Callable[[A], int] = lambda _answer: 0,
) -> None:
    """Add a command that asks an operation and shows its answer.

    `text` renders the answer to a request for people, and `show` for programs. A field of the
    request without a default is an argument; any other is an option.
    """

    @invocation
    def run_command(run: Invocation, /, **values: Any) -> int:
        request = build_request(operation, values)
        answer = run.call(operation, request)
        run.show(show(answer), lambda: text(answer, request))
        return exit_code(answer)

    group.command(
        name or operation.name.rpartition(".")[2],
        help="\n\n".join(filter(None, (f"{operation.summary}.", operation.details))),
        examples=examples,
    )(request_options(operation)(run_command))


def build_request(operation: Operation[Any], values: Mapping[str, Any]) -> Any:
    """Build the request of an operation from the parameters of its command. Those that were not
    given have their defaults. Raises InvalidInput."""
    kind = operation.request
    if kind is None:
        return None
    given = {name: value for name, value in values.items() if value is not None}
    return requests.parse(kind, given)


def request_options(operation: Operation[Any], *hidden: str) -> Callable[[F], F]:
    """Add an argument or an option for each field of the request, but those that are hidden."""

    def decorate(function: F) -> F:
        fields = requests.list_fields(operation.request)
        for name in reversed([each for each in fields if each not in hidden]):
            function = _build_parameter(name, fields[name])(function)
        return function

    return decorate


def _build_parameter(name: str, field: FieldInfo) -> Callable[[F], F]:
    schema = msgspec.json.schema(field.type)
    if field.default is NODEFAULT and field.default_factory is NODEFAULT:
        return click.argument(name)
    option = f"--{name.replace('_', '-')}"
    described = {"help": schema.get("description"), "default": None}
    if schema.get("type") == "boolean":
        return click.option(option, name, is_flag=True, **described)
    return click.option(option, name, type=_find_type(schema), **described)


def _find_type(schema: Mapping[str, Any]) -> click.ParamType[Any] | type:
    """Return click's type for the JSON Schema of a field."""
    if "anyOf" in schema:
        schema = next(each for each in schema["anyOf"] if each.get("type") != "null")
    if "enum" in schema:
        return Choice(schema["enum"])
    match schema.get("type"):
        case "integer":
            return click.IntRange(schema.get("minimum"), schema.get("maximum"))
        case "number":
            return click.FloatRange(schema.get("minimum"), schema.get("maximum"))
        case "array":
            return CommaList()
        case _:
            return str
