"""Episodes: what happened between an agent and a user, when, and how it ended."""

from dataclasses import dataclass

from agent_memory.kernel import limits
from agent_memory.kernel.errors import InvalidInput
from agent_memory.kernel.ids import KnowledgeId, Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """An episode. `session_id` is set if it was made from a session, which may go on. `fixed` are
    the fields that a user set: learning leaves them alone."""

    id: KnowledgeId
    agent_id: str = ""
    user_id: str | None = None
    session_id: str | None = None
    trigger_type: str = "chat"
    success: bool = True
    error_code: str | None = None
    summary: str = ""
    started_ms: Millis
    ended_ms: Millis
    created_ms: Millis
    fixed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        limits.check_name("agent_id", self.agent_id, required=False)
        limits.check_name("user_id", self.user_id or "", required=False)
        limits.check_name("session_id", self.session_id or "", required=False)
        limits.check_name("trigger_type", self.trigger_type)
        limits.check_name("error_code", self.error_code or "", required=False)
        limits.check_text("summary", self.summary)
        if self.success and self.error_code:
            raise InvalidInput("a successful episode has no error_code: leave out one of the two")
        if self.ended_ms < self.started_ms:
            raise InvalidInput("ended_at is before started_at: swap them")

    @property
    def duration_ms(self) -> int:
        return self.ended_ms - self.started_ms
