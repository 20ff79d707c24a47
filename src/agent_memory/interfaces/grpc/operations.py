"""The methods of gRPC that are operations."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from google.protobuf.message import Message

from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.grpc import handlers
from agent_memory.interfaces.grpc.admission import Guard
from agent_memory.interfaces.grpc.calls import Method, Methods
from agent_memory.interfaces.grpc.handlers import Unary
from agent_memory.interfaces.observing import Observer
from agent_memory.interfaces.wire import protobuf, rpc
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.operations import Operation, OperationCalls
from agent_memory.kernel.tracing import Interface

_CALLER = Caller(folder="", environ={}, interface=Interface.GRPC)


def build_methods(
    operations: Iterable[Operation[Any]],
    calls: OperationCalls,
    bridge: Bridge,
    choose_guard: Callable[[str], Guard | None],
    observer: Observer,
) -> Methods:
    """Build the methods that are operations, by their paths."""
    services: dict[str, dict[str, Unary]] = defaultdict(dict)
    for operation in operations:
        service, _, method = operation.rpc.rpartition(".")
        if service:
            services[service][method] = _build_method(operation, calls, bridge)
    methods: dict[bytes, Method] = {}
    for service, unary in services.items():
        methods |= handlers.build_service(
            rpc.SERVICES[service],
            unary=unary,
            stream={},
            guard=choose_guard(service),
            observer=observer,
        )
    return methods


def _build_method(operation: Operation[Any], calls: OperationCalls, bridge: Bridge) -> Unary:
    kind: Any = operation.request

    async def answer(message: Message) -> Message:
        request = None if kind is None else protobuf.from_message(kind, message)
        return await bridge.run(
            lambda: rpc.pack_answer(operation, lambda: calls.call(operation, _CALLER, request))
        )

    async def answer_later(message: Message) -> Message:
        request = protobuf.from_message(kind, message)
        future = await bridge.run_if_long(
            lambda: calls.begin(operation, _CALLER, request), operation.scanned(request)
        )
        result = await bridge.wait(future)
        return rpc.pack_answer(operation, lambda: result)

    return answer_later if operation.is_deferred else answer
