"""States that someone else has planted: reading them runs nothing."""

import base64
import enum
import json
import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
import ormsgpack
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt, Send
from pydantic import BaseModel

from agent_memory.client import SerializationError
from agent_memory.client.langgraph import AgentMemorySaver, StrictSerializer
from agent_memory.proto import checkpoints_pb2 as pb
from tests.daemon_process import Daemon

SINGLE, POSITIONAL, KEYWORDS, METHOD, PYDANTIC_1, PYDANTIC_2, NUMPY, DELTA = range(8)


def ext(code: int, *parts: Any) -> ormsgpack.Ext:
    return ormsgpack.Ext(code, packed(parts))


def packed(value: Any) -> bytes:
    return ormsgpack.packb(value, option=ormsgpack.OPT_NON_STR_KEYS)


class Unpickled:
    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.marker,)


def hostile(marker: str) -> dict[str, tuple[str, bytes]]:
    """Blobs that make a folder when something in them is called. By what they are: kind, bytes."""
    make = ext(SINGLE, "os", "mkdir", marker)
    states: dict[str, Any] = {
        "a function and its argument": make,
        "a shell command": ext(SINGLE, "os", "system", f"mkdir '{marker}'"),
        "source code": ext(SINGLE, "builtins", "exec", f"import os; os.mkdir({marker!r})"),
        "a function and its arguments": ext(POSITIONAL, "os", "mkdir", (marker,)),
        "a function and named arguments": ext(KEYWORDS, "os", "mkdir", {"path": marker}),
        "a method": ext(METHOD, "os", "path", marker, "os.mkdir"),
        "a class method": ext(METHOD, "pathlib", "Path", marker, "mkdir"),
        "a model of pydantic 1": ext(PYDANTIC_1, "os", "mkdir", {"path": marker}),
        "a model of pydantic 2": ext(PYDANTIC_2, "os", "mkdir", {"path": marker}, "x"),
        "in a channel": {"channel_values": {"said": ["hello", make]}},
        "deep inside": [[{"a": [{"b": make}]}]],
        "in a type that is allowed": ext(SINGLE, "builtins", "set", [make]),
        "in a message": ext(
            KEYWORDS, "langchain_core.messages.human", "HumanMessage", {"content": make}
        ),
        "in a difference": ormsgpack.Ext(DELTA, packed([make])),
        "in an array": ormsgpack.Ext(NUMPY, packed(("|u1", (1,), "C", make))),
    }
    pickled = pickle.dumps(Unpickled(marker))
    constructor = {"type": "constructor", "args": [marker], "kwargs": {"path": marker}}
    return {
        **{name: ("msgpack", packed(value)) for name, value in states.items()},
        "pickled": ("pickle", pickled),
        "json of today": ("json", to_json({"lc": 2, "id": ["os", "mkdir"], **constructor})),
        "json of langchain": ("json", to_json({"lc": 1, "id": ["os", "mkdir"], **constructor})),
        "a secret of the environment": (
            "json",
            to_json({"lc": 1, "type": "secret", "id": ["HOME"]}),
        ),
        "of another kind": ("exec", base64.b64encode(pickled)),
    }


def to_json(value: object) -> bytes:
    return json.dumps(value).encode()


NAMES = list(hostile(""))


@pytest.fixture
def saver(shared_daemon: Daemon) -> Iterator[AgentMemorySaver]:
    with AgentMemorySaver.connect(f"unix:{shared_daemon.socket}") as connected:
        yield connected


def plant(daemon: Daemon, method: str, request: Any) -> None:
    """As any program that may write to the daemon."""
    with grpc.insecure_channel(f"unix:{daemon.socket}") as channel:
        channel.unary_unary(f"/memory.CheckpointService/{method}", None, None)(
            request.SerializeToString(), timeout=30
        )


def thread(name: str) -> RunnableConfig:
    return {"configurable": {"thread_id": name, "checkpoint_ns": ""}}


@pytest.mark.parametrize("what", NAMES)
def test_a_planted_state_runs_nothing(
    shared_daemon: Daemon, saver: AgentMemorySaver, tmp_path: Path, name: str, what: str
) -> None:
    marker = tmp_path / "ran"
    kind, blob = hostile(str(marker))[what]
    state = pb.GraphCheckpoint(
        thread_id=name, checkpoint_id="c1", metadata="{}", type=kind, blob=blob
    )
    plant(shared_daemon, "PutCheckpoint", pb.PutCheckpointRequest(checkpoint=state))
    with pytest.raises(SerializationError):
        saver.get_tuple(thread(name))
    with pytest.raises(SerializationError):
        list(saver.list(thread(name)))
    assert not marker.exists()


@pytest.mark.parametrize("what", NAMES)
def test_a_planted_write_runs_nothing(
    shared_daemon: Daemon, saver: AgentMemorySaver, tmp_path: Path, name: str, what: str
) -> None:
    marker = tmp_path / "ran"
    kind, value = hostile(str(marker))[what]
    sound: Checkpoint = {**empty_checkpoint(), "id": "c1"}
    saver.put(thread(name), sound, {"source": "loop", "step": 1, "parents": {}}, {})
    write = pb.PendingWrite(task_id="t", index=0, channel="said", type=kind, value=value)
    plant(
        shared_daemon,
        "PutWrites",
        pb.PutWritesRequest(thread_id=name, checkpoint_id="c1", writes=[write]),
    )
    with pytest.raises(SerializationError):
        saver.get_tuple(thread(name))
    assert not marker.exists()


def test_the_blobs_are_hostile_indeed(tmp_path: Path) -> None:
    """LangGraph's serializer, as it comes, runs them: else this file would show nothing."""
    ran = []
    for what, blob in hostile(str(tmp_path / "ran")).items():
        marker = tmp_path / "ran"
        try:
            JsonPlusSerializer(pickle_fallback=True).loads_typed(blob)
        except (NotImplementedError, ValueError):
            continue
        if marker.exists():
            marker.rmdir()
            ran.append(what)
    assert len(ran) >= 10, ran


@dataclass
class Order:
    item: str


class Offer(BaseModel):
    price: int


class Colour(enum.Enum):
    RED = "red"


OWN = [Order("a tent"), Offer(price=3), Colour.RED]


class TestTypes:
    @pytest.mark.parametrize(
        "value",
        [
            None,
            b"bytes",
            bytearray(b"bytes"),
            {"text": "x", 1: [2.5, True, None], "nested": {"a": b"\0"}},
            {"at": datetime(2026, 1, 2, tzinfo=UTC), "id": UUID(int=7), "cost": Decimal("1.50")},
            {"names": {"a", "b"}, "path": Path("/tmp/x")},  # noqa: S108
            [HumanMessage("hi"), AIMessage("yes"), ToolMessage("done", tool_call_id="1")],
            [Document(page_content="text"), Interrupt(value="what now?", id="i")],
            [Send("node", {"x": 1})],
        ],
    )
    def test_what_langgraph_allows_comes_back_as_it_was(self, value: object) -> None:
        serializer = StrictSerializer()
        assert serializer.loads_typed(serializer.dumps_typed(value)) == value

    @pytest.mark.parametrize("value", OWN)
    def test_a_type_of_your_own_must_be_named(self, value: object) -> None:
        kind = type(value)
        stored = StrictSerializer().dumps_typed([value])
        with pytest.raises(SerializationError, match=rf"{kind.__name__}, which is not allowed.*"):
            StrictSerializer().loads_typed(stored)
        for allowed in (kind, (kind.__module__, kind.__name__)):
            assert StrictSerializer([allowed]).loads_typed(stored) == [value]

    def test_what_one_serializer_refuses_is_no_matter_of_the_next(self) -> None:
        stored = StrictSerializer().dumps_typed([Order("a tent")])
        with pytest.raises(SerializationError):
            StrictSerializer().loads_typed(stored)
        assert StrictSerializer([Order]).loads_typed(stored) == [Order("a tent")]
        assert StrictSerializer().loads_typed(("msgpack", b"\x01")) == 1

    def test_the_saver_takes_them(self, shared_daemon: Daemon, name: str) -> None:
        endpoint = f"unix:{shared_daemon.socket}"
        state: Checkpoint = {
            **empty_checkpoint(),
            "id": "c1",
            "channel_values": {"order": Order("a tent")},
        }
        with AgentMemorySaver.connect(endpoint, allowed_types=[Order]) as saver:
            saver.put(thread(name), state, {"source": "loop", "step": 1, "parents": {}}, {})
            found = saver.get_tuple(thread(name))
            assert found is not None
            assert found.checkpoint["channel_values"] == {"order": Order("a tent")}
        with (
            AgentMemorySaver.connect(endpoint) as saver,
            pytest.raises(SerializationError, match="name it in allowed_types"),
        ):
            saver.get_tuple(thread(name))

    def test_a_graph_that_langgraph_derives_types_for_reads_them(self) -> None:
        """As it does in its own strict mode, from the schema of a graph."""
        derived = StrictSerializer().with_msgpack_allowlist([(Order.__module__, Order.__name__)])
        assert isinstance(derived, StrictSerializer)
        assert derived.loads_typed(derived.dumps_typed([Order("x")])) == [Order("x")]

    def test_a_serializer_of_your_own_leaves_no_place_for_them(self, shared_daemon: Daemon) -> None:
        with pytest.raises(ValueError, match="allowed_types"):
            AgentMemorySaver.connect(
                f"unix:{shared_daemon.socket}", serde=JsonPlusSerializer(), allowed_types=[Order]
            )

    def test_a_damaged_state_is_an_error_of_ours(self) -> None:
        with pytest.raises(SerializationError, match="damaged"):
            StrictSerializer().loads_typed(("msgpack", b"\xc1"))
