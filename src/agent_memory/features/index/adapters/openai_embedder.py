"""Embeddings from an OpenAI-compatible server."""

import math
import struct
import threading
import time
from collections.abc import Sequence

import msgspec

from agent_memory.features.index.model.embeddings import Vector
from agent_memory.kernel.errors import AgentMemoryError, EmbedderFailed, EmbedderRefused
from agent_memory.platform.llm import chat

DEFAULT_MODEL = "text-embedding-3-small"
_BATCH = 64
_SECONDS = 20.0
_PAUSE_SECONDS = 30.0  # after a failure, so that callers do not wait for a server that is down


class _Item(msgspec.Struct, frozen=True):
    index: int
    embedding: list[float]


class _EmbeddingsReply(msgspec.Struct, frozen=True):
    data: list[_Item]


class OpenAiEmbedder:
    """An embedder that calls `/v1/embeddings` of OpenAI, llama-server or a compatible server."""

    unrelated = 0.0  # unknown: it depends on the model

    def __init__(self, *, base_url: str = "", model: str = "", api_key: str = "") -> None:
        url = chat.resolve_api(base_url)
        self._server = chat.ModelEndpoint(url, "/embeddings", chat.bearer(api_key))
        self._name = model or DEFAULT_MODEL
        self.model = f"{url.host}/{self._name}"
        self._failing = threading.Lock()
        self._failed_until = 0.0

    def embed(self, texts: Sequence[str], /, *, live: bool = True) -> list[Vector]:  # noqa: ARG002
        with self._failing:
            if time.monotonic() < self._failed_until:
                raise EmbedderFailed("the embedding server failed a moment ago")
        vectors: list[Vector] = []
        for start in range(0, len(texts), _BATCH):
            vectors += self._batch(texts[start : start + _BATCH])
        return vectors

    def embed_question(self, text: str, /) -> Vector:
        (vector,) = self.embed([text])
        return vector

    def close(self) -> None:
        self._server.close()

    def _batch(self, texts: Sequence[str]) -> list[Vector]:
        try:
            body = self._server.post({"model": self._name, "input": list(texts)}, _SECONDS)
            answer = msgspec.json.decode(body, type=_EmbeddingsReply)
            items = sorted(answer.data, key=lambda item: item.index)
            if [item.index for item in items] != list(range(len(texts))):
                raise EmbedderFailed("the embedding server did not return a vector for each text")
            return [_vector(item.embedding) for item in items]
        except (AgentMemoryError, ValueError, ArithmeticError, RecursionError, struct.error) as exc:
            if _is_refusal(exc):
                raise EmbedderRefused(f"the embedding server rejected a text: {exc}") from exc
            with self._failing:
                self._failed_until = time.monotonic() + _PAUSE_SECONDS
            raise EmbedderFailed(f"the embedding server failed: {exc}") from exc


def _is_refusal(exc: Exception) -> bool:
    """Return whether the text is the reason, not the server, its address or the key."""
    if isinstance(exc, chat.ChatRefused):
        return not exc.is_permanent
    return isinstance(exc, EmbedderRefused)


def _vector(values: Sequence[float]) -> Vector:
    size = math.sqrt(sum(value * value for value in values))
    if not size or not math.isfinite(size):
        raise EmbedderRefused("the embedding server returned a vector of zero or infinite length")
    return Vector(struct.pack(f"<{len(values)}f", *(value / size for value in values)))
