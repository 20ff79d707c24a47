"""Calling memory.MemoryService as a foreign client would: the proto and a channel, no code of ours.

The channel keeps gRPC's default limit of 4 MiB for answers, so what a test reads, any client can.
"""

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self

import grpc
from google.protobuf.message import Message

from agent_memory.proto import memory_pb2 as pb

CALL_SECONDS = 30.0
END_OF_TIME = 9_999_999_999_999
SERVICE = "memory.MemoryService"


class Client:
    """One connection of its own, closed on exit."""

    def __init__(self, target: str, *, seconds: float = CALL_SECONDS) -> None:
        """`seconds`: how long a call may take."""
        self._seconds = seconds
        self._channel = grpc.insecure_channel(
            target, options=[("grpc.use_local_subchannel_pool", 1)]
        )
        self._ingest = self._unary(f"/{SERVICE}/IngestEvent", pb.IngestEventResponse)
        self._get = self._unary(f"/{SERVICE}/GetEvents", pb.GetEventsResponse)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._channel.close()

    def ingest(self, event: pb.Event) -> pb.IngestEventResponse:
        answer: pb.IngestEventResponse = self._ingest(
            pb.IngestEventRequest(event=event), timeout=self._seconds
        )
        return answer

    def ingest_soon(self, event: pb.Event) -> "grpc.CallFuture[pb.IngestEventResponse]":
        return self._ingest.future(pb.IngestEventRequest(event=event), timeout=self._seconds)

    def ingest_all(self, events: Iterable[pb.Event]) -> list[pb.IngestOutcome]:
        """All in one message of a stream."""
        (answer,) = self.stream([pb.IngestEventsRequest(events=events)])
        return list(answer.outcomes)

    def stream(
        self, requests: Iterable[pb.IngestEventsRequest]
    ) -> "grpc.CallIterator[pb.IngestEventsResponse]":
        return self.stream_of(f"/{SERVICE}/IngestEvents", requests, pb.IngestEventsResponse)

    def get_events(
        self,
        start: int = 0,
        end: int = END_OF_TIME,
        *,
        limit: int = 0,
        token: str | None = None,
    ) -> pb.GetEventsResponse:
        answer: pb.GetEventsResponse = self._get(
            pb.GetEventsRequest(
                from_timestamp_ms=start,
                to_timestamp_ms=end,
                limit=limit,
                continuation_token=token,
            ),
            timeout=self._seconds,
        )
        return answer

    def pages(
        self, start: int = 0, end: int = END_OF_TIME, *, limit: int = 1000
    ) -> Iterator[pb.GetEventsResponse]:
        """Page after page, as the continuation tokens lead."""
        token = None
        while True:
            page = self.get_events(start, end, limit=limit, token=token)
            yield page
            if not page.has_more:
                assert not page.HasField("continuation_token")
                return
            token = page.continuation_token

    def all_events(
        self, start: int = 0, end: int = END_OF_TIME, *, limit: int = 1000
    ) -> list[pb.Event]:
        return [event for page in self.pages(start, end, limit=limit) for event in page.events]

    def raw(self, method: str, request: bytes) -> bytes:
        """Send bytes as they are to a method of the service."""
        answer: bytes = self._channel.unary_unary(f"/{SERVICE}/{method}", None, None)(
            request, timeout=self._seconds
        )
        return answer

    def unary(self, path: str, request: Message, answers: type[Message]) -> Any:
        """Call a method of any service."""
        return self._unary(path, answers)(request, timeout=self._seconds)

    def server_stream(
        self, path: str, request: Message, answers: type[Message]
    ) -> "grpc.CallIterator[Any]":
        """Call a method of any service that answers with a stream."""
        return self._channel.unary_stream(
            path,
            request_serializer=_serialize,
            response_deserializer=answers.FromString,
        )(request, timeout=self._seconds)

    def stream_of(
        self, path: str, requests: Iterable[Message], answers: type[Message]
    ) -> "grpc.CallIterator[Any]":
        """Call a streaming method of any service."""
        return self._channel.stream_stream(
            path,
            request_serializer=_serialize,
            response_deserializer=answers.FromString,
        )(iter(requests), timeout=self._seconds)

    def _unary(self, path: str, answers: type[Message]) -> "grpc.UnaryUnaryMultiCallable[Any, Any]":
        return self._channel.unary_unary(
            path,
            request_serializer=_serialize,
            response_deserializer=answers.FromString,
        )


def message(event_id: str, at_ms: int, text: str = "What is Rust?", **more: Any) -> pb.Event:
    """A valid user message; `more` sets further fields."""
    fields: dict[str, Any] = {
        "session_id": "session-001",
        "event_type": pb.EVENT_TYPE_USER_MESSAGE,
        "role": pb.EVENT_ROLE_USER,
    } | more
    return pb.Event(event_id=event_id, timestamp_ms=at_ms, text=text, **fields)


def assert_unavailable(error: grpc.RpcError) -> None:
    """The server is gone or going, and a client may try again."""
    assert error.code() is grpc.StatusCode.UNAVAILABLE, error


def cancel(call: Any) -> None:
    """As its client, give up on a call. (The stubs of grpc leave the method untyped.)"""
    call.cancel()


def _serialize(request: Message) -> bytes:
    return request.SerializeToString()
