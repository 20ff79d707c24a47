"""The methods of gRPC that are operations."""

from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.grpc.handlers import Unary
from agent_memory.interfaces.wire import protobuf, rpc
from agent_memory.kernel.callers import Caller
from agent_memory.kernel.operations import Operation, OperationCalls
from agent_memory.kernel.tracing import Interface

_CALLER = Caller(folder="", environ={}, interface=Interface.GRPC)


def build_methods(
    service: ServiceDescriptor,
    operations: Iterable[Operation[Any]],
    calls: OperationCalls,
    bridge: Bridge,
) -> Mapping[str, Unary]:
    """Build the methods of a service that are operations, by their names."""
    return {
        operation.rpc.rpartition(".")[2]: _build_method(operation, calls, bridge)
        for operation in operations
        if operation.rpc.rpartition(".")[0] == service.full_name
    }


def _build_method(operation: Operation[Any], calls: OperationCalls, bridge: Bridge) -> Unary:
    kind = operation.request

    async def answer(message: Message) -> Message:
        request = None if kind is None else protobuf.from_message(kind, message)
        return await bridge.run(
            lambda: rpc.pack_answer(operation, lambda: calls.call(operation, _CALLER, request))
        )

    return answer
