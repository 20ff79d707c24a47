"""Build the models that the settings name. Import it late: its libraries take long to load."""

import os
from dataclasses import replace
from pathlib import Path

from agent_memory.bootstrap.build_index import VectorParts
from agent_memory.config import Settings
from agent_memory.features.index.adapters.bge import Bge
from agent_memory.features.index.adapters.embedding_queue import StoredEmbeddingQueue
from agent_memory.features.index.adapters.openai_embedder import OpenAiEmbedder
from agent_memory.features.index.adapters.vectors import FlatVectors
from agent_memory.features.index.ports import Embedder
from agent_memory.features.recall.adapters.reasoner import LlmReasoner
from agent_memory.features.runs.adapters.completions import Completions
from agent_memory.features.runs.adapters.web.pages import HttpPages
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.summarizers.llm import Limits, LlmSummarizer
from agent_memory.features.toc.adapters.token_budget import StoredTokenBudget
from agent_memory.platform.llm.chat import AnthropicChat, Chat, OpenAiChat
from agent_memory.platform.llm.leased_chat import LeasedChat
from agent_memory.platform.llm.leases import LeasableServer
from agent_memory.platform.ports import Clock, OrderedStore


def build_vectors(settings: Settings, store: OrderedStore, folder: Path) -> VectorParts | None:
    embedder = _build_embedder(settings)
    if embedder is None:
        FlatVectors.outdate(folder)
        return None
    return VectorParts(
        index=FlatVectors(folder, embedder.model),
        embedder=embedder,
        queue=StoredEmbeddingQueue(store),
        load_embedder=embedder.load if isinstance(embedder, Bge) else None,
    )


def build_summarizer(
    settings: Settings,
    server: LeasableServer,
    fallback: ExtractiveSummarizer,
    budget: StoredTokenBudget,
    clock: Clock,
) -> LlmSummarizer:
    chosen = settings.summarizer
    limits = Limits(daily_tokens=chosen.daily_token_budget)
    if chosen.provider == "llama":
        limits = replace(limits, context_tokens=settings.llama.context_size)
    return LlmSummarizer(
        chosen.provider, _build_chat(settings, server), fallback, budget, clock, limits
    )


def build_reasoner(
    settings: Settings, server: LeasableServer, budget: StoredTokenBudget, clock: Clock
) -> LlmReasoner:
    chosen = settings.summarizer
    local = chosen.provider == "llama"
    return LlmReasoner(
        _build_chat(settings, server),
        budget,
        clock,
        context_tokens=settings.llama.context_size if local else Limits().context_tokens,
        daily_tokens=chosen.daily_token_budget,
    )


def _build_embedder(settings: Settings) -> Embedder | None:
    chosen = settings.embedder
    if chosen.provider == "none":
        return None
    if chosen.provider in ("bge", "minilm"):
        return Bge()
    key = os.environ.get(chosen.api_key_env, "") if chosen.api_key_env else ""
    return OpenAiEmbedder(base_url=chosen.base_url, model=chosen.model, api_key=key)


def _build_chat(settings: Settings, server: LeasableServer) -> Chat:
    chosen = settings.summarizer
    key = os.environ.get(chosen.api_key_env, "") if chosen.api_key_env else ""
    if chosen.provider == "anthropic":
        return AnthropicChat(base_url=chosen.base_url, model=chosen.model, api_key=key)
    if chosen.provider == "openai":
        return OpenAiChat(base_url=chosen.base_url, model=chosen.model, api_key=key)
    if not chosen.base_url:  # the one that runs have: ours, or `llama.endpoint`, with its key
        return LeasedChat(server, model=chosen.model or settings.llama.model)
    return OpenAiChat(base_url=chosen.base_url, model=chosen.model, api_key=key, bounded=True)


def build_chat_model(settings: Settings, server: LeasableServer) -> Completions:
    chosen = settings.llama
    return Completions(
        server,
        model=chosen.model,
        context_size=chosen.context_size,
        turn_seconds=settings.runs.turn_seconds,
    )


def build_web_pages(settings: Settings) -> HttpPages:
    return HttpPages(private=settings.runs.web_private)
