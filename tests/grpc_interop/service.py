"""The test service that the interop clients of gRPC call, whatever carries it."""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc

NAME = "grpc.testing.TestService"
_HERE = Path(__file__).parent

Unary = Callable[[Any], Awaitable[Any]]
Stream = Callable[[AsyncIterator[Any]], AsyncIterator[Any]]


class Refused(Exception):
    """The request asks for this status."""

    def __init__(self, code: int, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


class TestService:
    """The methods, whatever carries them."""

    def __init__(self) -> None:
        with tempfile.NamedTemporaryFile() as file:
            protoc.main(["", f"-I{_HERE}", f"--descriptor_set_out={file.name}", "testing.proto"])
            files = descriptor_pb2.FileDescriptorSet.FromString(Path(file.name).read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for each in files.file:
            pool.Add(each)
        self.methods = pool.FindServiceByName(NAME).methods_by_name
        self.unary: dict[str, Unary] = {"EmptyCall": self._empty, "UnaryCall": self._unary}
        self.streams: dict[str, Stream] = {
            "StreamingOutputCall": self._answer_each,
            "FullDuplexCall": self._answer_each,
            "StreamingInputCall": self._count,
        }

    def parse(self, method: str, raw: bytes) -> Any:
        return GetMessageClass(self.methods[method].input_type).FromString(raw)

    def _build(self, method: str) -> Any:
        return GetMessageClass(self.methods[method].output_type)()

    async def _empty(self, _request: Any) -> Any:
        return self._build("EmptyCall")

    async def _unary(self, request: Any) -> Any:
        _check_status(request)
        answer = self._build("UnaryCall")
        answer.payload.body = bytes(request.response_size)
        return answer

    async def _answer_each(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for request in requests:
            _check_status(request)
            for wanted in request.response_parameters:
                await asyncio.sleep(wanted.interval_us / 1e6)
                answer = self._build("FullDuplexCall")
                answer.payload.body = bytes(wanted.size)
                yield answer

    async def _count(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        answer = self._build("StreamingInputCall")
        async for request in requests:
            answer.aggregated_payload_size += len(request.payload.body)
        yield answer


def _check_status(request: Any) -> None:
    if request.response_status.code:
        raise Refused(request.response_status.code, request.response_status.message)


def run(serve: Callable[[TestService], Awaitable[int]]) -> None:
    """Print the port that this serves on, and go on until the input ends."""

    async def serve_until_end() -> None:
        port = await serve(TestService())
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)

    uvloop.run(serve_until_end())
