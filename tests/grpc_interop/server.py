"""The test service on the transport of the daemon: `python -m tests.grpc_interop.server`.

On h2 instead of jh2: `python -m tests.on_h2 tests.grpc_interop.server`.
"""

from collections.abc import AsyncIterator

from agent_memory.interfaces.grpc.calls import (
    CallHead,
    Method,
    ReadRequest,
    StreamMethod,
    UnaryMethod,
)
from agent_memory.interfaces.grpc.server import GrpcServer
from agent_memory.interfaces.grpc.statuses import Status, StatusError
from tests.grpc_interop import service
from tests.grpc_interop.service import Refused, Stream, TestService, Unary


async def serve(test: TestService) -> int:
    methods = {name: _build_unary(test, name, call) for name, call in test.unary.items()}
    methods |= {name: _build_stream(test, name, call) for name, call in test.streams.items()}
    paths = {f"/{service.NAME}/{name}".encode(): method for name, method in methods.items()}
    server = GrpcServer(paths)
    server.listen(["127.0.0.1"], 0)
    await server.start()
    return server.port


def _build_unary(test: TestService, name: str, call: Unary) -> Method:
    async def answer(read: ReadRequest, _head: CallHead) -> bytes:
        try:
            found: bytes = (await call(test.parse(name, await read()))).SerializeToString()
        except Refused as exc:
            raise StatusError(Status(exc.code), exc.details) from exc
        return found

    return UnaryMethod(answer)


def _build_stream(test: TestService, name: str, call: Stream) -> Method:
    async def answer(raw: AsyncIterator[bytes], _head: CallHead) -> AsyncIterator[bytes]:
        try:
            async for found in call(test.parse(name, each) async for each in raw):
                yield found.SerializeToString()
        except Refused as exc:
            raise StatusError(Status(exc.code), exc.details) from exc

    return StreamMethod(answer)


if __name__ == "__main__":
    service.run(serve)
