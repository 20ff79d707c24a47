"""The least a gRPC server can do with an event: parse the request, answer, keep nothing."""

import asyncio
import json
import sys

import grpc
import grpc.aio
import uvloop

from agent_memory.interfaces.grpc.messages import MAX_MESSAGE_BYTES
from agent_memory.proto import memory_pb2 as pb


async def _answer(request: pb.IngestEventRequest, _: object) -> pb.IngestEventResponse:
    return pb.IngestEventResponse(event_id=request.event.event_id, created=True)


async def main() -> None:
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.so_reuseport", 0),
        ]
    )
    handler = grpc.unary_unary_rpc_method_handler(
        _answer,
        request_deserializer=pb.IngestEventRequest.FromString,
        response_serializer=pb.IngestEventResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("memory.MemoryService", {"IngestEvent": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdin.readline()
    sys.stdout.write(json.dumps({"port": port}) + "\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
