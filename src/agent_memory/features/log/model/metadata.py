"""What events say about themselves in their metadata, read by more than one feature."""

from enum import StrEnum

from agent_memory.features.log.model.events import Event

RUN = "run"  # the trigger of the first event of a run
RUN_ID = "run_id"
OUTCOME = "outcome"


def get_run_id(event: Event) -> str:
    """The run that has kept it, if one has. That others call something `run_id` is their own."""
    run = event.metadata.get(RUN_ID, "")
    return run if run and event.event_id.startswith(f"run-{run}-") else ""


class Outcome(StrEnum):
    """How a run or the use of a tool ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    DENIED = "denied"
    CANCELLED = "cancelled"


def get_main_session(session: str) -> str:
    """The session that a subagent's belongs to."""
    return session.partition("/")[0]
