"""Build the search indexes: words always, meanings where an embedder is set."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_memory.bootstrap.build_platform import Platform
from agent_memory.features.index.adapters import index_folder
from agent_memory.features.index.adapters.lexical import TantivyIndex
from agent_memory.features.index.adapters.stored_term_vectors import StoredTermVectors
from agent_memory.features.index.ports import Embedder, EmbeddingQueue, TermVectors, VectorIndex
from agent_memory.platform.store import schema

LEXICAL = "lexical"  # the folder of the index of words


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorParts:
    index: VectorIndex
    embedder: Embedder
    queue: EmbeddingQueue
    load_embedder: Callable[[], object] | None  # None: it has nothing to load


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFeature:
    lexical: TantivyIndex
    terms: TermVectors
    vectors: VectorParts | None


def build_index(platform: Platform) -> IndexFeature:
    folder = platform.folders.index
    if not platform.read_only:
        index_folder.prepare(folder, schema.ensure_identity(platform.store))
    return IndexFeature(
        lexical=TantivyIndex(folder / LEXICAL, read_only=platform.read_only),
        terms=StoredTermVectors(platform.store),
        # Loading the model takes longer than a command should.
        vectors=None if platform.read_only else _build_vectors(platform),
    )


def _build_vectors(platform: Platform) -> VectorParts | None:
    folder = platform.folders.index / "vectors"
    if platform.settings.embedder.provider == "none" and not folder.exists():
        return None
    from agent_memory.bootstrap import build_models

    return build_models.build_vectors(platform.settings, platform.store, folder)
