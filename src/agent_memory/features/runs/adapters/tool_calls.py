"""Tool calls as they come in a stream: in pieces, by index, and not always as the API says."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from agent_memory.features.runs.model.chats import CallId, ToolCall

MAX_CALLS = 128
MAX_ID = 128


class FunctionDelta(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: Any = None


class CallDelta(msgspec.Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: FunctionDelta | None = None


class TooManyCalls(ValueError):
    """More than anybody would use."""


@dataclass(slots=True)
class _PartialCall:
    call_id: str = ""
    name: str = ""
    arguments: str = ""


class CallAssembler:
    def __init__(self) -> None:
        self._begun: list[_PartialCall] = []
        self._by_index: dict[int, _PartialCall] = {}

    def add(self, delta: CallDelta) -> int:
        """How much it was."""
        function = delta.function or FunctionDelta()
        piece = _PartialCall(delta.id or "", function.name or "", _text(function.arguments))
        begun = self._find_call(delta.index, piece)
        if piece.call_id != begun.call_id:
            begun.call_id += piece.call_id
        if piece.name != begun.name:  # some servers say it with every piece
            begun.name += piece.name
        begun.arguments += piece.arguments
        return 1 + len(piece.call_id) + len(piece.name) + len(piece.arguments)

    def _find_call(self, index: int | None, piece: _PartialCall) -> _PartialCall:
        begun = (
            self._by_index.get(index)
            if index is not None
            else (self._begun[-1] if self._begun else None)
        )
        if begun is None or _is_another(piece, begun):
            if len(self._begun) >= MAX_CALLS:
                raise TooManyCalls
            begun = _PartialCall()
            self._begun.append(begun)
        if index is not None:
            self._by_index[index] = begun
        return begun

    def finish(self, taken: Iterable[CallId], new_id: Callable[[], str]) -> tuple[ToolCall, ...]:
        """All of them, each with an id that no other has and none of those taken."""
        used: set[str] = set(taken)
        calls: list[ToolCall] = []
        for begun in self._begun:
            if not (begun.name or begun.arguments):
                continue
            sound = begun.call_id.isascii() and begun.call_id.isprintable()
            sound = sound and 0 < len(begun.call_id) <= MAX_ID and begun.call_id not in used
            call_id = begun.call_id if sound else new_id()
            used.add(call_id)
            calls.append(
                ToolCall(
                    call_id=CallId(call_id), name=begun.name, arguments=begun.arguments or "{}"
                )
            )
        return tuple(calls)


def _is_another(piece: _PartialCall, begun: _PartialCall) -> bool:
    """Servers that know no parallel calls give all the same index, others none: then it shows in
    what is told only once of a call."""
    if not piece.name:
        return False
    if piece.call_id and begun.call_id and piece.call_id != begun.call_id:
        return True
    if not begun.arguments:
        return False
    if piece.name != begun.name:
        return True
    return not piece.call_id and bool(piece.arguments.strip()) and _is_whole(begun.arguments)


def _is_whole(arguments: str) -> bool:
    try:
        msgspec.json.decode(arguments, type=dict)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else msgspec.json.encode(arguments).decode()
