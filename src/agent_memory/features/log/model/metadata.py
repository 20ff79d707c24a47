"""Metadata keys and values of events that several features read."""

from enum import StrEnum

from agent_memory.features.log.model.events import Event

RUN = "run"  # in the first event of a run: what started it
RUN_ID = "run_id"
OUTCOME = "outcome"
# The text is a title of the session; the value says who gave it: "user" or "agent".
TITLES = "titles"
SUMMARIZES = "summarizes"  # the text sums up earlier events: "compaction" or "session"
# The identity of the repository that an event happened in, where that was found out and not
# guessed: the normalized address of its remote, or its folder. Sharing with a team goes by it.
REPOSITORY = "repository"
PERSON = "person"  # who recorded it on a team server, as their key says
RECALLED = "recalled"  # the event is a question to our own memory, without what it returned


class Outcome(StrEnum):
    """The end of a run or of a tool call."""

    COMPLETED = "completed"
    FAILED = "failed"
    DENIED = "denied"
    CANCELLED = "cancelled"


def get_run_id(event: Event) -> str:
    """Return the id of the run that recorded the event, or an empty string.

    Other programs may use `run_id` for ids of their own; those do not count.
    """
    run = event.metadata.get(RUN_ID, "")
    return run if run and event.event_id.startswith(f"run-{run}-") else ""


def is_description(event: Event) -> bool:
    """Return whether the text is a title or a summary of other events, not part of the talk."""
    return bool(event.metadata.get(TITLES) or event.metadata.get(SUMMARIZES))


def get_main_session(session: str) -> str:
    """Return the session that a subagent's session belongs to."""
    return session.partition("/")[0]
