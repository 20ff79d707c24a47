"""The language model that `summarizer` names. Import it late: its libraries take long to load."""

import os

from agent_memory.config import Settings, SummarizerSettings
from agent_memory.kernel.composition import Composition
from agent_memory.platform.base import Platform
from agent_memory.platform.llm.api_keys import read_api_key
from agent_memory.platform.llm.chat import AnthropicChat, Chat, OpenAiChat
from agent_memory.platform.llm.command_chat import CommandChat
from agent_memory.platform.llm.leased_chat import LeasedChat


def build_chat(context: Composition, name: str, *, in_background: bool) -> Chat:
    """Build a chat with the model that `summarizer` names."""
    platform, settings = context[Platform], context[Settings]
    chosen = settings.summarizer
    key = read_api_key(chosen)
    if chosen.provider == "command":
        return _build_command_chat(platform, chosen, name, in_background=in_background)
    if chosen.provider == "anthropic":
        return AnthropicChat(base_url=chosen.base_url, model=chosen.model, api_key=key)
    if chosen.provider == "openai":
        return OpenAiChat(base_url=chosen.base_url, model=chosen.model, api_key=key)
    if not chosen.base_url:  # the one that runs have: ours, or `llama.endpoint`, with its key
        return LeasedChat(platform.model, model=chosen.model or settings.llama.model)
    return OpenAiChat(base_url=chosen.base_url, model=chosen.model, api_key=key, bounded=True)


def _build_command_chat(
    platform: Platform, chosen: SummarizerSettings, name: str, *, in_background: bool
) -> CommandChat:
    """Build a chat with a program. A person who asks does not wait for the jobs, nor for the rest
    after a failure of theirs: so each has its own, in its own folder."""
    chat = CommandChat(
        chosen.command,
        folder=platform.folders.summarizer / name,
        environ=os.environ,
        passed=chosen.api_key_env,
        rests=in_background,
    )
    platform.programs.callback(chat.close)
    return chat
