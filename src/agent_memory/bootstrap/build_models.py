"""Build the models that the settings name. Import it late: its libraries take long to load."""

import os
from dataclasses import replace

from agent_memory.bootstrap.api_keys import read_api_key
from agent_memory.bootstrap.build_platform import Platform
from agent_memory.config import Settings
from agent_memory.features.recall.adapters.reasoner import LlmReasoner
from agent_memory.features.runs.adapters.completions import Completions
from agent_memory.features.runs.adapters.web.pages import HttpPages
from agent_memory.features.toc.adapters.summarizers.extractive import ExtractiveSummarizer
from agent_memory.features.toc.adapters.summarizers.llm import Limits, LlmSummarizer
from agent_memory.features.toc.adapters.token_budget import StoredTokenBudget
from agent_memory.platform.llm.chat import AnthropicChat, Chat, OpenAiChat
from agent_memory.platform.llm.command_chat import CommandChat
from agent_memory.platform.llm.leased_chat import LeasedChat
from agent_memory.platform.llm.leases import LeasableServer

COMMAND_SECONDS = 120.0  # an agent starts, thinks and answers in 10 to 60
COMMAND_BATCH_SECONDS = 120.0  # jobs hold the lock of the table of contents meanwhile


def build_summarizer(
    platform: Platform, fallback: ExtractiveSummarizer, budget: StoredTokenBudget
) -> LlmSummarizer:
    settings = platform.settings
    limits = Limits(daily_tokens=settings.summarizer.daily_token_budget)
    if settings.summarizer.provider == "llama":
        limits = replace(limits, context_tokens=settings.llama.context_size)
    elif settings.summarizer.provider == "command":
        limits = replace(
            limits, request_seconds=COMMAND_SECONDS, batch_seconds=COMMAND_BATCH_SECONDS
        )
    chat = _build_chat(platform, "toc", in_background=True)
    return LlmSummarizer(
        settings.summarizer.provider, chat, fallback, budget, platform.clock, limits
    )


def build_reasoner(platform: Platform, budget: StoredTokenBudget) -> LlmReasoner:
    settings = platform.settings
    local = settings.summarizer.provider == "llama"
    return LlmReasoner(
        _build_chat(platform, "questions", in_background=False),
        budget,
        platform.clock,
        context_tokens=settings.llama.context_size if local else Limits().context_tokens,
        daily_tokens=settings.summarizer.daily_token_budget,
    )


def _build_chat(platform: Platform, name: str, *, in_background: bool) -> Chat:
    settings, chosen = platform.settings, platform.settings.summarizer
    key = read_api_key(chosen)
    if chosen.provider == "command":
        return _build_command_chat(platform, name, in_background=in_background)
    if chosen.provider == "anthropic":
        return AnthropicChat(base_url=chosen.base_url, model=chosen.model, api_key=key)
    if chosen.provider == "openai":
        return OpenAiChat(base_url=chosen.base_url, model=chosen.model, api_key=key)
    if not chosen.base_url:  # the one that runs have: ours, or `llama.endpoint`, with its key
        return LeasedChat(platform.model, model=chosen.model or settings.llama.model)
    return OpenAiChat(base_url=chosen.base_url, model=chosen.model, api_key=key, bounded=True)


def _build_command_chat(platform: Platform, name: str, *, in_background: bool) -> CommandChat:
    """Build a chat with a program. A person who asks does not wait for the jobs, nor for the rest
    after a failure of theirs: so each has its own, in its own folder."""
    chosen = platform.settings.summarizer
    chat = CommandChat(
        chosen.command,
        folder=platform.folders.summarizer / name,
        environ=os.environ,
        passed=chosen.api_key_env,
        rests=in_background,
    )
    platform.programs.callback(chat.close)
    return chat


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
