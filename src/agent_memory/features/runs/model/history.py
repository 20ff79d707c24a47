"""History: the events of a session as what a model is given of an earlier conversation.

Every call has its result right behind it, and nobody speaks twice in a row, whatever was cut off,
forgotten or done by several at once.
"""

from collections.abc import Sequence
from dataclasses import replace

from agent_memory.features.hooks.model import transcripts
from agent_memory.features.log.model import metadata as event_metadata
from agent_memory.features.log.model.events import Event, EventType
from agent_memory.features.log.model.metadata import OUTCOME, Outcome
from agent_memory.features.runs.model import chats, run_events
from agent_memory.features.runs.model.chats import CallId, Message, Role, ToolCall
from agent_memory.features.runs.model.run_events import ARGUMENTS, ASKED, CALL_ID, RECALLED, TURN
from agent_memory.features.secrets.model.secrets import is_marked
from agent_memory.kernel.ids import EventId

Exchange = tuple[Message, ...]  # from a user's message up to before the next one

MAX_EVENTS = 2_000
MAX_CHARS = 2_000_000
NO_ANSWER = "[no answer]"
INTERRUPTED = "[interrupted]"
NOT_REPEATED = "[what memory gave is not repeated here]"


def build_exchanges(events: Sequence[Event]) -> list[Exchange]:
    """The conversation, oldest first. A run without its prompt is left out, and of agents that
    others run, what they did with tools."""
    messages: list[Message] = []
    for group in _groups(events):
        said = _run(group) if event_metadata.get_run_id(group[0]) else _talk(group)
        for each in said:
            _add(messages, each)
    found: list[list[Message]] = []
    for each in messages:
        if each.role is Role.USER:
            found.append([each])
        elif found:
            found[-1].append(each)
    return [tuple(each) for each in found]


def find_missing_prompts(events: Sequence[Event]) -> list[EventId]:
    """Of the runs that are there in part: where events were read from the end, it is further up."""
    there = {event.event_id for event in events}
    firsts = (
        run_events.build_event_id(run, 1)
        for event in events
        if (run := event_metadata.get_run_id(event))
    )
    return [each for each in dict.fromkeys(firsts) if each not in there]


def _groups(events: Sequence[Event]) -> list[list[Event]]:
    """Each run whole, where it began, also if others went on beside it."""
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


def _run(events: Sequence[Event]) -> list[Message]:
    prompt = next((each for each in events if each.type is EventType.USER_MESSAGE), None)
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
    messages = [Message(role=Role.USER, content=prompt.text)]
    for turn in sorted({*words, *uses}):
        calls = _calls(uses.get(turn, []))
        _add(messages, _build_answer(words.get(turn, ""), tuple(calls)))
        for call, event in zip(calls, uses.get(turn, ()), strict=True):
            messages.append(Message(role=Role.TOOL, content=_result(event), call_id=call.call_id))
    if messages[-1].role is not Role.ASSISTANT:
        messages.append(_build_answer(_ending(events)))
    return messages


def _talk(events: Sequence[Event]) -> list[Message]:
    """What others said, without what was told them of us."""
    messages: list[Message] = []
    for event in events:
        text = transcripts.strip_injected(event.text) if event.type in transcripts.SPOKEN else ""
        if text and event.type is EventType.USER_MESSAGE:
            _add(messages, Message(role=Role.USER, content=text))
        elif text:
            _add(messages, _build_answer(text))
    if messages and messages[-1].role is Role.USER:
        messages.append(_build_answer(NO_ANSWER))
    return messages


def _add(messages: list[Message], message: Message) -> None:
    """Joined with the one before, where the same has just spoken."""
    last = messages[-1] if messages else message
    if messages and last.role is message.role is not Role.TOOL and not last.calls:
        both = "\n\n".join(filter(None, (last.content, message.content)))
        messages[-1] = replace(message, content=both)
    else:
        messages.append(message)


def _build_answer(content: str, calls: tuple[ToolCall, ...] = ()) -> Message:
    return Message(role=Role.ASSISTANT, content=content, calls=calls)


def _calls(events: Sequence[Event]) -> list[ToolCall]:
    """With the ids that they had, where these tell one from the other."""
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
    found = event.metadata.get(ARGUMENTS, "")
    if is_marked(found) and not chats.parse_arguments(found):
        return "{}"  # what was taken out has left no JSON
    return found


def _result(event: Event) -> str:
    if event.metadata.get(RECALLED):
        return NOT_REPEATED
    asked = _number(event, ASKED)
    parts = event.text.split("\n", asked)
    return parts[asked] if len(parts) > asked else ""


def _ending(events: Sequence[Event]) -> str:
    """In place of an answer that never came."""
    stop = next((each for each in events if each.type is EventType.ASSISTANT_STOP), None)
    outcome = "" if stop is None else stop.metadata.get(OUTCOME, "")
    if stop is None or not outcome:
        return INTERRUPTED
    if outcome == Outcome.COMPLETED:
        return NO_ANSWER
    error = stop.metadata.get("error", "")
    return f"[{outcome}: {error}]" if error else f"[{outcome}]"


def _number(event: Event, name: str) -> int:
    found = event.metadata.get(name, "")
    return int(found) if found.isascii() and found.isdigit() and len(found) < 10 else 0
