"""Operations: what can be asked of a daemon, each defined once for every interface.

An operation is a function that takes services, who calls, and a request, and returns an answer.
Its name, permission and places on the interfaces stand beside it. REST, MCP, gRPC and the commands
derive the rest from the types of the request and of the answer, and from the docstring.
"""

import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from agent_memory.kernel.access import Role
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.progress import OnProgress, ignore_progress

A = TypeVar("A")

# The parameters of a function that are no services.
REQUEST, CALLER, ON_PROGRESS = "request", "caller", "on_progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[A]):
    """An operation. `services` are what it uses, by the names of its parameters.

    Without a `role` it is not served to the people of a team. Callers who see only some projects
    may use it only if it is `scoped`: then what it answers must depend on `access.get_caller`, as
    the guarded stores do.
    """

    name: str
    function: Callable[..., A]
    request: type[Any] | None
    answer: Any
    services: Mapping[str, Any]
    takes_caller: bool
    is_deferred: bool  # the function never blocks, and returns a future of the answer
    scanned: Callable[[Any], int]  # the characters that a deferred one scans for secrets
    reports: bool  # its progress: it may take long
    role: Role | None
    scoped: bool
    http: str  # the method and the path
    status: Callable[[A], int]  # of an answer over HTTP
    statuses: tuple[int, ...]  # all that `status` returns
    tag: str  # the section of the reference of REST
    example: Mapping[str, Any] | None  # of a body
    rpc: str  # the full name of the method
    tool: str  # the name of the tool of MCP
    version: Callable[[Any], int] | None  # of its service: while it stays, so does an answer
    summary: str
    details: str


def operation(
    name: str,
    *,
    role: Role | None = None,
    scoped: bool = False,
    http: str = "",
    status: int | Callable[[Any], int] = 200,
    statuses: tuple[int, ...] = (),
    tag: str = "",
    example: Mapping[str, Any] | None = None,
    rpc: str = "",
    tool: str = "",
    version: Callable[[Any], int] | None = None,
    scanned: Callable[[Any], int] = lambda _request: 0,
) -> Callable[[Callable[..., A]], Operation[A]]:
    """Define an operation by its function.

    Of the function's parameters, `request` is the request, `caller` is who calls, `on_progress` is
    called while it runs, and any other is a service, which is found by its type.
    """

    def define(function: Callable[..., A]) -> Operation[A]:
        hints = get_type_hints(function)
        answer = hints.pop("return")
        is_deferred = get_origin(answer) is Future
        request = hints.pop(REQUEST, None)
        takes_caller = hints.pop(CALLER, None) is not None
        reports = hints.pop(ON_PROGRESS, None) is not None
        summary, _, details = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        return Operation(
            name=name,
            function=function,
            request=request,
            answer=get_args(answer)[0] if is_deferred else answer,
            services=hints,
            takes_caller=takes_caller,
            is_deferred=is_deferred,
            scanned=scanned,
            reports=reports,
            role=role,
            scoped=scoped,
            http=http,
            status=status if callable(status) else lambda _answer: status,
            statuses=statuses if callable(status) else (status,),
            tag=tag or name.partition(".")[0],
            example=example,
            rpc=rpc,
            tool=tool,
            version=version,
            summary=summary.removesuffix(".").replace("\n", " "),
            details=details,
        )

    return define


def list_operations(module: ModuleType) -> list[Operation[Any]]:
    """Return the operations that a module defines, in their order."""
    return [value for value in vars(module).values() if isinstance(value, Operation)]


class OperationCalls:
    """Calls operations with the services of this daemon."""

    def __init__(self, context: Composition) -> None:
        self._context = context

    def call(
        self,
        operation: Operation[A],
        caller: Caller,
        request: object = None,
        on_progress: OnProgress = ignore_progress,
    ) -> A:
        """Return the answer to a request that is valid and allowed, once there is one."""
        answer = self.begin(operation, caller, request, on_progress)
        return answer.result() if isinstance(answer, Future) else answer

    def begin(
        self,
        operation: Operation[A],
        caller: Caller,
        request: object = None,
        on_progress: OnProgress = ignore_progress,
    ) -> A:
        """Return the answer, or the future of an operation that is deferred."""
        arguments = {name: self._find(kind) for name, kind in operation.services.items()}
        if operation.request is not None:
            arguments[REQUEST] = request
        if operation.takes_caller:
            arguments[CALLER] = caller
        if operation.reports:
            arguments[ON_PROGRESS] = on_progress
        return operation.function(**arguments)

    def read_version(self, operation: Operation[Any]) -> int | None:
        """Return a number that changes whenever an answer may; None if that is unknown."""
        if operation.version is None:
            return None
        (kind,) = operation.services.values()
        return operation.version(self._find(kind))

    def _find(self, kind: Any) -> object:
        """Return the service of a type; None if the type is optional and there is none."""
        choices = get_args(kind) or (kind,)
        if type(None) in choices:
            return next(filter(None, map(self._context.find, choices)), None)
        return self._context[kind]
