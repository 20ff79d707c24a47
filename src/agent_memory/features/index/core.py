"""The search indexes: words always, meanings where an embedder is set."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_memory.config import EmbedderSettings, Settings
from agent_memory.features.index.adapters import index_folder
from agent_memory.features.index.adapters.analysis_worker import AnalysisWorker
from agent_memory.features.index.adapters.embedder_process import EmbedderProcess
from agent_memory.features.index.adapters.embedding_queue import StoredEmbeddingQueue
from agent_memory.features.index.adapters.lexical import TantivyIndex
from agent_memory.features.index.adapters.stored_term_vectors import StoredTermVectors
from agent_memory.features.index.adapters.vector_copies import StoredVectorCopies
from agent_memory.features.index.adapters.vectors import FlatVectors
from agent_memory.features.index.ports import (
    Embedder,
    EmbeddingQueue,
    TermVectors,
    VectorCopies,
    VectorIndex,
)
from agent_memory.kernel.composition import Composition
from agent_memory.platform.base import Platform
from agent_memory.platform.foreground import Foreground
from agent_memory.platform.llm.api_keys import read_api_key
from agent_memory.platform.store import schema

LEXICAL = "lexical"  # the folder of the index of words
VECTORS_FOLDER = "vectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorParts:
    index: VectorIndex
    embedder: Embedder
    queue: EmbeddingQueue
    copies: VectorCopies | None  # None: no other daemon needs them
    load_embedder: Callable[[], object] | None  # None: it has nothing to load


def build_core(context: Composition) -> None:
    platform, settings = context[Platform], context[Settings]
    folder = platform.folders.index
    if not platform.read_only:
        index_folder.prepare(folder, schema.ensure_identity(platform.store))
    analysis = AnalysisWorker(platform.worker)
    context.add(
        TantivyIndex(
            folder / LEXICAL,
            read_only=platform.read_only,
            for_team=settings.team.enabled,
            analysis=analysis,
        )
    )
    context.provide(TermVectors, StoredTermVectors(platform.local, analysis))
    # Loading the model takes longer than a command should.
    if not platform.read_only and (vectors := _build_vectors(platform, settings)) is not None:
        context.add(vectors)


def _build_vectors(platform: Platform, settings: Settings) -> VectorParts | None:
    folder = platform.folders.index / VECTORS_FOLDER
    embedder = _build_embedder(settings.embedder, platform.foreground)
    if embedder is None:
        if folder.exists():
            FlatVectors.outdate(folder)
        return None
    if isinstance(embedder, EmbedderProcess):
        platform.programs.callback(embedder.close)
    return VectorParts(
        index=FlatVectors(folder, embedder.model, for_team=settings.team.enabled),
        embedder=embedder,
        queue=StoredEmbeddingQueue(platform.local),
        copies=None
        if platform.sharing is None
        else StoredVectorCopies(platform.store, embedder.model),
        load_embedder=embedder.load if isinstance(embedder, EmbedderProcess) else None,
    )


def _build_embedder(settings: EmbedderSettings, foreground: Foreground) -> Embedder | None:
    if settings.provider == "none":
        return None
    if settings.provider in ("bge", "minilm"):
        return EmbedderProcess(foreground)
    # Late: its HTTP client takes 30 ms to load, and few use it.
    from agent_memory.features.index.adapters.openai_embedder import OpenAiEmbedder

    key = read_api_key(settings)
    return OpenAiEmbedder(base_url=settings.base_url, model=settings.model, api_key=key)
