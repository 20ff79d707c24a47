"""A gRPC server that answers with given bytes: for what today's daemon does not say.

It keeps what it was asked, with which key, and how many seconds it was given.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc

Answer: TypeAlias = bytes | grpc.StatusCode


@dataclass
class StandIn:
    port: int = 0
    asked: dict[str, list[bytes]] = field(default_factory=dict)
    keys: list[str | None] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serving(
    unary: Mapping[str, Answer],
    stream: Mapping[str, Callable[[bytes], bytes]] | None = None,
    *,
    address: str = "127.0.0.1:0",
    credentials: grpc.ServerCredentials | None = None,
) -> Iterator[StandIn]:
    """Answers by method name; `stream` gives an answer to each message, where it is not empty."""
    stand_in = StandIn()
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads, options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((_Handler(stand_in, unary, stream or {}),))
        stand_in.port = (
            server.add_insecure_port(address)
            if credentials is None
            else server.add_secure_port(address, credentials)
        )
        server.start()
        try:
            yield stand_in
        finally:
            server.stop(None).wait()


class _Handler(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs alone
    def __init__(
        self,
        stand_in: StandIn,
        unary: Mapping[str, Answer],
        stream: Mapping[str, Callable[[bytes], bytes]],
    ) -> None:
        self._stand_in = stand_in
        self._unary = unary
        self._stream = stream

    def service(self, details: Any) -> "grpc.RpcMethodHandler[Any, Any] | None":
        method = details.method.rpartition("/")[2]
        sent = dict(details.invocation_metadata)
        self._stand_in.keys.append(sent.get("authorization"))
        asked = self._stand_in.asked.setdefault(method, [])
        seconds = self._stand_in.seconds
        if method in self._stream:
            answer_each = self._stream[method]

            def answers(requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
                seconds[method] = context.time_remaining()
                for request in requests:
                    asked.append(request)
                    if found := answer_each(request):
                        yield found

            return grpc.stream_stream_rpc_method_handler(answers)
        if method in self._unary:
            given = self._unary[method]

            def answer(request: bytes, context: Any) -> bytes:
                seconds[method] = context.time_remaining()
                asked.append(request)
                if isinstance(given, grpc.StatusCode):
                    context.abort(given, "as the test wants it")
                    raise AssertionError("abort returned")
                return given

            return grpc.unary_unary_rpc_method_handler(answer)
        return None
