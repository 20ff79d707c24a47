"""Tool calls assembled from the deltas of a stream. Servers deviate from the API in details."""

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
    """An answer has more than MAX_CALLS calls."""


@dataclass(slots=True)
class _PartialCall:
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    is_named_again: bool = False  # after its arguments were whole, by a delta without arguments


class CallAssembler:
    def __init__(self) -> None:
        self._partial: list[_PartialCall] = []
        self._by_index: dict[int, _PartialCall] = {}

    def add(self, delta: CallDelta) -> int:
        """Add a delta, and return its size."""
        function = delta.function or FunctionDelta()
        piece = _PartialCall(delta.id or "", function.name or "", _text(function.arguments))
        call = self._find_call(delta.index, piece)
        if piece.call_id != call.call_id:
            call.call_id += piece.call_id
        if piece.name != call.name:  # some servers repeat it in every delta
            call.name += piece.name
        call.arguments += piece.arguments
        return 1 + len(piece.call_id) + len(piece.name) + len(piece.arguments)

    def _find_call(self, index: int | None, piece: _PartialCall) -> _PartialCall:
        call = (
            self._by_index.get(index)
            if index is not None
            else (self._partial[-1] if self._partial else None)
        )
        if call is None or _begins_another(piece, call):
            if len(self._partial) >= MAX_CALLS:
                raise TooManyCalls
            call = _PartialCall(name=call.name if call and not piece.name else "")
            self._partial.append(call)
        elif _names_again(piece, call):
            call.is_named_again = True
        if index is not None:
            self._by_index[index] = call
        return call

    def finish(self, taken: Iterable[CallId], new_id: Callable[[], str]) -> tuple[ToolCall, ...]:
        """Return all calls. Replace ids that are invalid, repeated or already taken."""
        used: set[str] = set(taken)
        calls: list[ToolCall] = []
        for call in self._partial:
            if not (call.name or call.arguments):
                continue
            valid = call.call_id.isascii() and call.call_id.isprintable()
            valid = valid and 0 < len(call.call_id) <= MAX_ID and call.call_id not in used
            call_id = call.call_id if valid else new_id()
            used.add(call_id)
            calls.append(
                ToolCall(call_id=CallId(call_id), name=call.name, arguments=call.arguments or "{}")
            )
        return tuple(calls)


def _begins_another(piece: _PartialCall, call: _PartialCall) -> bool:
    """Return whether a delta begins another call. Some servers send one index for all calls, or no
    index: then the fields that a call has only once tell it."""
    if not piece.name:
        return call.is_named_again and bool(piece.arguments.strip())
    if piece.call_id and call.call_id and piece.call_id != call.call_id:
        return True
    if not call.arguments:
        return False
    if piece.name != call.name:
        return True
    return not piece.call_id and bool(piece.arguments.strip()) and _is_whole(call.arguments)


def _names_again(piece: _PartialCall, call: _PartialCall) -> bool:
    """Return whether a delta has the name of a call that is whole, and no arguments. It may begin
    another call of the same tool, or only repeat the name: what comes next tells."""
    return (
        bool(piece.name)
        and piece.name == call.name
        and not piece.call_id
        and not piece.arguments.strip()
        and _is_whole(call.arguments)
    )


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
