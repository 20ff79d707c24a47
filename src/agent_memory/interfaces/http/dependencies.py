"""The services and settings that the HTTP interface uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_memory.interfaces.bridge import Bridge
from agent_memory.interfaces.observing import Observer
from agent_memory.kernel.composition import Composition
from agent_memory.kernel.operations import OperationCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpDependencies:
    services: Composition
    calls: OperationCalls
    bridge: Bridge
    observer: Observer
    environ: Mapping[str, str] = field(repr=False)  # runs git
