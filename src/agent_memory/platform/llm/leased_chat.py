"""A chat client that leases its server for each question."""

from agent_memory.kernel.cancellation import CancelToken
from agent_memory.kernel.errors import FeatureUnavailable, LlmFailed
from agent_memory.platform.llm.chat import ChatAnswer, ChatQuestion, ChatUnavailable, OpenAiChat
from agent_memory.platform.llm.leases import LeasableServer, Lease


class LeasedChat:
    def __init__(self, server: LeasableServer, *, model: str = "") -> None:
        self._server = server
        self._model = model
        self._known: tuple[int, OpenAiChat] | None = None

    @property
    def model(self) -> str:
        return self._model

    def ask(self, question: ChatQuestion, /, *, seconds: float) -> ChatAnswer:
        """Ask a question. The start of the server does not count towards `seconds`."""
        try:
            with self._server.lease(CancelToken()) as lease:
                return self._chat(lease).ask(question, seconds=seconds)
        except (FeatureUnavailable, LlmFailed) as exc:
            raise ChatUnavailable(str(exc), sent=False) from exc

    def close(self) -> None:
        if self._known is not None:
            self._known[1].close()

    def _chat(self, lease: Lease) -> OpenAiChat:
        """Return the client for this start of the server: the next start has another address."""
        if self._known is None or self._known[0] != lease.serial:
            self.close()
            chat = OpenAiChat(
                base_url=lease.url, model=self._model, api_key=lease.key, bounded=True
            )
            self._known = lease.serial, chat
        return self._known[1]
