"""The test service on `grpc.aio`, to compare with: `python -m tests.grpc_interop.aio_server`."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1._async import HealthServicer  # which the stubs know by this name alone

from tests.grpc_interop import service
from tests.grpc_interop.service import Refused, Stream, TestService, Unary

_STATUSES = {status.value[0]: status for status in grpc.StatusCode}
_running: list[Any] = []  # a server ends when nothing refers to it


async def serve(test: TestService) -> int:
    handlers = {name: _build_unary(test, name, call) for name, call in test.unary.items()}
    handlers |= {name: _build_stream(test, name, call) for name, call in test.streams.items()}
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service.NAME, handlers),))
    health_pb2_grpc.add_HealthServicer_to_server(HealthServicer(), server)
    port: int = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    _running.append(server)
    return port


def _build_unary(test: TestService, name: str, call: Unary) -> Any:
    async def answer(request: Any, context: Any) -> Any:
        try:
            return await call(request)
        except Refused as exc:
            await context.abort(_STATUSES.get(exc.code, grpc.StatusCode.UNKNOWN), exc.details)

    return grpc.unary_unary_rpc_method_handler(
        answer, lambda raw: test.parse(name, raw), lambda found: found.SerializeToString()
    )


def _build_stream(test: TestService, name: str, call: Stream) -> Any:
    async def answer(requests: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for found in call(requests):
                yield found
        except Refused as exc:
            await context.abort(_STATUSES.get(exc.code, grpc.StatusCode.UNKNOWN), exc.details)

    return grpc.stream_stream_rpc_method_handler(
        answer, lambda raw: test.parse(name, raw), lambda found: found.SerializeToString()
    )


if __name__ == "__main__":
    service.run(serve)
