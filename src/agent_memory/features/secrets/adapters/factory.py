"""The filter that a setting means."""

from collections.abc import Callable, Sequence
from typing import cast

from agent_memory.features.secrets.adapters.filter import Re2Filter
from agent_memory.features.secrets.adapters.pass_through import PassThrough
from agent_memory.features.secrets.model.secrets import Incident, SecretsMode
from agent_memory.features.secrets.ports import SecretsFilter

OFF = "off"


def build_filter(
    mode: str, allowed: Sequence[str], report: Callable[[Incident], None] = lambda _: None
) -> SecretsFilter:
    """`report` is told of each finding. Raises ConfigError where something allowed is wrong."""
    if mode == OFF:
        return PassThrough()
    return Re2Filter(mode=cast(SecretsMode, mode), allowed=allowed, report=report)
