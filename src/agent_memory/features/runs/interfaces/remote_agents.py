"""Agents on another daemon over gRPC, for `kontekst --endpoint`."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from agent_memory.client import calls, endpoints
from agent_memory.client.errors import RpcError
from agent_memory.client.late_grpc import grpc
from agent_memory.features.runs.interfaces import run_wire
from agent_memory.features.runs.model.machine import Cancel, Command, Failed, RunId
from agent_memory.features.runs.services.runs import Listener
from agent_memory.interfaces.cli.remote import translate_errors
from agent_memory.kernel.errors import AgentMemoryError, RemoteUnavailable
from agent_memory.proto import kontekst_pb2 as pb

LEAVE_SECONDS = 5.0
_PATH = "/kontekst.AgentService/Run"


class RemoteAgents:
    """Runs agents on a daemon over gRPC."""

    def __init__(self, channel: "grpc.Channel", key: str | None) -> None:
        self._run = channel.stream_stream(
            _PATH,
            request_serializer=pb.RunCommand.SerializeToString,
            response_deserializer=pb.RunEvent.FromString,
        )
        self._metadata = calls.metadata(key)

    def open(self, listener: Listener, /) -> "RemoteRun":
        commands: SimpleQueue[pb.RunCommand | None] = SimpleQueue()
        stream = self._run(iter(commands.get, None), metadata=self._metadata)
        threading.Thread(target=_listen, args=(stream, listener), name="run", daemon=True).start()
        return RemoteRun(commands, stream)


class RemoteRun:
    """A run on a daemon over gRPC."""

    def __init__(self, commands: "SimpleQueue[pb.RunCommand | None]", stream: Any) -> None:
        self._commands = commands
        self._stream = stream

    def command(self, command: Command, /) -> None:
        self._commands.put(run_wire.command_to_proto(command))

    def leave(self) -> None:
        """Cancel the run, and give it LEAVE_SECONDS to send its last events."""
        self.command(Cancel())
        self._commands.put(None)
        timer = threading.Timer(LEAVE_SECONDS, self._stream.cancel)
        timer.daemon = True
        timer.start()


@contextmanager
def connect(endpoint: str, key: str | None) -> Iterator[RemoteAgents]:
    with (
        translate_errors(),
        calls.open_channel(endpoints.resolve(endpoint, key, os.environ)) as channel,
    ):
        yield RemoteAgents(channel, key)


def _listen(stream: Any, listener: Listener) -> None:
    """Pass events on until the stream ends. A broken stream ends with a Failed event."""
    try:
        for message in stream:
            event = run_wire.parse_event(message)
            if event is not None:
                listener.on_event(event)
    except grpc.RpcError as exc:
        kind, message = _to_error(calls.to_rpc_error(exc))
        listener.on_event(Failed(RunId(""), message, kind))
    finally:
        listener.on_end()


def _to_error(failure: RpcError) -> tuple[type[AgentMemoryError], str]:
    try:
        with translate_errors():
            raise failure
    except RemoteUnavailable as exc:
        return type(exc), f"cannot reach the daemon: {exc}"
    except AgentMemoryError as exc:
        return type(exc), str(exc)
