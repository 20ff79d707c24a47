"""Agent runs on the wire: commands and events of kontekst.proto, both ways."""

from typing import assert_never

from agent_memory.features.runs.model import machine
from agent_memory.features.runs.model.chats import CallId, ReasoningDelta, TextDelta, ToolCall
from agent_memory.proto import kontekst_pb2 as pb


def parse_command(message: pb.RunCommand) -> machine.Command | None:
    """Parse a command; return None if it is empty or of an unknown kind."""
    match message.WhichOneof("command"):
        case "start":
            start = message.start
            return machine.Start(
                prompt=start.prompt,
                session_id=start.session_id,
                agent_name=start.agent_name,
                working_dir=start.working_dir,
                skill=machine.SkillInvocation(start.skill.name, start.skill.arguments)
                if start.HasField("skill")
                else None,
            )
        case "approve_tool":
            return machine.Approve(CallId(message.approve_tool.call_id))
        case "deny_tool":
            return machine.Deny(CallId(message.deny_tool.call_id), message.deny_tool.reason)
        case "cancel":
            return machine.Cancel()
        case _:
            return None


def command_to_proto(command: machine.Command) -> pb.RunCommand:
    match command:
        case machine.Start():
            start = pb.StartRunCommand(
                prompt=command.prompt,
                session_id=command.session_id,
                agent_name=command.agent_name,
                working_dir=command.working_dir,
            )
            if command.skill is not None:
                start.skill.name = command.skill.name
                start.skill.arguments = command.skill.arguments
            return pb.RunCommand(start=start)
        case machine.Approve(call_id):
            return pb.RunCommand(approve_tool=pb.ApproveToolCommand(call_id=call_id))
        case machine.Deny(call_id, reason):
            return pb.RunCommand(deny_tool=pb.DenyToolCommand(call_id=call_id, reason=reason))
        case machine.Cancel():
            return pb.RunCommand(cancel=pb.CancelRunCommand())
        case _:
            assert_never(command)


def event_to_proto(event: machine.RunEvent) -> pb.RunEvent:
    match event:
        case machine.Started():
            return pb.RunEvent(
                started=pb.RunStartedEvent(
                    run_id=event.run_id,
                    session_id=event.session_id,
                    agent_name=event.agent_name,
                )
            )
        case TextDelta(text):
            return pb.RunEvent(token=pb.TokenDeltaEvent(text=text))
        case ReasoningDelta(text):
            return pb.RunEvent(reasoning=pb.ReasoningDeltaEvent(text=text))
        case machine.TurnCompleted():
            return pb.RunEvent(
                turn_completed=pb.TurnCompletedEvent(
                    content=event.content,
                    reasoning=event.reasoning,
                    context=_snapshot_to_proto(event.snapshot),
                )
            )
        case machine.ContextUsed(snapshot):
            return pb.RunEvent(
                context_snapshot=pb.ContextSnapshotEvent(context=_snapshot_to_proto(snapshot))
            )
        case machine.ToolsProposed(proposals):
            calls = [
                pb.ProposedToolCall(
                    call_id=proposal.call.call_id,
                    name=proposal.call.name,
                    arguments_json=proposal.call.arguments,
                    preview=proposal.preview,
                )
                for proposal in proposals
            ]
            return pb.RunEvent(tools_proposed=pb.ToolsProposedEvent(calls=calls))
        case machine.ToolCallStarted(call_id):
            return pb.RunEvent(tool_started=pb.ToolExecutionStartedEvent(call_id=call_id))
        case machine.ToolCallCompleted(call_id, output):
            return pb.RunEvent(
                tool_completed=pb.ToolExecutionCompletedEvent(call_id=call_id, output=output)
            )
        case machine.ToolCallFailed(call_id, error):
            return pb.RunEvent(
                tool_failed=pb.ToolExecutionFailedEvent(call_id=call_id, error=error)
            )
        case machine.ToolsCompleted():
            return pb.RunEvent(tools_completed=pb.ToolsCompletedEvent())
        case machine.Completed():
            return pb.RunEvent(
                completed=pb.RunCompletedEvent(
                    run_id=event.run_id, content=event.content, reasoning=event.reasoning
                )
            )
        case machine.RunCancelled(run_id):
            return pb.RunEvent(cancelled=pb.RunCancelledEvent(run_id=run_id))
        case machine.Failed(run_id, error, _):
            return pb.RunEvent(failed=pb.RunFailedEvent(run_id=run_id, error=error))
        case _:
            assert_never(event)


def parse_event(message: pb.RunEvent) -> machine.RunEvent | None:
    """Parse an event; return None for an unknown kind. The cause of a failure is only text."""
    match message.WhichOneof("event"):
        case "started":
            return machine.Started(
                run_id=machine.RunId(message.started.run_id),
                session_id=message.started.session_id,
                agent_name=message.started.agent_name,
            )
        case "token":
            return TextDelta(message.token.text)
        case "reasoning":
            return ReasoningDelta(message.reasoning.text)
        case "turn_completed":
            turn = message.turn_completed
            return machine.TurnCompleted(
                content=turn.content,
                reasoning=turn.reasoning,
                snapshot=_parse_snapshot(turn.context),
            )
        case "context_snapshot":
            return machine.ContextUsed(_parse_snapshot(message.context_snapshot.context))
        case "tools_proposed":
            return machine.ToolsProposed(
                tuple(_parse_proposal(call) for call in message.tools_proposed.calls)
            )
        case "tool_started":
            return machine.ToolCallStarted(CallId(message.tool_started.call_id))
        case "tool_completed":
            done = message.tool_completed
            return machine.ToolCallCompleted(CallId(done.call_id), done.output)
        case "tool_failed":
            return machine.ToolCallFailed(
                CallId(message.tool_failed.call_id), message.tool_failed.error
            )
        case "tools_completed":
            return machine.ToolsCompleted()
        case _:
            return _parse_end(message)


def _parse_end(message: pb.RunEvent) -> machine.End | None:
    match message.WhichOneof("event"):
        case "completed":
            return machine.Completed(
                run_id=machine.RunId(message.completed.run_id),
                content=message.completed.content,
                reasoning=message.completed.reasoning,
            )
        case "cancelled":
            return machine.RunCancelled(machine.RunId(message.cancelled.run_id))
        case "failed":
            return machine.Failed(machine.RunId(message.failed.run_id), message.failed.error)
        case _:
            return None


def _parse_proposal(message: pb.ProposedToolCall) -> machine.Proposal:
    call = ToolCall(
        call_id=CallId(message.call_id), name=message.name, arguments=message.arguments_json
    )
    return machine.Proposal(call=call, preview=message.preview)


# Fields that a snapshot has on both sides; the message also has the totals.
_COUNTS = (
    "context_size",
    "system_tokens",
    "tool_tokens",
    "history_tokens",
    "memory_tokens",
    "history_messages",
    "memory_messages",
    "history_budget",
)
_TOTALS = ("total_tokens", "remaining_tokens", "total_messages")


def _parse_snapshot(snapshot: pb.ContextSnapshot) -> machine.ContextSnapshot:
    return machine.ContextSnapshot(
        **{name: getattr(snapshot, name) for name in _COUNTS},
        messages=tuple(
            machine.MessageStats(role=stats.role, tokens=stats.tokens, source=stats.source)
            for stats in snapshot.messages
        ),
    )


def _snapshot_to_proto(snapshot: machine.ContextSnapshot) -> pb.ContextSnapshot:
    return pb.ContextSnapshot(
        **{name: getattr(snapshot, name) for name in (*_COUNTS, *_TOTALS)},
        messages=[
            pb.MessageStats(role=stats.role, tokens=stats.tokens, source=stats.source)
            for stats in snapshot.messages
        ],
    )
