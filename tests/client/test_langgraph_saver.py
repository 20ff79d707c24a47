"""AgentMemorySaver with real graphs and a real daemon: crashes, concurrency, limits, errors."""

import asyncio
import operator
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, TypedDict, cast

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, empty_checkpoint
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt

from agent_memory.client import ConnectionFailed, InvalidEndpoint, RpcError, SerializationError
from agent_memory.client.langgraph import AgentMemorySaver
from tests.daemon_process import Daemon

MIB = 1 << 20


class State(TypedDict):
    said: Annotated[list[str], operator.add]


Graph = CompiledStateGraph[State, None, State, State]


def greet(state: State) -> dict[str, Any]:  # noqa: ARG001
    return {"said": ["hello"]}


def end(state: State) -> dict[str, Any]:  # noqa: ARG001
    return {"said": ["bye"]}


def ask(state: State) -> dict[str, Any]:  # noqa: ARG001
    return {"said": [f"you said {interrupt('what now?')}"]}


def graph(saver: AgentMemorySaver) -> Graph:
    """It asks, waits for a person, and goes on."""
    builder = StateGraph(State)
    builder.add_node("greet", greet)
    builder.add_node("ask", ask)
    builder.add_node("end", end)
    builder.add_edge(START, "greet")
    builder.add_edge("greet", "ask")
    builder.add_edge("ask", "end")
    builder.add_edge("end", END)
    return builder.compile(checkpointer=saver)


def thread(name: str, **more: str) -> RunnableConfig:
    return {"configurable": {"thread_id": name, "checkpoint_ns": "", **more}}


def state(number: int = 0, **values: Any) -> Checkpoint:
    return {**empty_checkpoint(), "id": f"c{number:04}", "channel_values": values}


def about(**more: Any) -> CheckpointMetadata:
    return cast(CheckpointMetadata, {"source": "loop", "step": 1, "parents": {}, **more})


@pytest.fixture
def saver(shared_daemon: Daemon) -> Iterator[AgentMemorySaver]:
    with AgentMemorySaver.connect(f"unix:{shared_daemon.socket}") as connected:
        yield connected


class TestGraphs:
    def test_an_interrupted_graph_goes_on_after_the_daemon_was_killed(self, daemon: Daemon) -> None:
        with AgentMemorySaver.connect(f"unix:{daemon.socket}") as saver:
            waiting = graph(saver).invoke({"said": ["hi"]}, thread("blocking"))
            assert waiting["__interrupt__"][0].value == "what now?"
            waiting = asyncio.run(graph(saver).ainvoke({"said": ["hi"]}, thread("awaited")))
            assert waiting["__interrupt__"][0].value == "what now?"

            daemon.kill()
            daemon.start()

            # The same connection finds the new daemon, and so does a new one.
            answered = graph(saver).invoke(Command(resume="go on"), thread("blocking"))
            assert answered["said"] == ["hi", "hello", "you said go on", "bye"]
        with AgentMemorySaver.connect(f"unix:{daemon.socket}") as saver:
            resumed = graph(saver).ainvoke(Command(resume="go on"), thread("awaited"))
            answered = asyncio.run(resumed)
            assert answered["said"] == ["hi", "hello", "you said go on", "bye"]
            assert len(list(saver.list(thread("awaited")))) == 5

    def test_a_state_of_the_past_can_be_gone_back_to(
        self, saver: AgentMemorySaver, name: str
    ) -> None:
        created = graph(saver)
        created.invoke({"said": ["hi"]}, thread(name))
        created.invoke(Command(resume="one"), thread(name))
        asked = next(
            each for each in created.get_state_history(thread(name)) if each.next == ("ask",)
        )
        assert asked.values["said"] == ["hi", "hello"]
        again = created.invoke(None, asked.config)
        assert again["__interrupt__"][0].value == "what now?"
        other = created.invoke(Command(resume="two"), thread(name))
        assert other["said"] == ["hi", "hello", "you said two", "bye"]

    def test_subgraphs_keep_their_own_namespaces(self, saver: AgentMemorySaver, name: str) -> None:
        inner = StateGraph(State)
        inner.add_node("ask", ask)
        inner.add_edge(START, "ask")
        outer = StateGraph(State)
        outer.add_node("inner", inner.compile())
        outer.add_edge(START, "inner")
        created = outer.compile(checkpointer=saver)
        created.invoke({"said": []}, thread(name))
        config: RunnableConfig = {"configurable": {"thread_id": name}}
        spaces = {each.config["configurable"]["checkpoint_ns"] for each in saver.list(config)}
        assert len(spaces) == 2
        assert created.invoke(Command(resume="yes"), thread(name))["said"] == ["you said yes"]

    def test_pruned_to_the_latest_a_graph_goes_on(self, saver: AgentMemorySaver, name: str) -> None:
        created = graph(saver)
        created.invoke({"said": ["hi"]}, thread(name))
        saver.prune([name])
        assert len(list(saver.list(thread(name)))) == 1
        answered = created.invoke(Command(resume="still"), thread(name))
        assert answered["said"] == ["hi", "hello", "you said still", "bye"]


def joined(present: Any, writes: Sequence[Any]) -> Any:
    return [*(present or []), *(each for write in writes for each in write)]


class Deltas(TypedDict):
    said: Annotated[list[str], DeltaChannel(joined)]


def say(state: Deltas) -> dict[str, Any]:  # noqa: ARG001
    return {"said": ["word"]}


def test_channels_kept_as_differences_survive_pruning_and_copying(
    saver: AgentMemorySaver, name: str
) -> None:
    """The latest checkpoint alone would be read as empty."""
    builder = StateGraph(Deltas)
    builder.add_node("say", say)
    builder.add_edge(START, "say")
    created = builder.compile(checkpointer=saver)
    for _ in range(3):
        created.invoke({"said": ["hi"]}, thread(name))
    said = created.get_state(thread(name)).values["said"]
    assert said == ["hi", "word"] * 3
    saver.prune([name])
    assert created.get_state(thread(name)).values["said"] == said
    saver.copy_thread(name, f"{name} copied")
    assert created.get_state(thread(f"{name} copied")).values["said"] == said


class TestTwoAtOnce:
    def test_two_savers_write_one_thread(self, shared_daemon: Daemon, name: str) -> None:
        endpoint = f"unix:{shared_daemon.socket}"

        def put(saver: AgentMemorySaver, numbers: range) -> None:
            for number in numbers:
                stored = saver.put(thread(name), state(number, at=number), about(), {})
                saver.put_writes(stored, [("ch", number)], "task")

        with (
            AgentMemorySaver.connect(endpoint) as one,
            AgentMemorySaver.connect(f"http://127.0.0.1:{shared_daemon.port}") as two,
        ):
            writers = [
                threading.Thread(target=put, args=(one, range(40))),
                threading.Thread(target=put, args=(two, range(20, 60))),
            ]
            for writer in writers:
                writer.start()
            for writer in writers:
                writer.join()
            found = list(two.list(thread(name)))
        assert [each.checkpoint["id"] for each in found] == [f"c{n:04}" for n in range(59, -1, -1)]
        for each in found:
            number = each.checkpoint["channel_values"]["at"]
            assert each.pending_writes == [("task", "ch", number)]

    def test_many_tasks_share_one_saver_and_loops_may_follow_each_other(
        self, saver: AgentMemorySaver, name: str
    ) -> None:
        async def put_all() -> int:
            await asyncio.gather(
                *(saver.aput(thread(name), state(number), about(), {}) for number in range(50))
            )
            return len([each async for each in saver.alist(thread(name))])

        assert asyncio.run(put_all()) == 50
        assert asyncio.run(put_all()) == 50
        assert len(list(saver.list(thread(name)))) == 50

    def test_a_cancelled_task_leaves_the_saver_usable(
        self, saver: AgentMemorySaver, name: str
    ) -> None:
        async def give_up() -> None:
            putting = asyncio.create_task(saver.aput(thread(name), state(), about(), {}))
            await asyncio.sleep(0)
            putting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await putting
            await saver.aput(thread(name), state(1), about(), {})

        asyncio.run(give_up())
        latest = saver.get_tuple(thread(name))
        assert latest is not None
        assert latest.checkpoint["id"] == "c0001"


class TestLists:
    def test_all_that_may_be_asked_for_together(self, saver: AgentMemorySaver, name: str) -> None:
        for number in range(250):
            saver.put(thread(name), state(number), about(step=number, odd=number % 2 == 1), {})
        config = thread(name)
        before = thread(name, checkpoint_id="c0100")
        found = list(saver.list(config, filter={"odd": True}, before=before, limit=3))
        assert [each.metadata["step"] for each in found] == [99, 97, 95]
        assert len(list(saver.list(config))) == 250
        assert list(saver.list(config, limit=0)) == []
        (one,) = saver.list(thread(name, checkpoint_id="c0007"))
        assert one.metadata["step"] == 7
        assert list(saver.list(thread(name, checkpoint_id="c0007"), before=one.config)) == []
        assert list(saver.list(config, filter={"odd": None})) == []
        everywhere = saver.list(None, filter={"step": 249})
        assert name in [each.config["configurable"]["thread_id"] for each in everywhere]

    def test_states_of_many_mib_come_a_few_at_a_time(
        self, saver: AgentMemorySaver, name: str
    ) -> None:
        for number in range(2):
            stored = saver.put(thread(name), state(number, big=bytes(6 * MIB)), about(), {})
            saver.put_writes(stored, [("ch", bytes(6 * MIB))] * 3, "task")
        found = list(saver.list(thread(name)))
        assert [each.checkpoint["id"] for each in found] == ["c0001", "c0000"]
        assert [len(each.pending_writes or []) for each in found] == [3, 3]
        latest = saver.get_tuple(thread(name))
        assert latest is not None
        assert latest.pending_writes == [("task", "ch", bytes(6 * MIB))] * 3
        saver.delete_thread(name)


Action = Callable[[AgentMemorySaver], Any]


class TestErrors:
    def test_of_an_unknown_thread_there_is_nothing(
        self, saver: AgentMemorySaver, name: str
    ) -> None:
        assert saver.get_tuple(thread(name)) is None
        assert saver.get(thread(name)) is None
        assert list(saver.list(thread(name))) == []
        saver.delete_thread(name)
        saver.delete_for_runs([name])
        saver.copy_thread(name, f"{name} too")
        saver.prune([name])
        assert saver.get_tuple(thread(f"{name} too")) is None

    @pytest.mark.parametrize(
        ("action", "limit"),
        [
            (lambda s: s.put(thread("t"), state(), about(much="x" * MIB), {}), "512 KiB"),
            (lambda s: s.put(thread("t" * 257), state(), about(), {}), "256"),
            (lambda s: s.put(thread(""), state(), about(), {}), "thread_id is required"),
            (lambda s: s.put(thread("a\nb"), state(), about(), {}), "unprintable"),
            (lambda s: list(s.list(thread("t"), filter={"a": "x" * MIB})), "64 KiB"),
            (lambda s: s.prune(["t"], strategy="most"), "keep_latest, delete"),
            (lambda s: s.prune(["t"] * 1001), "1000"),
            (lambda s: s.copy_thread("t", ""), "target_thread_id is required"),
        ],
    )
    def test_what_is_refused_names_the_limit(
        self, saver: AgentMemorySaver, action: Action, limit: str
    ) -> None:
        with pytest.raises(RpcError, match=limit) as caught:
            action(saver)
        assert caught.value.code == "INVALID_ARGUMENT"

    def test_awaited_calls_raise_the_same(self, saver: AgentMemorySaver) -> None:
        async def refused() -> None:
            with pytest.raises(RpcError, match="256"):
                await saver.aget_tuple(thread("t" * 257))
            with pytest.raises(RpcError, match="strategy"):
                await saver.aprune(["t"], strategy="most")

        asyncio.run(refused())

    def test_what_is_no_json_is_refused_before_it_is_sent(self, saver: AgentMemorySaver) -> None:
        with pytest.raises(SerializationError, match="metadata"):
            saver.put(thread("t"), state(), about(what=object()), {})

    def test_what_is_too_large_is_refused_before_it_is_sent(
        self, saver: AgentMemorySaver, name: str
    ) -> None:
        with pytest.raises(SerializationError, match="the limit is 15 MiB"):
            saver.put(thread(name), state(big=bytes(15 * MIB)), about(), {})
        stored = saver.put(thread(name), state(big=bytes(15 * MIB - 1000)), about(), {})
        with pytest.raises(SerializationError, match="the write to 'ch' has"):
            saver.put_writes(stored, [("ch", bytes(15 * MIB + 1))], "task")
        saver.put_writes(stored, [("ch", bytes(15 * MIB - 1000))] * 2, "task")
        found = saver.get_tuple(stored)
        assert found is not None
        assert len(found.pending_writes or []) == 2
        saver.delete_thread(name)

    def test_without_a_daemon_it_says_so(self, daemon: Daemon) -> None:
        endpoint = f"unix:{daemon.socket}"
        saver = AgentMemorySaver.connect(endpoint, connect_seconds=0.3)
        daemon.stop()

        async def awaited() -> None:
            await saver.aget_tuple(thread("t"))

        for attempt in (lambda: saver.get_tuple(thread("t")), lambda: asyncio.run(awaited())):
            with pytest.raises(RpcError) as caught:
                cast(Callable[[], object], attempt)()
            assert caught.value.code == "UNAVAILABLE"
        with pytest.raises(ConnectionFailed, match="is it running"):
            AgentMemorySaver.connect(endpoint, connect_seconds=0.3)
        with pytest.raises(InvalidEndpoint):
            AgentMemorySaver.connect("nonsense")
        saver.close()
        with pytest.raises(ConnectionFailed, match="closed"):
            saver.get_tuple(thread("t"))

    def test_without_langgraph_the_import_says_what_to_install(self) -> None:
        program = (
            "import sys; sys.modules['langgraph.checkpoint.base'] = None\n"
            "try:\n    import agent_memory.client.langgraph\n"
            "except ImportError as exc:\n    print(exc)\n"
        )
        told = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        assert "pip install 'agent-memory[langgraph]'" in told


class TestConnecting:
    def test_the_daemon_of_this_machine_is_found(
        self, shared_daemon: Daemon, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.delenv("MEMORY_ENDPOINT", raising=False)
        monkeypatch.setenv("HOME", str(shared_daemon.home))

        async def awaited() -> None:
            async with AgentMemorySaver.connect_default() as saver:
                await saver.aput(thread(name), state(), about(), {})

        asyncio.run(awaited())
        with AgentMemorySaver.connect_default() as saver:
            assert saver.get_tuple(thread(name)) is not None
