"""The events of a session as messages for a model.

Every call is followed by its result, and roles alternate, even if events were cut off, forgotten or
written by several agents at once.
"""

from collections.abc import Sequence
from dataclasses import replace

from agent_memory.features.hooks.model import transcripts
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.log.model.metadata import OUTCOME, Outcome
from agent_memory.features.runs.model import chats, run_events
from agent_memory.features.runs.model.chats import CallId, Message, MessageRole, ToolCall
from agent_memory.features.runs.model.run_events import ARGUMENTS, ASKED, CALL_ID, TURN
from agent_memory.features.secrets.model.secrets import is_marked
from agent_memory.kernel.ids import EventId
from agent_memory.kernel.text.untrusted import replace_hidden

Exchange = tuple[Message, ...]  # from one message of the user up to the next

MAX_EVENTS = 2_000
MAX_CHARS = 2_000_000
NO_ANSWER = "[no answer]"
INTERRUPTED = "[interrupted]"
NOT_REPEATED = "[the result from memory is not repeated here]"


def build_exchanges(events: Sequence[Event]) -> list[Exchange]:
    """Build the conversation, oldest first. Omit runs without their prompt, and the tool calls of
    agents other than ours."""
    messages: list[Message] = []
    for group in _groups(events):
        is_run = event_metadata.get_run_id(group[0])
        for message in _run_messages(group) if is_run else _other_messages(group):
            _add(messages, message)
    exchanges: list[list[Message]] = []
    for message in messages:
        if message.role is MessageRole.USER:
            exchanges.append([message])
        elif exchanges:
            exchanges[-1].append(message)
    return [
        tuple(replace(each, content=replace_hidden(each.content)) for each in exchange)
        for exchange in exchanges
    ]


def find_missing_prompts(events: Sequence[Event]) -> list[EventId]:
    """Return the ids of prompts whose runs are only partly in `events`."""
    present = {event.event_id for event in events}
    firsts = (
        run_events.build_event_id(run, 1)
        for event in events
        if (run := event_metadata.get_run_id(event))
    )
    return [event_id for event_id in dict.fromkeys(firsts) if event_id not in present]


def _groups(events: Sequence[Event]) -> list[list[Event]]:
    """Group the events of a run at its start, even if others ran at the same time."""
    runs: dict[str, list[Event]] = {}
    groups: list[list[Event]] = []
    last = ""
    for event in events:
        run = event_metadata.get_run_id(event)
        if run in runs:
            runs[run].append(event)
            continue
        if run:
            groups.append([event])
            runs[run] = groups[-1]
        elif groups and not last:
            groups[-1].append(event)
        else:
            groups.append([event])
        last = run
    return groups


def _run_messages(events: Sequence[Event]) -> list[Message]:
    prompt = next((event for event in events if event.type is EventType.USER_MESSAGE), None)
    if prompt is None:
        return []
    words: dict[int, str] = {}
    uses: dict[int, list[Event]] = {}
    for event in events:
        turn = _number(event, TURN)
        if event.type is EventType.ASSISTANT_MESSAGE:
            words[turn] = event.text
        elif event.type is EventType.TOOL_RESULT:
            uses.setdefault(turn, []).append(event)
    messages = [Message(role=MessageRole.USER, content=prompt.text)]
    for turn in sorted({*words, *uses}):
        calls = _calls(uses.get(turn, []))
        _add(messages, _build_answer(words.get(turn, ""), tuple(calls)))
        for call, event in zip(calls, uses.get(turn, ()), strict=True):
            messages.append(
                Message(role=MessageRole.TOOL, content=_result(event), call_id=call.call_id)
            )
    if messages[-1].role is not MessageRole.ASSISTANT:
        messages.append(_build_answer(_ending(events)))
    return messages


def _other_messages(events: Sequence[Event]) -> list[Message]:
    """Return the messages of other agents, without the context that our hooks injected."""
    messages: list[Message] = []
    for event in events:
        text = transcripts.strip_injected(event.text) if transcripts.is_spoken(event) else ""
        if text and event.type is EventType.USER_MESSAGE:
            _add(messages, Message(role=MessageRole.USER, content=text))
        elif text:
            _add(messages, _build_answer(text))
    if messages and messages[-1].role is MessageRole.USER:
        messages.append(_build_answer(NO_ANSWER))
    return messages


def _add(messages: list[Message], message: Message) -> None:
    """Append a message, or join it with the last one of the same role."""
    last = messages[-1] if messages else message
    if messages and last.role is message.role is not MessageRole.TOOL and not last.calls:
        both = "\n\n".join(filter(None, (last.content, message.content)))
        messages[-1] = replace(message, content=both)
    else:
        messages.append(message)


def _build_answer(content: str, calls: tuple[ToolCall, ...] = ()) -> Message:
    return Message(role=MessageRole.ASSISTANT, content=content, calls=calls)


def _calls(events: Sequence[Event]) -> list[ToolCall]:
    """Return the calls with their own ids if these are unique, else with the event ids."""
    ids = [event.metadata.get(CALL_ID, "") for event in events]
    if not all(ids) or len(set(ids)) < len(ids):
        ids = [event.event_id for event in events]
    return [
        ToolCall(
            call_id=CallId(call_id),
            name=event.metadata.get("tool_name", ""),
            arguments=_arguments(event),
        )
        for call_id, event in zip(ids, events, strict=True)
    ]


def _arguments(event: Event) -> str:
    arguments = event.metadata.get(ARGUMENTS, "")
    if is_marked(arguments) and not chats.parse_arguments(arguments):
        return "{}"  # redaction made it invalid JSON
    return arguments


def _result(event: Event) -> str:
    if event.metadata.get(event_metadata.RECALLED):
        return NOT_REPEATED
    asked = _number(event, ASKED)
    parts = event.text.split("\n", asked)
    return parts[asked] if len(parts) > asked else ""


def _ending(events: Sequence[Event]) -> str:
    """Return a note for a missing answer."""
    stop = next((event for event in events if event.type is EventType.ASSISTANT_STOP), None)
    outcome = "" if stop is None else stop.metadata.get(OUTCOME, "")
    if stop is None or not outcome:
        return INTERRUPTED
    if outcome == Outcome.COMPLETED:
        return NO_ANSWER
    error = stop.metadata.get("error", "")
    return f"[{outcome}: {error}]" if error else f"[{outcome}]"


def _number(event: Event, name: str) -> int:
    value = event.metadata.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else 0
