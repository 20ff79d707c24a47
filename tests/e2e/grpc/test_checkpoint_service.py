"""memory.CheckpointService as a foreign client meets it: the proto and a channel."""

from collections.abc import Iterator
from typing import TypeVar

import grpc
import pytest
from google.protobuf.message import Message

from agent_memory.client.langgraph import AgentMemorySaver
from agent_memory.proto import checkpoints_pb2 as pb
from tests.daemon_process import Daemon

CALL_SECONDS = 30.0
SERVICE = "memory.CheckpointService"
MIB = 1 << 20
M = TypeVar("M", bound=Message)


class Raw:
    def __init__(self, target: str) -> None:
        self._channel = grpc.insecure_channel(target)

    def send(self, method: str, request: bytes, answers: type[M], key: str = "") -> M:
        call = self._channel.unary_unary(f"/{SERVICE}/{method}", None, answers.FromString)
        metadata = (("authorization", f"Bearer {key}"),) if key else ()
        answer: M = call(request, timeout=CALL_SECONDS, metadata=metadata)
        return answer

    def close(self) -> None:
        self._channel.close()


@pytest.fixture
def raw(shared_daemon: Daemon) -> Iterator[Raw]:
    opened = Raw(f"127.0.0.1:{shared_daemon.port}")
    yield opened
    opened.close()


def encode_put(name: str, **more: object) -> bytes:
    fields = {"thread_id": name, "checkpoint_id": "c1", "metadata": "{}", "type": "x", **more}
    return pb.PutCheckpointRequest(
        checkpoint=pb.GraphCheckpoint(**fields)  # type: ignore[arg-type]
    ).SerializeToString()


def test_any_client_may_put_and_get(raw: Raw, name: str) -> None:
    raw.send("PutCheckpoint", encode_put(name, blob=b"\0\xff"), pb.PutCheckpointResponse)
    wanted = pb.GetCheckpointRequest(thread_id=name).SerializeToString()
    answer = raw.send("GetCheckpoint", wanted, pb.GetCheckpointResponse)
    assert answer.snapshot.checkpoint.blob == b"\0\xff"
    assert not answer.snapshot.checkpoint.HasField("parent_checkpoint_id")
    deleted = pb.DeleteCheckpointsRequest(checkpoint_ids=["c1"]).SerializeToString()
    raw.send("DeleteCheckpoints", deleted, pb.DeleteCheckpointsResponse)
    assert not raw.send("GetCheckpoint", wanted, pb.GetCheckpointResponse).HasField("snapshot")


WRONG = [
    ("PutCheckpoint", b"", "checkpoint is required"),
    ("PutCheckpoint", b"\xff", "not a memory.PutCheckpointRequest"),
    ("PutCheckpoint", encode_put("t", blob=bytes(15 * MIB + 1)), "the limit is 15 MiB"),
    ("PutCheckpoint", encode_put("t", metadata="[]"), "metadata must be a JSON object"),
    ("PutCheckpoint", encode_put("t\n"), "thread_id has unprintable characters"),
    ("PutWrites", b"", "thread_id is required"),
    ("GetCheckpoint", b"", "thread_id is required"),
    ("GetWrites", b"", "thread_id is required"),
    ("ListCheckpoints", b"", "limit is 0"),
    ("ListCheckpoints", pb.ListCheckpointsRequest(limit=501).SerializeToString(), "500"),
    (
        "ListCheckpoints",
        pb.ListCheckpointsRequest(limit=1, filter="[" * 60_000).SerializeToString(),
        "filter is not JSON",
    ),
    (
        "ListCheckpoints",
        pb.ListCheckpointsRequest(limit=1, checkpoint_ns="n").SerializeToString(),
        "thread_id is required",
    ),
    (
        "ListCheckpoints",
        pb.ListCheckpointsRequest(limit=1, after=pb.CheckpointCursor()).SerializeToString(),
        "thread_id is required",
    ),
    ("PruneThreads", b"", "keep_latest, delete"),
    ("CopyThread", b"", "source_thread_id is required"),
    (
        "DeleteThreads",
        pb.DeleteThreadsRequest(thread_ids=["t"] * 1001).SerializeToString(),
        "in one call; the limit is 1000",
    ),
]


@pytest.mark.parametrize(
    ("method", "request_bytes", "told"), WRONG, ids=[f"{each[0]}: {each[2]}" for each in WRONG]
)
def test_what_is_wrong_is_told(raw: Raw, method: str, request_bytes: bytes, told: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        raw.send(method, request_bytes, pb.PutCheckpointResponse)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert told in (caught.value.details() or "")


def test_a_key_that_is_shown_must_be_right(shared_daemon: Daemon) -> None:
    over_tcp = Raw(f"127.0.0.1:{shared_daemon.port}")
    over_socket = Raw(f"unix:{shared_daemon.socket}")
    wanted = pb.GetCheckpointRequest(thread_id="nowhere").SerializeToString()
    with pytest.raises(grpc.RpcError) as caught:
        over_tcp.send("GetCheckpoint", wanted, pb.GetCheckpointResponse, "am_wrong")
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    over_tcp.send("GetCheckpoint", wanted, pb.GetCheckpointResponse)  # of the same user
    over_socket.send("GetCheckpoint", wanted, pb.GetCheckpointResponse)
    key = (shared_daemon.data_dir / "key").read_text().strip()
    with AgentMemorySaver.connect(f"http://127.0.0.1:{shared_daemon.port}", key=key) as saver:
        assert saver.get_tuple({"configurable": {"thread_id": "nowhere"}}) is None
    over_tcp.close()
    over_socket.close()
