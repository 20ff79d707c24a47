"""Preferences: which hooks are on, and what each of them does."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import PurePath

from agent_memory.features.hooks.model.consent import ConsentRules
from agent_memory.features.hooks.model.hooks import HookKind
from agent_memory.features.hooks.model.tool_use import ToolUse
from agent_memory.features.memories.model.memories import MemoryStatus

MAX_PATH_CHARS = 4_096  # a file path is matched against the patterns from each of its folders


class Push(StrEnum):
    """What agents are given unasked."""

    OFF = "off"
    START = "start"  # a context when a session starts
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookOptions:
    """The settings of the hooks in one folder."""

    consent: ConsentRules
    enabled: frozenset[HookKind]
    push: Push
    fetch_remote: bool
    context_tokens: int
    guidance: str  # how detailed; empty for none
    markers: Sequence[str]
    recall_for_prompts: bool
    capture_prompts: bool
    trigger_tools: Sequence[str]
    exclude_patterns: Sequence[str]
    confidence_threshold: float
    review: bool  # captures await the user's review
    analyze_session: bool
    push_remote: bool
    remote: str
    ignored: tuple[str, ...]  # settings that are not used, each with the reason

    @property
    def capture_status(self) -> MemoryStatus:
        """The status of what is captured by a signal."""
        return MemoryStatus.PENDING if self.review else MemoryStatus.ACTIVE

    def gives(self, kind: HookKind) -> bool:
        """Return whether an agent may be given something at this moment."""
        if kind is HookKind.SESSION_START:
            return self.push is not Push.OFF
        return self.push is Push.ALL

    def is_triggered(self, use: ToolUse, folder: str) -> bool:
        """Return whether a tool call asks for memories about its file."""
        if use.names.isdisjoint(self.trigger_tools) or not 0 < len(use.file) <= MAX_PATH_CHARS:
            return False
        path = PurePath(use.file)
        with suppress(ValueError):
            path = path.relative_to(folder)
        names = {str(path), *("/".join(path.parts[n:]) for n in range(len(path.parts)))}
        return not any(
            fnmatchcase(name, pattern) for name in names for pattern in self.exclude_patterns
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyFormat:
    """What a reply to a hook has room for."""

    max_tokens: int
    is_simple: bool  # the simple contract: a compaction's captures are made before the reply
    is_kept: bool  # a session that starts without a daemon can be given it again
