"""The outline of a session: its start, its title and where it belongs, without its texts."""

from dataclasses import dataclass

from agent_memory.features.log.model.events import Event, EventRole
from agent_memory.features.log.model.metadata import TITLES, is_description
from agent_memory.kernel.ids import Millis, SessionId

MAX_TITLE_CHARS = 100
_GIVEN_BY_USER = "user"


@dataclass(slots=True)
class SessionOutline:
    """What is known of a session from its events so far.

    It starts with its first words: the event that marks the start of an imported session comes a
    moment before them, and may be on another day.
    The title is the last that the user has given, else the last of the agent, else the first words
    of the user.
    """

    session_id: SessionId
    start_ms: Millis
    project: str = ""
    agent: str = ""
    own_title: str = ""
    agent_title: str = ""
    first_words: str = ""
    has_words: bool = False

    @property
    def title(self) -> str:
        return self.own_title or self.agent_title or self.first_words or str(self.session_id)

    def add(self, event: Event) -> None:
        """Add an event that comes after those before."""
        if not self.has_words and event.text and not is_description(event):
            self.start_ms, self.has_words = event.at_ms, True
        self.project = self.project or event.metadata.get("project", "")
        self.agent = self.agent or event.metadata.get("agent", "")
        if giver := event.metadata.get(TITLES):
            if giver == _GIVEN_BY_USER:
                self.own_title = _shorten(event.text)
            else:
                self.agent_title = _shorten(event.text)
        elif event.role is EventRole.USER and not self.first_words and not is_description(event):
            self.first_words = _shorten(event.text)


def _shorten(text: str) -> str:
    words = " ".join(text[: 10 * MAX_TITLE_CHARS].split())
    if len(words) <= MAX_TITLE_CHARS:
        return words
    return words[:MAX_TITLE_CHARS].rpartition(" ")[0] or words[:MAX_TITLE_CHARS]
