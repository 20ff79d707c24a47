"""Who may call the methods of a service, while a call goes on."""

from queue import SimpleQueue

from agent_memory.interfaces.grpc.admission import GrpcCaller
from agent_memory.interfaces.grpc.handlers import build_service
from agent_memory.interfaces.grpc.messages import add_prefix
from agent_memory.interfaces.grpc.statuses import Status
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel.errors import Unauthorized
from agent_memory.proto import memory_pb2 as pb
from tests.grpc_harness import SECONDS, BareClient, serving


def test_a_key_that_is_revoked_before_the_request_is_whole_opens_nothing() -> None:
    keys, asked, served = {"good"}, SimpleQueue[str](), list[pb.GetTocRootRequest]()

    def guard(caller: GrpcCaller) -> None:
        asked.put("asked")
        if caller.authorization not in keys:
            raise Unauthorized("revoked")

    async def get_root(request: pb.GetTocRootRequest) -> pb.GetTocRootResponse:
        served.append(request)
        return pb.GetTocRootResponse()

    service = build_service(
        pb.DESCRIPTOR.services_by_name["MemoryService"],
        unary={"GetTocRoot": get_root},
        stream={},
        guard=guard,
        observer=Observer(),
    )
    (method,) = service.values()
    with serving({"Root": method}) as server, BareClient(server.server.port) as bare:
        stream_id = bare.begin("Root", {"authorization": "good"})
        assert asked.get(timeout=SECONDS)  # before the request
        keys.clear()
        bare.send(stream_id, add_prefix(b""), end=True)
        assert bare.read_headers(stream_id)["grpc-status"] == str(int(Status.UNAUTHENTICATED))
    assert served == []
