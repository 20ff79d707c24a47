"""The context that a session was given at its start, kept for one that starts without a daemon."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LastContext:
    """A context, and where and for whom it was built. `simple` is the contract of callers that are
    no agent."""

    folder: str
    environ: Mapping[str, str]
    agent: str
    simple: bool
    text: str
