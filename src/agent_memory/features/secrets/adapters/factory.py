"""The choice of the secrets filter by setting."""

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
    """Build the filter for `security.secrets`, which calls `report` with each finding.

    Raises ConfigError if an entry of `allowed` is not a valid pattern.
    """
    if mode == OFF:
        return PassThrough()
    return Re2Filter(mode=cast(SecretsMode, mode), allowed=allowed, report=report)
