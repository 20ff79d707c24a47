"""A run as a foreign client meets it: the proto and a channel."""

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from agent_memory.proto import kontekst_pb2 as pb
from tests.daemon_process import Daemon

CALL_SECONDS = 60.0  # for what must happen: it is only ever waited out by a failing test
ENDS = frozenset({"completed", "cancelled", "failed"})


class RunStream:
    """One stream of `AgentService.Run`."""

    def __init__(self, channel: grpc.Channel, key: str) -> None:
        self._commands: queue.SimpleQueue[pb.RunCommand | None] = queue.SimpleQueue()
        call = channel.stream_stream(
            "/kontekst.AgentService/Run",
            request_serializer=pb.RunCommand.SerializeToString,
            response_deserializer=pb.RunEvent.FromString,
        )
        self.call: Any = call(
            iter(self._commands.get, None), metadata=_metadata(key), timeout=CALL_SECONDS
        )

    def start(self, prompt: str = "", **more: Any) -> None:
        self._commands.put(pb.RunCommand(start=pb.StartRunCommand(prompt=prompt, **more)))

    def approve(self, *call_ids: str) -> None:
        for call_id in call_ids:
            approved = pb.ApproveToolCommand(call_id=call_id)
            self._commands.put(pb.RunCommand(approve_tool=approved))

    def deny(self, call_id: str, reason: str = "") -> None:
        denied = pb.DenyToolCommand(call_id=call_id, reason=reason)
        self._commands.put(pb.RunCommand(deny_tool=denied))

    def cancel(self) -> None:
        self._commands.put(pb.RunCommand(cancel=pb.CancelRunCommand()))

    def send(self, command: pb.RunCommand) -> None:
        self._commands.put(command)

    def half_close(self) -> None:
        """Close our side: there are no more commands."""
        self._commands.put(None)

    def vanish(self) -> None:
        self.call.cancel()

    def read_until(self, kind: str) -> list[pb.RunEvent]:
        """What comes up to the first event of this kind, with it."""
        found: list[pb.RunEvent] = []
        for event in self.call:
            found.append(event)
            if event.WhichOneof("event") == kind:
                return found
        raise AssertionError(f"no {kind}, but {list_kinds(found)}: {found[-1:]}")

    def read_rest(self) -> list[pb.RunEvent]:
        """All that is still to come."""
        found = list(self.call)
        self.half_close()
        return found


def list_kinds(events: list[pb.RunEvent]) -> list[str]:
    """Their names, those of one kind in a row once."""
    names = [str(event.WhichOneof("event")) for event in events]
    return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]


class Agents:
    """A channel to a daemon, with its key."""

    def __init__(self, daemon: Daemon) -> None:
        self.key = (daemon.data_dir / "key").read_text().strip()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{daemon.port}")

    def open(self) -> RunStream:
        return RunStream(self.channel, self.key)

    def run(self, prompt: str = "", *, approve: bool = True, **more: Any) -> list[pb.RunEvent]:
        """All events of a run in which every call is approved."""
        stream = self.open()
        stream.start(prompt, **more)
        found: list[pb.RunEvent] = []
        for event in stream.call:
            found.append(event)
            if approve and event.WhichOneof("event") == "tools_proposed":
                stream.approve(*(call.call_id for call in event.tools_proposed.calls))
        stream.half_close()
        return found

    def status(self) -> pb.GetStatusResponse:
        found: pb.GetStatusResponse = self.unary(
            "GetStatus", pb.GetStatusRequest(), pb.GetStatusResponse
        )
        return found

    def unary(self, method: str, request: Any, answers: Any, *, key: str | None = None) -> Any:
        call = self.channel.unary_unary(
            f"/kontekst.DaemonService/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answers.FromString,
        )
        return call(
            request, metadata=_metadata(self.key if key is None else key), timeout=CALL_SECONDS
        )


@contextmanager
def open_agents(daemon: Daemon) -> Iterator[Agents]:
    found = Agents(daemon)
    try:
        yield found
    finally:
        found.channel.close()


def _metadata(key: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {key}"),) if key else ()
